/// The triangle that solve_tile.cu works on, who works, and what lies where in shared memory.
#pragma once

#include "runtime/cuda/device_kernels.hpp"
#include "runtime/cuda/kernels/cluster.cuh"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/scalar.cuh"

#include <cuda_pipeline_primitives.h>

#include <cstddef>
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
  int columns;  // of y
  /// Rows of m are contiguous in memory, instead of columns; y is conjugated.
  bool transposed;
  /// The diagonal of m is 1, whatever lies there.
  bool unit;

  /// Zero outside of y.
  __device__ E load(int row, int column) const {
    return turned(is_in_y(row, column) ? y[row * y_row + column * y_column] : from_real<E>(0));
  }
  __device__ void store(int row, int column, E value) const {
    if (is_in_y(row, column)) {
      y[row * y_row + column * y_column] = turned(value);
    }
  }
  __device__ bool is_in_y(int row, int column) const { return row < n && column < columns; }
  __device__ E turned(E value) const { return transposed ? conjugate(value) : value; }

  /// For the right-hand sides from `column` on.
  __device__ LowerSystem from_column(int column) const {
    LowerSystem part = *this;
    part.y += column * y_column;
    part.columns -= column;
    return part;
  }
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

/// Right-hand sides of a cluster.
inline constexpr int max_columns = 8;
inline constexpr int max_helpers = 4;
inline constexpr int feeders = 2;
inline constexpr int max_threads = (max_columns + feeders + max_helpers) * lanes_a_warp;
inline constexpr int max_squares = 32;

/// One element for every row of a square.
template <class E>
struct alignas(16) Rows {
  E of[side];
};

template <class E>
struct SolveShared {
  using Shape = SolveShape<E>;
  alignas(16) Strip<E, side> diagonal[Shape::diagonal_squares];
  alignas(16) Strip<E, side> lower[Shape::lower_squares];
  /// 1 / the diagonal of m.
  Rows<E> inverse[Shape::diagonal_squares];
  /// From the helpers, for this step and for the next: it is sent by one who knows the x that the
  /// last one in the same place went into.
  Rows<E> y[2][max_columns];
  Arrival y_arrival[max_squares];
  Arrival x_arrival[max_squares];
};

template <class E>
struct HelperShared {
  alignas(16) Strip<E, SolveShape<E>::strip_columns> strips[SolveShape<E>::strips];
};

/// Who works, and where behind SolveShared the memory for it lies.
struct Crew {
  int ranks;
  int helpers;
  int squares;
  int columns;

  /// Rows of squares that a helper has; the first two rows need none.
  __host__ __device__ int rows_a_helper() const {
    const int all = ranks * helpers;
    return squares > 2 && all > 0 ? (squares - 2 + all - 1) / all : 0;
  }
  __host__ __device__ int rows_of_y() const { return helpers * rows_a_helper() * columns; }
  __host__ __device__ int rows_of_x() const { return squares * columns; }
  __host__ __device__ int threads() const { return (columns + feeders + helpers) * lanes_a_warp; }
};

template <class E>
std::size_t shared_bytes(const Crew& crew) {
  const auto helpers = static_cast<std::size_t>(crew.helpers);
  const auto rows = static_cast<std::size_t>(crew.rows_of_y() + crew.rows_of_x());
  return sizeof(SolveShared<E>) + helpers * sizeof(HelperShared<E>) + rows * sizeof(Rows<E>);
}

/// The parts of a block's shared memory.
template <class E>
struct SolveMemory {
  SolveShared<E>& all;
  HelperShared<E>* helpers;
  /// [helper][row of squares][right-hand side], what is left of y
  Rows<E>* y;
  /// [step][right-hand side]
  Rows<E>* x;

  static __device__ SolveMemory of(const Crew& crew) {
    auto& all = dynamic_shared<SolveShared<E>>();
    auto* const helpers = reinterpret_cast<HelperShared<E>*>(&all + 1);
    auto* const y = reinterpret_cast<Rows<E>*>(helpers + crew.helpers);
    return {all, helpers, y, y + crew.rows_of_y()};
  }
};

inline __device__ int lane_of_thread() { return static_cast<int>(threadIdx.x) % lanes_a_warp; }
inline __device__ int warp_of_thread() { return static_cast<int>(threadIdx.x) / lanes_a_warp; }

}  // namespace shardsolve::runtime::cuda
