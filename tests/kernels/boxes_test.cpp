// Networks in boxes by the GPU's kernels against those of the CPU.

#include "fbpinn/device_placement.hpp"
#include "fbpinn/on_ranks.hpp"
#include "kernels/emulated_gpu.hpp"
#include "kernels/orders.hpp"
#include "tests/support/box_cases.hpp"

#include <shardsolve/fbpinn.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
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

}  // namespace
}  // namespace shardsolve::testing::emulated_boxes
