/// Cholesky factor of a small tile and the rows below it, by one block of threads.
#pragma once

#include "runtime/cuda/kernels/factor_shape.cuh"
#include "runtime/cuda/kernels/scalar.cuh"

namespace shardsolve::runtime::cuda {

/// 1 / sqrt(x), in float with a Newton step behind the two units of error of the instruction.
inline __device__ double inverse_root(double x) { return rsqrt(x); }
inline __device__ float inverse_root(float x) {
  const float y = rsqrtf(x);
  return y + 0.5F * y * (1.0F - x * y * y);
}

/// One thread's part in the elimination of
///
///     [ a11 ]   [ l11 ]
///     [ a21 ] = [ l21 ] l11^H
///     [ a31 ]   [ l31 ]
///
/// column by column. Column j is published as it stands, with 1 / sqrt of its pivot; then every
/// thread subtracts its share of l_j l_j^H, the next column first, so that the pivot after this one
/// is on its way while the others work. One barrier a column. Columns of the diagonal tile are
/// published in the order in which a thread meets them.
template <class E>
class Elimination {
 public:
  using Shape = FactorShape<E>;

  __device__ Elimination(FactorShared<E>& shared, ThreadRows<E>& x)
      : shared_(shared),
        x_(x),
        row_(static_cast<int>(threadIdx.x) % Shape::side),
        group_(static_cast<int>(threadIdx.x) / Shape::side) {}

  /// Called by all threads; each finds its elements of l in place of those of a. The imaginary
  /// parts on the diagonal and what is above it are of no meaning.
  __device__ void run() {
    if (group_ == 0) {
      publish(0, 0, false);
    }
    __syncthreads();
#pragma unroll
    for (int m = 0; m < Shape::own; ++m) {
      // A loop in the code, for the code is long enough for the instruction cache as it is.
#pragma unroll 1
      for (int turn = 0; turn < Shape::groups; ++turn) {
        const int j = m * Shape::groups + turn;
        load(turn, j);
        if (group_ > turn) {
          subtract(m);
        }
        subtract(m + 1);
        if (j + 1 < Shape::side && group_ == (turn + 1) % Shape::groups) {
          publish(m, j + 1, group_ == 0);
        }
#pragma unroll
        for (int later = m + 2; later < Shape::own; ++later) {
          subtract(later);
        }
        finish(m, turn);
      }
    }
  }

 private:
  /// Where the entry of this row, or of column group + groups m, lies in the published column.
  static __device__ int place(int row) {
    return row % Shape::groups * Shape::own + row / Shape::groups;
  }

  /// Column j, which is this thread's m-th, or the one after that.
  __device__ void publish(int m, int j, bool after) {
    E(&column)[row_kinds][Shape::side] = shared_.column[j % 2];
    E next[row_kinds];
#pragma unroll
    for (int kind = 0; kind < row_kinds; ++kind) {
      next[kind] = after ? x_[kind][m + 1 < Shape::own ? m + 1 : m] : x_[kind][m];
    }
    column[0][place(row_)] = next[0];
    column[1][row_] = next[1];
    column[2][row_] = next[2];
    if (row_ == j) {
      shared_.pivot[j] = real(next[0]);
      shared_.inverse_root[j] = inverse_root(real(next[0]));
    }
  }

  /// Takes this thread's part of l_j from the published column; buffers alternate, and `turn` is as
  /// odd or even as j.
  __device__ void load(int turn, int j) {
    const E(&column)[row_kinds][Shape::side] = shared_.column[turn % 2];
    const RealPart<E> root = shared_.inverse_root[j];
    l_[0] = scaled(column[0][place(row_)], root);
    l_[1] = scaled(column[1][row_], root);
    l_[2] = scaled(column[2][row_], root);
#pragma unroll
    for (int kind = 0; kind < row_kinds; ++kind) {
      factor_[kind] = scaled(l_[kind], -root);
    }
    others_ = column[0] + group_ * Shape::own;
  }

  /// Subtracts from the thread's m-th column, if there is one.
  __device__ void subtract(int m) {
    if (m >= Shape::own) {
      return;
    }
    const E other = others_[m];
#pragma unroll
    for (int kind = 0; kind < row_kinds; ++kind) {
      x_[kind][m] = add_product_conjugate(x_[kind][m], factor_[kind], other);
    }
  }

  __device__ void finish(int m, int turn) {
    if (group_ == turn) {
#pragma unroll
      for (int kind = 0; kind < row_kinds; ++kind) {
        x_[kind][m] = l_[kind];
      }
    }
    __syncthreads();
  }

  FactorShared<E>& shared_;
  ThreadRows<E>& x_;
  int row_;
  int group_;
  E l_[row_kinds];
  E factor_[row_kinds];
  const E* others_;
};

}  // namespace shardsolve::runtime::cuda
