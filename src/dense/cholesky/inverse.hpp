/// The inverse from a Cholesky factor on slabs.
#pragma once

#include "mesh/rank.hpp"

#include <shardsolve/slab_layout.hpp>

namespace shardsolve::dense::cholesky {

/// Replaces the factor in the rank's slab by the rank's columns of A^-1: the entries whose row
/// comes before their column in elimination order, and the diagonal; `mirror` makes the others.
/// LAPACK: potri.
template <Scalar T>
void inverse(mesh::Rank& rank, const SlabLayout& layout, MatrixView<T> slab);

}  // namespace shardsolve::dense::cholesky
