/// The triangle that solve_tile.cu works on, and how its parts come into shared memory.
#pragma once

#include "runtime/cuda/kernels/scalar.cuh"

#include <cuda_pipeline_primitives.h>

#include <cstdint>

namespace shardsolve::runtime::cuda {

inline constexpr int lanes_a_warp = 32;
/// Rows and columns of a square.
inline constexpr int side = lanes_a_warp;
/// One more than there are rows: threads of a warp that write a row meet different memory banks.
inline constexpr int column_stride = side + 1;

/// `columns` columns of a square.
template <class E, int columns>
using Strip = E[columns][column_stride];

template <class E>
struct SolveShape {
  /// What a warp of helpers works on at once fits in its registers.
  static constexpr int strip_columns = sizeof(E) == 16 ? 8 : 32;
  static constexpr int strips_a_square = side / strip_columns;
  /// Buffers in a ring: what is in use and what is on its way. A diagonal square has to be there a
  /// step earlier than the one below it.
  static constexpr int strips = sizeof(E) == 16 ? 6 : 3;
  static constexpr int diagonal_squares = sizeof(E) == 16 ? 3 : 4;
  static constexpr int lower_squares = diagonal_squares - 1;
};

/// m x = y with m lower triangular, whichever triangle of a it is: rows and columns are counted in
/// the order in which they are solved. m is op(a) or its conjugate; y then is conjugated as well.
template <class E>
struct LowerSystem {
  const E* m;
  std::int64_t m_row;
  std::int64_t m_column;
  E* y;
  std::int64_t y_row;
  std::int64_t y_column;
  int n;
  /// Rows of m are contiguous in memory, instead of columns; y is conjugated.
  bool transposed;

  __device__ E load(int row, int column) const {
    return turned(row < n ? y[row * y_row + column * y_column] : from_real<E>(0));
  }
  __device__ void store(int row, int column, E value) const {
    if (row < n) {
      y[row * y_row + column * y_column] = turned(value);
    }
  }
  __device__ E turned(E value) const { return transposed ? conjugate(value) : value; }
};

/// Starts to copy the part of m from (top, left), called by a warp: consecutive lanes read
/// consecutive addresses. What is above the diagonal or below the last row is left out, and the
/// target keeps what it had there.
template <class E, int columns>
__device__ void copy_strip(const LowerSystem<E>& system, int top, int left,
                           Strip<E, columns>& target) {
  const int lane = static_cast<int>(threadIdx.x) % lanes_a_warp;
  int row = top + (system.transposed ? lane / columns : lane);
  int column = left + (system.transposed ? lane % columns : 0);
  const int down = system.transposed ? lanes_a_warp / columns : 0;
  const int right = system.transposed ? 0 : 1;
  const E* from = system.m + row * system.m_row + column * system.m_column;
  const std::int64_t from_step = down * system.m_row + right * system.m_column;
  E* to = &target[column - left][row - top];
  const int to_step = down + right * column_stride;
#pragma unroll 8
  for (int line = 0; line < columns; ++line) {
    if (row < system.n && column <= row) {
      __pipeline_memcpy_async(to, from, sizeof(E));
    }
    row += down;
    column += right;
    from += from_step;
    to += to_step;
  }
}

}  // namespace shardsolve::runtime::cuda
