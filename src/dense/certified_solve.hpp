/// A solve with its certificate.
#pragma once

#include "mesh/rank.hpp"

#include <shardsolve/outcome.hpp>
#include <shardsolve/scaled.hpp>
#include <shardsolve/slab_layout.hpp>

namespace shardsolve::dense {

/// What a rank holds of a factor.
template <Scalar T>
struct FactorPart {
  const SlabLayout& layout;
  MatrixView<const T> slab;
  const RealOf<T>* diagonal;  ///< of A; layout.width(rank) values on the host
  Scaled norm;                ///< ||A||_1
};

/// Overwrites the rank's rows of B with those of X and finds the backward error with what the
/// factor kept of A. The outcome is the same on every rank: ok, nonfinite_input (b intact) or
/// overflow.
template <Scalar T>
Outcome certified_solve(mesh::Rank& rank, const FactorPart<T>& factor, MatrixView<T> b);

}  // namespace shardsolve::dense
