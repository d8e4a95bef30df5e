#include "fbpinn/pairs.hpp"

#include "fbpinn/lists.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

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
  Cells(const Boxes& boxes, const double* points, std::int64_t count, const sparse::ForEach& each)
      : axes_(boxes.axes()), points_(points) {
    choose_grid(boxes, count);
    begin_.assign(static_cast<std::size_t>(cells_) + 1, 0);
    std::vector<std::int64_t> cell_of(static_cast<std::size_t>(count));
    each_range(count, each, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t p = first; p < last; ++p) {
        std::int64_t cell = 0;
        for (int axis = 0; axis < axes_; ++axis) {
          cell = cell * along_[axis] + place(axis, points[p * axes_ + axis]);
        }
        cell_of[static_cast<std::size_t>(p)] = cell;
      }
    });
    for (const std::int64_t cell : cell_of) {
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
  void collect(const double* center, const double* half_width, AscendingSorter& sorter,
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
    sorter.sort(std::span(found).subspan(before));
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
    // NaN, of cells so short that their number has no bound, is no number of a place.
    const auto last = static_cast<double>(along_[axis] - 1);
    return cell > 0.0 ? static_cast<std::int64_t>(std::min(cell, last)) : 0;
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
                           std::int64_t first_number, const sparse::ForEach& each) {
  constexpr std::int64_t max_points = std::numeric_limits<std::int32_t>::max();
  if (count < 0 || count > max_points) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("{} points given; 0 to {} are accepted", count, max_points));
  }
  const std::int64_t bad = find_first(count, each, [&](std::int64_t p) {
    return !std::all_of(points + p * axes, points + (p + 1) * axes,
                        [](double x) { return std::isfinite(x); });
  });
  if (bad >= 0) {
    refuse_point(points + bad * axes, axes, first_number + bad,
                 "is not finite; give finite coordinates");
  }
}

/// The first level without a box that a point is well inside of; -1 if there is none.
std::int64_t level_that_lacks(const Boxes& boxes, const Pairs& pairs, const double* points,
                              std::int64_t p) {
  constexpr double margin = 1e-4;
  const int axes = boxes.axes();
  for (std::int64_t level = 0; level < boxes.levels(); ++level) {
    const auto of_point = pairs.pairs_of(p);
    const bool is_covered = std::any_of(of_point.begin(), of_point.end(), [&](std::int32_t pair) {
      const std::int64_t box = pairs.box[static_cast<std::size_t>(pair)];
      bool is_well_inside = boxes.level(box) == level;
      for (int axis = 0; axis < axes && is_well_inside; ++axis) {
        is_well_inside = std::abs(points[p * axes + axis] - boxes.center(box)[axis]) <
                         (1.0 - margin) * boxes.half_width(box)[axis];
      }
      return is_well_inside;
    });
    if (!is_covered) {
      return level;
    }
  }
  return -1;
}

/// Whether all levels have a box that each point is well inside of.
void require_covered(const Boxes& boxes, const Pairs& pairs, const double* points,
                     std::int64_t first_number, const sparse::ForEach& each) {
  const std::int64_t bad = find_first(pairs.points, each, [&](std::int64_t p) {
    return level_that_lacks(boxes, pairs, points, p) >= 0;
  });
  if (bad < 0) {
    return;
  }
  const int axes = boxes.axes();
  const std::string of_level =
      boxes.levels() > 1 ? fmt::format(" of level {}", level_that_lacks(boxes, pairs, points, bad))
                         : std::string();
  refuse_point(
      points + bad * axes, axes, first_number + bad,
      fmt::format("lies {} box{}: all windows are 0 there. Make the boxes overlap "
                  "more, add one there, or leave the point out",
                  pairs.pairs_of(bad).empty() ? "outside of every" : "at the very edge of every",
                  of_level));
}

/// The points of all boxes, and which box each pair is of.
void collect_all(const Boxes& boxes, const Cells& cells, const sparse::ForEach& each,
                 Pairs& pairs) {
  constexpr std::int64_t at_a_time = 64;  // boxes
  const std::int64_t pieces = (boxes.count() + at_a_time - 1) / at_a_time;
  std::vector<std::vector<std::int32_t>> found(static_cast<std::size_t>(pieces));
  pairs.box_begin.assign(static_cast<std::size_t>(boxes.count()) + 1, 0);
  const auto range_of_piece = [&](std::int64_t piece) {
    return std::pair(piece * at_a_time, std::min(boxes.count(), (piece + 1) * at_a_time));
  };
  each(pieces, [&](std::int64_t piece) {
    const auto [first, last] = range_of_piece(piece);
    std::vector<std::int32_t>& mine = found[static_cast<std::size_t>(piece)];
    AscendingSorter sorter;
    for (std::int64_t box = first; box < last; ++box) {
      const std::size_t before = mine.size();
      cells.collect(boxes.center(box), boxes.half_width(box), sorter, mine);
      pairs.box_begin[static_cast<std::size_t>(box) + 1] =
          static_cast<std::int64_t>(mine.size() - before);
    }
  });
  for (std::size_t box = 0; box < static_cast<std::size_t>(boxes.count()); ++box) {
    pairs.box_begin[box + 1] += pairs.box_begin[box];
  }
  if (pairs.box_begin.back() > std::numeric_limits<std::int32_t>::max()) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("{} pairs of a point and a box around it; up to {} are accepted: use "
                            "fewer points or boxes that overlap less",
                            pairs.box_begin.back(), std::numeric_limits<std::int32_t>::max()));
  }
  pairs.point.resize(static_cast<std::size_t>(pairs.box_begin.back()));
  pairs.box.resize(pairs.point.size());
  each(pieces, [&](std::int64_t piece) {
    const auto [first, last] = range_of_piece(piece);
    const std::vector<std::int32_t>& mine = found[static_cast<std::size_t>(piece)];
    std::copy(mine.begin(), mine.end(), pairs.point.begin() + pairs.box_begin[first]);
    for (std::int64_t box = first; box < last; ++box) {
      std::fill(pairs.box.begin() + pairs.box_begin[box],
                pairs.box.begin() + pairs.box_begin[box + 1], static_cast<std::int32_t>(box));
    }
  });
}

}  // namespace

Pairs find_pairs(const Boxes& boxes, const double* points, std::int64_t count,
                 std::int64_t first_number, const sparse::ForEach& each) {
  require_finite_points(points, count, boxes.axes(), first_number, each);
  Pairs pairs;
  pairs.boxes = boxes.count();
  pairs.points = count;
  collect_all(boxes, Cells(boxes, points, count, each), each, pairs);
  InverseLists by_point = inverse_of(pairs.box_begin, pairs.point, count, each);
  pairs.point_begin = std::move(by_point.begin);
  pairs.by_point = std::move(by_point.place);
  require_covered(boxes, pairs, points, first_number, each);
  return pairs;
}

}  // namespace shardsolve::fbpinn
