/// Solves and products with the half F of A = F F^H.
#pragma once

#include "mesh/rank.hpp"

#include <shardsolve/cholesky.hpp>
#include <shardsolve/slab_layout.hpp>

namespace shardsolve::dense::cholesky {

/// B := F^-1 B, F^-H B, F B or F^H B, the rank's rows of it, with its slab of the factor. Takes
/// workspace for min(b.columns(), layout.tile()) columns at a time. LAPACK: trtrs, BLAS: trmm.
template <Scalar T>
void apply_half(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab, Half half,
                MatrixView<T> b);

}  // namespace shardsolve::dense::cholesky
