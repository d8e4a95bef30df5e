/// Polar factors from singular values and vectors: what the distributed ones are tested against.
/// For tests only.
#pragma once

#include "reference/qr.hpp"

#include <cstdint>

namespace shardsolve::reference {

/// H = V diag(s) V^H = (A^H A)^(1/2), for m >= n: unique whatever the rank of A is.
template <Scalar T>
WideMatrix<Wide<T>> hermitian_polar_factor(const DenseMatrix<T>& a) {
  const Svd<T> found = svd(a);
  const std::int64_t n = a.columns();
  WideMatrix<Wide<T>> h(n, n);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t k = 0; k < n; ++k) {
        h(i, j) += found.v(i, k) * found.s[static_cast<std::size_t>(k)] * conjugate(found.v(j, k));
      }
    }
  }
  return h;
}

}  // namespace shardsolve::reference
