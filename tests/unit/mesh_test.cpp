#include "mesh/mesh_state.hpp"
#include "tests/support/rank_program.hpp"
#include "tests/support/thrown.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/mesh.hpp>
#include <shardsolve/trace.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace shardsolve {
namespace {

using testing::broadcast_value;
using testing::run_on;

TEST(Mesh, RanksThatAreNotPossible_AreRefusedWithTheBounds) {
  for (const std::int64_t ranks :
       {std::int64_t{-1}, std::int64_t{0}, Mesh::max_host_ranks + 1, std::int64_t{10000}}) {
    const auto error = testing::thrown_by([&] { Mesh::host(ranks); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::invalid_argument);
    EXPECT_THAT(error->what(), ::testing::HasSubstr(std::to_string(ranks)));
    EXPECT_THAT(error->what(), ::testing::HasSubstr(std::to_string(Mesh::max_host_ranks)));
  }
}

TEST(Mesh, Program_RunsOnceOnEveryRank) {
  for (const std::int64_t ranks : {1, 2, 6}) {
    Mesh mesh = Mesh::host(ranks);
    EXPECT_EQ(mesh.ranks(), ranks);
    for (int call = 0; call < 3; ++call) {
      std::vector<std::atomic<int>> visits(static_cast<std::size_t>(ranks));
      run_on(mesh, [&](mesh::Rank& rank) {
        EXPECT_EQ(rank.count(), ranks);
        ++visits.at(static_cast<std::size_t>(rank.index()));
      });
      for (const auto& count : visits) {
        EXPECT_EQ(count, 1);
      }
    }
  }
}

TEST(Mesh, Moved_WorksOn) {
  Mesh first = Mesh::host(2);
  Mesh second = std::move(first);
  EXPECT_EQ(second.ranks(), 2);
  second = Mesh::host(3);
  EXPECT_EQ(second.ranks(), 3);
  EXPECT_TRUE(testing::still_solves(second));
}

TEST(Mesh, MovedFrom_SaysSo) {
  Mesh first = Mesh::host(2);
  const Mesh second = std::move(first);
  // NOLINTNEXTLINE(bugprone-use-after-move): that is the misuse
  EXPECT_THROW(static_cast<void>(first.ranks()), Error);
  EXPECT_EQ(second.ranks(), 2);
}

TEST(Mesh, MadeAndDestroyed_OverAndOver) {
  for (int round = 0; round < 20; ++round) {
    const Mesh mesh = Mesh::host(1 + round % 5);
  }
}

TEST(Mesh, CallsOfManyThreads_TakeTurns) {
  Mesh mesh = Mesh::host(3);
  std::atomic<int> inside{0};
  std::vector<std::thread> callers;
  for (std::int64_t caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&mesh, &inside, caller] {
      for (int call = 0; call < 10; ++call) {
        run_on(mesh, [&inside, caller](mesh::Rank& rank) {
          inside += 1;
          EXPECT_EQ(broadcast_value(rank, 1, caller), caller);
          EXPECT_LE(inside.load(), 3) << "two calls at a time";
          broadcast_value(rank, 0, 0);
          broadcast_value(rank, 2, 0);
          inside -= 1;
        });
      }
    });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
}

TEST(Mesh, Workspace_IsApartAndAligned) {
  Mesh mesh = Mesh::host(2);
  run_on(mesh, [](mesh::Rank& rank) {
    const MatrixView<double> a = rank.workspace<double>(3, 2);
    const MatrixView<double> b = rank.workspace<double>(3, 2);
    EXPECT_NE(a.data(), b.data());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.data()) % 64, 0U);
    const auto* host = rank.host_workspace<std::int64_t>(4);
    EXPECT_EQ(std::vector<std::int64_t>(host, host + 4), std::vector<std::int64_t>(4, 0));
    EXPECT_TRUE(rank.fetch(rank.update(), a.data(), 0).empty());
  });
}

TEST(Mesh, Trace_HasALaneForEveryQueueOfEveryRank) {
  Mesh mesh = Mesh::host(3);
  Trace trace;
  run_on(mesh,
         [](mesh::Rank& rank) {
           rank.set_step(rank.index());
           for (const auto& queue : rank.queues()) {
             testing::enqueue(*queue, "work", [] {});
           }
         },
         {.trace = &trace});
  std::set<std::pair<std::int64_t, std::string>> lanes;
  for (const Trace::Lane& lane : trace.lanes()) {
    lanes.emplace(lane.rank, lane.queue);
    ASSERT_FALSE(lane.spans.empty());
    EXPECT_EQ(lane.spans.back().step, lane.rank);
  }
  EXPECT_EQ(lanes.size(), trace.lanes().size());
  EXPECT_GE(lanes.size(), 9U);
}

TEST(Mesh, QueueOfAnotherRole_IsMadeOnceAndTracedAtOnce) {
  Mesh mesh = Mesh::host(2);
  static constexpr mesh::QueueRole chase{"chase", runtime::Priority::critical_path};
  std::vector<runtime::Queue*> queues(2);
  for (int call = 0; call < 2; ++call) {
    Trace trace;
    run_on(mesh,
           [&](mesh::Rank& rank) {
             rank.set_step(7);
             runtime::Queue& queue = rank.queue(chase);
             EXPECT_EQ(&queue, &rank.queue(chase));
             runtime::Queue*& known = queues[static_cast<std::size_t>(rank.index())];
             EXPECT_TRUE(known == nullptr || known == &queue);
             known = &queue;
             testing::enqueue(queue, "work", [] {});
           },
           {.trace = &trace});
    int spans = 0;
    for (const Trace::Lane& lane : trace.lanes()) {
      if (lane.queue == chase.name) {
        ASSERT_EQ(lane.spans.size(), 1U);
        EXPECT_EQ(lane.spans.front().step, 7);
        ++spans;
      }
    }
    EXPECT_EQ(spans, 2);
  }
}

TEST(Mesh, SecondCallWithATrace_AddsToIt) {
  Mesh mesh = Mesh::host(2);
  Trace trace;
  const auto program = [](mesh::Rank& rank) { testing::enqueue(rank.update(), "work", [] {}); };
  const auto count = [&] {
    std::size_t spans = 0;
    for (const Trace::Lane& lane : trace.lanes()) {
      spans += lane.spans.size();
    }
    return spans;
  };
  run_on(mesh, program, {.trace = &trace});
  const std::size_t once = count();
  run_on(mesh, program);  // without it
  EXPECT_EQ(count(), once);
  run_on(mesh, program, {.trace = &trace});
  EXPECT_EQ(count(), 2 * once);
}

TEST(Mesh, TraceOfACallThatFailed_HoldsWhatWasDone) {
  Mesh mesh = Mesh::host(2);
  Trace trace;
  const auto program = [](mesh::Rank& rank) {
    testing::enqueue(rank.update(), "work", [] {});
    rank.update().synchronize();
    throw Error(ErrorKind::io, "planted");
  };
  EXPECT_THROW(run_on(mesh, program, {.trace = &trace}), Error);
  std::set<std::int64_t> ranks;
  for (const Trace::Lane& lane : trace.lanes()) {
    if (!lane.spans.empty()) {
      ranks.insert(lane.rank);
    }
  }
  EXPECT_FALSE(ranks.empty());
}

}  // namespace
}  // namespace shardsolve
