/// How a root of a secular equation is found, by the same operations in the same order on the CPU
/// and on GPUs. For the CPU and CUDA, where it takes --expt-relaxed-constexpr, and --fmad=false for
/// the same bits.
#pragma once

#include "runtime/host_and_device.hpp"
#include "runtime/secular_equation.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace shardsolve::runtime {

/// Sums side by side, whatever the machine has: the order of additions is fixed. Term i of a sum
/// goes to number i modulo this one; then those of the upper half are added to those of the lower
/// one, until one is left.
inline constexpr std::int64_t secular_sums_at_once = 32;

/// The factors of a weight are multiplied in so many parts of neighbours, or fewer, and those with
/// each other, in order.
inline constexpr std::int64_t max_secular_parts = 32;
/// Factors of each part but the last one.
inline std::int64_t secular_part(std::int64_t factors) {
  constexpr std::int64_t least = 64;
  return std::max(least, (factors + max_secular_parts - 1) / max_secular_parts);
}

template <class Real>
using SecularBits = std::conditional_t<std::is_same_v<Real, float>, std::uint32_t, std::uint64_t>;

/// sum_i w_i^2 / (d_i - x) over some poles, and its derivative.
template <class Real>
struct SecularSum {
  Real value = 0;
  Real slope = 0;

  SHARDSOLVE_DEVICE void add(const SecularSum& other) {
    value += other.value;
    slope += other.slope;
  }
};

/// The equation near one root, with x measured from the pole nearest to it.
/// Adder::sum<Real>(begin, end, term) is the sum of term(i), i = begin .. end - 1, each of them a
/// SecularSum, in the order that secular_sums_at_once says.
template <class Real, class Adder>
class SecularSearch {
 public:
  SHARDSOLVE_DEVICE SecularSearch(const SecularEquation<Real>& equation, std::int64_t index)
      : f_(equation),
        is_last_(index == equation.count - 1),
        origin_(index),
        left_(is_last_ ? index - 1 : index),
        one_by_rho_(1 / equation.rho) {}

  SHARDSOLVE_DEVICE SecularRoot<Real> run() {
    is_last_ ? begin_last() : begin_between();
    // What rounding leaves of g: it adds up as the root of the number of terms.
    const Real noise = unit * (8 + std::sqrt(static_cast<Real>(f_.count)) / 2);
    for (int turn = 0; turn < max_turns; ++turn) {
      const SecularSum<Real> psi = sum(0, left_ + 1, x_);
      const SecularSum<Real> phi = sum(left_ + 1, f_.count, x_);
      const Real g = one_by_rho_ + psi.value + phi.value;
      if (!std::isfinite(g)) {
        return {};
      }
      const Real size = one_by_rho_ + std::abs(psi.value) + std::abs(phi.value);
      if (std::abs(g) <= noise * size + unit * std::abs(x_) * (psi.slope + phi.slope)) {
        return {x_, origin_};
      }
      (g < 0 ? low_ : high_) = x_;  // g rises with x
      Real next = x_ + step(g, psi, phi);
      // The rational step wins nearly always; halving now and then keeps the count of turns
      // bounded.
      const bool halve = turn > patient_turns && turn % 2 == 0;
      if (halve || !(next > low_ && next < high_)) {
        next = halfway();
      }
      if (next == low_ || next == high_) {
        return {x_, origin_};  // no number lies between them
      }
      x_ = next;
    }
    return {};
  }

 private:
  static constexpr Real unit = std::numeric_limits<Real>::epsilon() / 2;
  static constexpr int patient_turns = 20;
  static constexpr int max_turns = 160;  // 64 halvings end for certain

  SHARDSOLVE_DEVICE Real distance(std::int64_t pole, Real x) const {
    return (f_.poles[pole] - f_.poles[origin_]) - x;
  }

  SHARDSOLVE_DEVICE SecularSum<Real> sum(std::int64_t begin, std::int64_t end, Real x) const {
    const Real* const poles = f_.poles;
    const Real* const weights = f_.weights;
    const Real zero = poles[origin_];
    return Adder::template sum<Real>(begin, end, [=](std::int64_t i) {
      const Real distance = (poles[i] - zero) - x;
      const Real term = weights[i] * weights[i] / distance;
      return SecularSum<Real>{term, term / distance};
    });
  }

  /// The nearer pole, the half of the interval that the root is in, and a first guess: the root of
  /// the two poles beside it, with all others as they are in the middle.
  SHARDSOLVE_DEVICE void begin_between() {
    const std::int64_t right = left_ + 1;
    const Real gap = f_.poles[right] - f_.poles[left_];
    const Real middle = gap / 2;
    const Real w1 = f_.weights[left_] * f_.weights[left_];
    const Real w2 = f_.weights[right] * f_.weights[right];
    const Real others =
        one_by_rho_ + sum(0, left_, middle).value + sum(right + 1, f_.count, middle).value;
    const Real g = others - w1 / middle + w2 / (gap - middle);
    if (g >= 0) {
      low_ = 0;
      high_ = middle;
      const Real a = others * gap + w1 + w2;
      const Real r = std::sqrt(std::abs(a * a - 4 * w1 * gap * others));
      x_ = a > 0 ? 2 * w1 * gap / (a + r) : (a - r) / (2 * others);
    } else {
      origin_ = right;
      low_ = -middle;
      high_ = 0;
      const Real a = others * gap - w1 - w2;
      const Real r = std::sqrt(std::abs(a * a + 4 * w2 * gap * others));
      x_ = a < 0 ? 2 * w2 * gap / (a - r) : -(a + r) / (2 * others);
    }
    if (!(x_ > low_ && x_ < high_)) {
      x_ = (low_ + high_) / 2;
    }
  }

  /// Beyond the last pole; the interval is a little wider than the norm of w allows for.
  SHARDSOLVE_DEVICE void begin_last() {
    const Real* const weights = f_.weights;
    const SecularSum<Real> norm = Adder::template sum<Real>(
        0, f_.count, [=](std::int64_t i) { return SecularSum<Real>{weights[i] * weights[i]}; });
    low_ = 0;
    high_ = f_.rho * norm.value * (1 + 4 * unit * static_cast<Real>(f_.count + 1));
    const Real others = one_by_rho_ + sum(0, origin_, high_).value;
    x_ = f_.weights[origin_] * f_.weights[origin_] / others;
    if (!(x_ > low_ && x_ < high_)) {
      x_ = high_ / 2;
    }
  }

  /// Each side is replaced by one pole with the same value and slope: the "middle way" of R.-C. Li,
  /// LAPACK Working Note 89.
  SHARDSOLVE_DEVICE Real step(Real g, const SecularSum<Real>& psi,
                              const SecularSum<Real>& phi) const {
    if (f_.count == 1) {
      return -g / phi.slope;
    }
    const Real d1 = distance(left_, x_);
    const Real d2 = distance(left_ + 1, x_);
    const Real c = g - d1 * psi.slope - d2 * phi.slope;
    const Real a = (d1 + d2) * g - d1 * d2 * (psi.slope + phi.slope);
    const Real b = d1 * d2 * g;
    const Real r = std::sqrt(std::abs(a * a - 4 * b * c));
    if (is_last_) {
      return a >= 0 ? (a + r) / (2 * c) : 2 * b / (a - r);
    }
    return a <= 0 ? (a - r) / (2 * c) : 2 * b / (a + r);
  }

  /// Halves how many numbers there are in the interval: its ends, of one sign, may differ by
  /// hundreds of powers of ten.
  SHARDSOLVE_DEVICE Real halfway() const {
    const auto a = std::bit_cast<SecularBits<Real>>(std::abs(low_));
    const auto b = std::bit_cast<SecularBits<Real>>(std::abs(high_));
    const Real middle = std::bit_cast<Real>(
        static_cast<SecularBits<Real>>(std::min(a, b) + (std::max(a, b) - std::min(a, b)) / 2));
    return high_ > 0 ? middle : -middle;
  }

  const SecularEquation<Real>& f_;
  const bool is_last_;
  std::int64_t origin_;
  const std::int64_t left_;  // the last pole of psi; -1 for the only root of a single pole
  const Real one_by_rho_;
  Real low_ = 0;  // the root lies between them
  Real high_ = 0;
  Real x_ = 0;
};

/// root - poles[pole].
template <class Real>
SHARDSOLVE_HOST_DEVICE Real from_pole(const SecularEquation<Real>& equation,
                                      const SecularRoot<Real>& root, std::int64_t pole) {
  return (equation.poles[root.origin] - equation.poles[pole]) + root.offset;
}

}  // namespace shardsolve::runtime
