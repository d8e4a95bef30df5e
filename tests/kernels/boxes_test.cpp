// Networks in boxes by the GPU's kernels against those of the CPU.

#include "fbpinn/device_placement.hpp"
#include "fbpinn/on_ranks.hpp"
#include "kernels/emulated_gpu.hpp"
#include "kernels/orders.hpp"
#include "tests/support/box_cases.hpp"
#include "tests/support/network_jobs.hpp"
#include "tests/support/process_meshes.hpp"
#include "tests/support/sampling.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/fbpinn.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace shardsolve::testing::emulated_boxes {
namespace {

using namespace box_cases;

TEST(EmulatedBoxes, JetsAndStepsAreThoseOfTheCpu) {
  Mesh mesh = emulated_gpu();
  const RunOptions run;
  for (const Case& one : cases()) {
    expect_same_steps(one, on_ranks(mesh, run));
  }
}

TEST(EmulatedBoxes, StepsOfSeveralDevicesAreThoseOfTheCpu) {
  for (const std::int64_t ranks : {2, 3}) {
    Mesh mesh = emulated_gpus(ranks);
    const RunOptions run;
    sparse::Workers workers = on_ranks(mesh, run);
    // Fronts above the subtrees on the first device, or by all together.
    for (const sparse::JointFronts& joint :
         {workers.joint_fronts, sparse::JointFronts{0, 8}, sparse::JointFronts{0, 32, 16}}) {
      workers.joint_fronts = joint;
      expect_same_steps(grid_of_boxes(), workers);
    }
    workers.joint_fronts.least_flops = ranks % 2 == 0 ? 0.0 : 1e12;
    const std::vector<Case> all = cases();
    for (std::size_t i = 5; i < all.size(); ++i) {  // of one activation
      expect_same_steps(all[i], workers);
    }
  }
}

TEST(EmulatedBoxes, SeveralDevices_HoldTheirOwnBoxesAndThoseAbove) {
  const Case one = grid_of_boxes();
  const TrainingGeometry geometry(one.boxes, one.set, one.fields, one.points, one.terms, {});
  const sparse::BlockGraph graph =
      graph_of(one.boxes, geometry.lists,
               std::vector<std::int64_t>(static_cast<std::size_t>(one.boxes.count()), 5));
  const sparse::EliminationTree tree = sparse::nested_dissection(graph);
  for (const std::int64_t ranks : {1, 2, 3, 5}) {
    for (const double least : {0.0, 1e4, 1e12}) {
      const DevicePlacement placement = place_on_devices(tree, ranks, {.least_flops = least});
      EXPECT_EQ(placement.fronts.joint.empty(), ranks == 1 || least > 1e9);
      std::vector<int> owners(static_cast<std::size_t>(one.boxes.count()));
      for (std::size_t r = 0; r < static_cast<std::size_t>(ranks); ++r) {
        const auto& held = placement.boxes.held[r];
        std::vector<bool> is_held(owners.size());
        for (const std::int32_t box : held) {
          EXPECT_FALSE(is_held[static_cast<std::size_t>(box)]);
          is_held[static_cast<std::size_t>(box)] = true;
        }
        for (std::size_t i = 0; i < placement.boxes.owned[r].size(); ++i) {
          EXPECT_EQ(held[i], placement.boxes.owned[r][i]);
          ++owners[static_cast<std::size_t>(held[i])];
        }
        // All columns of the fronts that it does, and of joint ones.
        for (std::size_t n = 0; n < tree.nodes.size(); ++n) {
          if (placement.fronts.kind[n] == sparse::FrontPlacement::Kind::joint ||
              placement.fronts.rank[n] == static_cast<std::int64_t>(r)) {
            for (const auto* blocks : {&tree.nodes[n].blocks, &tree.nodes[n].border}) {
              for (const std::int32_t box : *blocks) {
                EXPECT_TRUE(is_held[static_cast<std::size_t>(box)]);
              }
            }
          }
        }
        if (ranks > 1) {
          EXPECT_LT(held.size(), owners.size());
        }
      }
      EXPECT_EQ(std::count(owners.begin(), owners.end(), 1), one.boxes.count());
    }
  }
}

TEST(EmulatedBoxes, WholeTrainingByThreeDevices_HasTheSolutionOfTheCpuAndItsBitsAgain) {
  Mesh gpus = emulated_gpus(3);
  Mesh cpu = Mesh::serial();
  const Trained expected = least_squares(cpu, poisson());
  const Trained trained = least_squares(gpus, poisson());
  EXPECT_TRUE(trained.outcome.ok());
  EXPECT_EQ(trained.rank, expected.rank);
  EXPECT_LT(trained.certificate, 1e-8);
  const std::vector<double> points = grid({{0, 1}, {0, 1}}, {17, 19});
  expect_near(trained.evaluate(gpus, points, 50), expected.evaluate(cpu, points), 1e-10);
  EXPECT_EQ(least_squares(gpus, poisson()).last_layer, trained.last_layer);
}

TEST(EmulatedBoxes, WholeTraining_HasTheSolutionOfTheCpu) {
  Mesh gpu = emulated_gpu();
  Mesh cpu = Mesh::serial();
  const Trained expected = least_squares(cpu, poisson());
  const Trained trained = least_squares(gpu, poisson());
  EXPECT_TRUE(trained.outcome.ok());
  EXPECT_EQ(trained.rank, expected.rank);
  EXPECT_LT(trained.certificate, 1e-8);
  const std::vector<double> points = grid({{0, 1}, {0, 1}}, {17, 19});
  expect_near(trained.evaluate(gpu, points, 50), expected.evaluate(cpu, points), 1e-10);
  in_each_order([&] { EXPECT_EQ(least_squares(gpu, poisson()).last_layer, trained.last_layer); });
}

ProcessMeshes emulated_processes(std::int64_t ranks) {
  return ProcessMeshes(ranks, ProcessMeshes::usual_eager, Hosts::one_each,
                       [](std::unique_ptr<comm::Transport> transport) {
                         return std::make_unique<EmulatedGpuOfProcess>(std::move(transport));
                       });
}

class EmulatedBoxesOfProcesses : public ::testing::TestWithParam<NetworkJob> {};

TEST_P(EmulatedBoxesOfProcesses, HaveTheBitsOfOneProcess) {
  for (const std::int64_t ranks : {2, 3}) {
    Mesh one = emulated_gpus(ranks);
    const std::vector<double> expected = GetParam().run(one, {});
    ProcessMeshes several = emulated_processes(ranks);
    const auto errors = several.together([&](Mesh& mesh, std::int64_t rank) {
      EXPECT_EQ(GetParam().run(mesh, {}), expected) << rank << " of " << ranks;
    });
    for (const auto& error : errors) {
      EXPECT_FALSE(error) << error->what();
    }
    EXPECT_TRUE(several.in_good_order());
  }
}

INSTANTIATE_TEST_SUITE_P(Jobs, EmulatedBoxesOfProcesses, ::testing::ValuesIn(network_jobs()),
                         [](const auto& info) { return info.param.name; });

/// What is to be thrown in all processes.
void expect_all(const std::vector<std::optional<Error>>& errors, ErrorKind kind,
                const std::string& text) {
  for (const auto& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), kind);
    EXPECT_EQ(std::string(error->what()), text);
  }
}

TEST(EmulatedBoxes, CallOrAllocationThatFailsInOneProcess_EndsTheTrainingOfAll) {
  constexpr std::int64_t ranks = 2;
  const auto train = [](ProcessMeshes& on) {
    return on.together([](Mesh& mesh, std::int64_t) { train_few_networks(mesh, {}); });
  };
  ProcessMeshes meshes = emulated_processes(ranks);
  meshes.clear_faults();
  ASSERT_FALSE(train(meshes)[0]);
  for (const std::int64_t call : sample(meshes.faults(1).calls(1), 6, 1)) {
    meshes.clear_faults();
    meshes.faults(1).strike_call(1, call, Fault::failed);
    const Error& planted = meshes.faults(1).planted();
    expect_all(train(meshes), planted.kind(), planted.what());
    meshes.clear_faults();
    ASSERT_FALSE(train(meshes)[1]) << call;
  }
  const std::int64_t allocations = meshes.faults(1).allocations(1);
  for (const std::int64_t allocation : sample(allocations, 4, 2)) {
    ProcessMeshes fresh = emulated_processes(ranks);
    fresh.faults(1).strike_allocation(1, allocation);
    const Error& planted = fresh.faults(1).planted();
    expect_all(train(fresh), planted.kind(), planted.what());
    fresh.clear_faults();
    ASSERT_FALSE(train(fresh)[0]) << allocation;
  }
}

TEST(EmulatedBoxes, StopThatOneProcessAsksFor_EndsTheTrainingOfAll) {
  for (const char* const phase : {"residual", "features", "factor", "networks"}) {
    ProcessMeshes meshes = emulated_processes(2);
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
      train_few_networks(mesh, options);
    });
    SCOPED_TRACE(phase);
    expect_all(errors, ErrorKind::cancelled, "the call was cancelled as asked");
  }
}

/// The error that training has in one process is that of all processes.
TEST(EmulatedBoxes, WhatProcessesCannotTrain_IsRefusedInAllWithTheWordsOfOne) {
  const std::vector<Interval> line{{0, 1}};
  const auto thrown_by = [](Mesh& mesh, const Problem& problem, const LeastSquaresOptions& how) {
    try {
      least_squares(mesh, problem, how);
      return std::string("nothing");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  Problem nowhere(Boxes::regular(line, {4}, 2.5), {.hidden = {5}});
  nowhere.add("equation", grid(line, {41}),
              [](Coordinates x, const auto& u) { return u() / (x[0] - 0.5); });
  Problem large(Boxes::regular(line, {4}, 2.5), {.hidden = {5}});
  large.add("equation", grid(line, {41}), [](Coordinates, const auto& u) { return u(0) - 1.0; });
  LeastSquaresOptions infinite_units;
  infinite_units.hidden_weights.assign(
      static_cast<std::size_t>(large.boxes().count() * large.mlp().weights(1)), 1e308);
  for (const auto& [problem, how] :
       {std::pair(&nowhere, LeastSquaresOptions{}), {&large, infinite_units}}) {
    Mesh one = emulated_gpus(2);
    const std::string expected = thrown_by(one, *problem, how);
    EXPECT_NE(expected, "nothing");
    ProcessMeshes several = emulated_processes(2);
    several.together([&, problem = problem, &how = how](Mesh& mesh, std::int64_t) {
      EXPECT_EQ(thrown_by(mesh, *problem, how), expected);
    });
    EXPECT_TRUE(several.in_good_order());
  }
}

/// By what is solved, or that it is refused.
TEST(EmulatedBoxes, MemoryThatOneProcessLacks_DecidesInAll) {
  const std::vector<Interval> line{{0, 1}};
  Problem problem(Boxes::regular(line, {4}, 2.5), {.hidden = {3}});
  problem.add("equation", grid(line, {24}), [](Coordinates, const auto& u) { return u(0) - 1.0; });
  problem.add("start", {0.0}, [](Coordinates, const auto& u) { return u() * 1.0; });
  std::set<std::string> seen;
  for (double bytes = 4096; bytes < 65536; bytes *= 1.1) {
    ProcessMeshes meshes(
        2, ProcessMeshes::usual_eager, Hosts::one_each,
        [bytes](std::unique_ptr<comm::Transport> transport) {
          const std::int64_t available = transport->rank() == 1 ? static_cast<std::int64_t>(bytes)
                                                                : EmulatedGpuOfProcess::plenty;
          return std::make_unique<EmulatedGpuOfProcess>(std::move(transport), available);
        });
    std::vector<std::string> ways(2);
    const auto errors = meshes.together([&](Mesh& mesh, std::int64_t rank) {
      const Trained trained = least_squares(mesh, problem, {.max_cg_steps = 3});
      ways[static_cast<std::size_t>(rank)] = trained.is_by_cg ? "cg" : "factor";
    });
    for (std::size_t rank = 0; rank < ways.size(); ++rank) {
      if (errors[rank]) {
        EXPECT_EQ(errors[rank]->kind(), ErrorKind::out_of_memory);
        EXPECT_EQ(std::string(errors[rank]->what()), errors[0] ? errors[0]->what() : "");
        ways[rank] = "refused";
      }
    }
    EXPECT_EQ(ways[0], ways[1]) << bytes;
    seen.insert(ways[1]);
  }
  EXPECT_EQ(seen, (std::set<std::string>{"cg", "factor", "refused"}));
}

}  // namespace
}  // namespace shardsolve::testing::emulated_boxes
