/// Residuals with a general matrix on slabs, in twice the precision.
#pragma once

#include "mesh/rank.hpp"
#include "runtime/hermitian_kernels.hpp"
#include "runtime/lu_kernels.hpp"

#include <shardsolve/slab_layout.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve::dense::lu {

/// op(A) X - B with the rank's slab of A. All sums are made in twice the precision: rounding hides
/// nothing of a residual, however small it is beside A X.
template <Scalar T>
class GeneralMultiply {
 public:
  /// For X of up to `columns` columns.
  GeneralMultiply(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab,
                  std::int64_t columns);

  /// y = op(A) x - b. `x`, `b`, `y`: this rank's rows. Enqueued on the update queue, where y is
  /// ready for what follows, and sizes() too.
  void residual(runtime::Op op, MatrixView<const T> x, MatrixView<const T> b, MatrixView<T> y);
  /// Of the last residual: |op(A)| |x|, of complex numbers at least 0.92 of that and never more.
  MatrixView<const double> sizes() const { return size_total_; }

 private:
  /// Rows of one segment, without gaps.
  template <class V>
  MatrixView<V> part(MatrixView<V> memory, std::int64_t segment, std::int64_t columns) const;
  void multiply(MatrixView<const T> x);
  void multiply_adjoint(runtime::Op op, MatrixView<const T> x);

  mesh::Rank& rank_;
  const SlabLayout& layout_;
  MatrixView<const T> slab_;
  const runtime::Kernels<T>& base_;
  const runtime::Kernels<double>& real_;
  const runtime::HermitianKernels<T>& twofold_;
  const runtime::LuKernels<T>& kernels_;
  MatrixView<T> x_;           // all of X
  MatrixView<T> sums_;        // this rank's share of all of A X, twofold
  MatrixView<double> sizes_;  // likewise of |A| |X|
  MatrixView<T> incoming_;    // the shares of all ranks of this rank's rows
  MatrixView<double> size_incoming_;
  MatrixView<T> total_memory_;
  MatrixView<double> size_memory_;
  MatrixView<T> total_;  // this rank's rows of Y, twofold
  MatrixView<double> size_total_;
  runtime::Event& ready_;
  runtime::Event& arrived_;
};

}  // namespace shardsolve::dense::lu
