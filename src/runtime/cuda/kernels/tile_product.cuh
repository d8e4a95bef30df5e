/// Products of panels by tiles of 64 x 64 sums on the tensor cores, in float64.
#pragma once

#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/tensor_core.cuh"

#include <cmath>
#include <cstdint>

namespace shardsolve::runtime::cuda {

/// A block of four warps has the sums, each warp 32 x 32 of them.
class TileProduct {
 public:
  static constexpr int side = 64;
  static constexpr int depth = 16;
  static constexpr int threads = 128;

  /// Some columns of two panels: sums(i, j) grow by left[k][i] right[k][j].
  struct Chunk {
    /// So many numbers that lanes which read at the same time do not meet in a bank.
    static constexpr int stride = side + 4;
    double left[depth][stride];
    double right[depth][stride];
  };

  /// Only sums of the first `rows` rows and `columns` columns are of use.
  __device__ TileProduct(int rows, int columns)
      : rows_(rows - first_row()), columns_(columns - first_column()) {}

  __device__ void add(const Chunk& chunk) {
    const int group = lane() / 4;
#if __CUDA_ARCH__ < 800
    const int pair = lane() % 4 * 2;
#pragma unroll 4
    for (int k = 0; k < depth; ++k) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const double* const left = chunk.left[k] + first_row() + 16 * r + group;
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          const double* const right = chunk.right[k] + first_column() + 8 * c + pair;
          Tile16x8<double>& sum = sums_[r][c];
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            sum.low[i] = fma(left[0], right[i], sum.low[i]);
            sum.high[i] = fma(left[8], right[i], sum.high[i]);
          }
        }
      }
    }
#else
    const int k = lane() % 4;
    Tile16x8<double> left[2][2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = first_row() + 16 * r + group;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        left[r][i / 2].low[i % 2] = chunk.left[k + 4 * i][row];
        left[r][i / 2].high[i % 2] = chunk.left[k + 4 * i][row + 8];
      }
    }
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      if (8 * c < columns_) {
        const int column = first_column() + 8 * c + group;
        const double2 right[2] = {{chunk.right[k][column], chunk.right[k + 4][column]},
                                  {chunk.right[k + 8][column], chunk.right[k + 12][column]}};
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          if (16 * r < rows_) {
            multiply(sums_[r][c], left[r], right);
          }
        }
      }
    }
#endif
  }

  /// Calls use(i, j, sum) for the sums of this thread.
  template <class Use>
  __device__ void each(Use use) const {
    const int group = lane() / 4;
    const int pair = lane() % 4 * 2;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int row = first_row() + 16 * r + group;
        const int column = first_column() + 8 * c + pair;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          use(row, column + i, sums_[r][c].low[i]);
          use(row + 8, column + i, sums_[r][c].high[i]);
        }
      }
    }
  }

 private:
  static __device__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  static __device__ int first_row() { return static_cast<int>(threadIdx.x) / 64 * 32; }
  static __device__ int first_column() { return static_cast<int>(threadIdx.x) / 32 % 2 * 32; }

  static __device__ void multiply(Tile16x8<double>& c, const Tile16x8<double> (&a)[2],
                                  const double2 (&b)[2]) {
#if __CUDA_ARCH__ >= 900
    multiply_add_16x8x16(c, a, b);
#else
    const double right[4] = {b[0].x, b[0].y, b[1].x, b[1].y};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      multiply_add_8x8x4(c.low[0], c.low[1], a[i / 2].low[i % 2], right[i]);
      multiply_add_8x8x4(c.high[0], c.high[1], a[i / 2].high[i % 2], right[i]);
    }
#endif
  }

  int rows_;
  int columns_;
  Tile16x8<double> sums_[2][4] = {};
};

}  // namespace shardsolve::runtime::cuda
