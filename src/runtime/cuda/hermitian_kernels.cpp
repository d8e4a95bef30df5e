#include "runtime/cuda/hermitian_kernels.hpp"

#include "runtime/cuda/cuda_queue.hpp"
#include "runtime/cuda/hermitian_device_kernels.hpp"
#include "runtime/operand_shapes.hpp"

#include <algorithm>
#include <complex>

namespace shardsolve::runtime::cuda {
namespace {

/// The kernels of our own for T.
template <Scalar T>
using OwnHermitian = HermitianDeviceKernels<Element<T>>;

template <Scalar T>
UpperPart<Element<T>, RealOf<T>> with_elements(const UpperPart<T, RealOf<T>>& a) {
  UpperPart<Element<T>, RealOf<T>> same{elements(a.slab), a.diagonal, a.rank, a.ranks};
  std::copy_n(a.begin, a.ranks + 1, same.begin);
  same.tile = a.tile;
  same.eliminated = a.eliminated;
  return same;
}

}  // namespace

template <Scalar T>
void CudaHermitianKernels<T>::do_hermitian_multiply(Queue& queue, const WorkInfo& info,
                                                    const UpperPart<T, Real>& a, const T* x, T* y,
                                                    void* scratch) const {
  using E = Element<T>;
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    OwnHermitian<T>::hermitian_multiply(cuda.stream(), with_elements(a),
                                        reinterpret_cast<const E*>(x), reinterpret_cast<E*>(y),
                                        scratch);
  });
}

template <Scalar T>
std::int64_t CudaHermitianKernels<T>::hermitian_multiply_scratch(
    const UpperPart<T, Real>& a) const {
  return static_cast<std::int64_t>(OwnHermitian<T>::hermitian_multiply_scratch(with_elements(a)));
}

template <Scalar T>
void CudaHermitianKernels<T>::do_add_twofold(Queue& queue, const WorkInfo& info, In source,
                                             Out sums) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(
      info, [&] { OwnHermitian<T>::add_twofold(cuda.stream(), elements(source), elements(sums)); });
}

template class CudaHermitianKernels<float>;
template class CudaHermitianKernels<double>;
template class CudaHermitianKernels<std::complex<float>>;
template class CudaHermitianKernels<std::complex<double>>;

}  // namespace shardsolve::runtime::cuda
