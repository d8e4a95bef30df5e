/// Solves with an LU factor on slabs.
#pragma once

#include "dense/lu/row_order.hpp"
#include "dense/shared/persistent_solve.hpp"
#include "mesh/rank.hpp"
#include "runtime/kernel_arguments.hpp"

#include <shardsolve/slab_layout.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace shardsolve::dense::lu {

/// Solves op(A) X = B with the rank's slab of P A Q^T = L U. LAPACK: getrs.
template <Scalar T>
class TriangularSolve {
 public:
  /// `rows`: the row of A that came to each place. Takes workspace for min(columns, layout.tile())
  /// right-hand sides; `columns`: the most that run() will be given, which it solves for in groups.
  TriangularSolve(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab,
                  const std::vector<std::int64_t>& rows, std::int64_t columns);
  ~TriangularSolve();

  /// Overwrites the rank's rows of B with those of X.
  void run(runtime::Op op, MatrixView<T> b);

 private:
  struct Sweeps;
  std::int64_t width_;
  RowOrder<T> order_;
  std::unique_ptr<PersistentSolve<T>> persistent_;  // null: sweeps_ solve
  std::unique_ptr<Sweeps> sweeps_;
};

}  // namespace shardsolve::dense::lu
