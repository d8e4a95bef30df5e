#include "fbpinn/point_order.hpp"

#include <shardsolve/jet_set.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>

namespace shardsolve::fbpinn {
namespace {

/// Below that all of them are in a cache anyway.
constexpr std::int64_t fewest = 4096;
/// A grid's order has less than twice the length of the curve; one at random far more.
constexpr double max_length = 4.0;

/// Points scaled to [0, 1] along each axis.
class ScaledPoints {
 public:
  ScaledPoints(const double* points, std::int64_t count, int axes) : points_(points), axes_(axes) {
    for (int axis = 0; axis < axes; ++axis) {
      double low = points[axis];
      double high = low;
      for (std::int64_t p = 1; p < count; ++p) {
        low = std::min(low, points[p * axes + axis]);
        high = std::max(high, points[p * axes + axis]);
      }
      low_[static_cast<std::size_t>(axis)] = low;
      rate_[static_cast<std::size_t>(axis)] = high > low ? 1.0 / (high - low) : 0.0;
    }
  }

  double at(std::int64_t p, int axis) const {
    const auto a = static_cast<std::size_t>(axis);
    return (points_[p * axes_ + axis] - low_[a]) * rate_[a];
  }

  /// Of all points: the bits of their coordinates by turns.
  std::vector<std::uint64_t> places_on_curve(std::int64_t count) const {
    const auto bits = 48U / static_cast<unsigned>(axes_);
    const double cells = std::ldexp(1.0, static_cast<int>(bits));
    const std::array<std::uint64_t, 256> spread = spread_bytes();
    std::vector<std::uint64_t> places(static_cast<std::size_t>(count));
    for (std::int64_t p = 0; p < count; ++p) {
      std::uint64_t place = 0;
      for (int axis = 0; axis < axes_; ++axis) {
        std::uint64_t cell = static_cast<std::uint64_t>(at(p, axis) * cells * (1.0 - 1e-12)) &
                             ((std::uint64_t{1} << bits) - 1);
        for (int shift = axes_ - 1 - axis; cell != 0; cell >>= 8U, shift += 8 * axes_) {
          place |= spread[cell & 0xffU] << static_cast<unsigned>(shift);
        }
      }
      places[static_cast<std::size_t>(p)] = place;
    }
    return places;
  }

  double length(const std::vector<std::int32_t>& order) const {
    double sum = 0.0;
    for (std::size_t i = 1; i < order.size(); ++i) {
      double step = 0.0;
      for (int axis = 0; axis < axes_; ++axis) {
        step = std::max(step, std::abs(at(order[i], axis) - at(order[i - 1], axis)));
      }
      sum += step;
    }
    return sum;
  }

  /// If the points are all of a grid's, the last axis changing fastest: the least difference of
  /// coordinates along any axis, which no two points are nearer than. Otherwise 0.
  double least_gap(std::int64_t count) const {
    double least = std::numeric_limits<double>::infinity();
    std::int64_t inner = 1;  // points in a row with the same coordinate
    for (int axis = axes_ - 1; axis >= 0; --axis) {
      const auto given = [&](std::int64_t p) { return points_[p * axes_ + axis]; };
      std::int64_t period = inner;
      while (period < count && at(period, axis) > at(period - inner, axis)) {
        least = std::min(least, at(period, axis) - at(period - inner, axis));
        period += inner;
      }
      if (period > count) {
        return 0.0;
      }
      for (std::int64_t first = 0; first < period; first += inner) {
        for (std::int64_t p = first; p < first + inner; ++p) {
          if (given(p) != given(first)) {
            return 0.0;
          }
        }
      }
      for (std::int64_t p = period; p < count; ++p) {
        if (given(p) != given(p - period)) {
          return 0.0;
        }
      }
      inner = period;
    }
    return inner == count ? least : 0.0;
  }

 private:
  /// Of each byte, its bits with room between them for those of the other axes.
  std::array<std::uint64_t, 256> spread_bytes() const {
    std::array<std::uint64_t, 256> spread{};
    for (std::uint64_t byte = 0; byte < spread.size(); ++byte) {
      for (int bit = 0; bit < 8; ++bit) {
        spread[byte] |= (byte >> static_cast<unsigned>(bit) & 1U)
                        << static_cast<unsigned>(bit * axes_);
      }
    }
    return spread;
  }

  const double* points_;
  int axes_;
  std::array<double, max_axes> low_{};
  std::array<double, max_axes> rate_{};
};

/// The numbers of points by their places on the curve, those of one place ascending. By 12 bits
/// after the other, the lowest first: comparisons take many times as long.
std::vector<std::int32_t> sorted_by_place(const std::vector<std::uint64_t>& places) {
  constexpr unsigned bits = 12;
  constexpr std::uint64_t values = std::uint64_t{1} << bits;
  struct Point {
    std::uint64_t place;
    std::int32_t number;
  };
  std::vector<Point> points(places.size());
  for (std::size_t p = 0; p < points.size(); ++p) {
    points[p] = {places[p], static_cast<std::int32_t>(p)};
  }
  std::vector<Point> sorted(points.size());
  for (unsigned shift = 0; shift < 48; shift += bits) {
    std::vector<std::size_t> next(values + 1, 0);
    for (const Point& point : points) {
      ++next[(point.place >> shift & (values - 1)) + 1];
    }
    std::partial_sum(next.begin(), next.end(), next.begin());
    for (const Point& point : points) {
      sorted[next[point.place >> shift & (values - 1)]++] = point;
    }
    points.swap(sorted);
  }
  std::vector<std::int32_t> order(points.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[i] = points[i].number;
  }
  return order;
}

}  // namespace

std::vector<std::int32_t> local_order(const double* points, std::int64_t count, int axes) {
  if (count < fewest ||
      !std::all_of(points, points + count * axes, [](double x) { return std::isfinite(x); })) {
    return {};
  }
  const ScaledPoints scaled(points, count, axes);
  std::vector<std::int32_t> given(static_cast<std::size_t>(count));
  std::iota(given.begin(), given.end(), 0);
  // Each step along the curve is a gap or more: most grids need no look at the curve.
  constexpr double rounding = 1e-6;
  const double length = scaled.length(given);
  if (length <=
      (1.0 - rounding) * max_length * static_cast<double>(count - 1) * scaled.least_gap(count)) {
    return {};
  }
  std::vector<std::int32_t> order = sorted_by_place(scaled.places_on_curve(count));
  if (length <= max_length * scaled.length(order)) {
    return {};
  }
  return order;
}

void reorder(const std::vector<std::int32_t>& order, std::int64_t width,
             std::vector<double>& values) {
  const std::vector<double> given = values;
  for (std::size_t i = 0; i < order.size(); ++i) {
    std::copy_n(given.data() + order[i] * width, width,
                values.data() + static_cast<std::int64_t>(i) * width);
  }
}

}  // namespace shardsolve::fbpinn
