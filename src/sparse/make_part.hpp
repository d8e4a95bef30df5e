/// One rank's share of a sparse matrix, from its rows.
#pragma once

#include "mesh/rank.hpp"
#include "sparse/parts.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/slab_layout.hpp>
#include <shardsolve/sparse.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve::sparse {

/// Consecutive rows of a CsrMatrix, which outlives it; columns of the whole matrix.
template <Scalar T>
struct RowsOf {
  const CsrMatrix<T>& matrix;
  std::int64_t first = 0;
  std::int64_t count = 0;

  std::int64_t begin(std::int64_t row) const {
    return matrix.row_pointers[static_cast<std::size_t>(first + row)];
  }
  std::int64_t column(std::int64_t entry) const {
    return matrix.column_indices[static_cast<std::size_t>(entry)];
  }
};

/// What all ranks know of a sparse matrix when it is made; the other fields of Parts.
struct Totals {
  std::int64_t entries = 0;
  std::vector<std::int64_t> halos;  ///< of each rank
};

/// Makes the slab and the plan of this rank; all ranks together. Waits.
/// Throws Error(invalid_argument) if a column is out of range, columns of a row do not ascend, or
/// processes have given different layouts.
template <Scalar T>
Totals make_part(mesh::Rank& rank, const SlabLayout& rows, const SlabLayout& columns,
                 const RowsOf<T>& mine, Part<T>& part);

}  // namespace shardsolve::sparse
