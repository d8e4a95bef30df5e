// Each column times what makes its largest entry real and positive, a block of threads a column.
#include "runtime/cuda/band_device_kernels.hpp"
#include "runtime/cuda/kernels/band/reflector.cuh"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/matrix.cuh"

#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int threads = 256;
constexpr int lanes = 32;
constexpr int warps = threads / lanes;

template <class R>
struct Place {
  R square;
  std::int64_t row;
};

/// The larger, the first of equals.
template <class R>
__device__ Place<R> larger(const Place<R>& one, const Place<R>& other) {
  const bool second =
      other.square > one.square || (other.square == one.square && other.row < one.row);
  return second ? other : one;
}

template <class E>
__global__ void __launch_bounds__(threads) turn_columns(DeviceMatrix<E> z) {
  using R = RealPart<E>;
  __shared__ R squares[warps];
  __shared__ std::int64_t rows[warps];
  E* const column = &z(0, blockIdx.x);
  // A thread without rows has found the first, in vain.
  Place<R> found{R{-1}, 0};
  for (std::int64_t i = threadIdx.x; i < z.rows; i += threads) {
    const R size = square(column[i]);
    if (size > found.square) {
      found = {size, i};
    }
  }
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    found =
        larger(found, {from_partner(found.square, distance), from_partner(found.row, distance)});
  }
  if (threadIdx.x % lanes == 0) {
    squares[threadIdx.x / lanes] = found.square;
    rows[threadIdx.x / lanes] = found.row;
  }
  __syncthreads();
  for (int warp = 0; warp < warps; ++warp) {
    found = larger(found, {squares[warp], rows[warp]});
  }
  const E largest = column[found.row];
  __syncthreads();
  const R size = parts<E> == 2 ? R(hypot(real(largest), imaginary(largest))) : size_of(largest);
  if (!(size > 0)) {
    return;
  }
  E turn = from_real<E>(real(largest) / size);
  if constexpr (parts<E> == 2) {
    turn.im = -largest.im / size;
  }
  for (std::int64_t i = threadIdx.x; i < z.rows; i += threads) {
    column[i] = i == found.row ? from_real<E>(size) : product_of(column[i], turn);
  }
}

}  // namespace

template <class E>
void BandDeviceKernels<E>::fix_phases(cudaStream_t stream, Out z) {
  launch(stream, &turn_columns<E>, z.columns(), {dim3(threads)}, device(z));
}

template void BandDeviceKernels<float>::fix_phases(cudaStream_t, Out);
template void BandDeviceKernels<double>::fix_phases(cudaStream_t, Out);
template void BandDeviceKernels<Complex<float>>::fix_phases(cudaStream_t, Out);
template void BandDeviceKernels<Complex<double>>::fix_phases(cudaStream_t, Out);

}  // namespace shardsolve::runtime::cuda
