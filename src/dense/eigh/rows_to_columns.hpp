/// From rows of Z, as divide and conquer leaves them, to columns, which the way back takes.
#pragma once

#include "mesh/rank.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>
#include <shardsolve/slab_layout.hpp>

#include <cstdint>

namespace shardsolve::dense::eigh {

/// `rows`: this rank's of Z, of which the first `count` columns hold eigenvectors, and without
/// gaps. Returns, in memory of this call, all rows of those that belong on this rank
/// (vectors_on()). Each rank receives about n count / ranks numbers. Waits.
template <Scalar T>
MatrixView<T> rows_to_columns(mesh::Rank& rank, const SlabLayout& layout,
                              MatrixView<RealOf<T>> rows, std::int64_t count);

}  // namespace shardsolve::dense::eigh
