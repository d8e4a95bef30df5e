/// The arithmetic that oracles accumulate in: more digits than the dtype, and a wider range, so
/// that products of tiny or huge matrices need no scaling.
#pragma once

#include <shardsolve/dtype.hpp>

#include <cmath>
#include <complex>
#include <limits>
#include <type_traits>

namespace shardsolve::reference {

/// double for float32 and complex64, long double for float64 and complex128.
template <Scalar T>
using WideReal = std::conditional_t<std::is_same_v<RealOf<T>, float>, double, long double>;

/// WideReal, or its complex number.
template <Scalar T>
using Wide = std::conditional_t<is_complex<T>, std::complex<WideReal<T>>, WideReal<T>>;

static_assert(std::numeric_limits<long double>::digits > std::numeric_limits<double>::digits &&
                  std::numeric_limits<long double>::max_exponent >
                      std::numeric_limits<double>::max_exponent,
              "float64 oracles need a long double with more digits and a wider range than double");

template <Scalar T>
Wide<T> widen(T a) {
  return static_cast<Wide<T>>(a);
}

template <Scalar T>
T narrow(Wide<T> a) {
  return static_cast<T>(a);
}

template <class W>
W conjugate(W a) {
  if constexpr (std::is_floating_point_v<W>) {
    return a;
  } else {
    return std::conj(a);
  }
}

/// a * b without the repair of infinities that makes std::complex's product several times slower.
template <class W>
W product(W a, W b) {
  if constexpr (std::is_floating_point_v<W>) {
    return a * b;
  } else {
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
  }
}

/// The larger one; unlike std::max, NaN when either is.
template <class Real>
Real larger(Real a, Real b) {
  return a >= b || std::isnan(a) ? a : b;
}

}  // namespace shardsolve::reference
