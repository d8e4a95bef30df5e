#include "fbpinn/box_rows.hpp"

#include "fbpinn/features.hpp"

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

}  // namespace shardsolve::fbpinn
