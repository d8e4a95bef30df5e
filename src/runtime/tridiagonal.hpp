/// Tridiagonal matrices as kernels are told of them. Seen by the compilers on both sides: nothing
/// here is more than numbers.
#pragma once

#include <cstdint>

namespace shardsolve::runtime {

/// A symmetric tridiagonal matrix of order `order`, in device memory.
template <class Real>
struct Tridiagonal {
  const Real* diagonal = nullptr;      ///< `order` numbers
  const Real* off_diagonal = nullptr;  ///< one fewer
  std::int64_t order = 0;
};

/// Some of the diagonal blocks of a tridiagonal matrix, none of which has more rows than
/// TridiagonalKernels::max_small.
struct SmallParts {
  /// In device memory: first row and end of each, 2 count numbers. Null: one part, of all rows.
  const std::int64_t* bounds = nullptr;
  std::int64_t count = 1;
  double cubes = 0;  ///< sum of the cubes of their numbers of rows
};

}  // namespace shardsolve::runtime
