/// Vectors of CPUs with AVX-512, of floats and of doubles. All functions with them have to carry
/// SHARDSOLVE_AVX512, and are for CPUs on which has_avx512() is true.
#pragma once

#ifdef __x86_64__
#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#define SHARDSOLVE_AVX512 gnu::target("avx512f,avx512dq")

// All that takes or returns vectors is inlined: no caller of another file depends on how.
#pragma GCC diagnostic ignored "-Wpsabi"
#pragma GCC diagnostic ignored "-Wignored-attributes"
#endif

namespace shardsolve::runtime::host::avx512 {

#ifndef SHARDSOLVE_AVX512

inline bool has_avx512() { return false; }

#else

inline bool has_avx512() {
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512dq") != 0;
}

template <class Real>
using Vector = std::conditional_t<std::is_same_v<Real, double>, __m512d, __m512>;
template <class Real>
using Mask = std::conditional_t<std::is_same_v<Real, double>, __mmask8, __mmask16>;
template <class Real>
constexpr std::int64_t lanes = static_cast<std::int64_t>(sizeof(Vector<Real>) / sizeof(Real));

/// a b + sum, and from - a b.
template <class V>
[[SHARDSOLVE_AVX512, gnu::always_inline]] inline V add_product(V a, V b, V sum) {
  if constexpr (std::is_same_v<V, __m512d>) {
    return _mm512_fmadd_pd(a, b, sum);
  } else {
    return _mm512_fmadd_ps(a, b, sum);
  }
}
template <class V>
[[SHARDSOLVE_AVX512, gnu::always_inline]] inline V take_product(V a, V b, V from) {
  if constexpr (std::is_same_v<V, __m512d>) {
    return _mm512_fnmadd_pd(a, b, from);
  } else {
    return _mm512_fnmadd_ps(a, b, from);
  }
}
template <class Real>
[[SHARDSOLVE_AVX512, gnu::always_inline]] inline Vector<Real> load(const Real* from) {
  Vector<Real> value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <class Real>
[[SHARDSOLVE_AVX512, gnu::always_inline]] inline void store(Vector<Real> value, Real* to) {
  std::memcpy(to, &value, sizeof value);
}
/// Lanes that are not in the mask are zeros, and neither read nor written.
template <class Real>
[[SHARDSOLVE_AVX512, gnu::always_inline]] inline Vector<Real> load(const Real* from,
                                                                   Mask<Real> mask) {
  if constexpr (std::is_same_v<Real, double>) {
    return _mm512_maskz_loadu_pd(mask, from);
  } else {
    return _mm512_maskz_loadu_ps(mask, from);
  }
}
template <class Real>
[[SHARDSOLVE_AVX512, gnu::always_inline]] inline void store(Vector<Real> value, Real* to,
                                                            Mask<Real> mask) {
  if constexpr (std::is_same_v<Real, double>) {
    _mm512_mask_storeu_pd(to, mask, value);
  } else {
    _mm512_mask_storeu_ps(to, mask, value);
  }
}
template <class Real>
[[SHARDSOLVE_AVX512, gnu::always_inline]] inline Vector<Real> all(Real value) {
  if constexpr (std::is_same_v<Real, double>) {
    return _mm512_set1_pd(value);
  } else {
    return _mm512_set1_ps(value);
  }
}
/// The sum of all lanes: of halves, of quarters, and so on.
template <class Real>
[[SHARDSOLVE_AVX512, gnu::always_inline]] inline Real across(Vector<Real> value) {
  if constexpr (std::is_same_v<Real, double>) {
    value += __builtin_shufflevector(value, value, 4, 5, 6, 7, 0, 1, 2, 3);
    value += __builtin_shufflevector(value, value, 2, 3, 0, 1, 6, 7, 4, 5);
    value += __builtin_shufflevector(value, value, 1, 0, 3, 2, 5, 4, 7, 6);
  } else {
    value +=
        __builtin_shufflevector(value, value, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
    value +=
        __builtin_shufflevector(value, value, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
    value +=
        __builtin_shufflevector(value, value, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
    value +=
        __builtin_shufflevector(value, value, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
  }
  return value[0];
}
/// The first lanes, and those behind them.
template <class Real>
Mask<Real> first_lanes(std::int64_t count) {
  return static_cast<Mask<Real>>((std::uint32_t{1} << count) - 1);
}
template <class Real>
Mask<Real> lanes_from(std::int64_t first) {
  return static_cast<Mask<Real>>(~std::uint32_t{0} << first);
}

#endif

}  // namespace shardsolve::runtime::host::avx512
