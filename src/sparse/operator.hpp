/// The product y = A x as part of a rank program.
#pragma once

#include "mesh/rank.hpp"
#include "runtime/sparse_kernels.hpp"
#include "sparse/parts.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>
#include <shardsolve/sparse.hpp>

#include <cstdint>

namespace shardsolve::sparse {

/// A on one rank during one call. All ranks make it at the same point of their programs and apply
/// it equally often. The matrix outlives the call.
///
/// One product: `queue` records that x is made; meanwhile it computes the interior rows, while
/// transfer() packs what the neighbours need and exchanges it (all_to_all whose pieces are empty
/// but for neighbours); then `queue` computes the boundary rows. No wait on the host.
template <Scalar T>
class Operator {
 public:
  /// Takes workspace: workspace_bytes(). Throws Error(unsupported) if the devices have no kernels.
  Operator(mesh::Rank& rank, const SparseMatrix<T>& a);

  /// Device memory that an operator takes on this rank.
  static std::int64_t workspace_bytes(const SparseMatrix<T>& a, std::int64_t rank);

  /// Rows of y on this rank, and entries of x.
  std::int64_t rows() const { return part_.slab.rows; }
  std::int64_t columns() const { return part_.slab.own; }
  /// Flops of a product on this rank.
  double flops() const;

  /// Enqueues y = A x on `queue`, the same one every time and not transfer(). x: columns() numbers,
  /// made by what `queue` has so far; y: rows() numbers, none of them of x. Both may be changed by
  /// what `queue` gets afterwards. If `done` is given, a runtime::ProductFlag in device memory, it
  /// says when `queue` comes here how the product is made; ranks may differ in it.
  void apply(runtime::Queue& queue, const T* x, T* y, const std::int32_t* done = nullptr);

 private:
  void exchange(runtime::Queue& queue, MatrixView<const T> x);

  mesh::Rank& rank_;
  const Parts<T>& parts_;
  const Part<T>& part_;
  const runtime::SparseKernels<T>& kernels_;
  runtime::SparseRows<T> slab_;
  runtime::RowChoice interior_;
  runtime::RowChoice boundary_;
  MatrixView<const std::int32_t> places_;  // of what is sent
  MatrixView<T> packed_;
  MatrixView<T> halo_;
  runtime::Event* made_ = nullptr;
  runtime::Event* arrived_ = nullptr;
};

}  // namespace shardsolve::sparse
