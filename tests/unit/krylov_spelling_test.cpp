// What messages call the things that a user can set, and what they advise.

#include "krylov/spelling.hpp"
#include "krylov/statuses.hpp"

#include <shardsolve/krylov.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace shardsolve::krylov {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// For as long as it lives messages are for that reader.
class Speaking {
 public:
  explicit Speaking(Reader reader) { speak_to(reader); }
  ~Speaking() { speak_to(Reader::caller); }
  Speaking(const Speaking&) = delete;
  Speaking& operator=(const Speaking&) = delete;
};

TEST(KrylovSpelling, Names_AreThoseOfTheReader) {
  EXPECT_EQ(option("max_iterations"), "max_iterations");
  EXPECT_EQ(option("rtol", 0), "rtol = 0");
  EXPECT_EQ(choice("method", "fgmres"), "method fgmres");
  EXPECT_EQ(preconditioner_name("incomplete_lu"), "incomplete_lu");
  const Speaking speaking(Reader::command);
  EXPECT_EQ(option("max_iterations"), "--max-iterations");
  EXPECT_EQ(option("rtol", 0), "--rtol 0");
  EXPECT_EQ(choice("method", "fgmres"), "--method fgmres");
  EXPECT_EQ(preconditioner_name("incomplete_lu"), "ilu0");
  EXPECT_EQ(preconditioner_name("incomplete_cholesky"), "ic0");
  EXPECT_EQ(preconditioner_name("block_jacobi"), "block-jacobi");
}

TEST(KrylovMessages, OfACycleThatEnds_NameRestart) {
  for (const Status status : {Status::stagnated, Status::max_iterations}) {
    EXPECT_THAT(message(status, {.cycle = 20}),
                HasSubstr("fgmres keeps 20 vectors and begins anew then, allow more (restart); "));
    EXPECT_THAT(message(status, {.cycle = 0}), Not(HasSubstr("restart)")));
  }
  EXPECT_EQ(cycle_of({.n = 25, .cycle = 20}), 20);
  EXPECT_EQ(cycle_of({.n = 25, .cycle = 25}), 0);
  const Speaking speaking(Reader::command);
  EXPECT_THAT(message(Status::stagnated, {.cycle = 20}), HasSubstr("allow more (--restart)"));
}

TEST(KrylovMessages, ForTheCommand_NameNothingOfTheLibrary) {
  const Speaking speaking(Reader::command);
  for (int number = 0; name(static_cast<Status>(number)) != "unknown"; ++number) {
    const auto status = static_cast<Status>(number);
    const std::string text = message(status, {.cycle = 20}).substr(name(status).size());
    EXPECT_THAT(text, AllOf(Not(HasSubstr("use method")), Not(HasSubstr("_")))) << text;
  }
}

}  // namespace
}  // namespace shardsolve::krylov
