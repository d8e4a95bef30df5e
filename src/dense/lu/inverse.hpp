/// U^-1 L^-1 in the place of L and U.
#pragma once

#include "mesh/rank.hpp"

#include <shardsolve/matrix_view.hpp>
#include <shardsolve/slab_layout.hpp>

namespace shardsolve::dense::lu {

/// Overwrites L and U of P A Q^T = L U with U^-1 L^-1 = Q A^-1 P^T: its rows are in the order of
/// elimination, and its column number p lies where the column that is eliminated as number p does.
/// LAPACK: getri, but for the order.
template <Scalar T>
void invert_factor(mesh::Rank& rank, const SlabLayout& layout, MatrixView<T> slab);

}  // namespace shardsolve::dense::lu
