#include "fbpinn/box_rows.hpp"

#include "fbpinn/features.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace shardsolve::fbpinn {

void box_rows(const TrainingGeometry& geometry, const Mlp& mlp,
              std::span<const double> hidden_weights, std::span<const double> derivatives,
              std::int64_t box, double* rows) {
  const Boxes& boxes = geometry.boxes;
  const std::int64_t of_level = geometry.points_count() * geometry.set.size();
  const BoxFeatures<double> features{boxes.center(box), boxes.half_width(box),
                                     hidden_weights.data() + box * mlp.weights(boxes.axes()), box};
  const auto points = geometry.at.pairs.points_of(box);
  const auto height = static_cast<std::int64_t>(geometry.lists.rows_of(box).size());
  for (const Segment& segment : geometry.segments) {
    const PointRange range = range_of(segment, points);
    const PointsInBox<double> in_box{geometry.points.data(),
                                     geometry.at.inverse_sums.data() + boxes.level(box) * of_level,
                                     points.data() + range.begin, range.count};
    feature_rows(geometry.set, mlp, features, in_box, derivatives.data() + segment.first_derivative,
                 segment.first_point, segment.equations, geometry.fields, rows, height);
    rows += segment.equations * range.count;
  }
}

bool are_finite(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(),
                     [](double value) { return std::isfinite(value); });
}

void refuse_nonfinite_units(const TrainingGeometry& geometry, const Mlp& mlp,
                            std::span<const double> hidden_weights,
                            std::span<const double> derivatives, std::int64_t box) {
  const auto of_box = geometry.lists.rows_of(box);
  const auto height = static_cast<std::int64_t>(of_box.size());
  std::vector<double> memory(static_cast<std::size_t>(height * geometry.fields * mlp.features()));
  box_rows(geometry, mlp, hidden_weights, derivatives, box, memory.data());
  const auto found = std::find_if(memory.begin(), memory.end(),
                                  [](double value) { return !std::isfinite(value); });
  const std::int64_t place = found == memory.end() ? 0 : found - memory.begin();
  const std::int64_t row = of_box[static_cast<std::size_t>(place % height)];
  std::int64_t point = 0;
  for (const Segment& segment : geometry.segments) {
    if (row >= segment.first_row) {
      point = segment.first_point + (row - segment.first_row) % segment.points;
    }
  }
  throw Error(ErrorKind::invalid_argument,
              fmt::format("unit {} of box {}, or a derivative of it, is not finite at ({}): use "
                          "units that are finite with their derivatives all over the box{}",
                          place / height % mlp.features(), box,
                          fmt::join(std::span(geometry.points.data() + point * geometry.set.axes(),
                                              static_cast<std::size_t>(geometry.set.axes())),
                                    ", "),
                          mlp.own == nullptr ? ", or smaller hidden weights" : ""));
}

}  // namespace shardsolve::fbpinn
