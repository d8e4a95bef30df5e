#include "fbpinn/pairs.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

namespace shardsolve::fbpinn {
namespace {

[[noreturn]] void refuse_point(const double* point, int axes, std::int64_t number,
                               const std::string& why) {
  throw Error(ErrorKind::invalid_argument,
              fmt::format("point {} at ({}) {}", number,
                          fmt::join(std::span(point, static_cast<std::size_t>(axes)), ", "), why));
}

/// Points sorted into the cells of a grid, so that a box looks at those near it.
class Cells {
 public:
  Cells(const Boxes& boxes, const double* points, std::int64_t count)
      : axes_(boxes.axes()), points_(points) {
    choose_grid(boxes, count);
    begin_.assign(static_cast<std::size_t>(cells_) + 1, 0);
    std::vector<std::int64_t> cell_of(static_cast<std::size_t>(count));
    for (std::int64_t p = 0; p < count; ++p) {
      std::int64_t cell = 0;
      for (int axis = 0; axis < axes_; ++axis) {
        cell = cell * along_[axis] + place(axis, points[p * axes_ + axis]);
      }
      cell_of[static_cast<std::size_t>(p)] = cell;
      ++begin_[static_cast<std::size_t>(cell) + 1];
    }
    for (std::size_t cell = 0; cell < static_cast<std::size_t>(cells_); ++cell) {
      begin_[cell + 1] += begin_[cell];
    }
    std::vector<std::int64_t> next(begin_.begin(), begin_.end() - 1);
    sorted_.resize(static_cast<std::size_t>(count));
    for (std::int64_t p = 0; p < count; ++p) {
      const auto cell = static_cast<std::size_t>(cell_of[static_cast<std::size_t>(p)]);
      sorted_[static_cast<std::size_t>(next[cell]++)] = static_cast<std::int32_t>(p);
    }
  }

  /// Appends the points inside a box, ascending.
  void collect(const double* center, const double* half_width,
               std::vector<std::int32_t>& found) const {
    std::array<std::int64_t, max_axes> first{};
    std::array<std::int64_t, max_axes> last{};
    for (int axis = 0; axis < axes_; ++axis) {
      first[axis] = place(axis, center[axis] - half_width[axis]);
      last[axis] = place(axis, center[axis] + half_width[axis]);
    }
    const std::size_t before = found.size();
    std::array<std::int64_t, max_axes> at = first;
    for (;;) {
      std::int64_t cell = 0;
      for (int axis = 0; axis < axes_; ++axis) {
        cell = cell * along_[axis] + at[axis];
      }
      for (std::int64_t k = begin_[static_cast<std::size_t>(cell)];
           k < begin_[static_cast<std::size_t>(cell) + 1]; ++k) {
        const std::int32_t p = sorted_[static_cast<std::size_t>(k)];
        if (is_inside(p, center, half_width)) {
          found.push_back(p);
        }
      }
      int axis = axes_ - 1;
      while (axis >= 0 && at[axis] == last[axis]) {
        at[axis] = first[axis];
        --axis;
      }
      if (axis < 0) {
        break;
      }
      ++at[axis];
    }
    std::sort(found.begin() + static_cast<std::ptrdiff_t>(before), found.end());
  }

 private:
  /// Cells half as wide as the middle one of the boxes' half widths, unless they were far more than
  /// the points.
  void choose_grid(const Boxes& boxes, std::int64_t count) {
    const double max_along =
        std::max(1.0, std::pow(4.0 * static_cast<double>(count) + 64.0, 1.0 / axes_));
    for (int axis = 0; axis < axes_; ++axis) {
      double low = std::numeric_limits<double>::infinity();
      double high = -low;
      std::vector<double> widths;
      for (std::int64_t box = 0; box < boxes.count(); ++box) {
        low = std::min(low, boxes.center(box)[axis] - boxes.half_width(box)[axis]);
        high = std::max(high, boxes.center(box)[axis] + boxes.half_width(box)[axis]);
        widths.push_back(boxes.half_width(box)[axis]);
      }
      std::nth_element(widths.begin(),
                       widths.begin() + static_cast<std::ptrdiff_t>(widths.size() / 2),
                       widths.end());
      const double wanted = (high - low) / (widths[widths.size() / 2] / 2);
      along_[axis] = static_cast<std::int64_t>(std::clamp(std::floor(wanted), 1.0, max_along));
      low_[axis] = low;
      per_length_[axis] = static_cast<double>(along_[axis]) / (high - low);
      cells_ *= along_[axis];
    }
  }

  std::int64_t place(int axis, double x) const {
    const double cell = (x - low_[axis]) * per_length_[axis];
    return static_cast<std::int64_t>(std::clamp(cell, 0.0, static_cast<double>(along_[axis] - 1)));
  }

  bool is_inside(std::int32_t p, const double* center, const double* half_width) const {
    const double* const x = points_ + std::int64_t{p} * axes_;
    for (int axis = 0; axis < axes_; ++axis) {
      if (!(std::abs(x[axis] - center[axis]) < half_width[axis])) {
        return false;
      }
    }
    return true;
  }

  int axes_;
  const double* points_;
  std::array<std::int64_t, max_axes> along_{};
  std::array<double, max_axes> low_{};
  std::array<double, max_axes> per_length_{};
  std::int64_t cells_ = 1;
  std::vector<std::int64_t> begin_;
  std::vector<std::int32_t> sorted_;
};

void require_finite_points(const double* points, std::int64_t count, int axes,
                           std::int64_t first_number) {
  constexpr std::int64_t max_points = std::numeric_limits<std::int32_t>::max();
  if (count < 0 || count > max_points) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("{} points given; 0 to {} are accepted", count, max_points));
  }
  for (std::int64_t p = 0; p < count; ++p) {
    for (int axis = 0; axis < axes; ++axis) {
      if (!std::isfinite(points[p * axes + axis])) {
        refuse_point(points + p * axes, axes, first_number + p,
                     "is not finite; give finite coordinates");
      }
    }
  }
}

/// Whether all levels have a box that the point is well inside of.
void require_covered(const Boxes& boxes, const Pairs& pairs, const double* points,
                     std::int64_t first_number) {
  constexpr double margin = 1e-4;
  const int axes = boxes.axes();
  std::vector<char> covered(static_cast<std::size_t>(boxes.levels()));
  for (std::int64_t p = 0; p < pairs.points; ++p) {
    std::fill(covered.begin(), covered.end(), 0);
    int missing = boxes.levels();
    for (const std::int32_t pair : pairs.pairs_of(p)) {
      const std::int64_t box = pairs.box[static_cast<std::size_t>(pair)];
      char& is_covered = covered[static_cast<std::size_t>(boxes.level(box))];
      bool is_well_inside = is_covered == 0;
      for (int axis = 0; axis < axes && is_well_inside; ++axis) {
        is_well_inside = std::abs(points[p * axes + axis] - boxes.center(box)[axis]) <
                         (1.0 - margin) * boxes.half_width(box)[axis];
      }
      if (is_well_inside) {
        is_covered = 1;
        --missing;
      }
    }
    if (missing > 0) {
      const auto level = std::find(covered.begin(), covered.end(), 0) - covered.begin();
      const std::string of_level =
          boxes.levels() > 1 ? fmt::format(" of level {}", level) : std::string();
      refuse_point(
          points + p * axes, axes, first_number + p,
          fmt::format("lies {} box{}: all windows are 0 there. Make the boxes overlap "
                      "more, add one there, or leave the point out",
                      pairs.pairs_of(p).empty() ? "outside of every" : "at the very edge of every",
                      of_level));
    }
  }
}

}  // namespace

Pairs find_pairs(const Boxes& boxes, const double* points, std::int64_t count,
                 std::int64_t first_number) {
  require_finite_points(points, count, boxes.axes(), first_number);
  Pairs pairs;
  pairs.boxes = boxes.count();
  pairs.points = count;
  const Cells cells(boxes, points, count);
  pairs.box_begin.push_back(0);
  for (std::int64_t box = 0; box < boxes.count(); ++box) {
    cells.collect(boxes.center(box), boxes.half_width(box), pairs.point);
    pairs.box_begin.push_back(pairs.count());
  }
  if (pairs.count() > std::numeric_limits<std::int32_t>::max()) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("{} pairs of a point and a box around it; up to {} are accepted: use "
                            "fewer points or boxes that overlap less",
                            pairs.count(), std::numeric_limits<std::int32_t>::max()));
  }
  pairs.box.resize(pairs.point.size());
  pairs.point_begin.assign(static_cast<std::size_t>(count) + 1, 0);
  for (const std::int32_t p : pairs.point) {
    ++pairs.point_begin[static_cast<std::size_t>(p) + 1];
  }
  for (std::size_t p = 0; p < static_cast<std::size_t>(count); ++p) {
    pairs.point_begin[p + 1] += pairs.point_begin[p];
  }
  std::vector<std::int64_t> next(pairs.point_begin.begin(), pairs.point_begin.end() - 1);
  pairs.by_point.resize(pairs.point.size());
  for (std::int64_t box = 0; box < boxes.count(); ++box) {
    for (std::int64_t pair = pairs.box_begin[box]; pair < pairs.box_begin[box + 1]; ++pair) {
      const auto p = static_cast<std::size_t>(pairs.point[static_cast<std::size_t>(pair)]);
      pairs.box[static_cast<std::size_t>(pair)] = static_cast<std::int32_t>(box);
      pairs.by_point[static_cast<std::size_t>(next[p]++)] = static_cast<std::int32_t>(pair);
    }
  }
  require_covered(boxes, pairs, points, first_number);
  return pairs;
}

}  // namespace shardsolve::fbpinn
