// Negative pivots of T - x I, which are as many as eigenvalues below x. In IEEE arithmetic the
// count rises with x (J. W. Demmel, I. Dhillon and H. Ren, ETNA 3 (1995) 116), so that each
// eigenvalue may be looked for by itself: neighbours come out in order, and none depends on who
// else is looked for.

#include "runtime/host/sturm.hpp"

#include <algorithm>
#include <limits>

namespace shardsolve::runtime::host {
namespace {

/// Sequences that run beside each other: the pivots of one wait for each other.
constexpr std::int64_t points_at_once = 8;

/// A pivot this small counts as negative.
template <class Real>
Real smallest_pivot(const Tridiagonal<Real>& t) {
  Real largest = 1;
  for (std::int64_t i = 0; i + 1 < t.order; ++i) {
    largest = std::max(largest, t.off_diagonal[i] * t.off_diagonal[i]);
  }
  return std::numeric_limits<Real>::min() * largest;
}

template <class Real>
void count_below(const Tridiagonal<Real>& t, Real pivot_min, const Real (&points)[points_at_once],
                 std::int64_t (&below)[points_at_once]) {
  Real pivots[points_at_once];
  Real counts[points_at_once] = {};  // of the kind that the comparisons are: exact up to 2^24
  std::fill_n(pivots, points_at_once, Real{1});
  std::fill_n(below, points_at_once, std::int64_t{0});
  for (std::int64_t i = 0; i < t.order; ++i) {
    const Real e = i == 0 ? Real{0} : t.off_diagonal[i - 1];
    const Real square = e * e;
    for (std::int64_t l = 0; l < points_at_once; ++l) {
      const Real pivot = (t.diagonal[i] - points[l]) - square / pivots[l];
      const bool is_below = pivot <= pivot_min;
      counts[l] += is_below ? Real{1} : Real{0};
      pivots[l] = is_below ? std::min(pivot, -pivot_min) : pivot;
    }
  }
  for (std::int64_t l = 0; l < points_at_once; ++l) {
    below[l] = static_cast<std::int64_t>(counts[l]);
  }
}

/// Intervals of as many eigenvalues as sequences run beside each other.
template <class Real>
struct Intervals {
  Real low[points_at_once];
  Real high[points_at_once];
  Real middle[points_at_once];

  /// Sets the middles; false if no interval can or need be halved.
  bool halve(Real width) {
    bool any = false;
    for (std::int64_t l = 0; l < points_at_once; ++l) {
      middle[l] = low[l] + (high[l] - low[l]) / 2;
      any = any || can_be_halved(l, width);
    }
    return any;
  }
  void take(std::int64_t first, const std::int64_t (&below)[points_at_once], Real width) {
    for (std::int64_t l = 0; l < points_at_once; ++l) {
      if (can_be_halved(l, width)) {
        (below[l] > first + l ? high[l] : low[l]) = middle[l];
      }
    }
  }

 private:
  bool can_be_halved(std::int64_t l, Real width) const {
    return high[l] - low[l] > width && middle[l] > low[l] && middle[l] < high[l];
  }
};

}  // namespace

template <class Real>
void count_eigenvalues(const Tridiagonal<Real>& t, const Real* points, std::int64_t count,
                       std::int64_t* below) {
  const Real pivot_min = smallest_pivot(t);
  for (std::int64_t i = 0; i < count; i += points_at_once) {
    const std::int64_t some = std::min(points_at_once, count - i);
    Real at[points_at_once] = {};
    std::int64_t counts[points_at_once];
    std::copy_n(points + i, some, at);
    count_below(t, pivot_min, at, counts);
    std::copy_n(counts, some, below + i);
  }
}

template <class Real>
void bisect(const Tridiagonal<Real>& t, Real low, Real high, Real width, std::int64_t first,
            std::int64_t count, Real* values) {
  // Halvings that any interval can take: those of exponents and those of digits.
  constexpr int max_halvings = std::numeric_limits<Real>::max_exponent -
                               std::numeric_limits<Real>::min_exponent +
                               2 * std::numeric_limits<Real>::digits;
  const Real pivot_min = smallest_pivot(t);
  for (std::int64_t i = 0; i < count; i += points_at_once) {
    Intervals<Real> intervals;
    std::fill_n(intervals.low, points_at_once, low);
    std::fill_n(intervals.high, points_at_once, high);
    std::int64_t below[points_at_once];
    for (int turn = 0; turn < max_halvings && intervals.halve(width); ++turn) {
      count_below(t, pivot_min, intervals.middle, below);
      intervals.take(first + i, below, width);
    }
    intervals.halve(width);
    std::copy_n(intervals.middle, std::min(points_at_once, count - i), values + i);
  }
}

#define SHARDSOLVE_INSTANTIATE(Real)                                                           \
  template void count_eigenvalues(const Tridiagonal<Real>&, const Real*, std::int64_t,         \
                                  std::int64_t*);                                              \
  template void bisect(const Tridiagonal<Real>&, Real, Real, Real, std::int64_t, std::int64_t, \
                       Real*);
SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::runtime::host
