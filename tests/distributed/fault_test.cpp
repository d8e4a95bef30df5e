// Each call of the communicator on each rank in turn fails, comes late or not at all, and each
// allocation in turn fails: all ranks leave with the one error, and the mesh is fit for the next
// call. A part of them; with SHARDSOLVE_TEST_ALL_FAULTS in the environment, all.

#include "mesh/host_backend.hpp"
#include "mesh/mesh_state.hpp"
#include "support/backend.hpp"
#include "support/faulty_backend.hpp"
#include "support/jobs.hpp"
#include "support/rank_program.hpp"
#include "support/sampling.hpp"
#include "support/thrown.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace shardsolve::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using Windows = mesh::HostBackend::Windows;

/// A mesh in this process whose calls and allocations may fail. Between GPUs windows always copy.
struct FaultyMesh {
  static constexpr std::int64_t ranks = 3;
  std::shared_ptr<Faults> faults;
  Mesh mesh;

  explicit FaultyMesh(Windows windows,
                      std::shared_ptr<Faults> given = std::make_shared<Faults>(ranks))
      : faults(std::move(given)),
        mesh(mesh::MeshState::start(std::make_unique<FaultyBackend>(
            test_gpus().empty() ? std::make_unique<mesh::HostBackend>(ranks, windows)
                                : make_gpus(ranks),
            faults))) {}
};

/// One call of a rank's communicator.
struct Call {
  std::int64_t rank;
  std::int64_t call;
};

using FaultCase = std::tuple<Job, Windows>;

class InjectedFault : public ::testing::TestWithParam<FaultCase> {
 protected:
  void SetUp() override {
    if (!test_gpus().empty() && windows_ == Windows::in_place) {
      GTEST_SKIP() << "windows between GPUs always copy: the case beside this one has them";
    }
  }

  const Job& job_ = std::get<0>(GetParam());
  const Windows windows_ = std::get<1>(GetParam());
  FaultyMesh on_ = FaultyMesh(windows_);
  const Answer expected_ = job_.run(on_.mesh, {});

  /// Whether the mesh gives the right answer now that nothing goes wrong.
  ::testing::AssertionResult works(FaultyMesh& on) {
    on.faults->clear();
    try {
      return same_bits(job_.run(on.mesh, {}), expected_);
    } catch (const Error& error) {
      return ::testing::AssertionFailure() << error.what();
    }
  }
  /// Calls and allocations of each rank in a run without faults.
  template <class Count>
  std::vector<std::int64_t> count(FaultyMesh& on, Count of) {
    EXPECT_TRUE(works(on));
    std::vector<std::int64_t> counts;
    for (std::int64_t rank = 0; rank < FaultyMesh::ranks; ++rank) {
      counts.push_back(of(*on.faults, rank));
    }
    return counts;
  }
  std::vector<std::int64_t> count_calls() {
    return count(on_, [](const Faults& faults, std::int64_t rank) { return faults.calls(rank); });
  }
  /// Whether others miss a call that is silent; if not the answer is right.
  bool is_reported(FaultyMesh& on, const Call& silent) {
    constexpr milliseconds limit(500);
    on.faults->strike_call(silent.rank, silent.call, Fault::silent, 3 * limit / 2);
    try {
      EXPECT_TRUE(same_bits(job_.run(on.mesh, {.silence_limit = limit}), expected_));
      return false;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::communication) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(fmt::format("rank {} has been silent", silent.rank)));
      EXPECT_THAT(error.what(), HasSubstr("it was last seen "));
      EXPECT_THAT(error.what(), HasSubstr(" in '"));
      return true;
    }
  }
  /// What was planted is what is thrown.
  void expect_planted(FaultyMesh& on) {
    const auto error = thrown_by([&] { job_.run(on.mesh, {}); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), on.faults->planted().kind()) << error->what();
    EXPECT_STREQ(error->what(), on.faults->planted().what());
  }
};

TEST_P(InjectedFault, CallThatFails_EndsTheCallAndTheNextOneWorks) {
  const std::vector<std::int64_t> counts = count_calls();
  for (const Fault fault : {Fault::refused, Fault::failed}) {
    for (std::int64_t rank = 0; rank < FaultyMesh::ranks; ++rank) {
      for (const std::int64_t call : sample(counts[static_cast<std::size_t>(rank)], 4, 5 * rank)) {
        SCOPED_TRACE(fmt::format("call {} on rank {} is {}", call, rank, name(fault)));
        on_.faults->strike_call(rank, call, fault);
        expect_planted(on_);
        ASSERT_TRUE(works(on_));
      }
    }
  }
}

TEST_P(InjectedFault, CallThatComesLate_ChangesNoBit) {
  const std::vector<std::int64_t> counts = count_calls();
  for (std::int64_t rank = 0; rank < FaultyMesh::ranks; ++rank) {
    for (const std::int64_t call : sample(counts[static_cast<std::size_t>(rank)], 5, 7 * rank)) {
      SCOPED_TRACE(fmt::format("call {} on rank {} is late", call, rank));
      on_.faults->strike_call(rank, call, Fault::delayed, milliseconds(2));
      ASSERT_TRUE(same_bits(job_.run(on_.mesh, {}), expected_));
    }
  }
}

/// Each costs time and little work, so many meshes make a call at once.
TEST_P(InjectedFault, CallThatIsSilent_IsReportedWithRankStepAndOperation) {
  constexpr std::size_t at_once = 8;
  const std::vector<std::int64_t> counts = count_calls();
  std::vector<Call> silent;
  for (const std::int64_t rank : sample(FaultyMesh::ranks, 1, counts.front())) {
    const std::int64_t calls = counts[static_cast<std::size_t>(rank)];
    for (const std::int64_t call : sample(calls, 1, calls / 3)) {
      silent.push_back({rank, call});
    }
  }
  std::atomic<std::size_t> next = 0;
  std::atomic<std::size_t> reported = 0;
  const auto make_calls = [&] {
    FaultyMesh on(windows_);
    ASSERT_TRUE(works(on));
    for (std::size_t i = next++; i < silent.size(); i = next++) {
      const auto [rank, call] = silent[i];
      SCOPED_TRACE(fmt::format("call {} on rank {} is silent", call, rank));
      reported += is_reported(on, silent[i]) ? 1 : 0;
      ASSERT_TRUE(works(on));
    }
  };
  std::vector<std::thread> meshes;
  for (std::size_t i = 0; i < std::min(at_once, silent.size()); ++i) {
    meshes.emplace_back(make_calls);
  }
  for (std::thread& mesh : meshes) {
    mesh.join();
  }
  // Who waits in CUDA for what its GPU does looks at no other rank.
  EXPECT_GE(reported, test_gpus().empty() ? silent.size() : 1);
}

/// On a new mesh each time: later calls find the workspace of the first.
TEST_P(InjectedFault, AllocationThatFails_EndsTheCallAndTheNextOneWorks) {
  FaultyMesh fresh(windows_);
  const auto counts = count(
      fresh, [](const Faults& faults, std::int64_t rank) { return faults.allocations(rank); });
  for (std::int64_t rank = 0; rank < FaultyMesh::ranks; ++rank) {
    for (const std::int64_t one : sample(counts[static_cast<std::size_t>(rank)], 5, 3 * rank)) {
      SCOPED_TRACE(fmt::format("allocation {} of rank {}", one, rank));
      FaultyMesh on(windows_);
      on.faults->strike_allocation(rank, one);
      expect_planted(on);
      ASSERT_TRUE(works(on));
    }
  }
}

/// Memory that the caller lends, as a framework with an allocator of its own does.
TEST_P(InjectedFault, LentMemoryThatRunsOut_EndsTheCallAndTheNextOneWorks) {
  const auto lent = [this](std::int64_t rank) -> runtime::Allocate {
    return [&device = on_.mesh.state().device(rank)](std::size_t bytes) {
      return device.allocate(bytes);
    };
  };
  const auto lend = [&] { on_.mesh.state().lend_memory({lent(0), lent(1), lent(2)}); };
  lend();
  const auto counts =
      count(on_, [](const Faults& faults, std::int64_t rank) { return faults.allocations(rank); });
  for (std::int64_t rank = 0; rank < FaultyMesh::ranks; ++rank) {
    for (const std::int64_t one : sample(counts[static_cast<std::size_t>(rank)], 4, 3 * rank)) {
      SCOPED_TRACE(fmt::format("allocation {} of rank {}", one, rank));
      lend();
      on_.faults->strike_allocation(rank, one);
      expect_planted(on_);
      ASSERT_TRUE(works(on_));
    }
  }
  on_.mesh.state().lend_memory({});
  EXPECT_TRUE(works(on_));
}

/// The first allocations of a rank are its queues, made with the mesh.
TEST(InjectedFaultAtTheStart, QueueThatCannotBeMade_IsReportedAndTheNextMeshWorks) {
  const auto faults = std::make_shared<Faults>(FaultyMesh::ranks);
  const auto start = [&] { return FaultyMesh(Windows::in_place, faults); };
  for (std::int64_t rank = 0; rank < FaultyMesh::ranks; ++rank) {
    for (const std::int64_t queue : {0, 1, 2}) {
      SCOPED_TRACE(fmt::format("queue {} of rank {}", queue, rank));
      faults->strike_allocation(rank, queue);
      EXPECT_TRUE(throws(ErrorKind::out_of_memory, start));
    }
  }
  faults->clear();
  FaultyMesh on = start();
  EXPECT_TRUE(still_solves(on.mesh));
}

INSTANTIATE_TEST_SUITE_P(Jobs, InjectedFault,
                         ::testing::Combine(::testing::ValuesIn(jobs()),
                                            ::testing::Values(Windows::in_place, Windows::copied)),
                         [](const ::testing::TestParamInfo<FaultCase>& case_info) {
                           return std::get<0>(case_info.param).name +
                                  (std::get<1>(case_info.param) == Windows::in_place ? "_in_place"
                                                                                     : "_copied");
                         });

}  // namespace
}  // namespace shardsolve::testing
