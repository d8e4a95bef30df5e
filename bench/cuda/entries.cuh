/// One entry of A or b from its indices, on the device or on the host.
#pragma once

#include "bench/cuda/matrices.hpp"

#include <cstdint>

namespace shardsolve::bench {

/// A number as the gates compute with it: wider than float, and the parts at hand.
struct Value {
  double real = 0.0;
  double imag = 0.0;
};

template <Scalar T>
constexpr T narrow(double real, double imag) {
  if constexpr (is_complex<T>) {
    return T(static_cast<RealOf<T>>(real), static_cast<RealOf<T>>(imag));
  } else {
    return static_cast<T>(real);
  }
}

template <Scalar T>
constexpr Value widen(const T& value) {
  if constexpr (is_complex<T>) {
    return {double{value.real()}, double{value.imag()}};
  } else {
    return {double{value}, 0.0};
  }
}

/// 64 well mixed bits. Source: the finaliser of splitmix64 (Steele, Lea, Flood 2014).
constexpr std::uint64_t mix(std::uint64_t key) {
  key += 0x9E3779B97F4A7C15;
  key = (key ^ (key >> 30)) * 0xBF58476D1CE4E5B9;
  key = (key ^ (key >> 27)) * 0x94D049BB133111EB;
  return key ^ (key >> 31);
}

/// Two numbers in [-1, 1), exact in double precision.
constexpr Value uniform_pair(std::uint64_t seed, std::int64_t row, std::int64_t column) {
  const auto key = static_cast<std::uint64_t>(row) << 32 | static_cast<std::uint64_t>(column);
  const std::uint64_t bits = mix(mix(seed) ^ key);
  constexpr double scale = 1.0 / 2147483648.0;
  return {static_cast<double>(static_cast<std::int32_t>(bits >> 32)) * scale,
          static_cast<double>(static_cast<std::int32_t>(bits & 0xFFFFFFFF)) * scale};
}

/// Entry (row, 0-based column) of the right-hand sides.
template <Scalar T>
constexpr T right_hand_side(std::int64_t row, std::int64_t column) {
  const Value value = uniform_pair(2, row, column);
  return narrow<T>(value.real, value.imag);
}

/// Below the diagonal; `distance` = row - column > 0.
template <Scalar T>
__device__ Value gaussian(const Problem<T>& problem, std::int64_t distance) {
  constexpr double length = 0.1;
  constexpr double turns = 3.0;
  // t_i - t_j; explicit rounding, so that all kernels that make this entry make the same bits.
  const double t = __ddiv_rn(static_cast<double>(distance), static_cast<double>(problem.n));
  const double size = exp(__dmul_rn(__dmul_rn(t, t), -0.5 / (length * length)));
  if constexpr (is_complex<T>) {
    double sine = 0.0;
    double cosine = 0.0;
    sincospi(2.0 * turns * t, &sine, &cosine);
    return {__dmul_rn(size, cosine), __dmul_rn(size, sine)};
  } else {
    return {size, 0.0};
  }
}

/// Entry (row, column) of A, rounded to T.
template <Scalar T>
__device__ T entry(const Problem<T>& problem, std::int64_t row, std::int64_t column) {
  const std::int64_t low = row > column ? row : column;
  const std::int64_t high = row > column ? column : row;
  const Value below =
      problem.kind == Kind::gaussian ? gaussian(problem, low - high) : uniform_pair(1, low, high);
  if (row == column) {
    return narrow<T>(__dadd_rn(below.real, problem.diagonal), 0.0);
  }
  return narrow<T>(below.real, row > column ? below.imag : -below.imag);
}

}  // namespace shardsolve::bench
