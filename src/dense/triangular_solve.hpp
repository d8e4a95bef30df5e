/// Solves with a Cholesky factor on slabs.
#pragma once

#include <shardsolve/slab_layout.hpp>

#include "mesh/rank.hpp"

namespace shardsolve::dense {

/// Overwrites the rank's rows of B with its rows of X, where L L^H (P X) = P B. Any number of
/// columns; they are taken `layout.tile()` at a time. LAPACK: potrs.
template <Scalar T>
void triangular_solve(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab,
                      MatrixView<T> b);

}  // namespace shardsolve::dense
