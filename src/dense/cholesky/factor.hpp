/// Right-looking Cholesky factorisation on slabs.
#pragma once

#include "mesh/rank.hpp"

#include <shardsolve/outcome.hpp>
#include <shardsolve/slab_layout.hpp>

namespace shardsolve::dense::cholesky {

/// Overwrites the rank's slab of A with L, in the elimination order of the layout: P A P^T = L L^H.
/// Entries whose row comes before their column in that order are neither read nor written, so they
/// are still A. The outcome is the same on every rank. LAPACK: potrf.
template <Scalar T>
Outcome factor(mesh::Rank& rank, const SlabLayout& layout, MatrixView<T> slab);
/// Likewise the columns of the steps before `end` alone. The columns from there on are left with
/// the Schur complement, when the rank's queues are idle.
template <Scalar T>
Outcome factor(mesh::Rank& rank, const SlabLayout& layout, MatrixView<T> slab, Step end);

}  // namespace shardsolve::dense::cholesky
