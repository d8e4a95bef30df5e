/// Products with the half F of A = F F^H.
#pragma once

#include "mesh/rank.hpp"

#include <shardsolve/slab_layout.hpp>

namespace shardsolve::dense::cholesky {

/// B := F B or F^H B with F = P^T L P. BLAS: trmm.
template <Scalar T>
class HalfProduct {
 public:
  /// For up to `columns` columns at a time.
  HalfProduct(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab,
              std::int64_t columns);

  /// Overwrites the rank's rows of B with those of F B.
  void run(MatrixView<T> b);
  /// Likewise of F^H B.
  void run_adjoint(MatrixView<T> b);

 private:
  /// The rows of one segment, in memory for all rows, without gaps.
  MatrixView<T> part(std::int64_t segment, std::int64_t columns) const;
  /// Rows of the slab in the columns of a step of this rank.
  MatrixView<const T> factor(Step step, GlobalRange rows) const;
  /// The step's diagonal tile of L, with zeros above the diagonal.
  MatrixView<const T> diagonal_tile(Step step);
  /// Rows of a part that belong to a run of rows of its segment.
  MatrixView<T> rows_of(const RowRun& run, std::int64_t columns) const;

  mesh::Rank& rank_;
  const SlabLayout& layout_;
  MatrixView<const T> slab_;
  const runtime::Kernels<T>& kernels_;
  MatrixView<T> all_;       // of F B: what the rank's columns contribute; of F^H B: all of B
  MatrixView<T> incoming_;  // the contributions of all ranks to this rank's rows
  MatrixView<T> tile_;
  runtime::Event& ready_;
  runtime::Event& arrived_;
};

}  // namespace shardsolve::dense::cholesky
