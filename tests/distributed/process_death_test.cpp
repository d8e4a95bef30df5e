// A process of a mesh that is killed or stopped in the middle of a call. No launcher is involved,
// which would end the others too: the processes are started here (rank/main.cpp).

#include "support/rank_processes.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <iterator>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace shardsolve::testing {
namespace {

using ::testing::HasSubstr;

struct Death {
  std::string kind;  // see rank/main.cpp
  std::int64_t ranks;
  std::int64_t victim;
  int signal;
};

std::string name(const Death& death) {
  return fmt::format("{}_{}_ranks_{}_{}", death.kind, death.ranks, death.victim,
                     death.signal == SIGKILL ? "killed" : "stopped");
}

void PrintTo(const Death& death, std::ostream* out) { *out << name(death); }

/// The processes of a mesh, each connected to each.
class ProcessDeath : public ::testing::TestWithParam<Death> {
 protected:
  void SetUp() override {
    const std::string kind = GetParam().kind;
    const bool on_gpus = kind.starts_with("ipc") || kind.starts_with("nccl");
    if (on_gpus && test_gpus().empty()) {
      GTEST_SKIP() << "no GPU: set SHARDSOLVE_TEST_GPUS";
    }
    if (kind.starts_with("nccl") && GetParam().ranks > std::ssize(test_gpus())) {
      GTEST_SKIP() << "NCCL wants a GPU for each process";
    }
    processes_.emplace(GetParam().ranks,
                       std::vector<std::string>{
                           kind, on_gpus ? gpus_in_turn(GetParam().ranks) : std::string("-"),
                           std::to_string(GetParam().victim), std::to_string(GetParam().signal)});
  }

  std::optional<RankProcesses> processes_;
};

TEST_P(ProcessDeath, InTheMiddleOfACall_IsReportedByTheOthersWhoCanGoOnAlone) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(90);
  const std::string victim = fmt::format("rank {}", GetParam().victim);
  for (std::int64_t rank = 0; rank < GetParam().ranks; ++rank) {
    if (rank == GetParam().victim) {
      continue;
    }
    EXPECT_EQ(processes_->finish(rank, deadline), 0) << "rank " << rank;
    const std::string said = processes_->output(rank);
    EXPECT_THAT(said, HasSubstr(victim + (GetParam().signal == SIGKILL ? " was closed"
                                                                       : " has been silent")));
    EXPECT_THAT(said, HasSubstr("in time"));
    EXPECT_THAT(said, HasSubstr("next: a rank of this mesh was lost in an earlier call"));
    EXPECT_THAT(said, HasSubstr("alone: solved"));
  }
  if (GetParam().signal == SIGKILL) {
    EXPECT_EQ(processes_->finish(GetParam().victim, deadline), -SIGKILL);
  }
}

std::vector<Death> deaths() {
  std::vector<Death> all;
  for (const int signal : {SIGKILL, SIGSTOP}) {
    for (const std::int64_t victim : {0, 2}) {
      for (const char* kind : {"messages", "workspace", "join", "window"}) {
        all.push_back({kind, 3, victim, signal});
      }
    }
    for (const std::int64_t victim : {0, 1}) {
      all.push_back({"ipc", 2, victim, signal});
      all.push_back({"nccl", 2, victim, signal});
    }
    // Somewhere in a call of each family, or between two of them.
    for (const char* kind : {"cpu_solve", "cpu_eigh", "cpu_sparse", "cpu_krylov", "cpu_networks",
                             "ipc_networks", "nccl_networks"}) {
      all.push_back({kind, 2, 1, signal});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Of, ProcessDeath, ::testing::ValuesIn(deaths()),
                         [](const auto& tested) { return name(tested.param); });

}  // namespace
}  // namespace shardsolve::testing
