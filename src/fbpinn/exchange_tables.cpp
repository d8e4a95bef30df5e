#include "fbpinn/exchange_tables.hpp"

#include "fbpinn/windows.hpp"

#include <cstddef>

namespace shardsolve::fbpinn {
namespace {

std::vector<double> windows_of_pairs(const TrainingGeometry& geometry) {
  const JetSet& set = geometry.set;
  const Boxes& boxes = geometry.boxes;
  const Pairs& pairs = geometry.at.pairs;
  const std::int64_t of_level = pairs.points * set.size();
  std::vector<double> windows(static_cast<std::size_t>(pairs.count() * set.size()), 0.0);
  double raw[max_derivatives];
  for (std::int64_t pair = 0; pair < pairs.count(); ++pair) {
    const auto at = static_cast<std::size_t>(pair);
    const std::int64_t box = pairs.box[at];
    const std::int64_t p = pairs.point[at];
    window_jet(set, geometry.points.data() + p * set.axes(), boxes.center(box),
               boxes.half_width(box), raw);
    const double* const inverse =
        geometry.at.inverse_sums.data() + boxes.level(box) * of_level + p * set.size();
    double* const jet = windows.data() + pair * set.size();
    for (const JetSet::Term& term : set.terms()) {
      jet[term.result] += term.weight * raw[term.left] * inverse[term.right];
    }
  }
  return windows;
}

}  // namespace

ExchangeTables exchange_tables(const TrainingGeometry& geometry, std::int64_t ranks,
                               std::span<const std::int32_t> owner, const PlacementCosts& costs) {
  ExchangeTables tables;
  tables.placements = placements(geometry.boxes, geometry.points, ranks, costs);
  if (!owner.empty()) {
    tables.placements.insert(
        tables.placements.begin(),
        evaluated(geometry.boxes, geometry.points, {owner.begin(), owner.end()}, ranks, costs));
  }
  tables.plan =
      exchange_plan(geometry.boxes, geometry.points, tables.placements.front().owner, ranks);
  tables.pairs = geometry.at.pairs;
  tables.windows = windows_of_pairs(geometry);
  return tables;
}

}  // namespace shardsolve::fbpinn
