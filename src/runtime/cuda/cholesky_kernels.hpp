/// The Cholesky factorisation's kernels on a GPU: products with inverses in place of triangular
/// solves, and updates on the tensor cores.
#pragma once

#include "runtime/cholesky_kernels.hpp"

#include <cstdint>
#include <vector>

namespace shardsolve::runtime::cuda {

template <Scalar T>
class CudaCholeskyKernels final : public CholeskyKernels<T> {
 public:
  using typename CholeskyKernels<T>::In;
  using typename CholeskyKernels<T>::Out;
  using CholeskyKernels<T>::CholeskyKernels;

  CholeskyTuning tuning(std::int64_t tile) const override;
  std::int64_t packed_rows(std::int64_t tile) const override;

 protected:
  void do_potrf(Queue& queue, const WorkInfo& work, Out a, Out tile_scratch,
                std::int64_t* info) const override;
  void do_invert(Queue& queue, In l, Out m, const BatchStrides& strides) const override;
  void do_panel(Queue& queue, const WorkInfo& info, In l11, In tile_scratch, Out a21,
                Out packed) const override;
  void do_inverse_panel(Queue& queue, In l11, In m11, Out s21, Out packed) const override;
  /// In float32 and complex64 panels are split for tensor cores, where they are not too narrow.
  void do_prepare_updates(Queue& queue, Out packed) const override;
  void do_update(Queue& queue, In left, In right,
                 const std::vector<PanelUpdate<T>>& updates) const override;
};

}  // namespace shardsolve::runtime::cuda
