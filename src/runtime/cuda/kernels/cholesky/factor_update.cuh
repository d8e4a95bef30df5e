/// Products of panels in shared memory, spread over the threads of a block.
#pragma once

#include "runtime/cuda/kernels/cholesky/factor_shape.cuh"
#include "runtime/cuda/kernels/scalar.cuh"
#include "runtime/cuda/kernels/tensor_core.cuh"

#include <type_traits>

namespace shardsolve::runtime::cuda {

/// c -= p q^H for a square tile c. Which elements of c a thread holds, and their update: four rows
/// of a few columns each, in runs of 16 bytes, which is what one load from shared memory brings.
template <class E>
class UpdateTile {
 public:
  static constexpr int side = FactorShape<E>::side;
  static constexpr int count = side * side / FactorShape<E>::threads;

  __device__ int row(int e) const { return place(e % rows, row_threads, row_thread_); }
  __device__ int column(int e) const { return place(e / rows, column_threads, column_thread_); }

  __device__ void subtract_product(E (&c)[count], const Panel<E>& p, const Panel<E>& q) const {
#pragma unroll 4
    for (int k = 0; k < side; ++k) {
      E left[rows];
      E right[columns];
      load(left, p, k, row_threads, row_thread_);
      load(right, q, k, column_threads, column_thread_);
#pragma unroll
      for (int e = 0; e < count; ++e) {
        c[e] = subtract_product_conjugate(c[e], left[e % rows], right[e / rows]);
      }
    }
  }

 private:
  static constexpr int rows = 4;
  static constexpr int columns = count / rows;
  static constexpr int row_threads = side / rows;
  static constexpr int column_threads = side / columns;
  static constexpr int run = 16 / static_cast<int>(sizeof(E));
  /// Threads of a warp are 8 down and 4 across.
  static constexpr int down = 8;
  static constexpr int across = lanes_a_warp / down;
  static constexpr int warps_down = row_threads / down;

  static __device__ int place(int element, int threads, int thread) {
    return (element / run * threads + thread) * run + element % run;
  }

  template <int length>
  static __device__ void load(E (&to)[length], const Panel<E>& from, int k, int threads,
                              int thread) {
#pragma unroll
    for (int first = 0; first < length; first += run) {
      E found[run];
      from.read(found, place(first, threads, thread), k);
#pragma unroll
      for (int e = 0; e < run; ++e) {
        to[first + e] = found[e];
      }
    }
  }

  int lane_ = static_cast<int>(threadIdx.x) % lanes_a_warp;
  int warp_ = static_cast<int>(threadIdx.x) / lanes_a_warp;
  int row_thread_ = lane_ % down + warp_ % warps_down * down;
  int column_thread_ = lane_ / down + warp_ / warps_down * across;
};

/// What the tensor cores take and give of a 16 x 8 square of c, at rows `top` and columns `left` of
/// panels: c -= p q^H, 16 columns of both at a time.
class TensorSquare {
 public:
  __device__ TensorSquare(int top, int left) : row_(top + lane() / 4), column_(left + lane() / 4) {}

  __device__ void subtract(Tile16x8<double>& c, const Panel<double>& p, const Panel<double>& q,
                           int first) const {
    Tile16x8<double> left[2];
    double2 right[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      // Any four columns, if both factors have the same ones; these are in different banks.
      const int k = first + 8 * half + lane() % 4;
      left[half] = {{-p(row_, k), -p(row_, k + 4)}, {-p(row_ + 8, k), -p(row_ + 8, k + 4)}};
      right[half] = {q(column_, k), q(column_, k + 4)};
    }
#if __CUDA_ARCH__ >= 900
    multiply_add_16x8x16(c, left, right);
#else
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const auto add = [&](double(&sum)[2], const double(&a)[2]) {
        multiply_add_8x8x4(sum[0], sum[1], a[0], right[half].x);
        multiply_add_8x8x4(sum[0], sum[1], a[1], right[half].y);
      };
      add(c.low, left[half].low);
      add(c.high, left[half].high);
    }
#endif
  }

  static __device__ int lane() { return static_cast<int>(threadIdx.x) % lanes_a_warp; }
  static __device__ int warp() { return static_cast<int>(threadIdx.x) / lanes_a_warp; }

 private:
  int row_;
  int column_;
};

#if __CUDA_ARCH__ >= 800
/// For doubles: a warp has 16 rows and half of the columns.
template <>
class UpdateTile<double> {
 public:
  static constexpr int side = FactorShape<double>::side;
  static constexpr int count = side * side / FactorShape<double>::threads;

  __device__ int row(int e) const { return top_ + e / 2 % 2 * 8 + TensorSquare::lane() / 4; }
  __device__ int column(int e) const {
    return left_ + e / 4 * 8 + TensorSquare::lane() % 4 * 2 + e % 2;
  }

  __device__ void subtract_product(double (&c)[count], const Panel<double>& p,
                                   const Panel<double>& q) const {
    constexpr int squares = count / 4;
    Tile16x8<double> sums[squares];
#pragma unroll
    for (int i = 0; i < squares; ++i) {
      sums[i] = {{c[4 * i], c[4 * i + 1]}, {c[4 * i + 2], c[4 * i + 3]}};
    }
#pragma unroll
    for (int k = 0; k < side; k += 16) {
#pragma unroll
      for (int i = 0; i < squares; ++i) {
        TensorSquare(top_, left_ + 8 * i).subtract(sums[i], p, q, k);
      }
    }
#pragma unroll
    for (int i = 0; i < squares; ++i) {
      c[4 * i] = sums[i].low[0];
      c[4 * i + 1] = sums[i].low[1];
      c[4 * i + 2] = sums[i].high[0];
      c[4 * i + 3] = sums[i].high[1];
    }
  }

 private:
  int top_ = TensorSquare::warp() % 4 * 16;
  int left_ = TensorSquare::warp() / 4 * (side / 2);
};
#endif

/// In the strip of columns from `first` on of all panels: what the columns before it contribute,
/// with the rows of the first panel as right factor.
template <class E>
__device__ void subtract_strips(Panel<E> (&panels)[row_kinds], int first) {
  using Shape = FactorShape<E>;
  if constexpr (std::is_same_v<E, double> && multiplies_doubles_on_tensor_cores) {
    static_assert(Shape::strip == 16);
    constexpr int warps = Shape::threads / lanes_a_warp;
    constexpr int turns = row_kinds * Shape::side / 16 * 2 / warps;
    const auto square = [](int turn) { return turn * warps + TensorSquare::warp(); };
    const auto panel = [&](int turn) -> Panel<E>& {
      return panels[square(turn) / (Shape::side / 8)];
    };
    const auto top = [&](int turn) { return square(turn) / 2 * 16 % Shape::side; };
    const auto left = [&](int turn) { return first + square(turn) % 2 * 8; };
    const auto at = [&](int turn, int row, int column) -> double& {
      const int lane = TensorSquare::lane();
      return panel(turn)(top(turn) + lane / 4 + row, left(turn) + lane % 4 * 2 + column);
    };
    Tile16x8<double> sums[turns];
#pragma unroll
    for (int turn = 0; turn < turns; ++turn) {
      sums[turn] = {{at(turn, 0, 0), at(turn, 0, 1)}, {at(turn, 8, 0), at(turn, 8, 1)}};
    }
    for (int k = 0; k < first; k += 16) {
#pragma unroll
      for (int turn = 0; turn < turns; ++turn) {
        TensorSquare(top(turn), left(turn)).subtract(sums[turn], panel(turn), panels[0], k);
      }
    }
#pragma unroll
    for (int turn = 0; turn < turns; ++turn) {
      at(turn, 0, 0) = sums[turn].low[0];
      at(turn, 0, 1) = sums[turn].low[1];
      at(turn, 8, 0) = sums[turn].high[0];
      at(turn, 8, 1) = sums[turn].high[1];
    }
  } else {
    constexpr int part = Shape::strip / Shape::groups;
    const int row = static_cast<int>(threadIdx.x) % Shape::side;
    const int column = first + static_cast<int>(threadIdx.x) / Shape::side * part;
    E sums[row_kinds][part] = {};
#pragma unroll 4
    for (int k = 0; k < first; ++k) {
      E other[part];
      panels[0].read(other, column, k);
#pragma unroll
      for (int kind = 0; kind < row_kinds; ++kind) {
        const E own = panels[kind](row, k);
#pragma unroll
        for (int i = 0; i < part; ++i) {
          sums[kind][i] = subtract_product_conjugate(sums[kind][i], own, other[i]);
        }
      }
    }
#pragma unroll
    for (int kind = 0; kind < row_kinds; ++kind) {
#pragma unroll
      for (int i = 0; i < part; ++i) {
        E& x = panels[kind](row, column + i);
        x = add_product(x, from_real<E>(1), sums[kind][i]);
      }
    }
  }
}

}  // namespace shardsolve::runtime::cuda
