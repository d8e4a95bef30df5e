/// The secular equation, and what kernels are told of it. Seen by the compilers on both sides:
/// nothing here is more than numbers.
#pragma once

#include <cstdint>

namespace shardsolve::runtime {

/// Eigenvalues of diag(poles) + rho w w^T are the roots of
///   1 / rho + sum_i w_i^2 / (d_i - x) = 0:
/// root i lies between d_i and d_{i+1}, the last one above all poles.
template <class Real>
struct SecularEquation {
  const Real* poles = nullptr;    ///< d, ascending, no two the same
  const Real* weights = nullptr;  ///< w, none 0
  std::int64_t count = 0;
  Real rho = 0;  ///< positive
};

/// A root is poles[origin] + offset. The offset has all its digits, the sum has not: distances from
/// a root to poles are (poles[origin] - d_i) + offset.
template <class Real>
struct SecularRoot {
  static constexpr std::int64_t not_found = -1;

  Real offset = 0;
  std::int64_t origin = not_found;  ///< of the two poles beside it the nearer one
};

/// Columns x, y of a matrix become c x + s y, c y - s x.
template <class Real>
struct ColumnRotation {
  std::int64_t x = 0;
  std::int64_t y = 0;
  Real c = 1;
  Real s = 0;
};

}  // namespace shardsolve::runtime
