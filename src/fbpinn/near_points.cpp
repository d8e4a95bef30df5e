#include "fbpinn/near_points.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace shardsolve::fbpinn {

NearPoints::NearPoints(const double* points, std::int64_t count, int axes)
    : points_(points), count_(count), axes_(axes) {
  for (int axis = 0; axis < axes; ++axis) {
    double low = points[axis];
    double high = low;
    for (std::int64_t p = 1; p < count; ++p) {
      low = std::min(low, points[p * axes + axis]);
      high = std::max(high, points[p * axes + axis]);
    }
    if (high > low) {
      free_.push_back(axis);
      low_.push_back(low);
      rate_.push_back(1.0 / (high - low));
    }
  }
  const auto cells_with = [&](std::int64_t along) {
    std::int64_t cells = 1;
    for (std::size_t k = 0; k < free_.size(); ++k) {
      cells *= along;
    }
    return cells;
  };
  while (!free_.empty() && 2 * cells_with(along_ + 1) <= count) {
    ++along_;
  }
  std::vector<std::size_t> cell(static_cast<std::size_t>(count), 0);
  std::size_t cells = 1;
  for (std::size_t k = 0; k < free_.size(); ++k) {
    cells *= static_cast<std::size_t>(along_);
    for (std::int64_t p = 0; p < count; ++p) {
      std::size_t& place = cell[static_cast<std::size_t>(p)];
      place = place * static_cast<std::size_t>(along_) + static_cast<std::size_t>(cell_along(p, k));
    }
  }
  begin_.assign(cells + 1, 0);
  for (const std::size_t place : cell) {
    ++begin_[place + 1];
  }
  for (std::size_t i = 0; i < cells; ++i) {
    begin_[i + 1] += begin_[i];
  }
  std::vector<std::int64_t> next(begin_.begin(), begin_.end() - 1);
  sorted_.resize(static_cast<std::size_t>(count));
  for (std::int64_t p = 0; p < count; ++p) {
    sorted_[static_cast<std::size_t>(next[cell[static_cast<std::size_t>(p)]]++)] =
        static_cast<std::int32_t>(p);
  }
}

std::int64_t NearPoints::cell_along(std::int64_t p, std::size_t k) const {
  const auto place = static_cast<std::int64_t>(at(p, k) * static_cast<double>(along_));
  return std::clamp<std::int64_t>(place, 0, along_ - 1);
}

/// Some of the nearest, in the cells around: the nearest first, points at the same place left out.
std::vector<std::int64_t> NearPoints::nearest(std::int64_t p) const {
  constexpr std::size_t most = 256;  // where a cell has nearly all points
  std::vector<std::pair<double, std::int64_t>> found;
  std::array<std::int64_t, max_axes> step{};
  step.fill(-1);
  for (;;) {
    std::int64_t cell = 0;
    bool is_there = true;
    for (std::size_t k = 0; k < free_.size(); ++k) {
      const std::int64_t along = cell_along(p, k) + step[k];
      is_there = is_there && along >= 0 && along < along_;
      cell = cell * along_ + along;
    }
    for (std::int64_t i = is_there ? begin_[static_cast<std::size_t>(cell)] : 0;
         is_there && i < begin_[static_cast<std::size_t>(cell) + 1] && found.size() < most; ++i) {
      const std::int64_t q = sorted_[static_cast<std::size_t>(i)];
      double distance = 0.0;
      for (std::size_t k = 0; k < free_.size(); ++k) {
        distance += (at(q, k) - at(p, k)) * (at(q, k) - at(p, k));
      }
      if (distance > 0.0) {
        found.emplace_back(distance, q);
      }
    }
    std::size_t k = 0;
    while (k < free_.size() && step[k] == 1) {
      step[k++] = -1;
    }
    if (k >= free_.size()) {
      break;
    }
    ++step[k];
  }
  std::sort(found.begin(), found.end());
  std::vector<std::int64_t> result;
  for (const auto& [distance, q] : found) {
    result.push_back(q);
  }
  return result;
}

std::int64_t NearPoints::neighbour(std::int64_t p) const {
  const std::vector<std::int64_t> found = nearest(p);
  return found.size() > free_.size() ? found[free_.size()] : -1;
}

/// Of the nearest points' differences from p, with C the sum of their outer products:
/// det C / (tr C / n)^n, which is 1 if they spread alike in all n directions and 0 if in fewer.
double NearPoints::spread(std::int64_t p) const {
  const std::size_t n = free_.size();
  std::vector<std::int64_t> found = nearest(p);
  found.resize(std::min(found.size(), 4 * n));
  if (found.size() <= n) {
    return 0.0;
  }
  std::array<std::array<double, max_axes>, max_axes> c{};
  double trace = 0.0;
  for (const std::int64_t q : found) {
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        c[i][j] += (at(q, i) - at(p, i)) * (at(q, j) - at(p, j));
      }
      trace += (at(q, i) - at(p, i)) * (at(q, i) - at(p, i));
    }
  }
  double result = 1.0;
  for (std::size_t k = 0; k < n; ++k) {
    result *= c[k][k] / (trace / static_cast<double>(n));
    for (std::size_t i = k + 1; i < n && c[k][k] > 0.0; ++i) {
      for (std::size_t j = k + 1; j < n; ++j) {
        c[i][j] -= c[i][k] * c[k][j] / c[k][k];
      }
    }
  }
  return result;
}

bool NearPoints::fill_space() const {
  constexpr double least = 0.1;
  constexpr std::int64_t looked_at = 256;
  if (static_cast<int>(free_.size()) < axes_) {
    return false;
  }
  const std::int64_t seen = std::min(count_, looked_at);
  std::int64_t spread_out = 0;
  for (std::int64_t i = 0; i < seen; ++i) {
    spread_out += spread(i * count_ / seen) > least ? 1 : 0;
  }
  return 2 * spread_out > seen;
}

}  // namespace shardsolve::fbpinn
