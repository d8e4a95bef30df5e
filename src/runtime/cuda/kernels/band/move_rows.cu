// Moves of whole parts of a matrix: the half above its diagonal from the one below, and rows to
// other places.
#include "runtime/cuda/band_device_kernels.hpp"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/matrix.cuh"
#include "runtime/cuda/kernels/scalar.cuh"

#include <algorithm>
#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int side = 32;
constexpr int rows_at_once = 8;

/// Row i has its first entry in the staircase here.
__host__ __device__ constexpr std::int64_t first_column(std::int64_t i, std::int64_t tile,
                                                        std::int64_t ahead) {
  const std::int64_t block = i / tile + 1 - ahead;
  return block < 0 ? 0 : block * tile;
}

/// A block of threads has a square of `above`, by way of shared memory, so that both are read and
/// written along columns.
template <class E>
__global__ void __launch_bounds__(side* rows_at_once)
    mirror_squares(DeviceMatrix<const E> below, DeviceMatrix<E> above, std::int64_t tile,
                   std::int64_t ahead, std::int64_t squares_down) {
  __shared__ E square[side][side + 1];
  const auto x = static_cast<std::int64_t>(threadIdx.x);
  const auto y = static_cast<std::int64_t>(threadIdx.y);
  const std::int64_t row = blockIdx.x % squares_down * side;
  const std::int64_t column = blockIdx.x / squares_down * side;
  if (column + side <= first_column(row, tile, ahead)) {
    return;
  }
  for (std::int64_t i = y; i < side; i += rows_at_once) {
    if (row + i < above.rows && column + x < above.columns &&
        column + x >= first_column(row + i, tile, ahead)) {
      square[i][x] = conjugate(below(column + x, row + i));
    }
  }
  __syncthreads();
  for (std::int64_t j = y; j < side; j += rows_at_once) {
    if (row + x < above.rows && column + j < above.columns &&
        column + j >= first_column(row + x, tile, ahead)) {
      above(row + x, column + j) = square[x][j];
    }
  }
}

constexpr int threads = 256;
constexpr int rows_a_thread = 8;

template <class E>
__global__ void __launch_bounds__(threads)
    permute(const std::int64_t* __restrict__ order, DeviceMatrix<const E> source,
            DeviceMatrix<E> target, std::int64_t blocks_down) {
  const std::int64_t column = blockIdx.x / blocks_down;
  const std::int64_t first = blockIdx.x % blocks_down * (threads * rows_a_thread);
#pragma unroll
  for (int part = 0; part < rows_a_thread; ++part) {
    const std::int64_t i = first + part * threads + threadIdx.x;
    if (i < target.rows) {
      target(i, column) = source(order[i], column);
    }
  }
}

}  // namespace

template <class E>
void BandDeviceKernels<E>::mirror(cudaStream_t stream, In below, Out above, std::int64_t tile,
                                  std::int64_t ahead) {
  const std::int64_t down = divide_up(above.rows(), side);
  launch(stream, &mirror_squares<E>, down * divide_up(above.columns(), side),
         {dim3(side, rows_at_once)}, device(below), device(above), tile, ahead, down);
}

template <class E>
void BandDeviceKernels<E>::permute_rows(cudaStream_t stream, const std::int64_t* order, In source,
                                        Out target) {
  const std::int64_t down = divide_up(target.rows(), threads * rows_a_thread);
  launch(stream, &permute<E>, down * target.columns(), {dim3(threads)}, order, device(source),
         device(target), down);
}

#define SHARDSOLVE_INSTANTIATE(E)                                                                \
  template void BandDeviceKernels<E>::mirror(cudaStream_t, In, Out, std::int64_t, std::int64_t); \
  template void BandDeviceKernels<E>::permute_rows(cudaStream_t, const std::int64_t*, In, Out);
SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
SHARDSOLVE_INSTANTIATE(Complex<float>)
SHARDSOLVE_INSTANTIATE(Complex<double>)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::runtime::cuda
