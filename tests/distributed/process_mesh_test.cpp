// Ranks that are processes, as threads of this one with messages in memory: the same bits as ranks
// of one mesh, what fails in one process fails in all, and the mesh is fit for the next call unless
// a process was lost.

#include "support/case_name.hpp"
#include "support/process_jobs.hpp"
#include "support/rank_program.hpp"
#include "support/sampling.hpp"
#include "support/thrown.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <iterator>
#include <ostream>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

namespace shardsolve::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

/// A job, and how its panels get to the others.
struct Case {
  std::string name;
  Job job;
  Hosts hosts;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Job& job : jobs()) {
    all.push_back({job.name + "_by_messages", job, Hosts::one_each});
    all.push_back({job.name + "_in_place", job, Hosts::one});
  }
  return all;
}

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

class ProcessMesh : public ::testing::TestWithParam<Case> {
 protected:
  static constexpr std::int64_t ranks = 3;
  const Job& job_ = GetParam().job;
  const Answer expected_ = in_one_process(job_, ranks);
  ProcessMeshes on_ = new_meshes();

  static ProcessMeshes new_meshes(std::int64_t count = ranks,
                                  std::size_t eager = ProcessMeshes::usual_eager) {
    return ProcessMeshes(count, eager, GetParam().hosts);
  }

  ::testing::AssertionResult works() {
    on_.clear_faults();
    return agrees(on_, job_, expected_);
  }
  Errors run(const RunOptions& options = {}) {
    return on_.together([&](Mesh& mesh, std::int64_t) { job_.run(mesh, options); });
  }
};

/// Messages that are sent at once, and those that wait until they are taken.
TEST_P(ProcessMesh, EveryProtocol_GivesTheBitsOfOneProcess) {
  for (const std::int64_t count : {1, 2, 4}) {
    const Answer expected = in_one_process(job_, count);
    for (const std::size_t eager : {0, 500, 1 << 20}) {
      SCOPED_TRACE(fmt::format("{} ranks, eager up to {} bytes", count, eager));
      ProcessMeshes on = new_meshes(count, eager);
      EXPECT_TRUE(agrees(on, job_, expected));
    }
  }
}

TEST_P(ProcessMesh, CallThatFailsInOneProcess_IsTheSameErrorInAll) {
  ASSERT_TRUE(works());
  const std::vector<Fault> faults{Fault::refused, Fault::failed};
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const std::int64_t calls = on_.faults(rank).calls(rank);
    for (const std::int64_t call : sample(calls, 3, 5 * rank)) {
      for (const std::int64_t which : sample(std::ssize(faults), 1, call + rank)) {
        const Fault fault = faults[static_cast<std::size_t>(which)];
        SCOPED_TRACE(fmt::format("call {} on rank {} is {}", call, rank, name(fault)));
        on_.faults(rank).strike_call(rank, call, fault);
        EXPECT_TRUE(all_threw(run(), on_.faults(rank).planted()));
        ASSERT_TRUE(works());
      }
    }
  }
}

TEST_P(ProcessMesh, AllocationThatFailsInOneProcess_IsTheSameErrorInAll) {
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    on_ = new_meshes();  // as those that are struck: after a failure there may be more allocations
    ASSERT_TRUE(works());
    const std::int64_t allocations = on_.faults(rank).allocations(rank);
    for (const std::int64_t allocation : sample(allocations, 3, 5 * rank)) {
      SCOPED_TRACE(fmt::format("allocation {} of rank {}", allocation, rank));
      on_ = new_meshes();  // without workspace
      on_.faults(rank).strike_allocation(rank, allocation);
      EXPECT_TRUE(all_threw(run(), on_.faults(rank).planted()));
      ASSERT_TRUE(works());
    }
  }
}

TEST_P(ProcessMesh, CallThatComesLate_ChangesNoBit) {
  ASSERT_TRUE(works());
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    for (const std::int64_t call : sample(on_.faults(rank).calls(rank), 3, 7 * rank)) {
      SCOPED_TRACE(fmt::format("call {} on rank {} is late", call, rank));
      on_.faults(rank).strike_call(rank, call, Fault::delayed, milliseconds(2));
      ASSERT_TRUE(agrees(on_, job_, expected_));
    }
  }
}

TEST_P(ProcessMesh, MessageThatComesLate_ChangesNoBit) {
  ASSERT_TRUE(works());
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const std::int64_t data = on_.messages(rank).data_messages();
    for (const std::int64_t message : sample(data, 2, 7 * rank)) {
      SCOPED_TRACE(fmt::format("message {} of rank {} is late", message, rank));
      on_.messages(rank).strike(comm::Transport::Channel::data, message, MessageFault::delayed,
                                milliseconds(30));
      ASSERT_TRUE(agrees(on_, job_, expected_));
      on_.messages(rank).clear();
    }
    for (const std::int64_t note : sample(6, 2, rank)) {
      SCOPED_TRACE(fmt::format("note {} of rank {} is late", note, rank));
      on_.messages(rank).strike(comm::Transport::Channel::control, note, MessageFault::delayed,
                                milliseconds(30));
      ASSERT_TRUE(agrees(on_, job_, expected_));
      on_.messages(rank).clear();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Jobs, ProcessMesh, ::testing::ValuesIn(cases()), CaseName());

/// Several tiles of some size: panels come as several messages.
TEST(ProcessMeshOfSomeSize, EveryProtocol_GivesTheBitsOfOneProcess) {
  const Job job{"solve", [](Mesh& mesh, const RunOptions& options) {
                  return run_solve<double>(mesh, options, 200, 16);
                }};
  const Answer expected = in_one_process(job, 3);
  for (const std::size_t eager : {0, 1 << 20}) {
    ProcessMeshes on(3, eager);
    EXPECT_TRUE(agrees(on, job, expected));
  }
}

/// A rank that others wait for and that does nothing: named in all other processes within the
/// limit, and the mesh is not used again.
TEST(ProcessMeshSilence, RankThatStopsAnswering_IsReportedWithRankStepAndOperation) {
  constexpr milliseconds limit(250);
  ProcessMeshes on(3);
  std::vector<double> waited(3);
  const Errors errors = on.together([&](Mesh& mesh, std::int64_t rank) {
    const auto begin = std::chrono::steady_clock::now();
    const auto error = thrown_by([&] {
      run_on(mesh,
             [&](mesh::Rank& self) {
               self.set_step(7);
               enqueue(self.update(), "last words", [] {});
               self.update().synchronize();
               if (self.index() == 1) {
                 std::this_thread::sleep_for(6 * limit);
               }
               broadcast_value(self, 1, 42);
             },
             {.silence_limit = limit});
    });
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    waited[static_cast<std::size_t>(rank)] = took.count();
    if (error) {
      throw Error(*error);
    }
  });
  for (const std::size_t other : {0, 2}) {
    SCOPED_TRACE(other);
    ASSERT_TRUE(errors[other]);
    EXPECT_EQ(errors[other]->kind(), ErrorKind::communication) << errors[other]->what();
    EXPECT_THAT(errors[other]->what(), HasSubstr("rank 1 "));
    EXPECT_THAT(errors[other]->what(), HasSubstr("step 7"));
    EXPECT_THAT(errors[other]->what(), HasSubstr("last words"));
    EXPECT_THAT(errors[other]->what(), HasSubstr("broadcast"));
    EXPECT_LE(waited[other], 1.25);
  }
  const Errors next =
      on.together([](Mesh& mesh, std::int64_t) { run_on(mesh, [](mesh::Rank&) {}); });
  for (const auto& error : next) {
    ASSERT_TRUE(error);
    EXPECT_THAT(error->what(), HasSubstr("make a new mesh"));
  }
}

TEST(ProcessMeshStop, StopThatOneProcessAsksFor_EndsTheCallInAll) {
  ProcessMeshes on(3);
  const Job job = jobs().front();
  const Answer expected = in_one_process(job, 3);
  for (std::int64_t asked = 0; asked < 3; ++asked) {
    std::vector<std::stop_source> stops(3);
    stops[static_cast<std::size_t>(asked)].request_stop();
    const Errors errors = on.together([&](Mesh& mesh, std::int64_t rank) {
      job.run(mesh, {.cancel = stops[static_cast<std::size_t>(rank)].get_token()});
    });
    EXPECT_TRUE(all_threw(errors, {ErrorKind::cancelled, "the call was cancelled as asked"}));
    EXPECT_TRUE(agrees(on, job, expected));
  }
}

}  // namespace
}  // namespace shardsolve::testing
