/// Products of the orthonormal blocks with vectors, sums of what several boxes have at one place,
/// and the weights of networks.
#include "runtime/cuda/box_device_kernels.hpp"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/warp_sums.cuh"

#include <cstddef>
#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int threads = 256;

__global__ void __launch_bounds__(threads)
    multiply_rows(const __grid_constant__ BoxBlocks blocks, const std::int64_t* offsets,
                  const double* y, std::int64_t pieces, double* slots) {
  double* const of_box = &dynamic_shared<double>();
  const std::int64_t box = blockIdx.x / pieces;
  const int rank = blocks.rank[box];
  for (int c = static_cast<int>(threadIdx.x); c < rank; c += threads) {
    of_box[c] = y[offsets[box] + c];
  }
  __syncthreads();
  const std::int64_t begin = blocks.begin[box];
  const std::int64_t rows = blocks.begin[box + 1] - begin;
  const std::int64_t row = blockIdx.x % pieces * threads + threadIdx.x;
  if (row < rows) {
    const double* const q = blocks.q + begin * blocks.columns + row;
    double sum = 0.0;
    for (int c = 0; c < rank; ++c) {
      sum += q[c * rows] * of_box[c];
    }
    slots[begin + row] = sum;
  }
}

__global__ void __launch_bounds__(threads)
    gather(std::int64_t count, const std::int32_t* which, const double* from, double* to) {
  const std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (i < count) {
    to[i] = from[which[i]];
  }
}

__global__ void __launch_bounds__(threads)
    multiply_columns(const __grid_constant__ BoxBlocks blocks, const std::int64_t* offsets,
                     const double* slots, double* g) {
  const std::int64_t box = blockIdx.x;
  const std::int64_t begin = blocks.begin[box];
  const std::int64_t rows = blocks.begin[box + 1] - begin;
  const int rank = blocks.rank[box];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int c = static_cast<int>(threadIdx.x) / 32; c < rank; c += threads / 32) {
    const double* const q = blocks.q + begin * blocks.columns + c * rows;
    double sum = 0.0;
    for (std::int64_t row = lane; row < rows; row += 32) {
      sum += q[row] * slots[begin + row];
    }
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
      sum += from_partner(sum, distance);
    }
    if (lane == 0) {
      g[offsets[box] + c] = sum;
    }
  }
}

__global__ void __launch_bounds__(threads)
    add_numbers(std::int64_t count, std::int64_t width, const std::int64_t* begin,
                const std::int32_t* which, const double* values, double* sums) {
  const std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (i < count * width) {
    double sum = 0.0;
    for (std::int64_t k = begin[i / width]; k < begin[i / width + 1]; ++k) {
      sum += values[which[k] * width + i % width];
    }
    sums[i] = sum;
  }
}

/// R x = y from the last row on, a warp for each box.
__global__ void __launch_bounds__(32)
    find_weights(const __grid_constant__ BoxBlocks blocks, const std::int64_t* offsets,
                 const double* y, double* all_weights) {
  double* const x = &dynamic_shared<double>();
  const std::int64_t box = blockIdx.x;
  const int lane = static_cast<int>(threadIdx.x);
  const int rank = blocks.rank[box];
  const double* const r = blocks.r + box * blocks.columns * blocks.columns;
  double* const z = all_weights + box * blocks.columns;
  for (std::int64_t c = lane; c < blocks.columns; c += 32) {
    z[c] = 0.0;
  }
  for (int i = rank - 1; i >= 0; --i) {
    __syncwarp();
    double sum = 0.0;
    for (int k = i + 1 + lane; k < rank; k += 32) {
      sum += r[i * blocks.columns + k] * x[k];
    }
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
      sum += from_partner(sum, distance);
    }
    if (lane == 0) {
      x[i] = (y[offsets[box] + i] - sum) / r[i * blocks.columns + i];
    }
  }
  __syncwarp();
  for (int i = lane; i < rank; i += 32) {
    z[blocks.kept[box * blocks.columns + i]] = x[i];
  }
}

Block with_columns(int count, const BoxBlocks& blocks) {
  return {dim3(static_cast<unsigned>(count)),
          static_cast<std::size_t>(blocks.columns) * sizeof(double)};
}

}  // namespace

void BoxDeviceKernels::multiply(cudaStream_t stream, const BoxBlocks& blocks,
                                const std::int64_t* offsets, const double* y, double* slots) {
  const std::int64_t pieces = divide_up(blocks.max_rows, threads);
  const Block block = with_columns(threads, blocks);
  allow_shared(&multiply_rows, block.shared_bytes);
  launch(stream, &multiply_rows, blocks.boxes * pieces, block, blocks, offsets, y, pieces, slots);
}

void BoxDeviceKernels::multiply_adjoint(cudaStream_t stream, const BoxBlocks& blocks,
                                        const std::int64_t* offsets, const double* r, double* slots,
                                        double* g) {
  launch(stream, &gather, divide_up(blocks.slots, threads), {dim3(threads)}, blocks.slots,
         blocks.row, r, slots);
  launch(stream, &multiply_columns, blocks.boxes, {dim3(threads)}, blocks, offsets, slots, g);
}

void BoxDeviceKernels::weights_of(cudaStream_t stream, const BoxBlocks& blocks,
                                  const std::int64_t* offsets, const double* y, double* z) {
  const Block block = with_columns(32, blocks);
  allow_shared(&find_weights, block.shared_bytes);
  launch(stream, &find_weights, blocks.boxes, block, blocks, offsets, y, z);
}

void BoxDeviceKernels::add_listed(cudaStream_t stream, std::int64_t count, std::int64_t width,
                                  const std::int64_t* begin, const std::int32_t* which,
                                  const double* values, double* sums) {
  launch(stream, &add_numbers, divide_up(count * width, threads), {dim3(threads)}, count, width,
         begin, which, values, sums);
}

}  // namespace shardsolve::runtime::cuda
