// Fronts by the GPU's kernels against those of the CPU.

#include "kernels/emulated_gpu.hpp"
#include "kernels/orders.hpp"
#include "matgen/philox.hpp"
#include "sparse/block_cholesky.hpp"
#include "sparse/fronts_on_device.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <vector>

namespace shardsolve::testing::emulated_fronts {
namespace {

using sparse::BlockGraph;
using sparse::BlockPivot;

double number(std::int64_t i, std::int64_t j) {
  return matgen::uniform_pair(7, matgen::Stream::matrix, i, j)[0];
}

/// Blocks of up to so many columns on a grid, neighbours up to two places away; one has none.
BlockGraph grid_graph(int edge, std::int64_t max_columns, int other_edge = 0) {
  const int rows = other_edge > 0 ? other_edge : edge;
  BlockGraph graph;
  graph.axes = 2;
  for (int a = 0; a < rows * edge; ++a) {
    graph.neighbour_begin.push_back(static_cast<std::int64_t>(graph.neighbours.size()));
    graph.sizes.push_back(a == 3 ? 0 : max_columns - a % 4);
    graph.coordinates.insert(graph.coordinates.end(), {a / edge * 1.0, a % edge * 1.0});
    for (int b = 0; b < rows * edge; ++b) {
      if (b != a && std::abs(a / edge - b / edge) <= 2 && std::abs(a % edge - b % edge) <= 2) {
        graph.neighbours.push_back(b);
      }
    }
  }
  graph.neighbour_begin.push_back(static_cast<std::int64_t>(graph.neighbours.size()));
  return graph;
}

/// A definite matrix, but for one pivot if that is named.
class BlockMatrix {
 public:
  explicit BlockMatrix(const BlockGraph& graph, std::optional<BlockPivot> bad = std::nullopt)
      : graph_(graph), offsets_(graph.offsets()), bad_(bad) {}

  void store(std::int32_t row, std::int32_t column, MatrixView<double> target) const {
    for (std::int64_t j = 0; j < target.columns(); ++j) {
      for (std::int64_t i = row == column ? j : 0; i < target.rows(); ++i) {
        const std::int64_t a = offsets_[static_cast<std::size_t>(row)] + i;
        const std::int64_t b = offsets_[static_cast<std::size_t>(column)] + j;
        const bool is_bad = bad_ && bad_->block == row && bad_->column == i;
        target(i, j) = a == b ? (is_bad ? -1.0 : 40.0) : number(std::min(a, b), std::max(a, b));
      }
    }
  }

 private:
  const BlockGraph& graph_;
  std::vector<std::int64_t> offsets_;
  std::optional<BlockPivot> bad_;
};

struct Result {
  std::optional<BlockPivot> failure;
  std::vector<double> x;
};

Result on_cpu(const BlockGraph& graph, const BlockMatrix& matrix, std::vector<double> b) {
  sparse::BlockCholesky<double> factor(graph, sparse::nested_dissection(graph));
  Result result;
  result.failure =
      factor.factor([&](std::int32_t row, std::int32_t column, MatrixView<double> target) {
        std::vector<double> block(static_cast<std::size_t>(target.rows() * target.columns()));
        const MatrixView<double> view(block.data(), target.rows(), target.columns());
        matrix.store(row, column, view);
        for (std::int64_t j = 0; j < target.columns(); ++j) {
          for (std::int64_t i = 0; i < target.rows(); ++i) {
            target(i, j) += view(i, j);
          }
        }
      });
  if (!result.failure) {
    factor.solve(MatrixView<double>(b.data(), static_cast<std::int64_t>(b.size()), 1));
    result.x = std::move(b);
  }
  return result;
}

Result on_gpu(const BlockGraph& graph, const BlockMatrix& matrix, std::vector<double> b,
              double max_bytes = 1e9) {
  Mesh mesh = emulated_gpu();
  Result result;
  const RunOptions run;
  mesh.state().run(run, [&](mesh::Rank& rank) {
    sparse::FrontsOnDevice fronts(rank, graph, sparse::nested_dissection(graph), max_bytes);
    const auto store = [&] {
      for (const auto& place : fronts.places()) {
        matrix.store(place.row, place.column,
                     MatrixView<double>(place.target, graph.size(place.row),
                                        graph.size(place.column), place.stride));
      }
    };
    result.failure = fronts.factor(store);
    if (!result.failure) {
      fronts.solve(b.data());
      rank.finish(rank.update());
      result.x = std::move(b);
    }
  });
  return result;
}

std::vector<double> right_hand_side(const BlockGraph& graph) {
  std::vector<double> b;
  for (std::int64_t i = 0; i < graph.columns(); ++i) {
    b.push_back(number(i, i + 1));
  }
  return b;
}

void expect_near(const std::vector<double>& x, const std::vector<double>& expected) {
  ASSERT_EQ(x.size(), expected.size());
  double largest = 0.0;
  double difference = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    difference = std::max(difference, std::abs(x[i] - expected[i]));
  }
  EXPECT_LE(difference, 1e-13 * largest);
}

TEST(EmulatedFronts, SolutionsAreThoseOfTheCpu) {
  // Fronts within a square of 64 columns, of whole squares and beside them.
  for (const auto& [edge, columns] : {std::pair(1, 5), {1, 64}, {5, 3}, {6, 17}, {4, 33}}) {
    SCOPED_TRACE(std::to_string(edge) + " x " + std::to_string(columns));
    const BlockGraph graph = grid_graph(edge, columns);
    const BlockMatrix matrix(graph);
    const std::vector<double> b = right_hand_side(graph);
    const Result expected = on_cpu(graph, matrix, b);
    const Result result = on_gpu(graph, matrix, b);
    ASSERT_FALSE(expected.failure || result.failure);
    expect_near(result.x, expected.x);
  }
}

TEST(EmulatedFronts, AnyTurns_GiveTheSameBits) {
  const BlockGraph graph = grid_graph(4, 23);
  const BlockMatrix matrix(graph);
  const std::vector<double> b = right_hand_side(graph);
  const Result expected = on_gpu(graph, matrix, b);
  in_each_order([&] { EXPECT_EQ(on_gpu(graph, matrix, b).x, expected.x); });
}

TEST(EmulatedFronts, LittleMemory_GivesTheSameBits) {
  const BlockGraph graph = grid_graph(2, 9, 60);
  const BlockMatrix matrix(graph);
  const std::vector<double> b = right_hand_side(graph);
  const sparse::EliminationTree tree = sparse::nested_dissection(graph);
  const double most = sparse::schedule_fronts(tree, 1e9).bytes(tree);
  ASSERT_LT(sparse::schedule_fronts(tree, 0.0).bytes(tree), most);
  const Result expected = on_gpu(graph, matrix, b, most);
  EXPECT_EQ(on_gpu(graph, matrix, b, 0.99 * most).x, expected.x);
  EXPECT_EQ(on_gpu(graph, matrix, b, 0.0).x, expected.x);
}

TEST(EmulatedFronts, PivotThatIsNotPositive_IsNamedAsByTheCpu) {
  const BlockGraph graph = grid_graph(4, 21);
  for (const BlockPivot bad : {BlockPivot{0, 0}, BlockPivot{6, 17}, BlockPivot{15, 3}}) {
    const BlockMatrix matrix(graph, bad);
    const Result expected = on_cpu(graph, matrix, right_hand_side(graph));
    const Result result = on_gpu(graph, matrix, right_hand_side(graph));
    ASSERT_TRUE(expected.failure && result.failure);
    EXPECT_EQ(result.failure->block, expected.failure->block);
    EXPECT_EQ(result.failure->column, expected.failure->column);
  }
}

}  // namespace
}  // namespace shardsolve::testing::emulated_fronts
