/// How a row of a sparse matrix is multiplied by a vector: the same bits on the CPU and on GPUs.
///
/// The order. Entry k of a row, in the order of the whole matrix, belongs to lane k mod L. A lane
/// starts at +0 and takes its entries in turn, s = fma(a, x, s), of complex numbers
///   re = fma(-im a, im x, fma(re a, re x, re)),   im = fma(im a, re x, fma(re a, im x, im)).
/// Lane j += lane j + L / 2, then j + L / 4, ..., then j + 1: lane 0 is the sum. L is a power of
/// two and one for the whole matrix, so it knows nothing of ranks.
///
/// In twice the precision (ProductFlag::twofold_product) a lane has a sum and what rounding took
/// from it, T. Ogita, S. M. Rump, S. Oishi, SIAM J. Sci. Comput. 26 (2005) 1955, algorithm 5.3; the
/// order is the same, and the two are added at the end.
///
/// How far such a row may be wrong (ProductFlag::product_rounding), beside the last rounding, is
/// gamma_k^2 times the sum of the moduli of its k products, k of a real part (their proposition
/// 5.5), gamma_k = k u / (1 - k u): at most 2 k^2 u^2 as long as k u <= 1 / 4. Moduli are summed in
/// the order of the row, |re| + |im| of complex numbers.
///
/// For the CPU and CUDA; C++ of neither's own.
#pragma once

#include "runtime/fixed_dot.hpp"

#include <cstdint>

namespace shardsolve::runtime {

constexpr std::int64_t max_row_lanes = 32;

/// The largest power of two that is at most half the mean row, entries / rows / 2, within
/// [1, max_row_lanes].
constexpr std::int64_t row_lanes(std::int64_t rows, std::int64_t entries) {
  std::int64_t lanes = 1;
  while (lanes < max_row_lanes && rows > 0 && entries / rows >= 4 * lanes) {
    lanes *= 2;
  }
  return lanes;
}

/// A lane, from {} on; two reals if `width` is 2, for complex numbers.
template <class Real, int width>
struct RowLane {
  static constexpr int count = width;
  Real part[count];

  __attribute__((always_inline)) SHARDSOLVE_HOST_DEVICE void multiply_add(const Real* a,
                                                                          const Real* x) {
    part[0] = fused_multiply_add(a[0], x[0], part[0]);
    if constexpr (width == 2) {
      part[0] = fused_multiply_add(-a[1], x[1], part[0]);
      part[1] = fused_multiply_add(a[0], x[1], part[1]);
      part[1] = fused_multiply_add(a[1], x[0], part[1]);
    }
  }
  __attribute__((always_inline)) SHARDSOLVE_HOST_DEVICE void add(const RowLane& other) {
    for (int at = 0; at < width; ++at) {
      part[at] += other.part[at];
    }
  }
};

/// Likewise in twice the precision: the sums, and behind them what was lost.
template <class Real, int width>
struct TwofoldRowLane {
  static constexpr int count = 2 * width;
  Real part[count];

  __attribute__((always_inline)) SHARDSOLVE_HOST_DEVICE void multiply_add(const Real* a,
                                                                          const Real* x) {
    add_product(0, a[0], x[0]);
    if constexpr (width == 2) {
      add_product(0, -a[1], x[1]);
      add_product(1, a[0], x[1]);
      add_product(1, a[1], x[0]);
    }
  }
  __attribute__((always_inline)) SHARDSOLVE_HOST_DEVICE void add(const TwofoldRowLane& other) {
    for (int at = 0; at < width; ++at) {
      add_term(at, other.part[at]);
      part[width + at] += other.part[width + at];
    }
  }
  /// Of the row, of `entries` entries.
  SHARDSOLVE_HOST_DEVICE RowLane<Real, width> result(std::int64_t /*entries*/) const {
    RowLane<Real, width> lane{};
    for (int at = 0; at < width; ++at) {
      lane.part[at] = part[at] + part[width + at];
    }
    return lane;
  }

 private:
  __attribute__((always_inline)) SHARDSOLVE_HOST_DEVICE void add_product(int at, Real a, Real x) {
    const Real product = a * x;
    add_term(at, product);
    part[width + at] += fused_multiply_add(a, x, -product);
  }
  __attribute__((always_inline)) SHARDSOLVE_HOST_DEVICE void add_term(int at, Real term) {
    const Real next = part[at] + term;
    const Real taken = next - part[at];
    part[width + at] += (part[at] - (next - taken)) + (term - taken);
    part[at] = next;
  }
};

/// Likewise the sum of moduli.
template <class Real, int width>
struct ModulusRowLane {
  static constexpr int count = 1;
  Real part[count];

  __attribute__((always_inline)) SHARDSOLVE_HOST_DEVICE void multiply_add(const Real* a,
                                                                          const Real* x) {
    part[0] = fused_multiply_add(modulus(a), modulus(x), part[0]);
  }
  __attribute__((always_inline)) SHARDSOLVE_HOST_DEVICE void add(const ModulusRowLane& other) {
    part[0] += other.part[0];
  }
  /// How far the row of `entries` entries, summed with twice the digits, may be wrong, over u.
  SHARDSOLVE_HOST_DEVICE RowLane<Real, width> result(std::int64_t entries) const {
    const Real k = static_cast<Real>(entries * width);
    RowLane<Real, width> lane{};
    constexpr Real twice_u = static_cast<Real>(sizeof(Real) == sizeof(float) ? 0x1p-23 : 0x1p-52);
    lane.part[0] = k * twice_u * (k * part[0]);
    return lane;
  }

 private:
  __attribute__((always_inline)) SHARDSOLVE_HOST_DEVICE static Real modulus(const Real* number) {
    Real sum = number[0] < 0 ? -number[0] : number[0];
    if constexpr (width == 2) {
      sum += number[1] < 0 ? -number[1] : number[1];
    }
    return sum;
  }
};

}  // namespace shardsolve::runtime
