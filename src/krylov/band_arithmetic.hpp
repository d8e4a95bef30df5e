/// Arithmetic of factors on the host.
#pragma once

#include <shardsolve/dtype.hpp>

#include <complex>

namespace shardsolve::krylov::band {

template <Scalar T>
T conjugate(T x) {
  if constexpr (is_complex<T>) {
    return std::conj(x);
  } else {
    return x;
  }
}

/// a b without what std::complex does about infinities.
template <Scalar T>
T product(T a, T b) {
  if constexpr (is_complex<T>) {
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
  } else {
    return a * b;
  }
}

}  // namespace shardsolve::krylov::band
