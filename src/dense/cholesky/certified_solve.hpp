/// A solve with its certificate.
#pragma once

#include "dense/shared/factor_part.hpp"
#include "mesh/rank.hpp"

#include <shardsolve/outcome.hpp>
#include <shardsolve/scaled.hpp>
#include <shardsolve/slab_layout.hpp>

namespace shardsolve::dense::cholesky {

/// Backward error, in units of the rounding, above which one right-hand side is refined.
inline constexpr double refined_from = 4.0;
/// Above that many units there is no answer: elimination of such a matrix leaves a few.
inline constexpr double given_up_from = 1000.0;

/// Overwrites the rank's rows of B with those of X and finds the backward error with what the
/// factor kept of A. The outcome is the same on every rank: ok, nonfinite_input (b intact) or
/// overflow.
template <Scalar T>
Outcome certified_solve(mesh::Rank& rank, const FactorPart<T>& factor, MatrixView<T> b);

}  // namespace shardsolve::dense::cholesky
