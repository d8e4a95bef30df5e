// Bounds for Chebyshev polynomials in A.

#include "core/each_dtype.hpp"
#include "krylov/lanczos.hpp"
#include "krylov/matrix_figures.hpp"
#include "krylov/spelling.hpp"
#include "sparse/csr_checks.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/krylov.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>

namespace shardsolve::krylov {
namespace bounds {
namespace {

template <Scalar T>
double largest_row_sum(const CsrMatrix<T>& a) {
  double largest = 0.0;
  for (std::size_t row = 0; row < static_cast<std::size_t>(a.rows); ++row) {
    double sum = 0.0;
    for (auto k = static_cast<std::size_t>(a.row_pointers[row]);
         k < static_cast<std::size_t>(a.row_pointers[row + 1]); ++k) {
      sum += static_cast<double>(std::abs(a.values[k]));
    }
    largest = std::max(largest, sum);
  }
  return largest;
}

}  // namespace
}  // namespace bounds

template <Scalar T>
EigenvalueBounds chebyshev_bounds(const CsrMatrix<T>& a, std::int64_t steps) {
  sparse::require_square_in_order(a, "chebyshev");
  if (steps < 1) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("steps = {} given; at least 1 Lanczos step is accepted", steps));
  }
  constexpr double rounding = 1e4;  // in units of u
  const double asymmetry = figures_of(a).asymmetry;
  if (!(asymmetry <= rounding * unit_roundoff<T>)) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("chebyshev is for Hermitian matrices, and ||A - A^H|| / ||A|| of this "
                            "one is {:.1e}; use {} or {}",
                            asymmetry, preconditioner_name("incomplete_lu"),
                            preconditioner_name("block_jacobi")));
  }
  const Tridiagonal ritz = lanczos(a, {}, steps);
  const double least = ritz.size() > 0 ? eigenvalue(ritz, 0) : 0.0;
  const double largest = ritz.size() > 0 ? eigenvalue(ritz, ritz.size() - 1) : 0.0;
  if (!(least > 0.0)) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("chebyshev is for positive definite matrices, and Lanczos steps have "
                            "seen an eigenvalue of {:.1e} in this one, beside {:.1e}; use {}",
                            least, largest, preconditioner_name("block_jacobi")));
  }
  constexpr double unseen = 1.1;
  const double high = std::min(unseen * largest, bounds::largest_row_sum(a));
  return {std::min(least, 0.9 * high), high};
}

#define SHARDSOLVE_INSTANTIATE(T) \
  template EigenvalueBounds chebyshev_bounds(const CsrMatrix<T>&, std::int64_t);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::krylov
