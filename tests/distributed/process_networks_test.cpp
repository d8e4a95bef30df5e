// Networks trained by processes that are started here (rank/main.cpp): on CPUs, and on GPUs, one
// each or all on one.

#include "support/network_jobs.hpp"
#include "support/rank_processes.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <iterator>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

namespace shardsolve::testing::process_networks {
namespace {

struct Case {
  std::string devices;
  std::int64_t ranks;
};

std::string name(const Case& one) { return fmt::format("{}_{}_ranks", one.devices, one.ranks); }
void PrintTo(const Case& one, std::ostream* out) { *out << name(one); }

class ProcessNetworks : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (GetParam().devices != "cpu" && test_gpus().empty()) {
      GTEST_SKIP() << "no GPU: set SHARDSOLVE_TEST_GPUS";
    }
    if (GetParam().devices == "cpu" && !test_gpus().empty()) {
      GTEST_SKIP() << "GPUs are listed";
    }
    if (GetParam().devices == "nccl" && GetParam().ranks > std::ssize(test_gpus())) {
      GTEST_SKIP() << "NCCL wants a GPU for each process";
    }
  }

  /// What all ranks of one process say.
  static std::vector<std::string> expected() {
    Mesh mesh = make_mesh(GetParam().ranks);
    std::vector<std::string> lines;
    for (const NetworkJob& job : network_jobs()) {
      lines.push_back(answer_of(mesh, job));
    }
    lines.push_back("failure: planted");
    lines.push_back(lines.front());
    return lines;
  }
};

TEST_P(ProcessNetworks, HaveTheBitsOfOneProcessAndItsFailureToo) {
  const bool on_gpus = GetParam().devices != "cpu";
  RankProcesses processes(
      GetParam().ranks,
      {"answers_" + GetParam().devices, on_gpus ? gpus_in_turn(GetParam().ranks) : "-", "0", "0"});
  const std::vector<std::string> expected_lines = expected();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(150);
  for (std::int64_t rank = 0; rank < GetParam().ranks; ++rank) {
    SCOPED_TRACE(fmt::format("rank {}", rank));
    EXPECT_EQ(processes.finish(rank, deadline), 0);
    std::vector<std::string> lines;
    std::istringstream said(processes.output(rank));
    for (std::string line; std::getline(said, line);) {
      lines.push_back(line);
    }
    ASSERT_EQ(lines.size(), expected_lines.size()) << processes.output(rank);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      // Fronts that all do together are cut by the number of processes; CPUs of one have none.
      if (on_gpus || !lines[i].starts_with("joint_fronts")) {
        EXPECT_EQ(lines[i], expected_lines[i]);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, ProcessNetworks,
                         ::testing::Values(Case{"cpu", 2}, Case{"ipc", 2}, Case{"ipc", 3},
                                           Case{"nccl", 2}, Case{"nccl", 4}),
                         [](const auto& tested) { return name(tested.param); });

}  // namespace
}  // namespace shardsolve::testing::process_networks
