/// What a factor leaves of A, for kernels that take all of it at once.
#pragma once

#include <shardsolve/matrix_view.hpp>

#include <cstdint>

namespace shardsolve::runtime {

/// A rank's columns of a Hermitian matrix of which only the diagonal and the entries above it, in
/// elimination order, are there.
template <class T, class Real>
struct UpperPart {
  static constexpr std::int32_t most_ranks = 64;

  MatrixView<const T> slab;
  const Real* diagonal = nullptr;  ///< of the whole matrix's diagonal this rank's part
  std::int32_t rank = 0;
  std::int32_t ranks = 0;
  std::int64_t begin[most_ranks + 1] = {};  ///< first row of each rank's segment, and n
  std::int64_t tile = 0;
  /// In device memory: for each block of `tile` columns and each rank, how many rows of the rank's
  /// segment were eliminated before the block; in the own segment a column's number says it.
  const std::int64_t* eliminated = nullptr;
};

}  // namespace shardsolve::runtime
