// Fronts by the GPU's kernels against those of the CPU.

#include "kernels/emulated_gpu.hpp"
#include "kernels/orders.hpp"
#include "matgen/philox.hpp"
#include "sparse/block_cholesky.hpp"
#include "sparse/fronts_on_device.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <utility>
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

TEST(EmulatedFronts, WideFront_SolutionIsThatOfTheCpu) {
  const BlockGraph graph = grid_graph(1, 730);
  ASSERT_GE(graph.columns() * graph.columns(), runtime::wide_panel);
  const BlockMatrix matrix(graph);
  const std::vector<double> b = right_hand_side(graph);
  const Result expected = on_cpu(graph, matrix, b);
  const Result result = on_gpu(graph, matrix, b);
  ASSERT_FALSE(expected.failure || result.failure);
  expect_near(result.x, expected.x);
}

/// Two fronts whose outer columns are some of a third one's, which has outer ones as well; L dense
/// and as the fronts have it. The last columns are nobody's own: they stand for fronts above.
class ThreeFronts {
 public:
  ThreeFronts(std::array<int, 3> own, int border, bool are_wide) : own_(own), border_(border) {
    first_ = {0, own[0], own[0] + own[1]};
    const int n = columns();
    l_.assign(static_cast<std::size_t>(n * n), 0.0);
    for (std::size_t f = 0; f < fronts_.size(); ++f) {
      make(f, are_wide);
    }
    for (runtime::FrontBatch* const batch : {&children_, &parent_}) {
      batch->all = fronts_.data();
      batch->wide_own = are_wide ? *std::max_element(own.begin(), own.end()) : 0;
      for (const runtime::DeviceFront& front : fronts_) {
        batch->wide_columns = std::max<std::int64_t>(batch->wide_columns, front.own + front.outer);
      }
    }
    children_.count = 2;
    parent_.first = 2;
    parent_.count = 1;
  }

  int columns() const { return first_[2] + own_[2] + border_; }
  double l(int i, int j) const { return l_[static_cast<std::size_t>(i * columns() + j)]; }
  /// What is left for the columns of the border.
  std::vector<double> left() const {
    const double* const from = local_[2].data() + own_[2];
    return {from, from + border_};
  }

  void solve_forward(std::vector<double>& x) const {
    runtime::cuda::FrontDeviceKernels::solve_forward(nullptr, children_, x.data());
    runtime::cuda::FrontDeviceKernels::solve_forward(nullptr, parent_, x.data());
  }
  void solve_back(std::vector<double>& x) const {
    runtime::cuda::FrontDeviceKernels::solve_back(nullptr, parent_, x.data());
    runtime::cuda::FrontDeviceKernels::solve_back(nullptr, children_, x.data());
  }

 private:
  void make(std::size_t f, bool is_wide) {
    for (int k = 0; k < own_[f]; ++k) {
      places_[f].push_back(first_[f] + k);
    }
    const int of_parent = own_[2] + border_;
    for (int k = 0; k < of_parent; ++k) {
      // The children have two thirds of the parent's columns, not the same ones.
      if (f == 2 ? k >= own_[2] : k % 3 != static_cast<int>(f)) {
        places_[f].push_back(first_[2] + k);
        in_parent_[f].push_back(k);
      }
    }
    const auto height = static_cast<int>(places_[f].size());
    panel_[f].assign(static_cast<std::size_t>(height * own_[f]), 0.0);
    for (int j = 0; j < own_[f]; ++j) {
      for (int i = j; i < height; ++i) {
        const double value = i == j ? 8.0 + j % 5 : number(i + 3, j + 7 * static_cast<int>(f));
        panel_[f][static_cast<std::size_t>(j * height + i)] = value;
        l_[static_cast<std::size_t>(places_[f][static_cast<std::size_t>(i)] * columns() +
                                    places_[f][static_cast<std::size_t>(j)])] = value;
      }
    }
    local_[f].assign(static_cast<std::size_t>(height), std::nan(""));
    fronts_[f] = {.panel = panel_[f].data(),
                  .rest = nullptr,
                  .local = local_[f].data(),
                  .places = places_[f].data(),
                  .parent_columns = in_parent_[f].data(),
                  .children = f == 2 ? numbers_.data() : nullptr,
                  .children_count = f == 2 ? 2 : 0,
                  .parent = f == 2 ? -1 : 2,
                  .own = own_[f],
                  .outer = height - own_[f],
                  .is_wide = is_wide ? 1 : 0};
  }

  std::array<int, 3> own_;
  int border_;
  std::array<int, 3> first_{};
  std::vector<double> l_;
  std::array<std::int32_t, 2> numbers_{0, 1};
  std::array<std::vector<std::int32_t>, 3> places_;
  std::array<std::vector<std::int32_t>, 3> in_parent_;
  std::array<std::vector<double>, 3> panel_;
  std::array<std::vector<double>, 3> local_;
  std::array<runtime::DeviceFront, 3> fronts_{};
  runtime::FrontBatch children_;
  runtime::FrontBatch parent_;
};

/// Forward, which leaves what `left` says, and back with the border's numbers as they are.
struct Substituted {
  std::vector<double> x;
  std::vector<double> left;
};

Substituted by_kernels(const ThreeFronts& fronts, std::vector<double> x) {
  fronts.solve_forward(x);
  std::vector<double> left = fronts.left();
  fronts.solve_back(x);
  return {std::move(x), std::move(left)};
}

Substituted column_by_column(const ThreeFronts& fronts, int border, std::vector<double> x) {
  const int n = fronts.columns();
  const int own = n - border;
  std::vector<double> left(static_cast<std::size_t>(border), 0.0);
  for (int j = 0; j < own; ++j) {
    double& xj = x[static_cast<std::size_t>(j)];
    xj /= fronts.l(j, j);
    for (int i = j + 1; i < n; ++i) {
      double& to =
          i < own ? x[static_cast<std::size_t>(i)] : left[static_cast<std::size_t>(i - own)];
      to -= fronts.l(i, j) * xj;
    }
  }
  for (int j = own - 1; j >= 0; --j) {
    double& xj = x[static_cast<std::size_t>(j)];
    for (int i = j + 1; i < n; ++i) {
      xj -= fronts.l(i, j) * x[static_cast<std::size_t>(i)];
    }
    xj /= fronts.l(j, j);
  }
  return {std::move(x), std::move(left)};
}

TEST(EmulatedFronts, SubstitutionsOfWideFronts_AreThoseColumnByColumn) {
  struct Case {
    std::array<int, 3> own;
    int border;
  };
  // Within a tile of 64, whole tiles, beside them; a child with no own columns.
  for (const Case& one : {Case{{1, 5, 3}, 0}, Case{{64, 128, 64}, 64}, Case{{65, 30, 130}, 7},
                          Case{{200, 0, 63}, 129}}) {
    for (const bool are_wide : {false, true}) {
      SCOPED_TRACE(fmt::format("own {}, border {}, {}", fmt::join(one.own, " "), one.border,
                               are_wide ? "wide" : "not wide"));
      const ThreeFronts fronts(one.own, one.border, are_wide);
      std::vector<double> b;
      for (int i = 0; i < fronts.columns(); ++i) {
        b.push_back(number(i, i + 1));
      }
      const Substituted expected = column_by_column(fronts, one.border, b);
      const Substituted found = by_kernels(fronts, b);
      expect_near(found.x, expected.x);
      expect_near(found.left, expected.left);
      in_each_order([&] {
        const Substituted again = by_kernels(fronts, b);
        EXPECT_EQ(again.x, found.x);
        EXPECT_EQ(again.left, found.left);
      });
    }
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
