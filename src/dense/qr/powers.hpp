/// Numbers of the host times powers of two.
#pragma once

#include "runtime/qr_kernels.hpp"

#include <shardsolve/dtype.hpp>

#include <cmath>
#include <complex>
#include <cstdint>
#include <type_traits>

namespace shardsolve::dense::qr {

/// value * 2^exponent in the dtype.
template <Scalar To, Scalar From>
To times_power(From value, std::int64_t exponent) {
  const int power = static_cast<int>(exponent);
  using Real = RealOf<To>;
  if constexpr (is_complex<To>) {
    return {static_cast<Real>(std::ldexp(double{std::real(value)}, power)),
            static_cast<Real>(std::ldexp(double{std::imag(value)}, power))};
  } else {
    return static_cast<Real>(std::ldexp(double{value}, power));
  }
}

template <Scalar W>
W conjugate(W value) {
  if constexpr (is_complex<W>) {
    return std::conj(value);
  } else {
    return value;
  }
}

/// The larger modulus of the two parts.
template <Scalar T>
double size_of(T value) {
  return std::fmax(std::abs(double{std::real(value)}), std::abs(double{std::imag(value)}));
}

template <Scalar T>
bool is_finite(T value) {
  return std::isfinite(std::real(value)) && std::isfinite(std::imag(value));
}

}  // namespace shardsolve::dense::qr
