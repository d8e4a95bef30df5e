/// A solve with its certificate.
#pragma once

#include "mesh/rank.hpp"

#include <shardsolve/outcome.hpp>
#include <shardsolve/scaled.hpp>
#include <shardsolve/slab_layout.hpp>

#include <vector>

namespace shardsolve::dense::cholesky {

/// What a rank holds of a factor.
template <Scalar T>
struct FactorPart {
  const SlabLayout& layout;
  MatrixView<const T> slab;
  const RealOf<T>* diagonal;  ///< of A; layout.width(rank) values on the host
  Scaled norm;                ///< ||A||_1
};

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
