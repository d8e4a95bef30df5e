// Ranks that are processes, with messages by sockets: the same bits as ranks of one mesh, what
// fails in one process fails in all, and the mesh is fit for the next call unless one was lost.

#include "support/process_jobs.hpp"
#include "support/sampling.hpp"
#include "support/tcp_transports.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace shardsolve::testing {
namespace {

using ::testing::HasSubstr;

TEST(TcpMesh, EveryJob_GivesTheBitsOfOneProcess) {
  for (const std::int64_t ranks : {2, 3}) {
    ProcessMeshes on(socket_pairs(ranks));
    for (const Job& job : jobs()) {
      SCOPED_TRACE(fmt::format("{} on {} ranks", job.name, ranks));
      ASSERT_TRUE(agrees(on, job, in_one_process(job, ranks)));
    }
  }
}

TEST(TcpMesh, PanelsThatAreLargerThanWhatTheSystemTakes_GiveTheBitsOfOneProcess) {
  const Job job{"solve", [](Mesh& mesh, const RunOptions& options) {
                  return run_solve<double>(mesh, options, 1200, 300);
                }};
  ProcessMeshes on(socket_pairs(2));
  EXPECT_TRUE(agrees(on, job, in_one_process(job, 2)));
}

TEST(TcpMesh, CallThatFailsInOneProcess_IsTheSameErrorInAllAndTheNextWorks) {
  constexpr std::int64_t ranks = 3;
  const Job job = jobs().front();
  const Answer expected = in_one_process(job, ranks);
  ProcessMeshes on(socket_pairs(ranks));
  ASSERT_TRUE(agrees(on, job, expected));
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    for (const std::int64_t call : sample(on.faults(rank).calls(rank), 5, 3 * rank)) {
      SCOPED_TRACE(fmt::format("call {} on rank {} fails", call, rank));
      on.faults(rank).strike_call(rank, call, Fault::failed);
      const Errors errors =
          on.together([&](Mesh& mesh, std::int64_t) { job.run(mesh, RunOptions{}); });
      EXPECT_TRUE(all_threw(errors, on.faults(rank).planted()));
      on.clear_faults();
      ASSERT_TRUE(agrees(on, job, expected));
    }
  }
}

/// What a process that is killed leaves behind.
TEST(TcpMesh, ConnectionThatIsClosed_IsReportedInAllOthersAndTheMeshIsNotUsedAgain) {
  constexpr std::int64_t ranks = 3;
  Transports transports = socket_pairs(ranks);
  comm::Transport& killed = *transports[1];
  ProcessMeshes on(std::move(transports));
  const Job job = jobs().front();
  ASSERT_TRUE(agrees(on, job, in_one_process(job, ranks)));
  const Errors errors = on.together([&](Mesh& mesh, std::int64_t rank) {
    if (rank == 1) {
      killed.abandon();
    } else {
      job.run(mesh, RunOptions{});
    }
  });
  const Errors next = on.together([&](Mesh& mesh, std::int64_t rank) {
    if (rank != 1) {
      job.run(mesh, RunOptions{});
    }
  });
  for (const std::size_t other : {0, 2}) {
    ASSERT_TRUE(errors[other]);
    EXPECT_EQ(errors[other]->kind(), ErrorKind::communication);
    EXPECT_THAT(errors[other]->what(), HasSubstr("rank 1 (the other end) was closed"));
    ASSERT_TRUE(next[other]);
    EXPECT_THAT(next[other]->what(), HasSubstr("make a new mesh"));
  }
}

}  // namespace
}  // namespace shardsolve::testing
