// Messages between processes that the transport does not get across: who cannot be reached counts
// as lost, all processes leave with the one error, and the mesh is not used again.

#include "support/case_name.hpp"
#include "support/process_jobs.hpp"
#include "support/sampling.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

namespace shardsolve::testing {
namespace {

using Channel = comm::Transport::Channel;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

class MessageThatFails : public ::testing::TestWithParam<Job> {
 protected:
  static constexpr std::int64_t ranks = 3;
  static constexpr milliseconds limit{400};
  const Job& job_ = GetParam();
  const Answer expected_ = in_one_process(job_, ranks);

  Errors run(ProcessMeshes& on) {
    return on.together([&](Mesh& mesh, std::int64_t) { job_.run(mesh, {.silence_limit = limit}); });
  }
  /// Every process knows that the mesh is of no use, and says so at once.
  static void expect_unusable(const Errors& errors) {
    for (const auto& error : errors) {
      ASSERT_TRUE(error);
      EXPECT_EQ(error->kind(), ErrorKind::communication);
      EXPECT_THAT(error->what(), HasSubstr("make a new mesh"));
    }
  }
};

TEST_P(MessageThatFails, WithData_IsTheSameErrorInAllProcesses) {
  ProcessMeshes good(ranks);
  ASSERT_TRUE(agrees(good, job_, expected_));
  for (const MessageFault fault : {MessageFault::refused, MessageFault::lost}) {
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const std::int64_t messages = good.messages(rank).data_messages();
      for (const std::int64_t message : sample(messages, 4, 7 * rank)) {
        SCOPED_TRACE(fmt::format("message {} of rank {}, {}", message, rank,
                                 fault == MessageFault::lost ? "lost" : "refused"));
        ProcessMeshes on(ranks);
        on.messages(rank).strike(Channel::data, message, fault);
        ASSERT_TRUE(all_threw(run(on), FaultyTransport::planted()));
        expect_unusable(run(on));
      }
    }
  }
}

/// The first notes of a call, which are asked for before anything else is done.
TEST_P(MessageThatFails, WithANote_IsTheSameErrorInAllProcesses) {
  for (const MessageFault fault : {MessageFault::refused, MessageFault::lost}) {
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      for (const std::int64_t note : {0, 1}) {
        SCOPED_TRACE(fmt::format("note {} of rank {}, {}", note, rank,
                                 fault == MessageFault::lost ? "lost" : "refused"));
        ProcessMeshes on(ranks);
        on.messages(rank).strike(Channel::control, note, fault);
        ASSERT_TRUE(all_threw(run(on), FaultyTransport::planted()));
        expect_unusable(run(on));
      }
    }
  }
}

/// The last note may be the one that is lost: then some processes know that the call has gone well,
/// and others only that somebody fell silent. Nobody waits for longer than the limit, and nobody
/// has a wrong answer.
TEST_P(MessageThatFails, AtAnyTime_EndsTheCallInTimeWithTheAnswerOrAnError) {
  for (const MessageFault fault : {MessageFault::refused, MessageFault::lost}) {
    for (const std::int64_t note : sample(24, 3, std::ssize(job_.name))) {
      const std::int64_t rank = note % ranks;
      SCOPED_TRACE(fmt::format("note {} of rank {}, {}", note, rank,
                               fault == MessageFault::lost ? "lost" : "refused"));
      ProcessMeshes on(ranks);
      on.messages(rank).strike(Channel::control, note, fault);
      std::vector<Answer> answers(ranks);
      const Errors errors = on.together([&](Mesh& mesh, std::int64_t self) {
        answers[static_cast<std::size_t>(self)] = job_.run(mesh, {.silence_limit = limit});
      });
      for (std::size_t self = 0; self < errors.size(); ++self) {
        if (errors[self]) {
          EXPECT_EQ(errors[self]->kind(), ErrorKind::communication) << errors[self]->what();
        } else {
          EXPECT_TRUE(same_bits(answers[self], expected_));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Jobs, MessageThatFails, ::testing::ValuesIn(jobs()), CaseName());

}  // namespace
}  // namespace shardsolve::testing
