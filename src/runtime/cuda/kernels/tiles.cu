/// Kernels that turn tiles over: through shared memory, so that both sides are met by columns.
#include "runtime/cuda/device_kernels.hpp"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/matrix.cuh"
#include "runtime/cuda/kernels/scalar.cuh"

#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

/// A block of side x lines threads does one square tile, each thread side / lines elements of it.
constexpr int side = 32;
constexpr int lines = 8;

/// Tile rows of the source taken together, column by column: blocks that run at the same time then
/// meet few pages and whole cache lines on both sides.
constexpr unsigned strip = 16;

/// One column more than the tile has: no two threads of a warp then meet in one memory bank.
template <class E>
using Tile = E[side][side + 1];

struct Place {
  std::int64_t row;
  std::int64_t column;
};

__device__ Place place_in_strips(unsigned block, unsigned tile_rows, unsigned tile_columns) {
  const unsigned first = block / (strip * tile_columns) * strip;
  const unsigned height = min(strip, tile_rows - first);
  const unsigned rest = block - first * tile_columns;
  return {std::int64_t{first + rest % height} * side, std::int64_t{rest / height} * side};
}

template <class E>
__global__ void __launch_bounds__(side* lines)
    transpose_tiles(DeviceMatrix<const E> source, DeviceMatrix<E> target, unsigned tile_rows,
                    unsigned tile_columns) {
  __shared__ Tile<E> tile;
  const Place at = place_in_strips(blockIdx.x, tile_rows, tile_columns);
  const std::int64_t i = at.row + threadIdx.x;
#pragma unroll
  for (int line = 0; line < side; line += lines) {
    const std::int64_t j = at.column + line + threadIdx.y;
    if (i < source.rows && j < source.columns) {
      tile[line + threadIdx.y][threadIdx.x] = source(i, j);
    }
  }
  __syncthreads();
  const std::int64_t j = at.column + threadIdx.x;
#pragma unroll
  for (int line = 0; line < side; line += lines) {
    const std::int64_t row = at.row + line + threadIdx.y;
    if (row < source.rows && j < source.columns) {
      target(j, row) = conjugate(tile[threadIdx.x][line + threadIdx.y]);
    }
  }
}

/// One block a tile on or above the diagonal and its mirror image. No other block meets these
/// elements, and all are read before the first is written: `target` may be `upper`.
template <class E>
__global__ void __launch_bounds__(side* lines)
    mirror_tiles(DeviceMatrix<const E> upper, const RealPart<E>* diagonal, DeviceMatrix<E> target,
                 unsigned tile_rows) {
  __shared__ Tile<E> tile;
  const std::int64_t top = std::int64_t{blockIdx.x % tile_rows} * side;
  const std::int64_t left = std::int64_t{blockIdx.x / tile_rows} * side;
  if (top > left) {
    return;
  }
  const std::int64_t n = upper.rows;
#pragma unroll
  for (int line = 0; line < side; line += lines) {
    const std::int64_t i = top + threadIdx.x;
    const std::int64_t j = left + line + threadIdx.y;
    if (i < j && j < n) {
      tile[line + threadIdx.y][threadIdx.x] = upper(i, j);
    }
  }
  __syncthreads();
#pragma unroll
  for (int line = 0; line < side; line += lines) {
    const int y = line + static_cast<int>(threadIdx.y);
    const std::int64_t i = top + threadIdx.x;
    const std::int64_t j = left + y;
    if (i < j && j < n) {
      target(i, j) = tile[y][threadIdx.x];
    } else if (i == j && j < n) {
      target(i, j) = from_real<E>(diagonal[j]);
    }
    const std::int64_t mirrored_row = left + threadIdx.x;
    const std::int64_t mirrored_column = top + y;
    if (mirrored_row > mirrored_column && mirrored_row < n) {
      target(mirrored_row, mirrored_column) = conjugate(tile[threadIdx.x][y]);
    }
  }
}

}  // namespace

template <class E>
void DeviceKernels<E>::conjugate_transpose(cudaStream_t stream, In source, Out target) {
  const std::int64_t tile_rows = divide_up(source.rows(), side);
  const std::int64_t tile_columns = divide_up(source.columns(), side);
  launch(stream, &transpose_tiles<E>, tile_rows * tile_columns, {dim3(side, lines)}, device(source),
         device(target), static_cast<unsigned>(tile_rows), static_cast<unsigned>(tile_columns));
}

template <class E>
void DeviceKernels<E>::hermitian_tile(cudaStream_t stream, In upper, const Real* diagonal,
                                      Out target) {
  const std::int64_t tiles = divide_up(upper.rows(), side);
  launch(stream, &mirror_tiles<E>, tiles * tiles, {dim3(side, lines)}, device(upper), diagonal,
         device(target), static_cast<unsigned>(tiles));
}

template void DeviceKernels<float>::conjugate_transpose(cudaStream_t, In, Out);
template void DeviceKernels<double>::conjugate_transpose(cudaStream_t, In, Out);
template void DeviceKernels<Complex<float>>::conjugate_transpose(cudaStream_t, In, Out);
template void DeviceKernels<Complex<double>>::conjugate_transpose(cudaStream_t, In, Out);

template void DeviceKernels<float>::hermitian_tile(cudaStream_t, In, const Real*, Out);
template void DeviceKernels<double>::hermitian_tile(cudaStream_t, In, const Real*, Out);
template void DeviceKernels<Complex<float>>::hermitian_tile(cudaStream_t, In, const Real*, Out);
template void DeviceKernels<Complex<double>>::hermitian_tile(cudaStream_t, In, const Real*, Out);

}  // namespace shardsolve::runtime::cuda
