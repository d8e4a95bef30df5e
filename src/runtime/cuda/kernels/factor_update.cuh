/// c -= p q^H for a square tile c, spread over the threads of a block, and panels in shared memory.
#pragma once

#include "runtime/cuda/kernels/factor_shape.cuh"
#include "runtime/cuda/kernels/scalar.cuh"
#include "runtime/cuda/kernels/tensor_core.cuh"

namespace shardsolve::runtime::cuda {

template <class E>
using Panel = E[FactorShape<E>::side][FactorShared<E>::panel_stride];

inline constexpr int lanes_a_warp = 32;

/// Which elements of c a thread holds, and their update: four rows of a few columns each, in runs
/// of 16 bytes, which is what one load from shared memory brings.
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
      load(left, p[k], row_threads, row_thread_);
      load(right, q[k], column_threads, column_thread_);
#pragma unroll
      for (int e = 0; e < count; ++e) {
        c[e] = add_product_conjugate(c[e], negative(left[e % rows]), right[e / rows]);
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

  struct alignas(16) Run {
    E elements[run];
  };

  static __device__ E negative(E x) { return scaled(x, RealPart<E>{-1}); }

  static __device__ int place(int element, int threads, int thread) {
    return (element / run * threads + thread) * run + element % run;
  }

  template <int length>
  static __device__ void load(E (&to)[length], const E* from, int threads, int thread) {
#pragma unroll
    for (int first = 0; first < length; first += run) {
      const Run found = *reinterpret_cast<const Run*>(from + place(first, threads, thread));
#pragma unroll
      for (int e = 0; e < run; ++e) {
        to[first + e] = found.elements[e];
      }
    }
  }

  int lane_ = static_cast<int>(threadIdx.x) % lanes_a_warp;
  int warp_ = static_cast<int>(threadIdx.x) / lanes_a_warp;
  int row_thread_ = lane_ % down + warp_ % warps_down * down;
  int column_thread_ = lane_ / down + warp_ / warps_down * across;
};

/// For doubles the tensor cores: warps are 2 down and 4 across, with 4 x 2 squares of 8 x 8 each.
template <>
class UpdateTile<double> {
 public:
  static constexpr int side = FactorShape<double>::side;
  static constexpr int count = side * side / FactorShape<double>::threads;

  __device__ int row(int e) const { return top_ + e / (2 * across) * square + lane_ / depth; }
  __device__ int column(int e) const {
    return left_ + e / 2 % across * square + lane_ % depth * 2 + e % 2;
  }

  __device__ void subtract_product(double (&c)[count], const Panel<double>& p,
                                   const Panel<double>& q) const {
#pragma unroll 4
    for (int k = 0; k < side; k += depth) {
      const double* const left = p[k + lane_ % depth] + top_ + lane_ / depth;
      const double* const right = q[k + lane_ % depth] + left_ + lane_ / depth;
#pragma unroll
      for (int e = 0; e < count; e += 2) {
        multiply_add_8x8x4(c[e], c[e + 1], -left[e / (2 * across) * square],
                           right[e / 2 % across * square]);
      }
    }
  }

 private:
  static constexpr int square = 8;
  static constexpr int depth = 4;
  static constexpr int across = 2;
  static constexpr int warps_down = 2;

  int lane_ = static_cast<int>(threadIdx.x) % lanes_a_warp;
  int warp_ = static_cast<int>(threadIdx.x) / lanes_a_warp;
  int top_ = warp_ % warps_down * (side / warps_down);
  int left_ = warp_ / warps_down * (across * square);
};

}  // namespace shardsolve::runtime::cuda
