#include "runtime/host/leaf_sums.hpp"

#include "runtime/host/dot_tree.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace shardsolve::runtime::host {
namespace leaves_of_dots {
namespace {

template <class Real, int width>
void sums_plain(const Real* x, const Real* y, std::int64_t leaves, DotSum<Real, width>* sums) {
  for (std::int64_t leaf = 0; leaf < leaves; ++leaf) {
    const std::int64_t at = width * dot_leaf * leaf;
    sums[leaf] = dot::dot_leaf_sum<Real, width>(x + at, y + at, dot_leaf);
  }
}

// Compilers make vectors of the lanes only sometimes, so vectors are named here. The lanes of one
// lie in the order of their numbers; a complex number takes two places.
#if defined(__x86_64__)
#define SHARDSOLVE_WITH_FMA __attribute__((target("avx2,fma")))

/// Lane j += lane j + 4, then j + 2, then j + 1.
SHARDSOLVE_WITH_FMA inline DotSum<double, 1> sum_of_lanes(__m256d low, __m256d high) {
  const __m256d four = _mm256_add_pd(low, high);
  const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  return {{_mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)))}};
}
SHARDSOLVE_WITH_FMA inline DotSum<float, 1> sum_of_lanes(__m256 all) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return {{_mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))}};
}
SHARDSOLVE_WITH_FMA inline DotSum<double, 2> sum_of_lanes(__m256d a, __m256d b, __m256d c,
                                                          __m256d d) {
  const __m256d two = _mm256_add_pd(_mm256_add_pd(a, c), _mm256_add_pd(b, d));
  const __m128d one = _mm_add_pd(_mm256_castpd256_pd128(two), _mm256_extractf128_pd(two, 1));
  return {{_mm_cvtsd_f64(one), _mm_cvtsd_f64(_mm_unpackhi_pd(one, one))}};
}
SHARDSOLVE_WITH_FMA inline DotSum<float, 2> sum_of_lanes(__m256 low, __m256 high) {
  const __m256 four = _mm256_add_ps(low, high);
  const __m128 two = _mm_add_ps(_mm256_castps256_ps128(four), _mm256_extractf128_ps(four, 1));
  const __m128 one = _mm_add_ps(two, _mm_movehl_ps(two, two));
  return {{_mm_cvtss_f32(one), _mm_cvtss_f32(_mm_movehdup_ps(one))}};
}

/// sum + conj(x) y of complex numbers: fma(re x, y, sum) first.
SHARDSOLVE_WITH_FMA inline __m256d multiply_add(__m256d sum, const double* x, const double* y) {
  const __m256d a = _mm256_loadu_pd(x);
  const __m256d b = _mm256_loadu_pd(y);
  const __m256d sign = _mm256_setr_pd(0.0, -0.0, 0.0, -0.0);
  sum = _mm256_fmadd_pd(_mm256_movedup_pd(a), b, sum);
  return _mm256_fmadd_pd(_mm256_xor_pd(_mm256_permute_pd(a, 0xF), sign), _mm256_permute_pd(b, 0x5),
                         sum);
}
SHARDSOLVE_WITH_FMA inline __m256 multiply_add(__m256 sum, const float* x, const float* y) {
  const __m256 a = _mm256_loadu_ps(x);
  const __m256 b = _mm256_loadu_ps(y);
  const __m256 sign = _mm256_setr_ps(0.0F, -0.0F, 0.0F, -0.0F, 0.0F, -0.0F, 0.0F, -0.0F);
  sum = _mm256_fmadd_ps(_mm256_moveldup_ps(a), b, sum);
  return _mm256_fmadd_ps(_mm256_xor_ps(_mm256_movehdup_ps(a), sign), _mm256_permute_ps(b, 0xB1),
                         sum);
}

SHARDSOLVE_WITH_FMA inline void leaf(const double* x, const double* y, DotSum<double, 1>& sum) {
  __m256d low = _mm256_setzero_pd();
  __m256d high = _mm256_setzero_pd();
  for (int at = 0; at < dot_leaf; at += dot_lanes) {
    low = _mm256_fmadd_pd(_mm256_loadu_pd(x + at), _mm256_loadu_pd(y + at), low);
    high = _mm256_fmadd_pd(_mm256_loadu_pd(x + at + 4), _mm256_loadu_pd(y + at + 4), high);
  }
  sum = sum_of_lanes(low, high);
}
SHARDSOLVE_WITH_FMA inline void leaf(const float* x, const float* y, DotSum<float, 1>& sum) {
  __m256 all = _mm256_setzero_ps();
  for (int at = 0; at < dot_leaf; at += dot_lanes) {
    all = _mm256_fmadd_ps(_mm256_loadu_ps(x + at), _mm256_loadu_ps(y + at), all);
  }
  sum = sum_of_lanes(all);
}
SHARDSOLVE_WITH_FMA inline void leaf(const double* x, const double* y, DotSum<double, 2>& sum) {
  __m256d a = _mm256_setzero_pd();
  __m256d b = a;
  __m256d c = a;
  __m256d d = a;
  for (int at = 0; at < 2 * dot_leaf; at += 2 * dot_lanes) {
    a = multiply_add(a, x + at, y + at);
    b = multiply_add(b, x + at + 4, y + at + 4);
    c = multiply_add(c, x + at + 8, y + at + 8);
    d = multiply_add(d, x + at + 12, y + at + 12);
  }
  sum = sum_of_lanes(a, b, c, d);
}
SHARDSOLVE_WITH_FMA inline void leaf(const float* x, const float* y, DotSum<float, 2>& sum) {
  __m256 low = _mm256_setzero_ps();
  __m256 high = _mm256_setzero_ps();
  for (int at = 0; at < 2 * dot_leaf; at += 2 * dot_lanes) {
    low = multiply_add(low, x + at, y + at);
    high = multiply_add(high, x + at + 8, y + at + 8);
  }
  sum = sum_of_lanes(low, high);
}

template <class Real, int width>
SHARDSOLVE_WITH_FMA void sums_with_fma(const Real* x, const Real* y, std::int64_t leaves,
                                       DotSum<Real, width>* sums) {
  for (std::int64_t at = 0; at < leaves; ++at) {
    leaf(x + width * dot_leaf * at, y + width * dot_leaf * at, sums[at]);
  }
}
#endif

}  // namespace
}  // namespace leaves_of_dots

bool has_fma() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

template <class Real, int width>
void leaf_sums(const Real* x, const Real* y, std::int64_t leaves, DotSum<Real, width>* sums) {
#if defined(__x86_64__)
  if (has_fma()) {
    leaves_of_dots::sums_with_fma(x, y, leaves, sums);
    return;
  }
#endif
  leaves_of_dots::sums_plain(x, y, leaves, sums);
}

template void leaf_sums(const float*, const float*, std::int64_t, DotSum<float, 1>*);
template void leaf_sums(const float*, const float*, std::int64_t, DotSum<float, 2>*);
template void leaf_sums(const double*, const double*, std::int64_t, DotSum<double, 1>*);
template void leaf_sums(const double*, const double*, std::int64_t, DotSum<double, 2>*);

}  // namespace shardsolve::runtime::host
