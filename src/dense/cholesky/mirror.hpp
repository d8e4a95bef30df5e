/// The other triangle of a Hermitian matrix on slabs.
#pragma once

#include "mesh/rank.hpp"

#include <shardsolve/slab_layout.hpp>

namespace shardsolve::dense::cholesky {

/// Replaces the entries below the diagonal (in elimination order) by the conjugates of those above
/// it, and makes the diagonal real.
template <Scalar T>
void mirror(mesh::Rank& rank, const SlabLayout& layout, MatrixView<T> slab);

}  // namespace shardsolve::dense::cholesky
