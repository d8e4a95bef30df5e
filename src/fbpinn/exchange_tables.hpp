/// What a front needs to compute a loss and its gradient on several devices by itself.
#pragma once

#include "fbpinn/training_geometry.hpp"

#include <shardsolve/fbpinn_placement.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace shardsolve::fbpinn {

/// Boxes on ranks, and at the points of a training the pairs, windows and messages.
struct ExchangeTables {
  std::vector<Placement> placements;  ///< the chosen one first
  Pairs pairs;
  ExchangePlan plan;
  /// Of each pair the jet of its window divided by the sum of the windows: set.size() numbers.
  std::vector<double> windows;
};

/// `owner`: a rank for each box; empty: what `costs` say is best. Throws Error as exchange_plan().
ExchangeTables exchange_tables(const TrainingGeometry& geometry, std::int64_t ranks,
                               std::span<const std::int32_t> owner, const PlacementCosts& costs);

}  // namespace shardsolve::fbpinn
