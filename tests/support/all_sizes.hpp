/// Numbers of all sizes, and what each is in the other precision.
#pragma once

#include "reference/dense_matrix.hpp"

#include <shardsolve/dtype.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>

namespace shardsolve::testing {

/// Entries that float has, rounds, overflows or underflows, of both signs; no NaN.
template <Scalar T>
reference::DenseMatrix<T> of_all_sizes(std::int64_t rows, std::int64_t columns) {
  using Real = RealOf<T>;
  const double sizes[] = {0.0,           1.0,
                          1.0 / 3.0,     3.4028235677973366e38,
                          3.4028235e38,  1e300,
                          1e-40,         1e-300,
                          1e-46,         -2.0 / 7.0,
                          -1e39,         -1e300,
                          1.0 + 0x1p-24, std::numeric_limits<double>::infinity()};
  constexpr std::int64_t count = std::size(sizes);
  const auto size = [&](std::int64_t i) { return static_cast<Real>(sizes[i % count]); };
  reference::DenseMatrix<T> a(rows, columns);
  for (std::int64_t j = 0; j < columns; ++j) {
    for (std::int64_t i = 0; i < rows; ++i) {
      if constexpr (is_complex<T>) {
        a(i, j) = T(size(i + 3 * j), size(5 * i + j + 4));
      } else {
        a(i, j) = size(i + 3 * j);
      }
    }
  }
  return a;
}

/// The number of the other precision that is nearest to x, as IEEE 754 has it.
template <class Real, class From>
Real nearest(From x) {
  if constexpr (sizeof(Real) >= sizeof(From)) {
    return Real{x};
  } else {
    const double largest{std::numeric_limits<Real>::max()};
    const double half_beyond = std::ldexp(1.0, 128) - std::ldexp(1.0, 103);
    if (std::abs(x) >= half_beyond) {
      return std::copysign(std::numeric_limits<Real>::infinity(),
                           static_cast<Real>(x < 0 ? -1 : 1));
    }
    if (std::abs(x) > largest) {
      return std::copysign(std::numeric_limits<Real>::max(), static_cast<Real>(x < 0 ? -1 : 1));
    }
    int exponent = 0;
    std::frexp(x, &exponent);
    // The spacing of floats there: 24 digits, and none below 2^-149.
    const int last = std::max(exponent - 24, -149);
    return static_cast<Real>(std::ldexp(std::nearbyint(std::ldexp(x, -last)), last));
  }
}

template <Scalar T, Scalar From>
T in_precision_of(From x) {
  using Real = RealOf<T>;
  if constexpr (is_complex<T>) {
    return {nearest<Real>(x.real()), nearest<Real>(x.imag())};
  } else {
    return nearest<Real>(x);
  }
}

}  // namespace shardsolve::testing
