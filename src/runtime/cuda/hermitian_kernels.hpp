/// Products with Hermitian matrices on a GPU.
#pragma once

#include "runtime/hermitian_kernels.hpp"

#include <cstdint>

namespace shardsolve::runtime::cuda {

template <Scalar T>
class CudaHermitianKernels final : public HermitianKernels<T> {
 public:
  using typename HermitianKernels<T>::Real;
  using typename HermitianKernels<T>::In;
  using typename HermitianKernels<T>::Out;

  std::int64_t hermitian_multiply_scratch(const UpperPart<T, Real>& a) const override;

 protected:
  void do_hermitian_multiply(Queue& queue, const WorkInfo& info, const UpperPart<T, Real>& a,
                             const T* x, T* y, void* scratch) const override;
  void do_add_twofold(Queue& queue, const WorkInfo& info, In source, Out sums) const override;
};

}  // namespace shardsolve::runtime::cuda
