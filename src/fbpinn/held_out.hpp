/// The loss at points that training had no row at.
#pragma once

#include "fbpinn/training_geometry.hpp"

#include <shardsolve/fbpinn.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace shardsolve::fbpinn::training {

/// Of each term its part of the loss, from the residual at the end by row.
std::vector<TermLoss> losses_of_terms(const Problem& problem, const TrainingGeometry& geometry,
                                      const std::vector<double>& residual);

/// Points of all terms between those of the training, about a sixteenth as many. They do not depend
/// on what is found.
struct HeldOutPoints {
  std::vector<Term> terms;                        ///< those that have some, without targets
  std::vector<std::size_t> numbers;               ///< of these among all
  std::int64_t in_strips = 0;                     ///< of the points: see PointsBetween
  std::unique_ptr<const PointGeometry> geometry;  ///< null where there are none
};
HeldOutPoints held_out_points(const Problem& problem, const TrainingGeometry& geometry,
                              const sparse::Workers& workers);

/// Adds to `result`, whose terms have their losses, what they are at those points, and warnings
/// where that is far more. Status overflow if u is not finite there. `chunk`: as of pointwise_rows.
void hold_out(const HeldOutPoints& between, std::int64_t chunk, const sparse::Workers& workers,
              Trained& result);

}  // namespace shardsolve::fbpinn::training
