/// Substitutions with many fronts, a block of threads each: 32 columns at a time, which one warp
/// solves for and all threads take off the rows below.
#include "runtime/cuda/front_device_kernels.hpp"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/warp_sums.cuh"

#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int threads = 512;
constexpr int warps = threads / 32;
constexpr int square = 32;

struct SolveMemory {
  double l[square][square + 1];  ///< l[j][i] = L(i, j)
  double x[square];
};

__device__ int thread() { return static_cast<int>(threadIdx.x); }

/// The square of L at `column`, ones on the diagonal beyond its size.
__device__ void load_square(SolveMemory& memory, const DeviceFront& front, int column) {
  const std::int64_t height = std::int64_t{front.own} + front.outer;
  const int width = min(square, front.own - column);
  const double* const l = front.panel + column + column * height;
  for (int n = thread(); n < square * square; n += threads) {
    const int i = n % square;
    const int j = n / square;
    memory.l[j][i] = i < width && j < width && i >= j ? l[i + j * height] : (i == j ? 1.0 : 0.0);
  }
}

__global__ void __launch_bounds__(threads)
    forward(const DeviceFront* all, std::int64_t first, double* x) {
  SolveMemory& memory = dynamic_shared<SolveMemory>();
  const DeviceFront front = all[first + blockIdx.x];
  const int height = front.own + front.outer;
  double* const local = front.local;
  for (int i = thread(); i < height; i += threads) {
    local[i] = i < front.own ? x[front.places[i]] : 0.0;
  }
  for (int c = 0; c < front.children_count; ++c) {
    __syncthreads();
    const DeviceFront child = all[front.children[c]];
    for (int i = thread(); i < child.outer; i += threads) {
      local[child.parent_columns[i]] += child.local[child.own + i];
    }
  }
  for (int column = 0; column < front.own; column += square) {
    const int width = min(square, front.own - column);
    __syncthreads();
    load_square(memory, front, column);
    __syncthreads();
    if (thread() < square) {
      const int i = thread();
      double mine = i < width ? local[column + i] : 0.0;
      for (int j = 0; j < square; ++j) {
        const double known = from_lane(mine, j) / memory.l[j][j];
        mine = i == j ? known : mine - (i > j ? memory.l[j][i] * known : 0.0);
      }
      memory.x[i] = mine;
      if (i < width) {
        local[column + i] = mine;
        x[front.places[column + i]] = mine;
      }
    }
    __syncthreads();
    for (int row = column + width + thread(); row < height; row += threads) {
      const double* const l = front.panel + row + std::int64_t{column} * height;
      double sum = 0.0;
      if (width == square) {
#pragma unroll
        for (int j = 0; j < square; ++j) {
          sum += l[std::int64_t{j} * height] * memory.x[j];
        }
      } else {
        for (int j = 0; j < width; ++j) {
          sum += l[std::int64_t{j} * height] * memory.x[j];
        }
      }
      local[row] -= sum;
    }
  }
}

__global__ void __launch_bounds__(threads)
    back(const DeviceFront* all, std::int64_t first, double* x) {
  SolveMemory& memory = dynamic_shared<SolveMemory>();
  const DeviceFront front = all[first + blockIdx.x];
  const int height = front.own + front.outer;
  double* const local = front.local;
  for (int i = thread(); i < height; i += threads) {
    local[i] = x[front.places[i]];
  }
  const int last = front.own > 0 ? (front.own - 1) / square * square : -square;
  for (int column = last; column >= 0; column -= square) {
    const int width = min(square, front.own - column);
    __syncthreads();
    load_square(memory, front, column);
    // Two columns of each warp at a time.
    constexpr int of_warp = square / warps;
    double sums[of_warp] = {};
    const int begin = thread() / 32 * of_warp;
    for (int row = column + width + thread() % 32; row < height; row += 32) {
      const double value = local[row];
#pragma unroll
      for (int j = 0; j < of_warp; ++j) {
        if (begin + j < width) {
          sums[j] += front.panel[row + std::int64_t{column + begin + j} * height] * value;
        }
      }
    }
#pragma unroll
    for (int j = 0; j < of_warp; ++j) {
#pragma unroll
      for (int distance = 16; distance > 0; distance /= 2) {
        sums[j] += from_partner(sums[j], distance);
      }
      if (thread() % 32 == 0) {
        memory.x[begin + j] = begin + j < width ? local[column + begin + j] - sums[j] : 0.0;
      }
    }
    __syncthreads();
    if (thread() < square) {
      const int i = thread();
      double mine = memory.x[i];
      for (int j = square - 1; j >= 0; --j) {
        const double known = from_lane(mine, j) / memory.l[j][j];
        mine = i == j ? known : mine - (i < j ? memory.l[i][j] * known : 0.0);
      }
      if (i < width) {
        local[column + i] = mine;
        x[front.places[column + i]] = mine;
      }
    }
  }
}

}  // namespace

void FrontDeviceKernels::solve_forward(cudaStream_t stream, const FrontBatch& batch, double* x) {
  launch(stream, &forward, batch.count, {dim3(threads), sizeof(SolveMemory)}, batch.all,
         batch.first, x);
}

void FrontDeviceKernels::solve_back(cudaStream_t stream, const FrontBatch& batch, double* x) {
  launch(stream, &back, batch.count, {dim3(threads), sizeof(SolveMemory)}, batch.all, batch.first,
         x);
}

}  // namespace shardsolve::runtime::cuda
