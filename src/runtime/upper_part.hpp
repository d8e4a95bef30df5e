/// What a factor leaves of A, for kernels that take all of it at once.
#pragma once

#include <shardsolve/matrix_view.hpp>

#include <cstdint>

namespace shardsolve::runtime {

/// A rank's columns of a Hermitian matrix of which only the diagonal and the entries above it, in
/// elimination order, are there.
template <class T, class Real>
struct UpperPart {
  static constexpr std::int32_t max_ranks = 64;

  MatrixView<const T> slab;
  const Real* diagonal = nullptr;  ///< this rank's part of the whole matrix's diagonal
  std::int32_t rank = 0;
  std::int32_t ranks = 0;
  std::int64_t begin[max_ranks + 1] = {};  ///< first row of each rank's segment, and n
  std::int64_t tile = 0;
  /// eliminated[block * ranks + r], in device memory: rows of rank r's segment that were eliminated
  /// before block `block` of `tile` columns. Not used for r == rank: before a column of this rank
  /// come as many rows of its segment as columns of its slab.
  const std::int64_t* eliminated = nullptr;
};

}  // namespace shardsolve::runtime
