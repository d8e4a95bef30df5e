/// What a training knows of its points before any residual is computed.
#pragma once

#include "fbpinn/block_system.hpp"
#include "fbpinn/networks.hpp"

#include <shardsolve/fbpinn_boxes.hpp>
#include <shardsolve/jet_set.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace shardsolve::fbpinn {

/// Points that have equations of their own: one term of a loss.
struct TermShape {
  std::int64_t points = 0;
  int equations = 1;
};

/// Where a term's points, rows and derivatives are among those of all terms.
struct Segment {
  std::int64_t points = 0;
  int equations = 1;
  std::int64_t first_point = 0;
  std::int64_t first_row = 0;         ///< equation e at point p: first_row + e * points + p
  std::int64_t first_derivative = 0;  ///< points x equations x fields x set.size() from here on
};

/// Points with equations, the boxes around them, and where each one's numbers are. Plain arrays and
/// numbers, so that callers of any kind can make it.
struct PointGeometry {
  /// `all_points`: axes numbers a point, term after term. Throws Error(invalid_argument) if there
  /// are none, or a point lies in no box.
  PointGeometry(Boxes of, JetSet derivatives, int fields_of_problem, std::vector<double> all_points,
                const std::vector<TermShape>& terms, const sparse::Workers& workers);
  PointGeometry(const PointGeometry&) = delete;
  PointGeometry& operator=(const PointGeometry&) = delete;

  std::int64_t points_count() const { return at.pairs.points; }
  /// Numbers of one point's jets.
  std::int64_t jet_numbers() const { return std::int64_t{fields} * set.size(); }

  Boxes boxes;
  JetSet set;
  int fields;
  std::vector<double> points;
  std::vector<Segment> segments;
  std::int64_t rows = 0;
  std::int64_t derivatives = 0;  ///< of all residuals by all jets: how many numbers
  PointsInBoxes at;
};

/// Everything that follows from points and boxes alone.
struct TrainingGeometry : PointGeometry {
  /// As PointGeometry. Throws Error(invalid_argument) if a box has no point, too.
  TrainingGeometry(Boxes of, JetSet derivatives, int fields_of_problem,
                   std::vector<double> all_points, const std::vector<TermShape>& terms,
                   const sparse::Workers& workers);

  RowLists lists;
};

/// Of a segment, the points that lie in one box: a range in the box's list.
struct PointRange {
  std::int64_t begin = 0;
  std::int64_t count = 0;
};
PointRange range_of(const Segment& segment, std::span<const std::int32_t> points_of_box);

}  // namespace shardsolve::fbpinn
