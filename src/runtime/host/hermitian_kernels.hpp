/// Products with Hermitian matrices on the CPU.
#pragma once

#include "runtime/hermitian_kernels.hpp"

namespace shardsolve::runtime::host {

template <Scalar T>
class HostHermitianKernels : public HermitianKernels<T> {
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

}  // namespace shardsolve::runtime::host
