/// The Cholesky factorisation's kernels on the CPU: LAPACK's and triangular solves.
#pragma once

#include "runtime/cholesky_kernels.hpp"

namespace shardsolve::runtime::host {

template <Scalar T>
class HostCholeskyKernels : public CholeskyKernels<T> {
 public:
  using typename CholeskyKernels<T>::In;
  using typename CholeskyKernels<T>::Out;
  using CholeskyKernels<T>::CholeskyKernels;

  /// No scratch: a triangular solve is as quick as a product.
  CholeskyTuning tuning(std::int64_t /*tile*/) const override { return {}; }

 protected:
  void do_potrf(Queue& queue, const WorkInfo& work, Out a, Out tile_scratch,
                std::int64_t* info) const override;
  void do_panel(Queue& queue, const WorkInfo& info, In l11, In tile_scratch, Out a21,
                Out packed) const override;
  void do_inverse_panel(Queue& queue, In l11, In m11, Out s21, Out packed) const override;
};

}  // namespace shardsolve::runtime::host
