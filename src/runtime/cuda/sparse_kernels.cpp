#include "runtime/cuda/sparse_kernels.hpp"

#include "runtime/cuda/cuda_queue.hpp"
#include "runtime/cuda/sparse_device_kernels.hpp"

#include <complex>

namespace shardsolve::runtime::cuda {

template <Scalar T>
void CudaSparseKernels<T>::do_pack(Queue& queue, const WorkInfo& info,
                                   MatrixView<const std::int32_t> places, MatrixView<const T> x,
                                   MatrixView<T> packed) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    SparseDeviceKernels<Element<T>>::pack(cuda.stream(), places.data(), places.rows(),
                                          elements(x).data(), elements(packed).data());
  });
}

template <Scalar T>
void CudaSparseKernels<T>::do_multiply(Queue& queue, const WorkInfo& info, const SparseRows<T>& a,
                                       const RowChoice& chosen, MatrixView<const T> x,
                                       MatrixView<const T> halo, MatrixView<T> y,
                                       const std::int32_t* done, const std::int32_t* rank) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    SparseDeviceKernels<Element<T>>::multiply(
        cuda.stream(), elements(a), chosen, elements(x).data(),
        halo.empty() ? nullptr : elements(halo).data(), elements(y).data(), done, rank);
  });
}

template class CudaSparseKernels<float>;
template class CudaSparseKernels<double>;
template class CudaSparseKernels<std::complex<float>>;
template class CudaSparseKernels<std::complex<double>>;

}  // namespace shardsolve::runtime::cuda
