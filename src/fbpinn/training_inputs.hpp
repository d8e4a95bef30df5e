/// A problem as a TrainingGeometry takes it.
#pragma once

#include "fbpinn/training_geometry.hpp"

#include <shardsolve/fbpinn.hpp>

#include <vector>

namespace shardsolve::fbpinn::training {

std::vector<TermShape> shapes_of(const Problem& problem);
/// Of all terms, one behind the other.
std::vector<double> all_points(const Problem& problem);

}  // namespace shardsolve::fbpinn::training
