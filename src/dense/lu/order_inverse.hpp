/// The inverse in the order of the caller's matrix.
#pragma once

#include "mesh/rank.hpp"

#include <shardsolve/matrix_view.hpp>
#include <shardsolve/slab_layout.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve::dense::lu {

/// Makes of what invert_factor() has left A^-1, in place. `rows`: the row of A that came to each
/// place. Rows change places within a slab, columns between all ranks.
template <Scalar T>
void order_inverse(mesh::Rank& rank, const SlabLayout& layout, MatrixView<T> slab,
                   const std::vector<std::int64_t>& rows);

/// Rows of all slabs whose columns cross the ranks at a time: as many as make two buffers of about
/// n x tile elements.
std::int64_t rows_at_once(const SlabLayout& layout);

}  // namespace shardsolve::dense::lu
