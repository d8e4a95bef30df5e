/// Columns scaled by powers of two, and their sizes. A block has a column.
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/matrix.cuh"
#include "runtime/cuda/kernels/qr/block_sums.cuh"
#include "runtime/cuda/qr_device_kernels.hpp"

#include <cmath>
#include <cstdint>
#include <limits>

namespace shardsolve::runtime::cuda {
namespace {

template <class R>
__device__ R power_of_two(std::int64_t exponent) {
  constexpr std::int64_t most = std::numeric_limits<R>::max_exponent - 1;
  const std::int64_t within = exponent < -most ? -most : exponent > most ? most : exponent;
  return static_cast<R>(scalbn(R{1}, static_cast<int>(within)));
}

/// In two steps: the power itself may be out of range where the product is not.
template <class E>
__global__ void __launch_bounds__(qr::threads)
    scale_by_powers(DeviceMatrix<const E> source, const std::int64_t* exponents,
                    DeviceMatrix<E> target) {
  using R = RealPart<E>;
  const std::int64_t j = blockIdx.x;
  const std::int64_t exponent = exponents[j];
  const R first = power_of_two<R>(exponent / 2);
  const R second = power_of_two<R>(exponent - exponent / 2);
  for (std::int64_t i = threadIdx.x; i < source.rows; i += qr::threads) {
    target(i, j) = scaled(scaled(source(i, j), first), second);
  }
}

template <class E>
__global__ void __launch_bounds__(qr::threads)
    size_columns(DeviceMatrix<const E> a, double* target) {
  const std::int64_t j = blockIdx.x;
  double most = 0;
  for (std::int64_t i = threadIdx.x; i < a.rows; i += qr::threads) {
    most = qr::larger(most, qr::modulus(qr::widened(a(i, j))));
  }
  most = qr::over_block(most, qr::Larger{});
  double sum = 0;
  if (most > 0) {
    for (std::int64_t i = threadIdx.x; i < a.rows; i += qr::threads) {
      const double part = qr::modulus(qr::widened(a(i, j))) / most;
      sum += part * part;
    }
  }
  sum = qr::block_sum(sum);
  if (threadIdx.x == 0) {
    target[2 * j] = most;
    target[2 * j + 1] = isnan(most) ? most : sum;
  }
}

}  // namespace

template <class E>
void QrDeviceKernels<E>::scale_columns(cudaStream_t stream, In source,
                                       const std::int64_t* exponents, Out target) {
  launch(stream, &scale_by_powers<E>, source.columns(), {dim3(qr::threads)}, device(source),
         exponents, device(target));
}

template <class E>
void QrDeviceKernels<E>::column_sizes(cudaStream_t stream, In a, double* target) {
  launch(stream, &size_columns<E>, a.columns(), {dim3(qr::threads)}, device(a), target);
}

#define SHARDSOLVE_INSTANTIATE(E)                                                              \
  template void QrDeviceKernels<E>::scale_columns(cudaStream_t, In, const std::int64_t*, Out); \
  template void QrDeviceKernels<E>::column_sizes(cudaStream_t, In, double*);

SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
SHARDSOLVE_INSTANTIATE(Complex<float>)
SHARDSOLVE_INSTANTIATE(Complex<double>)

}  // namespace shardsolve::runtime::cuda
