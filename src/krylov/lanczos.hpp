/// Extreme eigenvalues of Hermitian matrices on the host, by Lanczos steps. C. Lanczos, J. Res.
/// Nat. Bur. Standards 45 (1950) 255; Y. Saad, Numerical Methods for Large Eigenvalue Problems
/// (2011), section 6.3.
#pragma once

#include <shardsolve/dtype.hpp>
#include <shardsolve/sparse.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve::krylov {

/// A symmetric tridiagonal matrix: its eigenvalues are Ritz values.
struct Tridiagonal {
  std::vector<double> diagonal;
  std::vector<double> off_diagonal;  ///< one less, or as many: the last one is not looked at

  std::int64_t size() const { return static_cast<std::int64_t>(diagonal.size()); }
};

/// Eigenvalue number `which`, counted from the least, to rounding: by bisection, O(size) a step.
/// 0 <= which < size; all entries are finite.
double eigenvalue(const Tridiagonal& matrix, std::int64_t which);

/// At most `steps` Lanczos steps for D^-1 A in the scalar product of D, from a fixed vector of
/// random numbers: fewer where the space is exhausted. A: Hermitian and in order; D: positive, one
/// a row, or empty for D = I. Steps are not orthogonalised again, so that extreme eigenvalues are
/// good and others may come twice. Ends before a number that is not finite.
template <Scalar T>
Tridiagonal lanczos(const CsrMatrix<T>& a, const std::vector<double>& d, std::int64_t steps);

}  // namespace shardsolve::krylov
