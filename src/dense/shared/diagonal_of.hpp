/// The diagonal of a matrix on slabs.
#pragma once

#include "mesh/rank.hpp"

#include <shardsolve/slab_layout.hpp>

#include <vector>

namespace shardsolve::dense {

/// The real parts of the diagonal in the rows of this rank's segment, on the host. Waits.
template <Scalar T>
std::vector<RealOf<T>> diagonal_of(mesh::Rank& rank, const SlabLayout& layout,
                                   MatrixView<const T> slab) {
  const std::int64_t first = layout.segment(rank.index()).begin.value();
  const std::int64_t columns = slab.columns();
  const MatrixView<RealOf<T>> values = rank.workspace<RealOf<T>>(columns, 1);
  rank.kernels<T>().diagonal(rank.update(), slab.block(first, 0, columns, columns), values.data());
  return rank.fetch(rank.update(), values.data(), columns);
}

}  // namespace shardsolve::dense
