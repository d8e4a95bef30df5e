/// Matrices of dense blocks on graphs of many kinds.
#pragma once

#include "matgen/philox.hpp"
#include "sparse/block_graph.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <utility>
#include <vector>

namespace shardsolve::testing::block_matrices {

using sparse::BlockGraph;

inline double number(std::int64_t i, std::int64_t j) {
  return matgen::uniform_pair(5, matgen::Stream::matrix, i, j)[0];
}

inline BlockGraph make_graph(std::int64_t blocks, const std::set<std::pair<int, int>>& edges) {
  BlockGraph graph;
  for (std::int64_t block = 0; block < blocks; ++block) {
    graph.sizes.push_back(1 + block * 7 % 5);
    graph.neighbour_begin.push_back(static_cast<std::int64_t>(graph.neighbours.size()));
    for (std::int64_t other = 0; other < blocks; ++other) {
      if (edges.contains({static_cast<int>(std::min(block, other)),
                          static_cast<int>(std::max(block, other))}) &&
          other != block) {
        graph.neighbours.push_back(static_cast<std::int32_t>(other));
      }
    }
  }
  graph.neighbour_begin.push_back(static_cast<std::int64_t>(graph.neighbours.size()));
  return graph;
}

/// Blocks on a square grid, neighbours up to two places away.
inline BlockGraph grid_graph(int edge, bool with_coordinates) {
  std::set<std::pair<int, int>> edges;
  for (int a = 0; a < edge * edge; ++a) {
    for (int b = a + 1; b < edge * edge; ++b) {
      if (std::abs(a / edge - b / edge) <= 2 && std::abs(a % edge - b % edge) <= 2) {
        edges.insert({a, b});
      }
    }
  }
  BlockGraph graph = make_graph(edge * edge, edges);
  if (with_coordinates) {
    graph.axes = 2;
    for (int block = 0; block < edge * edge; ++block) {
      graph.coordinates.push_back(block / edge);
      graph.coordinates.push_back(block % edge);
    }
  }
  return graph;
}

inline BlockGraph random_graph(int blocks, double share) {
  std::set<std::pair<int, int>> edges;
  for (int a = 0; a < blocks; ++a) {
    for (int b = a + 1; b < blocks; ++b) {
      if (std::abs(number(a, b)) < share) {
        edges.insert({a, b});
      }
    }
  }
  return make_graph(blocks, edges);
}

/// All graphs that are tested.
inline std::vector<BlockGraph> graphs() {
  std::vector<BlockGraph> result{make_graph(0, {}),     make_graph(1, {}),    make_graph(9, {}),
                                 grid_graph(7, true),   grid_graph(7, false), random_graph(30, 0.1),
                                 random_graph(30, 0.5), random_graph(12, 2.0)};
  // One block that all others know, and one without columns.
  BlockGraph& last = result.emplace_back(grid_graph(5, true));
  const auto blocks = static_cast<int>(last.count());
  std::set<std::pair<int, int>> edges;
  for (int a = 0; a < blocks; ++a) {
    edges.insert({a, blocks});
    for (const std::int32_t b : last.neighbours_of(a)) {
      edges.insert({std::min(a, b), std::max(a, b)});
    }
  }
  const std::vector<double> coordinates = last.coordinates;
  last = make_graph(blocks + 1, edges);
  last.axes = 2;
  last.coordinates = coordinates;
  last.coordinates.insert(last.coordinates.end(), {2.0, 2.0});
  last.sizes[3] = 0;
  return result;
}

/// A positive definite matrix with these blocks, dense.
template <Scalar T>
class TestMatrix {
 public:
  explicit TestMatrix(const BlockGraph& graph)
      : graph_(graph), offsets_(graph.offsets()), n_(graph.columns()) {
    entries_.resize(static_cast<std::size_t>(n_ * n_));
    for (std::int64_t block = 0; block < graph.count(); ++block) {
      fill(block, block);
      for (const std::int32_t other : graph.neighbours_of(block)) {
        fill(other, block);
      }
    }
    for (std::int64_t i = 0; i < n_; ++i) {
      double sum = 0;
      for (std::int64_t j = 0; j < n_; ++j) {
        sum += std::abs(at(i, j));
      }
      at(i, i) = static_cast<RealOf<T>>(sum + 1);
    }
  }
  std::int64_t size() const { return n_; }
  T& at(std::int64_t i, std::int64_t j) { return entries_[static_cast<std::size_t>(j * n_ + i)]; }
  T at(std::int64_t i, std::int64_t j) const {
    return entries_[static_cast<std::size_t>(j * n_ + i)];
  }
  void add(std::int32_t row, std::int32_t column, MatrixView<T> target) const {
    for (std::int64_t j = 0; j < target.columns(); ++j) {
      for (std::int64_t i = 0; i < target.rows(); ++i) {
        target(i, j) += at(offsets_[static_cast<std::size_t>(row)] + i,
                           offsets_[static_cast<std::size_t>(column)] + j);
      }
    }
  }

 private:
  void fill(std::int64_t row, std::int64_t column) {
    for (std::int64_t i = offsets_[static_cast<std::size_t>(row)];
         i < offsets_[static_cast<std::size_t>(row) + 1]; ++i) {
      for (std::int64_t j = offsets_[static_cast<std::size_t>(column)];
           j < offsets_[static_cast<std::size_t>(column) + 1]; ++j) {
        if constexpr (is_complex<T>) {
          const auto low = static_cast<RealOf<T>>(number(std::max(i, j), std::min(i, j)));
          at(i, j) = T(low, i == j ? 0 : i > j ? low : -low);
        } else {
          at(i, j) = static_cast<T>(number(std::max(i, j), std::min(i, j)));
        }
      }
    }
  }

  const BlockGraph& graph_;
  std::vector<std::int64_t> offsets_;
  std::int64_t n_;
  std::vector<T> entries_;
};

}  // namespace shardsolve::testing::block_matrices
