/// How large the entries of solutions are beside each other.
#pragma once

#include "mesh/rank.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardsolve::dense {

/// max_j |x_ij| / ||x_j|| of each of this rank's rows, for columns whose largest entries, over all
/// ranks, are `maxima`. Waits: not for loops.
template <Scalar T>
std::vector<double> shape_of(mesh::Rank& rank, MatrixView<const T> x,
                             const std::vector<double>& maxima) {
  std::vector<double> shape(static_cast<std::size_t>(x.rows()), 0.0);
  for (std::int64_t j = 0; j < x.columns(); ++j) {
    const double largest = maxima[static_cast<std::size_t>(j)];
    if (largest == 0.0 || x.rows() == 0) {
      continue;
    }
    const std::vector<T> column = rank.fetch(rank.update(), &x(0, j), x.rows());
    for (std::size_t i = 0; i < shape.size(); ++i) {
      shape[i] = std::max(shape[i], double{std::abs(column[i])} / largest);
    }
  }
  return shape;
}

}  // namespace shardsolve::dense
