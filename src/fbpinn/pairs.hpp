/// Which points lie in which boxes.
#pragma once

#include "fbpinn/numbers.hpp"
#include "sparse/workers.hpp"

#include <shardsolve/fbpinn_boxes.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace shardsolve::fbpinn {

/// All pairs of a box and a point inside it, by box and then point. Points on the surface of a box,
/// where its window is 0, are not in it.
struct Pairs {
  std::int64_t boxes = 0;
  std::int64_t points = 0;
  std::vector<std::int64_t> box_begin;    ///< of each box its first pair; boxes + 1
  Numbers<std::int32_t> point;            ///< of each pair
  std::vector<std::int64_t> point_begin;  ///< of each point its first place in `by_point`
  Numbers<std::int32_t> by_point;         ///< numbers of pairs, by point and then box
  Numbers<std::int32_t> box;              ///< of each pair

  std::int64_t count() const { return static_cast<std::int64_t>(point.size()); }
  std::span<const std::int32_t> points_of(std::int64_t of_box) const {
    return std::span(point).subspan(
        static_cast<std::size_t>(box_begin[of_box]),
        static_cast<std::size_t>(box_begin[of_box + 1] - box_begin[of_box]));
  }
  std::span<const std::int32_t> pairs_of(std::int64_t of_point) const {
    return std::span(by_point).subspan(
        static_cast<std::size_t>(point_begin[of_point]),
        static_cast<std::size_t>(point_begin[of_point + 1] - point_begin[of_point]));
  }
};

/// `points`: count x axes numbers, point after point. Takes time and memory in proportion to the
/// pairs, points and boxes.
/// Throws Error(invalid_argument) if a coordinate is not finite or a point lies in no box of some
/// level, or only within 1e-4 half widths of the surface of each, naming the point; the first has
/// the number `first_number`.
Pairs find_pairs(const Boxes& boxes, const double* points, std::int64_t count,
                 std::int64_t first_number = 0, const sparse::ForEach& each = sparse::one_by_one);

}  // namespace shardsolve::fbpinn
