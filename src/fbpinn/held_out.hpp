/// The loss at points that training had no row at.
#pragma once

#include "fbpinn/training_geometry.hpp"

#include <shardsolve/fbpinn.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve::fbpinn::training {

/// Of each term its part of the loss, from the residual at the end by row.
std::vector<TermLoss> losses_of_terms(const Problem& problem, const TrainingGeometry& geometry,
                                      const std::vector<double>& residual);

/// Adds to `result`, whose terms have their losses, what they are at points between those of the
/// training, and warnings where that is far more. Status overflow if u is not finite there. Costs
/// about a residual at a sixteenth of the points. `chunk`: as of pointwise_rows.
void hold_out(const TrainingGeometry& geometry, std::int64_t chunk, const sparse::Workers& workers,
              Trained& result);

}  // namespace shardsolve::fbpinn::training
