// Fronts that processes factor together have the solution of one process.

#include "fbpinn/on_ranks.hpp"
#include "mpi/processes.hpp"
#include "sparse/block_cholesky.hpp"
#include "support/block_matrices.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace shardsolve::testing::joint_fronts {
namespace {

using namespace block_matrices;

TEST(ProcessJointFronts, Solution_IsThatOfOneProcess) {
  Mesh mesh = make_process_mesh();
  const RunOptions run;
  const BlockGraph graph = grid_graph(9, true);
  const TestMatrix<double> matrix(graph);
  const std::int64_t n = graph.columns();
  const auto solve = [&](const sparse::JointFronts& joint, sparse::Workers workers) {
    workers.joint_fronts = joint;
    sparse::BlockCholesky<double> factor(graph, sparse::nested_dissection(graph));
    EXPECT_FALSE(factor.factor(
        [&](std::int32_t i, std::int32_t j, MatrixView<double> to) { matrix.add(i, j, to); },
        workers));
    std::vector<double> x;
    for (std::int64_t i = 0; i < n; ++i) {
      x.push_back(number(i, n));
    }
    factor.solve(MatrixView<double>(x.data(), n, 1), workers);
    return x;
  };
  const std::vector<double> expected = solve({}, {});
  const std::vector<double> x = solve({0, 7}, fbpinn::on_ranks(mesh, run));
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_LE(std::abs(x[i] - expected[i]), 1e-12);
  }
  EXPECT_EQ(solve({0, 7}, fbpinn::on_ranks(mesh, run)), x);
}

}  // namespace
}  // namespace shardsolve::testing::joint_fronts
