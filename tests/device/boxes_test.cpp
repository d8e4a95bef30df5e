// Networks in boxes on a GPU against the CPU. Left out without a GPU: see support/backend.hpp.

#include "fbpinn/on_ranks.hpp"
#include "support/backend.hpp"
#include "support/box_cases.hpp"

#include <shardsolve/fbpinn.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

namespace shardsolve::testing::boxes_on_device {
namespace {

using namespace box_cases;

class DeviceBoxes : public ::testing::Test {
 protected:
  void SetUp() override {
    if (test_gpus().empty()) {
      GTEST_SKIP() << "SHARDSOLVE_TEST_GPUS names no GPU";
    }
  }
};

TEST_F(DeviceBoxes, JetsAndStepsAreThoseOfTheCpu) {
  Mesh mesh = make_mesh(1);
  const RunOptions run;
  for (const Case& one : cases()) {
    expect_same_steps(one, on_ranks(mesh, run));
  }
}

/// Fronts of many sizes, up to several hundred columns.
Problem multiscale(std::int64_t boxes, std::int64_t units, std::int64_t side) {
  const std::vector<Interval> square{{0, 1}, {0, 1}};
  Problem problem(Boxes::regular(square, {boxes, boxes}, 2.9), {.hidden = {units}});
  problem.constrain([](auto x, auto u) {
    return tanh(x[0] * 16) * tanh((1 - x[0]) * 16) * tanh(x[1] * 16) * tanh((1 - x[1]) * 16) * u;
  });
  problem.add("interior", grid(square, {side * boxes, side * boxes}),
              [](Coordinates x, const auto& u) {
                double f = 0;
                for (double w = 2; w <= 16; w *= 2) {
                  f += w * w * std::sin(w * pi * x[0]) * std::sin(w * pi * x[1]);
                }
                return u(0, 0) + u(1, 1) + pi * pi / 2 * f;
              });
  return problem;
}

TEST_F(DeviceBoxes, ManyFronts_HaveTheSolutionOfTheCpuAndTheirBitsAgain) {
  Mesh gpu = make_mesh(1);
  Mesh cpu = Mesh::host(4);
  const Problem problem = multiscale(16, 24, 11);
  const Trained expected = least_squares(cpu, problem);
  const Trained trained = least_squares(gpu, problem);
  EXPECT_TRUE(trained.outcome.ok());
  EXPECT_EQ(trained.rank, expected.rank);
  // Two solutions as good as each other differ by 1e-11 to 2e-9, as the unknowns of a box are many.
  EXPECT_LT(trained.certificate, 3 * expected.certificate);
  const std::vector<double> points = grid({{0, 1}, {0, 1}}, {57, 59});
  const std::vector<double> u = trained.evaluate(gpu, points);
  expect_near(u, expected.evaluate(cpu, points), 1e-8);
  for (int time = 0; time < 3; ++time) {
    Mesh again = make_mesh(1, 7 + time);  // with delays
    EXPECT_EQ(least_squares(again, problem).last_layer, trained.last_layer);
  }
  EXPECT_EQ(trained.evaluate(gpu, points, 500), u);
}

TEST_F(DeviceBoxes, SeveralGpus_HaveTheStepsOfTheCpu) {
  for (const std::int64_t ranks : {2, 4}) {
    Mesh mesh = make_mesh(ranks);
    const RunOptions run;
    sparse::Workers workers = on_ranks(mesh, run);
    for (const sparse::JointFronts& joint :
         {workers.joint_fronts, sparse::JointFronts{0, 64, 64}, sparse::JointFronts{0, 128, 128}}) {
      workers.joint_fronts = joint;
      expect_same_steps(cases()[6], workers);
      expect_same_steps(cases().back(), workers);
      expect_same_steps(grid_of_boxes(), workers);
    }
  }
}

TEST_F(DeviceBoxes, SeveralGpus_HaveTheSolutionOfOneAndTheirBitsAgain) {
  Mesh gpu = make_mesh(1);
  const Problem problem = multiscale(16, 24, 11);
  const Trained expected = least_squares(gpu, problem);
  const std::vector<double> points = grid({{0, 1}, {0, 1}}, {57, 59});
  const std::vector<double> u = expected.evaluate(gpu, points);
  for (const std::int64_t ranks : {2, 4}) {
    Mesh mesh = make_mesh(ranks);
    const Trained trained = least_squares(mesh, problem);
    EXPECT_TRUE(trained.outcome.ok());
    EXPECT_EQ(trained.rank, expected.rank);
    EXPECT_LT(trained.certificate, 1e-8);
    expect_near(trained.evaluate(mesh, points, 700), u, 1e-10);
    for (int time = 0; time < 2; ++time) {
      Mesh again = make_mesh(ranks, 7 + time);  // with delays
      EXPECT_EQ(least_squares(again, problem).last_layer, trained.last_layer);
    }
  }
}

/// Joint fronts of several tiles, as large problems have them, with fast kernels.
TEST_F(DeviceBoxes, JointFronts_HaveTheSolutionOfOneGpu) {
  const Problem problem = multiscale(16, 24, 11);
  const TrainingGeometry geometry(problem.boxes(), problem.jet_set(), 1,
                                  grid(std::vector<Interval>{{0, 1}, {0, 1}}, {11 * 16, 11 * 16}),
                                  {{11 * 16 * 11 * 16, 1}}, {});
  const std::vector<double> hidden =
      problem.mlp().random_weights(2, problem.boxes().count(), 4, 1.0);
  const std::vector<double> derivatives = numbers(geometry.derivatives, 2);
  const std::vector<double> residual = numbers(geometry.rows, 5);
  const RunOptions run;
  const auto step = [&](std::int64_t ranks, const sparse::JointFronts& joint) {
    Mesh mesh = make_mesh(ranks);
    sparse::Workers workers = on_ranks(mesh, run);
    workers.joint_fronts = joint;
    return linear_step(geometry, problem.mlp(), hidden, derivatives, {}, residual, 1e-6, workers);
  };
  const LinearStep expected = step(1, {});
  for (const std::int64_t ranks : {2, 4}) {
    const LinearStep found = step(ranks, {.least_flops = 1e7, .tile = 128, .round = 128});
    ASSERT_TRUE(found.is_factored);
    EXPECT_EQ(found.rank, expected.rank);
    expect_near(found.residual, expected.residual, 1e-10);
    EXPECT_EQ(step(ranks, {.least_flops = 1e7, .tile = 128, .round = 128}).change, found.change);
  }
}

}  // namespace
}  // namespace shardsolve::testing::boxes_on_device
