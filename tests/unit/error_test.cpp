#include "tests/support/case_name.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/matrix_view.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace shardsolve {
namespace {

using ::testing::HasSubstr;

TEST(ErrorKind, Name_IsItsEnumerator) {
  struct Case {
    ErrorKind kind;
    std::string_view text;
  };
  const Case cases[] = {{ErrorKind::invalid_argument, "invalid_argument"},
                        {ErrorKind::out_of_memory, "out_of_memory"},
                        {ErrorKind::device, "device"},
                        {ErrorKind::communication, "communication"},
                        {ErrorKind::io, "io"},
                        {ErrorKind::cancelled, "cancelled"},
                        {ErrorKind::unsupported, "unsupported"},
                        {ErrorKind::internal, "internal"}};
  for (const Case& c : cases) {
    EXPECT_EQ(name(c.kind), c.text);
  }
}

TEST(Error, Thrown_KeepsKindAndMessage) {
  try {
    throw Error(ErrorKind::io, "the disk is full");
  } catch (const std::runtime_error& caught) {
    const auto* error = dynamic_cast<const Error*>(&caught);
    ASSERT_NE(error, nullptr);
    EXPECT_EQ(error->kind(), ErrorKind::io);
    EXPECT_STREQ(error->what(), "the disk is full");
  }
}

/// What a matrix view of 4 x 3 elements, 5 apart, is asked for.
struct ViewCase {
  std::string name;
  std::function<void()> make;
  ErrorKind kind;
  std::vector<std::string> words;  // what was given, what is accepted

  friend std::ostream& operator<<(std::ostream& out, const ViewCase& c) { return out << c.name; }
};

std::vector<ViewCase> bad_views() {
  static double data[20];
  const auto block = [](std::int64_t row, std::int64_t column, std::int64_t rows,
                        std::int64_t columns) {
    return [=] { MatrixView<double>(data, 4, 3, 5).block(row, column, rows, columns); };
  };
  const auto view = [](std::int64_t rows, std::int64_t columns, std::int64_t stride) {
    return [=] { MatrixView<double>(data, rows, columns, stride); };
  };
  const std::string accepted = "the stride at least max(1, rows)";
  return {
      {"negative_rows", view(-1, 3, 5), ErrorKind::invalid_argument, {"-1 x 3", accepted}},
      {"negative_columns", view(4, -3, 5), ErrorKind::invalid_argument, {"4 x -3", accepted}},
      {"short_stride", view(4, 3, 3), ErrorKind::invalid_argument, {"stride 3", accepted}},
      {"zero_stride", view(0, 3, 0), ErrorKind::invalid_argument, {"stride 0", accepted}},
      {"below", block(3, 0, 2, 1), ErrorKind::internal, {"2 x 1 at (3, 0)", "4 x 3", "bug"}},
      {"to_the_right", block(0, 2, 1, 2), ErrorKind::internal, {"1 x 2 at (0, 2)", "4 x 3", "bug"}},
      {"before", block(-1, 0, 1, 1), ErrorKind::internal, {"1 x 1 at (-1, 0)", "4 x 3", "bug"}},
      {"negative_block", block(1, 1, 1, -1), ErrorKind::internal, {"1 x -1 at (1, 1)", "bug"}},
  };
}

class MatrixViewMisuse : public ::testing::TestWithParam<ViewCase> {};

TEST_P(MatrixViewMisuse, Constructed_ThrowsWhatWasGivenAndWhatIsAccepted) {
  try {
    GetParam().make();
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), GetParam().kind);
    for (const std::string& word : GetParam().words) {
      EXPECT_THAT(error.what(), HasSubstr(word));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, MatrixViewMisuse, ::testing::ValuesIn(bad_views()),
                         testing::CaseName());

TEST(MatrixView, Block_SeesTheSameElements) {
  double data[20] = {};
  const MatrixView<double> view(data, 4, 3, 5);
  view(2, 1) = 7.0;
  const MatrixView<const double> block = view.block(1, 1, 3, 2);
  EXPECT_EQ(block(1, 0), 7.0);
  EXPECT_EQ(block.stride(), 5);
  EXPECT_EQ(view.columns_from(1, 2)(2, 0), 7.0);
  EXPECT_TRUE(view.block(4, 3, 0, 0).empty());
}

// Whoever may only read cannot get a view that writes.
static_assert(std::is_convertible_v<MatrixView<double>, MatrixView<const double>>);
static_assert(!std::is_convertible_v<MatrixView<const double>, MatrixView<double>>);

}  // namespace
}  // namespace shardsolve
