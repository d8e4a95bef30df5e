// Networks in boxes by the GPU's kernels against those of the CPU.

#include "fbpinn/on_ranks.hpp"
#include "kernels/emulated_gpu.hpp"
#include "kernels/orders.hpp"
#include "tests/support/box_cases.hpp"

#include <shardsolve/fbpinn.hpp>

#include <gtest/gtest.h>

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
