/// Residuals with a general matrix on slabs.
#pragma once

#include "mesh/rank.hpp"
#include "runtime/hermitian_kernels.hpp"
#include "runtime/lu_kernels.hpp"

#include <shardsolve/slab_layout.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve::dense::lu {

/// How the sums of a residual are made.
enum class Sums : std::uint8_t {
  exact,  ///< in twice the precision: rounding hides nothing of a residual, however small it is
  quick,  ///< of a tile of terms by the BLAS, these in twice the precision: a few units in the last
          ///< place of |A| |X| may be rounding
};

/// op(A) X - B with the rank's slab of A.
template <Scalar T>
class GeneralMultiply {
 public:
  /// For X of up to `columns` columns.
  GeneralMultiply(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab,
                  std::int64_t columns, Sums sums);

  /// y = op(A) x - b. `x`, `b`, `y`: this rank's rows. Enqueued on the update queue, where y is
  /// ready for what follows, and sizes() too.
  void residual(runtime::Op op, MatrixView<const T> x, MatrixView<const T> b, MatrixView<T> y);
  /// Of the last residual: |op(A)| |x|, of complex numbers at least 0.85 of that and never more but
  /// for rounding.
  MatrixView<const double> sizes() const { return size_total_; }

 private:
  using Real = RealOf<T>;
  /// Rows of one segment, without gaps.
  template <class V>
  MatrixView<V> part(MatrixView<V> memory, std::int64_t segment, std::int64_t columns) const;
  void multiply(MatrixView<const T> x);
  void multiply_adjoint(runtime::Op op, MatrixView<const T> x);
  /// y = op(a) x, twofold, and sizes = |op(a)| |x|.
  void add_up(runtime::Op op, MatrixView<const T> a, MatrixView<const T> x, MatrixView<T> y,
              MatrixView<double> sizes);
  /// y += op(a) x and sizes += |op(a)| |x| of a tile of terms.
  void add_tile(runtime::Op op, MatrixView<const T> a, MatrixView<const T> x, MatrixView<T> y,
                MatrixView<Real> sizes);

  mesh::Rank& rank_;
  const SlabLayout& layout_;
  MatrixView<const T> slab_;
  Sums kind_;
  const runtime::Kernels<T>& base_;
  const runtime::Kernels<Real>& real_;
  const runtime::Kernels<double>& double_;
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
  // of quick sums: a product, moduli of a tile of A and of X, and their product
  MatrixView<T> product_;
  MatrixView<Real> moduli_;
  MatrixView<Real> moduli_of_x_;
  MatrixView<Real> quick_sizes_;
  runtime::Event& ready_;
  runtime::Event& arrived_;
};

}  // namespace shardsolve::dense::lu
