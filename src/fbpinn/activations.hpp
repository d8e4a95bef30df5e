/// Activations and their derivatives, for many arguments at once.
#pragma once

#include <shardsolve/fbpinn_boxes.hpp>
#include <shardsolve/jet_scalars.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>

// All that takes or returns vectors is inlined: no caller of another file depends on how.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace shardsolve::fbpinn::activations {

/// Arguments taken together.
inline constexpr int chunk = 64;

using Lanes [[gnu::vector_size(4 * sizeof(double))]] = double;
using Integers [[gnu::vector_size(4 * sizeof(double))]] = std::int64_t;

/// tanh to about 2 units of roundoff: (e^2x - 1) / (e^2x + 1) from a sum for e^r - 1, |r| <= log(2)
/// / 2. The same bits on every CPU: sums and products are rounded one by one.
[[gnu::always_inline]] inline Lanes tanh_of(Lanes x) {
  constexpr double most = 20.0;  // beyond it tanh is 1 to rounding
  const Lanes limit = {most, most, most, most};
  x = x > limit ? limit : x;
  x = x < -limit ? -limit : x;
  const Lanes y = x + x;
  // The nearest integer to y / log(2) is what the sum with 1.5 * 2^52 has in its last bits.
  const Lanes shifted = y * 0x1.71547652b82fep+0 + 0x1.8p52;
  const Lanes times = shifted - 0x1.8p52;
  const Lanes r = (y - times * 0x1.62e42fee00000p-1) - times * 0x1.a39ef35793c76p-33;
  Lanes p = r * (1.0 / 6227020800.0) + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r * r + r;
  const Integers exponent = ((Integers)shifted + 1023) << 52;
  const Lanes scale = (Lanes)exponent;
  const Lanes less_one = scale * p + (scale - 1.0);
  return less_one / (less_one + 2.0);
}

/// `chunk` values.
template <class T>
[[gnu::always_inline]] inline void tanh_of_all(const T* x, T* result) {
  for (int i = 0; i < chunk; i += 4) {
    Lanes lanes;
    for (int l = 0; l < 4; ++l) {
      lanes[l] = static_cast<double>(x[i + l]);
    }
    lanes = tanh_of(lanes);
    for (int l = 0; l < 4; ++l) {
      result[i + l] = static_cast<T>(lanes[l]);
    }
  }
}

/// f[m][i]: the m-th derivative at z[i], for m < count <= 5 and i < chunk.
template <class T>
using Derivatives = T[max_order + 1][chunk];

template <class T>
[[gnu::always_inline]] inline void tanh_derivatives(const T* z, int count, Derivatives<T>& f) {
  tanh_of_all(z, f[0]);
  for (int i = 0; i < chunk && count > 1; ++i)
    f[1][i] = 1 - f[0][i] * f[0][i];
  for (int i = 0; i < chunk && count > 2; ++i)
    f[2][i] = -2 * f[0][i] * f[1][i];
  for (int i = 0; i < chunk && count > 3; ++i)
    f[3][i] = f[1][i] * (6 * f[0][i] * f[0][i] - 2);
  for (int i = 0; i < chunk && count > 4; ++i) {
    f[4][i] = f[1][i] * f[0][i] * (16 - 24 * f[0][i] * f[0][i]);
  }
}

/// 1 / (1 + e^-z) = (1 + tanh(z / 2)) / 2.
template <class T>
[[gnu::always_inline]] inline void sigmoid_derivatives(const T* z, int count, Derivatives<T>& f) {
  T half[chunk];
  for (int i = 0; i < chunk; ++i)
    half[i] = z[i] / 2;
  tanh_derivatives(half, count, f);
  T factor = T(0.5);
  for (int m = 0; m < count; ++m) {
    for (int i = 0; i < chunk; ++i)
      f[m][i] *= factor;
    factor /= 2;
  }
  for (int i = 0; i < chunk; ++i)
    f[0][i] += T(0.5);
}

template <class T>
[[gnu::always_inline]] inline void softplus_derivatives(const T* z, int count, Derivatives<T>& f) {
  Derivatives<T> sigmoid;
  sigmoid_derivatives(z, count > 1 ? count - 1 : 1, sigmoid);
  for (int i = 0; i < chunk; ++i) {
    f[0][i] = std::log1p(std::exp(-std::abs(z[i]))) + std::max(z[i], T(0));
  }
  for (int m = 1; m < count; ++m)
    std::copy_n(sigmoid[m - 1], chunk, f[m]);
}

/// z times the sigmoid.
template <class T>
[[gnu::always_inline]] inline void silu_derivatives(const T* z, int count, Derivatives<T>& f) {
  Derivatives<T> sigmoid;
  sigmoid_derivatives(z, count, sigmoid);
  for (int i = 0; i < chunk; ++i)
    f[0][i] = z[i] * sigmoid[0][i];
  for (int m = 1; m < count; ++m) {
    for (int i = 0; i < chunk; ++i) {
      f[m][i] = z[i] * sigmoid[m][i] + static_cast<T>(m) * sigmoid[m - 1][i];
    }
  }
}

template <class T>
[[gnu::always_inline]] inline void gaussian_derivatives(const T* z, int count, Derivatives<T>& f) {
  for (int i = 0; i < chunk; ++i)
    f[0][i] = std::exp(-z[i] * z[i]);
  for (int i = 0; i < chunk && count > 1; ++i)
    f[1][i] = -2 * z[i] * f[0][i];
  // f'_{m+1} = -2 z f_m - 2 m f_{m-1}
  for (int m = 2; m < count; ++m) {
    for (int i = 0; i < chunk; ++i) {
      f[m][i] = -2 * z[i] * f[m - 1][i] - static_cast<T>(2 * (m - 1)) * f[m - 2][i];
    }
  }
}

template <class T>
[[gnu::always_inline]] inline void sin_derivatives(const T* z, int count, Derivatives<T>& f) {
  for (int i = 0; i < chunk; ++i) {
    T all[max_order + 1] = {};
    functions::Sin{}.derivatives(z[i], count, all);
    for (int m = 0; m < count; ++m)
      f[m][i] = all[m];
  }
}

template <class T>
[[gnu::always_inline]] inline void derivatives(Activation activation, const T* z, int count,
                                               Derivatives<T>& f) {
  switch (activation) {
    case Activation::tanh:
      return tanh_derivatives(z, count, f);
    case Activation::sin:
      return sin_derivatives(z, count, f);
    case Activation::sigmoid:
      return sigmoid_derivatives(z, count, f);
    case Activation::softplus:
      return softplus_derivatives(z, count, f);
    case Activation::gaussian:
      return gaussian_derivatives(z, count, f);
    case Activation::silu:
      return silu_derivatives(z, count, f);
  }
}

}  // namespace shardsolve::fbpinn::activations
