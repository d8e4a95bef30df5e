// What goes wrong in a traced call of processes: before and after the call they meet for their
// clocks and for the trace, and that can fail too.

#include "programs/gather.hpp"
#include "support/case_name.hpp"
#include "support/process_jobs.hpp"
#include "support/rank_program.hpp"
#include "support/sampling.hpp"

#include <shardsolve/trace.hpp>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace shardsolve::testing {
namespace {

using Channel = comm::Transport::Channel;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr std::int64_t processes = 3;

class TracedCallThatFails : public ::testing::TestWithParam<Job> {
 protected:
  const Job& job_ = GetParam();
  const Answer expected_ = in_one_process(job_, processes);
  std::vector<Trace> traces_{processes};

  Errors run(ProcessMeshes& on, std::chrono::duration<double> limit) {
    traces_.assign(processes, {});
    return on.together([&](Mesh& mesh, std::int64_t rank) {
      Trace* const trace = &traces_[static_cast<std::size_t>(rank)];
      job_.run(mesh, {.silence_limit = limit, .trace = trace});
    });
  }
};

TEST_P(TracedCallThatFails, InOneProcess_IsTheSameErrorInAllAndHasATrace) {
  constexpr std::chrono::seconds limit(60);
  ProcessMeshes on(processes);
  run(on, limit);
  for (const Fault fault : {Fault::refused, Fault::failed}) {
    for (std::int64_t rank = 0; rank < processes; ++rank) {
      const std::int64_t calls = on.faults(rank).calls(rank);
      for (const std::int64_t call : sample(calls, 3, 5 * rank)) {
        SCOPED_TRACE(fmt::format("call {} on rank {} is {}", call, rank, name(fault)));
        on.faults(rank).strike_call(rank, call, fault);
        EXPECT_TRUE(all_threw(run(on, limit), on.faults(rank).planted()));
        EXPECT_EQ(traces_[0].clocks().size(), std::size_t{processes}) << "it was not gathered";
        on.clear_faults();
        ASSERT_TRUE(agrees(on, job_, expected_));
      }
    }
  }
}

/// Messages of the call, and those before and after it: the last ones bring the trace to rank 0.
TEST_P(TracedCallThatFails, MessageThatFails_IsTheSameErrorInAllProcesses) {
  constexpr milliseconds limit(400);
  ProcessMeshes good(processes);
  for (const auto& error : run(good, limit)) {
    ASSERT_FALSE(error) << error->what();
  }
  for (const MessageFault fault : {MessageFault::refused, MessageFault::lost}) {
    for (std::int64_t rank = 0; rank < processes; ++rank) {
      const std::int64_t messages = good.messages(rank).data_messages();
      std::vector<std::int64_t> struck = sample(messages, 3, 7 * rank);
      struck.push_back(messages - 1);
      for (const std::int64_t message : struck) {
        SCOPED_TRACE(fmt::format("message {} of {} of rank {}, {}", message, messages, rank,
                                 fault == MessageFault::lost ? "lost" : "refused"));
        ProcessMeshes on(processes);
        on.messages(rank).strike(Channel::data, message, fault);
        ASSERT_TRUE(all_threw(run(on, limit), FaultyTransport::planted()));
        for (const auto& error : run(on, limit)) {
          ASSERT_TRUE(error);
          EXPECT_THAT(error->what(), HasSubstr("make a new mesh"));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Jobs, TracedCallThatFails, ::testing::ValuesIn(jobs()), CaseName());

template <class Done>
void await(Done done) {
  while (!done()) {
    std::this_thread::sleep_for(milliseconds(1));
  }
}

/// A call that fails on rank 0 while rank 2 waits for two messages. That the second one cannot
/// arrive rank 2 alone finds out, when it has told the others how the call has ended for it.
Errors fail_and_lose_a_message(ProcessMeshes& on, const RunOptions& options,
                               std::vector<Trace>* traces) {
  std::atomic<bool> waits = false;  // rank 2, for messages that count from zero
  return on.together([&](Mesh& mesh, std::int64_t self) {
    RunOptions own = options;
    own.trace = traces == nullptr ? nullptr : &(*traces)[static_cast<std::size_t>(self)];
    run_on(
        mesh,
        [&](mesh::Rank& rank) {
          if (rank.index() == 0) {
            await([&] { return waits && on.messages(2).data_messages() == 4; });
            throw Error(ErrorKind::io, "planted");
          }
          if (rank.index() == 2) {
            on.messages(2).strike(Channel::data, 1, MessageFault::lost);
            waits = true;
          }
          programs::gather_from_all(rank, std::vector<std::int64_t>{rank.index()});
        },
        own);
  });
}

constexpr std::chrono::seconds more_than_a_test_takes(100);

TEST(MessageLostAfterTheEnd, OfACall_MakesTheNextOneFailAtOnce) {
  ProcessMeshes on(processes);
  EXPECT_TRUE(
      all_threw(fail_and_lose_a_message(on, {.silence_limit = more_than_a_test_takes}, nullptr),
                {ErrorKind::io, "planted"}));
  const Errors next = on.together([](Mesh& mesh, std::int64_t) {
    run_on(mesh, [](mesh::Rank& rank) { broadcast_value(rank, 1, 42); },
           {.silence_limit = more_than_a_test_takes});
  });
  for (const auto& error : next) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::communication);
    EXPECT_THAT(error->what(), HasSubstr("make a new mesh"));
  }
}

TEST(MessageLostAfterTheEnd, OfATracedCall_IsNotWaitedForAndTheFailureStays) {
  ProcessMeshes on(processes);
  std::vector<Trace> traces(processes);
  EXPECT_TRUE(
      all_threw(fail_and_lose_a_message(on, {.silence_limit = more_than_a_test_takes}, &traces),
                {ErrorKind::io, "planted"}));
}

}  // namespace
}  // namespace shardsolve::testing
