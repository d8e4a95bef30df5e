/// QR by reflections, for what passes by Gram matrices leave.
#include "runtime/cuda/kernels/qr/reflections.cuh"
#include "runtime/cuda/qr_device_kernels.hpp"

#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

template <class E>
__global__ void __launch_bounds__(qr::threads)
    copy_r(DeviceMatrix<E> a, DeviceMatrix<qr::WideElement<E>> r) {
  using W = qr::WideElement<E>;
  const std::int64_t j = blockIdx.x;
  for (std::int64_t i = threadIdx.x; i < r.rows; i += qr::threads) {
    r(i, j) = i <= j ? qr::widened(a(i, j)) : from_real<W>(0);
  }
}

}  // namespace

template <class E>
void QrDeviceKernels<E>::reflect(cudaStream_t stream, Out a, MatrixView<Wide> r, Wide* scales) {
  qr::factor_by_reflections<E>(stream, device(a), r.rows(), scales);
  launch(stream, &copy_r<E>, r.columns(), {dim3(qr::threads)}, device(a), device(r));
  qr::form_q<E>(stream, device(a), r.rows(), scales);
}

#define SHARDSOLVE_INSTANTIATE(E) \
  template void QrDeviceKernels<E>::reflect(cudaStream_t, Out, MatrixView<Wide>, Wide*);

SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
SHARDSOLVE_INSTANTIATE(Complex<float>)
SHARDSOLVE_INSTANTIATE(Complex<double>)

}  // namespace shardsolve::runtime::cuda
