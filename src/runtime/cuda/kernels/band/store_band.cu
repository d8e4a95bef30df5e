/// What goes into a band and what comes out of it.
#include "runtime/cuda/band_device_kernels.hpp"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/matrix.cuh"
#include "runtime/cuda/kernels/scalar.cuh"

#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int threads = 256;

template <class E>
__global__ void __launch_bounds__(threads)
    store_columns(DeviceMatrix<const E> top, DeviceMatrix<const E> r, DeviceMatrix<E> band) {
  const std::int64_t at = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (at >= band.rows * band.columns) {
    return;
  }
  const std::int64_t i = at % band.rows;
  const std::int64_t j = at / band.rows;
  const std::int64_t row = i + j;
  const std::int64_t row_of_r = row - top.rows;
  E entry = from_real<E>(0);
  if (row_of_r < 0) {
    entry = top(row, j);
  } else if (row_of_r < r.rows && row_of_r <= j) {
    entry = r(row_of_r, j);
  }
  band(i, j) = i == 0 ? from_real<E>(real(entry)) : entry;
}

template <class E>
__global__ void __launch_bounds__(threads)
    take_diagonals(DeviceMatrix<const E> band, RealPart<E>* diagonal, RealPart<E>* off_diagonal) {
  const std::int64_t j = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (j < band.columns) {
    diagonal[j] = real(band(0, j));
    if (j + 1 < band.columns) {
      off_diagonal[j] = real(band(1, j));
    }
  }
}

}  // namespace

template <class E>
void BandDeviceKernels<E>::store_band(cudaStream_t stream, In top, In r, Out band) {
  launch(stream, &store_columns<E>, divide_up(band.rows() * band.columns(), threads),
         {dim3(threads)}, device(top), device(r), device(band));
}

template <class E>
void BandDeviceKernels<E>::tridiagonal(cudaStream_t stream, In band, Real* diagonal,
                                       Real* off_diagonal) {
  launch(stream, &take_diagonals<E>, divide_up(band.columns(), threads), {dim3(threads)},
         device(band), diagonal, off_diagonal);
}

template void BandDeviceKernels<float>::store_band(cudaStream_t, In, In, Out);
template void BandDeviceKernels<double>::store_band(cudaStream_t, In, In, Out);
template void BandDeviceKernels<Complex<float>>::store_band(cudaStream_t, In, In, Out);
template void BandDeviceKernels<Complex<double>>::store_band(cudaStream_t, In, In, Out);

template void BandDeviceKernels<float>::tridiagonal(cudaStream_t, In, float*, float*);
template void BandDeviceKernels<double>::tridiagonal(cudaStream_t, In, double*, double*);
template void BandDeviceKernels<Complex<float>>::tridiagonal(cudaStream_t, In, float*, float*);
template void BandDeviceKernels<Complex<double>>::tridiagonal(cudaStream_t, In, double*, double*);

}  // namespace shardsolve::runtime::cuda
