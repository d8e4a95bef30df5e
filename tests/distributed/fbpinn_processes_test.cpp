// Processes on CPUs that train networks have the columns that they need, and say what that takes.

#include "fbpinn/linear_step.hpp"
#include "fbpinn/on_ranks.hpp"
#include "fbpinn/process_boxes.hpp"
#include "fbpinn/process_memory.hpp"
#include "sparse/block_cholesky.hpp"
#include "sparse/elimination_tree.hpp"
#include "sparse/front_placement.hpp"
#include "tests/support/block_matrices.hpp"
#include "tests/support/box_cases.hpp"
#include "tests/support/faults.hpp"
#include "tests/support/process_meshes.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/fbpinn.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace shardsolve::fbpinn {
namespace {

using testing::ProcessMeshes;
using testing::box_cases::numbers;

const std::vector<Interval> whole_square{{0, 1}, {0, 1}};

void expect_none(const std::vector<std::optional<Error>>& errors) {
  for (const auto& error : errors) {
    EXPECT_FALSE(error) << error->what();
  }
}

void expect_all(const std::vector<std::optional<Error>>& errors, ErrorKind kind,
                const std::string& text) {
  for (const auto& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), kind);
    EXPECT_EQ(std::string(error->what()), text);
  }
}

TEST(FbpinnProcesses, Deliver_BringsEachPieceToItsPlaceAlone) {
  for (const std::int64_t ranks : {2, 3}) {
    ProcessMeshes meshes(ranks, 4096, ranks == 2 ? testing::Hosts::one : testing::Hosts::one_each);
    // To one, to all, and nothing at all from the last rank; of one number and of many.
    std::vector<sparse::Delivery> deliveries{{5, 0, 1}, {2000, 0, ranks - 1}, {7, 1, 0}};
    const auto errors = meshes.together([&](Mesh& mesh, std::int64_t rank) {
      const RunOptions run;
      const sparse::Workers workers = on_ranks(mesh, run);
      EXPECT_EQ(workers.process, rank);
      EXPECT_EQ(workers.processes, ranks);
      std::set<std::pair<std::int64_t, std::int64_t>> got;
      workers.deliver(deliveries, [&](const sparse::Delivery& one, sparse::Packet& packet) {
        EXPECT_EQ(packet.reads() ? one.to : one.from, rank);
        std::vector<double> told(static_cast<std::size_t>(one.piece),
                                 static_cast<double>(one.piece));
        std::vector<double> read = packet.reads() ? std::vector<double>{} : told;
        packet.vector(read);
        EXPECT_EQ(read, told);
        if (packet.reads()) {
          EXPECT_TRUE(got.insert({one.piece, one.from}).second);
        }
      });
      std::set<std::pair<std::int64_t, std::int64_t>> expected;
      for (const sparse::Delivery& one : deliveries) {
        if (one.to == rank) {
          expected.insert({one.piece, one.from});
        }
      }
      EXPECT_EQ(got, expected);
      workers.deliver({}, [](const sparse::Delivery&, sparse::Packet&) { FAIL(); });
    });
    expect_none(errors);
    EXPECT_TRUE(meshes.in_good_order());
  }
}

TEST(FbpinnProcesses, ShareBy_DoesEachPieceWhereItIsToBeInOrderAndTellsAll) {
  constexpr std::int64_t ranks = 3;
  constexpr std::int64_t pieces = 100;
  ProcessMeshes meshes(ranks);
  std::vector<std::int64_t> process_of;
  for (std::int64_t i = 0; i < pieces; ++i) {
    process_of.push_back(i * i % 7 % 2 == 0 ? 2 : 0);  // the second has nothing to do
  }
  const auto errors = meshes.together([&](Mesh& mesh, std::int64_t rank) {
    const RunOptions run;
    std::vector<std::int64_t> done;
    std::vector<std::int64_t> made(pieces, -1);
    on_ranks(mesh, run).share_by(
        process_of,
        [&](std::int64_t i) {
          done.push_back(i);
          made[static_cast<std::size_t>(i)] = 3 * i;
        },
        [&](std::int64_t i, sparse::Packet& packet) {
          packet.value(made[static_cast<std::size_t>(i)]);
        });
    EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
    EXPECT_EQ(std::ssize(done), std::count(process_of.begin(), process_of.end(), rank));
    for (std::int64_t i = 0; i < pieces; ++i) {
      EXPECT_EQ(made[static_cast<std::size_t>(i)], 3 * i);
    }
  });
  expect_none(errors);
}

/// Blocks are asked for where both boxes' columns are kept, and nowhere else.
TEST(FbpinnProcesses, Keepers_AreThoseWhoseFrontsNeedTheBox) {
  using namespace testing::block_matrices;
  for (const std::int64_t ranks : {2, 3, 4}) {
    ProcessMeshes meshes(ranks);
    for (const sparse::JointFronts& joint :
         {sparse::JointFronts{}, {.least_flops = 0, .tile = 5}}) {
      for (const BlockGraph& graph :
           {grid_graph(9, true), grid_graph(7, false), random_graph(30, 0.1)}) {
        const sparse::EliminationTree tree = sparse::nested_dissection(graph);
        const TestMatrix<double> matrix(graph);
        std::vector<std::int64_t> kept(static_cast<std::size_t>(ranks));
        const auto errors = meshes.together([&](Mesh& mesh, std::int64_t rank) {
          const RunOptions run;
          sparse::Workers workers = on_ranks(mesh, run);
          workers.joint_fronts = joint;
          const ProcessBoxes boxes = boxes_of_fronts(tree, graph.sizes, workers);
          std::mutex mutex;
          std::set<std::int64_t> asked_for;
          sparse::BlockCholesky<double> factor(graph, tree);
          EXPECT_FALSE(factor.factor(
              [&](std::int32_t i, std::int32_t j, MatrixView<double> to) {
                {
                  const std::lock_guard lock(mutex);
                  asked_for.insert({i, j});
                }
                matrix.add(i, j, to);
              },
              workers));
          for (std::int64_t box = 0; box < boxes.boxes(); ++box) {
            EXPECT_TRUE(boxes.keeps(boxes.doer[static_cast<std::size_t>(box)], box));
            if (asked_for.contains(box)) {
              EXPECT_TRUE(boxes.keeps(rank, box)) << "box " << box << " of rank " << rank;
            }
            kept[static_cast<std::size_t>(rank)] += boxes.keeps(rank, box) ? 1 : 0;
          }
          if (joint.least_flops > 0) {  // of joint fronts all keep all
            EXPECT_EQ(std::ssize(asked_for), kept[static_cast<std::size_t>(rank)]);
          }
        });
        expect_none(errors);
        if (joint.least_flops > 0) {
          EXPECT_LT(*std::min_element(kept.begin(), kept.end()), graph.count());
        }
      }
    }
  }
}

/// A grid of networks whose columns are all kept.
struct Grid {
  std::int64_t edge;
  Boxes boxes = Boxes::regular(whole_square, {edge, edge}, 2.9);
  Mlp mlp{.hidden = {12}};
  JetSet set = JetSet::full(2, 1);

  TrainingGeometry geometry(const sparse::Workers& workers) const {
    return TrainingGeometry(boxes, set, 1, grid(whole_square, {5 * edge, 5 * edge}),
                            {{25 * edge * edge, 1}}, workers);
  }
  LinearStep step(const TrainingGeometry& of, const sparse::Workers& workers,
                  const LinearSolver& solver = {}) const {
    const std::vector<double> hidden = mlp.random_weights(2, boxes.count(), 4, 6.0);
    return linear_step(of, mlp, hidden, numbers(of.derivatives, 2), {}, numbers(of.rows, 5), 1e-13,
                       workers, solver);
  }
};

TEST(FbpinnProcesses, ColumnsOfAProcess_TakeWhatThePlanSaysAndShrinkWithTheirNumber) {
  const Grid networks{16};
  const TrainingGeometry geometry = networks.geometry({});
  const std::int64_t columns = networks.mlp.features();
  const sparse::EliminationTree tree = sparse::nested_dissection(
      graph_of(networks.boxes, geometry.lists, std::vector<std::int64_t>(256, columns)));
  const LinearStep alone = networks.step(geometry, {});
  ASSERT_EQ(std::count(alone.rank.begin(), alone.rank.end(), columns), 256);
  const auto planned = [&](std::int64_t processes) {
    return memory_of_processes(geometry.lists, columns, tree, processes, {});
  };
  EXPECT_NEAR(static_cast<double>(alone.feature_bytes) / planned(1)[0].features, 1.0, 0.01);
  for (const auto& [ranks, share] : {std::pair(2, 0.68), {4, 0.48}}) {
    ProcessMeshes meshes(ranks);
    const std::vector<LinearStepMemory> plan = planned(ranks);
    for (const bool by_cg : {false, true}) {
      const LinearSolver solver{.method = by_cg ? LinearMethod::cg : LinearMethod::automatic,
                                .max_steps = 3};
      const LinearStep expected = networks.step(geometry, {}, solver);
      expect_none(meshes.together([&](Mesh& mesh, std::int64_t rank) {
        const RunOptions run;
        const sparse::Workers workers = on_ranks(mesh, run);
        const LinearStep step = networks.step(networks.geometry(workers), workers, solver);
        EXPECT_EQ(step.change, expected.change);
        EXPECT_EQ(step.residual, expected.residual);
        EXPECT_EQ(step.certificate, expected.certificate);
        const LinearStepMemory& mine = plan[static_cast<std::size_t>(rank)];
        const auto bytes = static_cast<double>(step.feature_bytes);
        EXPECT_NEAR(bytes / (by_cg ? mine.features_by_cg : mine.features), 1.0, 0.02);
        EXPECT_LE(bytes, (by_cg ? 1.12 / ranks : share) * static_cast<double>(alone.feature_bytes));
      }));
    }
    EXPECT_LT(most_of(plan).factor, 0.85 * most_of(planned(ranks / 2)).factor);
  }
}

TEST(FbpinnProcesses, OrderThatChangesWithTheRanks_MovesColumnsAndNoBit) {
  // Ranks differ from box to box, so that the tree of the columns that are kept is another one.
  const Grid networks{9};
  const TrainingGeometry geometry = networks.geometry({});
  const std::vector<double> hidden = networks.mlp.random_weights(2, networks.boxes.count(), 4, 1.0);
  const auto step_of = [&](const TrainingGeometry& of, const sparse::Workers& workers) {
    return linear_step(of, networks.mlp, hidden, numbers(of.derivatives, 2), {},
                       numbers(of.rows, 5), 1e-4, workers);
  };
  const LinearStep expected = step_of(geometry, {});
  ASSERT_LT(*std::min_element(expected.rank.begin(), expected.rank.end()),
            *std::max_element(expected.rank.begin(), expected.rank.end()));
  for (const std::int64_t ranks : {2, 3, 5}) {
    ProcessMeshes meshes(ranks);
    expect_none(meshes.together([&](Mesh& mesh, std::int64_t rank) {
      const RunOptions run;
      const sparse::Workers workers = on_ranks(mesh, run);
      const LinearStep step = step_of(networks.geometry(workers), workers);
      EXPECT_EQ(step.change, expected.change) << rank << " of " << ranks;
      EXPECT_EQ(step.condition, expected.condition);
    }));
    EXPECT_TRUE(meshes.in_good_order());
  }
}

TEST(FbpinnPlan, EachOfSeveralProcesses_TakesLess) {
  Problem problem(Boxes::regular(whole_square, {16, 16}, 2.9), {.hidden = {32}});
  problem.add("value", grid(whole_square, {96, 96}),
              [](Coordinates, const auto& u) { return u() * 1.0; });
  const TrainingPlan plan = plan_least_squares(problem);
  ASSERT_EQ(plan.process_bytes.size(), 4U);
  EXPECT_EQ(plan.process_bytes[2].first, 4);
  EXPECT_DOUBLE_EQ(plan.process_bytes[0].second, plan.bytes());
  for (std::size_t i = 1; i < 4; ++i) {
    EXPECT_LT(plan.process_bytes[i].second, 0.9 * plan.process_bytes[i - 1].second);
  }
  EXPECT_NE(plan.text().find("GB in a process, "), std::string::npos);
}

/// A training in which columns are moved and fronts wait for each other.
Trained train(Mesh& mesh, const RunOptions& run) {
  Problem problem(Boxes::regular(whole_square, {6, 4}, 2.5), {.hidden = {3}});
  problem.constrain([](auto x, auto v) { return x[0] * (1 - x[0]) * x[1] * (1 - x[1]) * v; });
  problem.add("interior", grid(whole_square, {12, 8}),
              [](Coordinates, const auto& u) { return u(0, 0) + u(1, 1) - 1.0; });
  return least_squares(mesh, problem, {}, run);
}

TEST(FbpinnProcesses, CallOrMessageThatFailsInOne_EndsTheTrainingOfAll) {
  constexpr std::int64_t ranks = 3;
  ProcessMeshes meshes(ranks);
  const auto run = [&] {
    return meshes.together([](Mesh& mesh, std::int64_t) { train(mesh, {}); });
  };
  meshes.clear_faults();
  expect_none(run());
  const std::int64_t calls = meshes.faults(1).calls(1);
  for (std::int64_t call = 0; call < calls; call += 1 + calls / 24) {
    meshes.clear_faults();
    meshes.faults(1).strike_call(1, call, testing::Fault::failed);
    SCOPED_TRACE(call);
    const Error& planted = meshes.faults(1).planted();
    expect_all(run(), planted.kind(), planted.what());
    meshes.clear_faults();
    expect_none(run());
  }
  const std::int64_t allocations = meshes.faults(1).allocations(1);
  for (std::int64_t allocation = 0; allocation < allocations; allocation += 1 + allocations / 4) {
    ProcessMeshes fresh(ranks);
    fresh.faults(1).strike_allocation(1, allocation);
    const Error& planted = fresh.faults(1).planted();
    expect_all(fresh.together([](Mesh& mesh, std::int64_t) { train(mesh, {}); }), planted.kind(),
               planted.what());
  }
}

TEST(FbpinnProcesses, StopThatOneAsksFor_EndsTheTrainingOfAll) {
  for (const char* const phase : {"residual", "features", "factor", "solve"}) {
    ProcessMeshes meshes(2);
    std::stop_source stop;
    const auto errors = meshes.together([&](Mesh& mesh, std::int64_t rank) {
      RunOptions options;
      if (rank == 0) {
        options.cancel = stop.get_token();
        options.progress = [&](const Progress& progress) {
          if (progress.phase == phase) {
            stop.request_stop();
          }
        };
      }
      train(mesh, options);
    });
    SCOPED_TRACE(phase);
    expect_all(errors, ErrorKind::cancelled, "the call was cancelled as asked");
  }
}

}  // namespace
}  // namespace shardsolve::fbpinn
