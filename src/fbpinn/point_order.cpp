#include "fbpinn/point_order.hpp"

#include <shardsolve/jet_set.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
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

  /// The bits of all coordinates by turns.
  std::uint64_t place_on_curve(std::int64_t p) const {
    const int bits = 48 / axes_;
    std::uint64_t place = 0;
    std::array<std::uint64_t, max_axes> cells{};
    for (int axis = 0; axis < axes_; ++axis) {
      cells[static_cast<std::size_t>(axis)] =
          static_cast<std::uint64_t>(at(p, axis) * std::ldexp(1.0, bits) * (1.0 - 1e-12));
    }
    for (int bit = bits - 1; bit >= 0; --bit) {
      for (int axis = 0; axis < axes_; ++axis) {
        place = place << 1U | (cells[static_cast<std::size_t>(axis)] >> bit & 1U);
      }
    }
    return place;
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

 private:
  const double* points_;
  int axes_;
  std::array<double, max_axes> low_{};
  std::array<double, max_axes> rate_{};
};

}  // namespace

std::vector<std::int32_t> local_order(const double* points, std::int64_t count, int axes) {
  if (count < fewest ||
      !std::all_of(points, points + count * axes, [](double x) { return std::isfinite(x); })) {
    return {};
  }
  const ScaledPoints scaled(points, count, axes);
  std::vector<std::uint64_t> places;
  for (std::int64_t p = 0; p < count; ++p) {
    places.push_back(scaled.place_on_curve(p));
  }
  std::vector<std::int32_t> given(static_cast<std::size_t>(count));
  std::iota(given.begin(), given.end(), 0);
  std::vector<std::int32_t> order = given;
  std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    const std::uint64_t left = places[static_cast<std::size_t>(a)];
    const std::uint64_t right = places[static_cast<std::size_t>(b)];
    return left != right ? left < right : a < b;
  });
  if (scaled.length(given) <= max_length * scaled.length(order)) {
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
