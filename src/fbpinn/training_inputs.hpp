/// A problem as a TrainingGeometry takes it.
#pragma once

#include "fbpinn/training_geometry.hpp"

#include <shardsolve/fbpinn.hpp>

#include <vector>

namespace shardsolve::fbpinn::training {

std::vector<TermShape> shapes_of(const Problem& problem);
/// Of all terms, one behind the other.
std::vector<double> all_points(const Problem& problem);
/// The same in the order in which each term's were given.
std::vector<double> points_as_given(const Problem& problem);

/// Throws Error(invalid_argument) with the name of the term that has a point outside of every box,
/// if there is one: a geometry knows no names.
void refuse_uncovered_terms(const Problem& problem);

/// Throws Error(invalid_argument) if all terms are differential equations of the same order at
/// points that fill space, and there is no constraint: nothing says which of their solutions is
/// wanted.
void require_conditions(const Problem& problem, const TrainingGeometry& geometry,
                        const sparse::ForEach& each);

/// Throws Error(invalid_argument) for options that are not accepted.
void require_valid(const Problem& problem, const LeastSquaresOptions& options);

}  // namespace shardsolve::fbpinn::training
