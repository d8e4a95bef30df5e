// Block Cholesky against the dense one, and the order of elimination.

#include "sparse/block_cholesky.hpp"

#include "sparse/block_graph.hpp"
#include "sparse/elimination_tree.hpp"
#include "tests/support/block_matrices.hpp"
#include "tests/support/dtypes.hpp"
#include "tests/support/thrown.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <thread>
#include <vector>

namespace shardsolve::sparse {
namespace {

using testing::expect_error;

using namespace testing::block_matrices;

/// Threads that take pieces in turn.
void on_threads(std::int64_t count, const std::function<void(std::int64_t)>& work) {
  std::vector<std::thread> threads;
  for (std::int64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (std::int64_t i = t; i < count; i += 3) {
        work(i);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

template <Scalar T>
class SparseBlockCholesky : public ::testing::Test {};
TYPED_TEST_SUITE(SparseBlockCholesky, testing::Dtypes);

TYPED_TEST(SparseBlockCholesky, AnyGraph_SolvesAndHasTheSameBitsOnAnyNumberOfWorkers) {
  using T = TypeParam;
  for (const BlockGraph& graph : graphs()) {
    graph.require_valid();
    const TestMatrix<T> matrix(graph);
    const std::int64_t n = matrix.size();
    constexpr std::int64_t k = 2;
    std::vector<T> b(static_cast<std::size_t>(n * k));
    for (std::int64_t i = 0; i < n * k; ++i) {
      b[static_cast<std::size_t>(i)] =
          static_cast<RealOf<T>>(number(i, -1 + (std::int64_t{1} << 40)));
    }
    const auto add = [&](std::int32_t i, std::int32_t j, MatrixView<T> target) {
      matrix.add(i, j, target);
    };
    BlockCholesky<T> factor(graph, nested_dissection(graph));
    ASSERT_FALSE(factor.factor(add));
    std::vector<T> x = b;
    factor.solve(MatrixView<T>(x.data(), n, k));
    for (std::int64_t column = 0; column < k; ++column) {
      for (std::int64_t i = 0; i < n; ++i) {
        T sum{};
        double size = 0;
        for (std::int64_t j = 0; j < n; ++j) {
          const T part = matrix.at(i, j) * x[static_cast<std::size_t>(column * n + j)];
          sum += part;
          size += std::abs(part);
        }
        ASSERT_LE(std::abs(sum - b[static_cast<std::size_t>(column * n + i)]),
                  50 * unit_roundoff<T> * (1 + size));
      }
    }
    for (const std::int64_t workers : {2, 3, 8}) {
      BlockCholesky<T> shared(graph, nested_dissection(graph));
      const Workers team{.count = workers,
                         .each = on_threads,
                         .share = [](std::int64_t count, const auto& work, const auto& /*tell*/) {
                           on_threads(count, work);
                         }};
      ASSERT_FALSE(shared.factor(add, team));
      std::vector<T> y = b;
      shared.solve(MatrixView<T>(y.data(), n, k), team);
      ASSERT_EQ(y, x) << workers << " workers";
    }
  }
}

TYPED_TEST(SparseBlockCholesky, IndefiniteMatrix_NamesTheBlockAndItsColumn) {
  using T = TypeParam;
  const BlockGraph graph = grid_graph(6, true);
  TestMatrix<T> matrix(graph);
  const std::int64_t row = graph.offsets()[17] + 1;
  matrix.at(row, row) = -1;
  BlockCholesky<T> factor(graph, nested_dissection(graph));
  const auto pivot = factor.factor(
      [&](std::int32_t i, std::int32_t j, MatrixView<T> target) { matrix.add(i, j, target); });
  ASSERT_TRUE(pivot);
  EXPECT_EQ(pivot->block, 17);
  EXPECT_EQ(pivot->column, 1);
}

TEST(SparseEliminationTree, AnyGraph_HasAllBlocksOnceAndBordersAmongTheAncestors) {
  for (const BlockGraph& graph : graphs()) {
    const EliminationTree tree = nested_dissection(graph);
    std::vector<int> seen(static_cast<std::size_t>(graph.count()));
    for (std::size_t n = 0; n < tree.nodes.size(); ++n) {
      const FrontNode& node = tree.nodes[n];
      for (const std::int32_t block : node.blocks) {
        ++seen[static_cast<std::size_t>(block)];
      }
      for (const std::int32_t child : node.children) {
        ASSERT_LT(static_cast<std::size_t>(child), n);
        ASSERT_EQ(tree.nodes[static_cast<std::size_t>(child)].parent, static_cast<std::int32_t>(n));
      }
      for (const std::int32_t block : node.border) {
        std::int32_t above = node.parent;
        const std::int32_t home = tree.node_of[static_cast<std::size_t>(block)];
        while (above >= 0 && above != home) {
          above = tree.nodes[static_cast<std::size_t>(above)].parent;
        }
        ASSERT_EQ(above, home);
      }
    }
    for (const int times : seen) {
      ASSERT_EQ(times, 1);
    }
  }
}

TEST(SparseEliminationTree, LargeGrid_CostsFarLessThanABandAndThatLessThanDense) {
  BlockGraph graph = grid_graph(24, true);
  std::fill(graph.sizes.begin(), graph.sizes.end(), 30);
  const FactorCost nested = cost_of(nested_dissection(graph));
  const FactorCost band = band_cost(graph);
  const FactorCost dense = dense_cost(graph);
  EXPECT_LT(nested.flops, 0.8 * band.flops);
  EXPECT_LT(band.flops, 0.1 * dense.flops);
  // Distances in the graph are about as good as coordinates.
  graph.axes = 0;
  graph.coordinates.clear();
  EXPECT_LT(cost_of(nested_dissection(graph)).flops, 2 * nested.flops);
}

TEST(SparseBlockGraph, WrongOnes_AreRefused) {
  const auto refused = [](BlockGraph graph, const std::vector<std::string>& words) {
    expect_error([&] { graph.require_valid(); }, ErrorKind::invalid_argument, words);
  };
  refused({.sizes = {1, 1}, .neighbour_begin = {0, 1}, .neighbours = {1}}, {"2 blocks"});
  refused({.sizes = {1, 1}, .neighbour_begin = {0, 1, 1}, .neighbours = {1}},
          {"block 0", "neighbour 1", "not have it"});
  refused({.sizes = {1, -1}, .neighbour_begin = {0, 0, 0}}, {"block 1", "-1 columns"});
  refused({.sizes = {1}, .neighbour_begin = {0, 1}, .neighbours = {0}}, {"neighbour 0"});
  refused({.sizes = {1}, .neighbour_begin = {0, 0}, .axes = 2, .coordinates = {1}},
          {"1 coordinates", "2 each"});
}

}  // namespace
}  // namespace shardsolve::sparse
