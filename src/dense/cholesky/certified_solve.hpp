/// A solve with its certificate.
#pragma once

#include "dense/shared/factor_part.hpp"
#include "mesh/rank.hpp"

#include <shardsolve/outcome.hpp>
#include <shardsolve/scaled.hpp>
#include <shardsolve/slab_layout.hpp>

#include <vector>

namespace shardsolve::dense::cholesky {

/// What is known of right-hand sides before they are solved for; the same on every rank.
struct CheckedSides {
  Outcome outcome;             ///< ok or nonfinite_input
  std::vector<double> maxima;  ///< the largest entry of each column
};

/// One look at the rank's rows of B.
template <Scalar T>
CheckedSides check_right_hand_sides(mesh::Rank& rank, const SlabLayout& layout,
                                    MatrixView<const T> b);

/// Overwrites the rank's rows of B with those of X and finds the backward error with what the
/// factor kept of A. The outcome is the same on every rank: ok, nonfinite_input (b intact) or
/// overflow.
template <Scalar T>
Outcome certified_solve(mesh::Rank& rank, const FactorPart<T>& factor, MatrixView<T> b);

}  // namespace shardsolve::dense::cholesky
