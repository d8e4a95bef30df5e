/// Cholesky factor of a small tile and the rows below it, by one block of threads.
#pragma once

#include "runtime/cuda/kernels/cholesky/factor_shape.cuh"
#include "runtime/cuda/kernels/cholesky/factor_update.cuh"
#include "runtime/cuda/kernels/root_estimate.cuh"
#include "runtime/cuda/kernels/scalar.cuh"
#include "runtime/cuda/kernels/warp_sums.cuh"

namespace shardsolve::runtime::cuda {

/// 1 / sqrt(x) for what may be a pivot: an estimate and a step that cubes (in float squares) its
/// error.
inline __device__ double inverse_root(double x) {
  const double y = root_estimate(x);
  const double error = 1.0 - x * (y * y);  // y has few bits: its square is exact
  return y + y * error * (0.5 + 0.375 * error);
}
inline __device__ float inverse_root(float x) {
  const float y = root_estimate(x);
  return y + 0.5F * y * (1.0F - x * y * y);
}

template <class E>
__device__ RealPart<E> square_of_size(E x) {
  return real(add_product_conjugate(from_real<E>(0), x, x));
}

/// One block's elimination of
///
///     [ a11 ]   [ l11 ]
///     [ a21 ] = [ l21 ] l11^H
///     [ a31 ]   [ l31 ]
///
/// in shared memory, a strip of columns at a time: what the columns before it contribute is
/// subtracted by all threads, one warp makes the strip's diagonal square, then each row below is
/// one thread's.
template <class E>
class Elimination {
 public:
  using Shape = FactorShape<E>;
  using Real = RealPart<E>;

  explicit __device__ Elimination(FactorShared<E>& shared)
      : shared_(shared), thread_(static_cast<int>(threadIdx.x)) {}

  /// Called by all threads. shared.panels hold the rows of a, afterwards those of l, and
  /// shared.pivot() what their diagonal was the root of, for all to see. What is above l11's
  /// diagonal is of no meaning.
  __device__ void run() {
#pragma unroll 1
    for (int first = 0; first < Shape::side; first += Shape::strip) {
      __syncthreads();
      if (first > 0) {
        subtract_strips<E>(shared_.panels, first);
        __syncthreads();
      }
      if (thread_ < lanes_a_warp) {
        factor_square(first);
      }
      __syncthreads();
      // The rows of the diagonal square, of which there are fewer and fewer, are the last threads'.
      const int kind = (thread_ / Shape::side + 1) % row_kinds;
      const int row = thread_ % Shape::side;
      if (thread_ < row_kinds * Shape::side && (kind > 0 || row >= first + Shape::strip)) {
        solve_row(first, shared_.panels[kind], row);
      }
    }
    __syncthreads();
  }

 private:
  /// What takes time is the way from one pivot to the next. Lane i has row i, and so have those
  /// `strip` lanes further on.
  __device__ void factor_square(int first) {
    constexpr int width = Shape::strip;
    const int i = thread_ % width;
    E d[width];
    Real pivot = 0;
    [[maybe_unused]] Real own_square = 0;
    [[maybe_unused]] Real own_root = 0;
#pragma unroll
    for (int j = 0; j < width; ++j) {
      d[j] = shared_.panels[0](first + i, first + j);
      pivot = i == j ? real(d[j]) : pivot;
    }
#pragma unroll
    for (int j = 0; j < width; ++j) {
      const Real square = from_lane(pivot, j);
      const Real root = inverse_root(square);
      // Of a pivot by another way to it, rounded otherwise, only a few digits may be the same.
      d[j] = scaled(i == j ? from_real<E>(square) : d[j], root);
      pivot -= square_of_size(d[j]);
      if (thread_ == j) {
        if constexpr (pivots_lie_apart) {
          shared_.keep(first + j, square, root);
        } else {
          own_square = square;
          own_root = root;
        }
      }
#pragma unroll
      for (int c = j + 1; c < width; ++c) {
        d[c] = subtract_product_conjugate(d[c], d[j], from_lane(d[j], c));
      }
    }
    __syncwarp();  // all have read what some write
    if (thread_ < width) {
#pragma unroll
      for (int j = 0; j < width; ++j) {
        shared_.panels[0](first + i, first + j) = d[j];
      }
    }
    if constexpr (!pivots_lie_apart) {
      __syncwarp();  // what is overwritten has been written
      if (thread_ < width) {
        shared_.keep(first + i, own_square, own_root);
      }
    }
  }

  __device__ void solve_row(int first, Panel<E>& rows, int row) {
    constexpr int width = Shape::strip;
    E x[width];
#pragma unroll
    for (int j = 0; j < width; ++j) {
      x[j] = rows(row, first + j);
    }
#pragma unroll
    for (int j = 0; j < width; ++j) {
      x[j] = scaled(x[j], shared_.inverse_root(first + j));
      rows(row, first + j) = x[j];
      E l[width];
      shared_.panels[0].read(l, first, first + j);
#pragma unroll
      for (int c = j + 1; c < width; ++c) {
        x[c] = subtract_product_conjugate(x[c], x[j], l[c]);
      }
    }
  }

  FactorShared<E>& shared_;
  int thread_;
};

}  // namespace shardsolve::runtime::cuda
