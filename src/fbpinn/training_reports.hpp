/// What users are told of a training.
#pragma once

#include "fbpinn/training_geometry.hpp"
#include "sparse/elimination_tree.hpp"

#include <shardsolve/fbpinn.hpp>

#include <string>
#include <vector>

namespace shardsolve::fbpinn::training {

FactorCosts told(const sparse::FactorCost& dense, const sparse::FactorCost& band,
                 const sparse::FactorCost& nested_dissection);

/// `is_limited`: conjugate gradients of the last solve ended before the loss was least; with a
/// factor a further step would take away `gain` of it.
std::vector<std::string> warnings_of(const Trained& result, const TrainingGeometry& geometry,
                                     bool is_limited, double gain,
                                     const LeastSquaresOptions& options);

}  // namespace shardsolve::fbpinn::training
