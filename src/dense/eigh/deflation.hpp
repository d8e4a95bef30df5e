/// What is left of a merge when its eigenpairs that are eigenpairs already are set aside.
#pragma once

#include "runtime/secular_equation.hpp"

#include <cstdint>
#include <vector>

namespace shardsolve::dense::eigh {

/// Eigenvectors of a part of T stand in columns of Z. Those of its first half are zero in the rows
/// of the second, and the reverse, until a rotation mixes two.
template <class Real>
struct Deflation {
  std::vector<runtime::ColumnRotation<Real>> rotations;  ///< of Z's columns, first of all

  // The secular equation that is left.
  std::vector<Real> poles;
  std::vector<Real> weights;
  Real rho = 0;

  /// Columns of Z: first those that belong to poles, in the order `rows`, then those set aside, by
  /// rising eigenvalue.
  std::vector<std::int64_t> columns;
  std::vector<std::int64_t> rows;  ///< the pole of each
  std::int64_t above = 0;          ///< so many of them are zero in the rows of the second half
  std::int64_t below = 0;          ///< and as many, the last ones, in those of the first
  std::vector<Real> values;        ///< eigenvalues of those set aside

  std::int64_t kept() const { return static_cast<std::int64_t>(poles.size()); }
};

/// For diag(values) + rho z z^T, where the first `middle` values, ascending, are of the first half
/// and the others, ascending, of the second. LAPACK: laed2, with its tolerance 8 u max(|d|, |z|).
/// `rho`: not negative; z has norm 1.
template <class Real>
Deflation<Real> deflate(std::vector<Real> values, std::int64_t middle, std::vector<Real> z,
                        Real rho);

}  // namespace shardsolve::dense::eigh
