#include "fbpinn/training_geometry.hpp"

#include "fbpinn/lists.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace shardsolve::fbpinn {
namespace {

void require_point_in_each(const Boxes& boxes, const Pairs& pairs) {
  for (std::int64_t box = 0; box < boxes.count(); ++box) {
    if (pairs.points_of(box).empty()) {
      throw Error(
          ErrorKind::invalid_argument,
          fmt::format(
              "box {} with its center at ({}) has no point in it, so that nothing says "
              "what its network is to be: give points there or leave the box out",
              box,
              fmt::join(std::span(boxes.center(box), static_cast<std::size_t>(boxes.axes())),
                        ", ")));
    }
  }
}

/// The rows of a box, ascending.
void rows_of_box(const std::vector<Segment>& segments, std::span<const std::int32_t> points,
                 std::int32_t* rows) {
  for (const Segment& segment : segments) {
    const PointRange range = range_of(segment, points);
    for (int e = 0; e < segment.equations; ++e) {
      const std::int64_t first = segment.first_row + e * segment.points - segment.first_point;
      for (std::int64_t i = range.begin; i < range.begin + range.count; ++i) {
        *rows++ = static_cast<std::int32_t>(first + points[static_cast<std::size_t>(i)]);
      }
    }
  }
}

RowLists make_row_lists(const std::vector<Segment>& segments, std::int64_t rows, const Pairs& pairs,
                        const sparse::ForEach& each) {
  RowLists lists;
  lists.rows = rows;
  lists.begin.push_back(0);
  for (std::int64_t box = 0; box < pairs.boxes; ++box) {
    std::int64_t count = 0;
    for (const Segment& segment : segments) {
      count += segment.equations * range_of(segment, pairs.points_of(box)).count;
    }
    lists.begin.push_back(lists.begin.back() + count);
  }
  if (rows > std::numeric_limits<std::int32_t>::max() ||
      lists.begin.back() > std::numeric_limits<std::int32_t>::max()) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("{} equations in {} places of boxes; up to {} are accepted: use fewer "
                            "points or boxes that overlap less",
                            rows, lists.begin.back(), std::numeric_limits<std::int32_t>::max()));
  }
  lists.row.resize(static_cast<std::size_t>(lists.begin.back()));
  each_range(pairs.boxes, each, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t box = first; box < last; ++box) {
      rows_of_box(segments, pairs.points_of(box),
                  lists.row.data() + lists.begin[static_cast<std::size_t>(box)]);
    }
  });
  InverseLists by_row = inverse_of(lists.begin, lists.row, rows, each);
  lists.by_row_begin = std::move(by_row.begin);
  lists.by_row = std::move(by_row.place);
  return lists;
}

}  // namespace

PointRange range_of(const Segment& segment, std::span<const std::int32_t> points_of_box) {
  const auto before = [](std::int32_t a, std::int64_t b) { return a < b; };
  const auto begin =
      std::lower_bound(points_of_box.begin(), points_of_box.end(), segment.first_point, before);
  const auto end =
      std::lower_bound(begin, points_of_box.end(), segment.first_point + segment.points, before);
  return {begin - points_of_box.begin(), end - begin};
}

PointGeometry::PointGeometry(Boxes of, JetSet derivatives_of, int fields_of_problem,
                             std::vector<double> all_points, const std::vector<TermShape>& terms,
                             const sparse::Workers& workers)
    : boxes(std::move(of)),
      set(std::move(derivatives_of)),
      fields(fields_of_problem),
      points(std::move(all_points)) {
  std::int64_t count = 0;
  for (const TermShape& term : terms) {
    segments.push_back({term.points, term.equations, count, rows, derivatives});
    count += term.points;
    rows += term.points * term.equations;
    derivatives += term.points * term.equations * jet_numbers();
  }
  if (count == 0 || static_cast<std::int64_t>(points.size()) != count * boxes.axes()) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("a problem of {} terms with {} points and {} coordinates given: add "
                            "the equation at some points, with {} coordinates each",
                            terms.size(), count, points.size(), boxes.axes()));
  }
  at = points_in_boxes(boxes, set, points.data(), count, 0, workers);
}

TrainingGeometry::TrainingGeometry(Boxes of, JetSet derivatives_of, int fields_of_problem,
                                   std::vector<double> all_points,
                                   const std::vector<TermShape>& terms,
                                   const sparse::Workers& workers)
    : PointGeometry(std::move(of), std::move(derivatives_of), fields_of_problem,
                    std::move(all_points), terms, workers) {
  require_point_in_each(boxes, at.pairs);
  lists = make_row_lists(segments, rows, at.pairs, workers.each);
}

}  // namespace shardsolve::fbpinn
