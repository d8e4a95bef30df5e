/// Products with sparse matrices on a GPU.
#pragma once

#include "runtime/sparse_kernels.hpp"

namespace shardsolve::runtime::cuda {

template <Scalar T>
class CudaSparseKernels final : public SparseKernels<T> {
 protected:
  void do_pack(Queue& queue, const WorkInfo& info, MatrixView<const std::int32_t> places,
               MatrixView<const T> x, MatrixView<T> packed) const override;
  void do_multiply(Queue& queue, const WorkInfo& info, const SparseRows<T>& a,
                   const RowChoice& chosen, MatrixView<const T> x, MatrixView<const T> halo,
                   MatrixView<T> y, const std::int32_t* done,
                   const std::int32_t* rank) const override;
};

}  // namespace shardsolve::runtime::cuda
