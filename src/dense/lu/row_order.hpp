/// Right-hand sides in the order that pivoting has brought the rows of A to, and back.
#pragma once

#include "mesh/rank.hpp"
#include "runtime/lu_kernels.hpp"

#include <shardsolve/slab_layout.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve::dense::lu {

/// The row that comes to each place in the order of elimination.
std::vector<std::int64_t> elimination_order(const SlabLayout& layout);

/// Row p of P B lies where the column eliminated as number p does: on its owner, at its place among
/// the owner's rows of B.
template <Scalar T>
class RowOrder {
 public:
  /// `rows`: the row of A that came to each place. For B of up to `columns` columns.
  RowOrder(mesh::Rank& rank, const SlabLayout& layout, const std::vector<std::int64_t>& rows,
           std::int64_t columns);

  /// B = P B, in place: the rank's rows of it. Enqueued on the update queue.
  void to_pivots(MatrixView<T> b) { choose(forward_, b); }
  /// B = P^T B.
  void to_rows(MatrixView<T> b) { choose(backward_, b); }

 private:
  void choose(const std::int64_t* columns, MatrixView<T> b);

  mesh::Rank& rank_;
  const SlabLayout& layout_;
  const runtime::LuKernels<T>& kernels_;
  const std::int64_t* forward_ = nullptr;  // for each row, which row of B it is
  const std::int64_t* backward_ = nullptr;
  MatrixView<T> all_;  // B^T, a column for each row
  runtime::Event& packed_;
  runtime::Event& arrived_;
};

}  // namespace shardsolve::dense::lu
