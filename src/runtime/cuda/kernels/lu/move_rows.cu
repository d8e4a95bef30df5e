/// Rows that are swapped, chosen or turned into columns.
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/matrix.cuh"
#include "runtime/cuda/lu_device_kernels.hpp"

#include <algorithm>
#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int threads = 256;

/// Swaps in turn are one exchange of rows: those from 0 to `count` and those that they were swapped
/// with. A thread follows from the last swap to the first where what its row ends with has stood.
constexpr int swap_threads = 512;
constexpr int lanes = 32;
constexpr int together = 4;
constexpr std::int64_t max_blocks = 1024;

template <class E>
__global__ void __launch_bounds__(swap_threads)
    exchange_rows(std::int64_t first, const std::int64_t* places, int count, DeviceMatrix<E> a,
                  std::int64_t columns_a_block) {
  auto* const swapped_with = &dynamic_shared<std::uint32_t>();
  constexpr auto nowhere = ~std::uint32_t{0};
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < count) {
    swapped_with[thread] = static_cast<std::uint32_t>(places[thread] - first);
  }
  __syncthreads();
  std::uint32_t to[2] = {nowhere, nowhere};
  if (thread < count) {
    to[0] = static_cast<std::uint32_t>(thread);
    to[1] =
        swapped_with[thread] >= static_cast<std::uint32_t>(count) ? swapped_with[thread] : nowhere;
  }
  std::uint32_t from[2] = {to[0], to[1]};
#pragma unroll 8
  for (auto j = static_cast<std::uint32_t>(count); j-- > 0;) {
    const std::uint32_t other = swapped_with[j];
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      from[k] = from[k] == j ? other : from[k] == other ? j : from[k];
    }
  }
  const std::int64_t begin = blockIdx.x * columns_a_block;
  const std::int64_t end = min(begin + columns_a_block, a.columns);
  for (std::int64_t column = begin; column < end; column += together) {
    E values[2][together];
#pragma unroll
    for (int k = 0; k < 2; ++k) {
#pragma unroll
      for (int c = 0; c < together; ++c) {
        if (to[k] != nowhere && from[k] != to[k] && column + c < end) {
          values[k][c] = a(from[k], column + c);
        }
      }
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 2; ++k) {
#pragma unroll
      for (int c = 0; c < together; ++c) {
        if (to[k] != nowhere && from[k] != to[k] && column + c < end) {
          a(to[k], column + c) = values[k][c];
        }
      }
    }
  }
}

template <class E>
__global__ void __launch_bounds__(threads)
    choose(DeviceMatrix<const E> source, const std::int64_t* columns, DeviceMatrix<E> target) {
  const std::int64_t at = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  const std::int64_t i = at % target.rows;
  const std::int64_t j = at / target.rows;
  if (j < target.columns) {
    target(i, j) = source(j, columns[i]);
  }
}

constexpr int side = 32;
constexpr int lines = 8;

template <class E>
__global__ void __launch_bounds__(side* lines)
    turn_tiles(DeviceMatrix<const E> source, DeviceMatrix<E> target, std::int64_t tile_rows) {
  // One column more than the tile has: no two threads of a warp then meet in one memory bank.
  __shared__ E tile[side][side + 1];
  const std::int64_t top = blockIdx.x % tile_rows * side;
  const std::int64_t left = blockIdx.x / tile_rows * side;
  for (int line = static_cast<int>(threadIdx.y); line < side; line += lines) {
    if (top + threadIdx.x < source.rows && left + line < source.columns) {
      tile[line][threadIdx.x] = source(top + threadIdx.x, left + line);
    }
  }
  __syncthreads();
  for (int line = static_cast<int>(threadIdx.y); line < side; line += lines) {
    if (top + line < source.rows && left + threadIdx.x < source.columns) {
      target(left + threadIdx.x, top + line) = tile[threadIdx.x][line];
    }
  }
}

}  // namespace

template <class E>
void LuDeviceKernels<E>::swap_rows(cudaStream_t stream, std::int64_t first,
                                   const std::int64_t* places, std::int64_t count, Out a) {
  static_assert(max_swaps == swap_threads);
  const std::int64_t each = std::max(divide_up(a.columns(), max_blocks), std::int64_t{together});
  launch(stream, &exchange_rows<E>, divide_up(a.columns(), each),
         {dim3(static_cast<unsigned>(divide_up(count, lanes) * lanes)),
          sizeof(std::uint32_t) * max_swaps},
         first, places, static_cast<int>(count), device(a), each);
}

template <class E>
void LuDeviceKernels<E>::choose_columns(cudaStream_t stream, In source, const std::int64_t* columns,
                                        Out target) {
  launch(stream, &choose<E>, divide_up(target.rows() * target.columns(), threads), {dim3(threads)},
         device(source), columns, device(target));
}

template <class E>
void LuDeviceKernels<E>::transpose(cudaStream_t stream, In source, Out target) {
  const std::int64_t tile_rows = divide_up(source.rows(), side);
  launch(stream, &turn_tiles<E>, tile_rows * divide_up(source.columns(), side), {dim3(side, lines)},
         device(source), device(target), tile_rows);
}

#define SHARDSOLVE_INSTANTIATE(E)                                                               \
  template void LuDeviceKernels<E>::swap_rows(cudaStream_t, std::int64_t, const std::int64_t*,  \
                                              std::int64_t, Out);                               \
  template void LuDeviceKernels<E>::choose_columns(cudaStream_t, In, const std::int64_t*, Out); \
  template void LuDeviceKernels<E>::transpose(cudaStream_t, In, Out);

SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
SHARDSOLVE_INSTANTIATE(Complex<float>)
SHARDSOLVE_INSTANTIATE(Complex<double>)

}  // namespace shardsolve::runtime::cuda
