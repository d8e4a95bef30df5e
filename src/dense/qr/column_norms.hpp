/// 2-norms of columns whose rows lie on all ranks.
#pragma once

#include "mesh/rank.hpp"
#include "programs/gather.hpp"
#include "runtime/qr_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardsolve::dense::qr {

/// Of each column, in range or not; the same on all ranks, added in rank order. Waits.
template <Scalar T>
std::vector<double> column_norms(mesh::Rank& rank, MatrixView<const T> a) {
  const MatrixView<double> sizes = rank.workspace<double>(2, a.columns());
  rank.kernels<runtime::QrKernels<T>>().column_sizes(rank.update(), a, sizes.data());
  const auto of_ranks =
      programs::gather_from_all(rank, rank.fetch(rank.update(), sizes.data(), 2 * a.columns()));
  std::vector<double> norms;
  for (std::size_t j = 0; j < static_cast<std::size_t>(a.columns()); ++j) {
    double most = 0.0;
    for (const auto& one : of_ranks) {
      most = programs::largest(most, one[2 * j]);
    }
    double sum = 0.0;
    for (const auto& one : of_ranks) {
      const double part = most > 0.0 ? one[2 * j] / most : 0.0;
      sum += part * part * one[2 * j + 1];
    }
    norms.push_back(std::isnan(most) ? most : most * std::sqrt(sum));
  }
  return norms;
}

}  // namespace shardsolve::dense::qr
