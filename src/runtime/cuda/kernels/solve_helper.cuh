/// What the helpers of a triangular solve do, see solve_tile.cu.
#pragma once

#include "runtime/cuda/kernels/cluster.cuh"
#include "runtime/cuda/kernels/scalar.cuh"
#include "runtime/cuda/kernels/solve_shape.cuh"

#include <cuda_pipeline_primitives.h>

namespace shardsolve::runtime::cuda {

/// A warp that has every so-many-th row of squares; a lane has a row of each.
template <class E>
class Helper {
 public:
  using Shape = SolveShape<E>;

  /// Neighbouring rows are in different blocks.
  __device__ Helper(const LowerSystem<E>& system, const Crew& crew, const SolveMemory<E>& memory,
                    int helper)
      : system_(system),
        crew_(crew),
        memory_(memory),
        strips_(memory.helpers[helper].strips),
        y_(memory.y + helper * crew.rows_a_helper() * crew.columns),
        first_(2 + helper * crew.ranks + Cluster::rank()),
        all_(crew.ranks * crew.helpers),
        next_{0, first_, 0} {}

  __device__ void start() {
    for (int row = first_; row < crew_.squares; row += all_) {
      for (int column = 0; column < crew_.columns; ++column) {
        y(row, column) = system_.load(row * side + lane_, column);
      }
    }
    for (int strip = 0; strip < Shape::strips; ++strip) {
      fetch(strip);
    }
  }

  __device__ void run() {
    int slot = 0;
    for (int left = 0; left + 2 < crew_.squares; ++left) {
      for (int row = row_from(left + 2); row < crew_.squares; row += all_) {
        for (int strip = 0; strip < Shape::strips_a_square; ++strip) {
          subtract(left, row, strip, slot);
          slot = slot + 1 < Shape::strips ? slot + 1 : 0;
        }
      }
    }
  }

 private:
  /// A column of squares, a row of squares, a part of a square.
  struct Place {
    int left;
    int row;
    int strip;
  };

  /// The first of this helper's rows from `row` on.
  __device__ int row_from(int row) const {
    return row <= first_ ? first_ : first_ + (row - first_ + all_ - 1) / all_ * all_;
  }

  __device__ E& y(int row, int column) const {
    return y_[(row - first_) / all_ * crew_.columns + column].of[lane_];
  }

  /// Starts to copy the next strip that subtract() will want, if there is one.
  __device__ void fetch(int slot) {
    if (next_.row < crew_.squares) {
      copy_strip<E, Shape::strip_columns>(system_, next_.row * side,
                                          next_.left * side + next_.strip * Shape::strip_columns,
                                          strips_[slot]);
      if (++next_.strip == Shape::strips_a_square) {
        next_.strip = 0;
        next_.row += all_;
        if (next_.row >= crew_.squares) {
          ++next_.left;
          next_.row = row_from(next_.left + 2);
        }
      }
    }
    __pipeline_commit();
  }

  /// All that can be done without x is done before it is waited for.
  __device__ void subtract(int left, int row, int strip, int slot) {
    __pipeline_wait_prior(Shape::strips - 1);
    __syncwarp();
    E m[Shape::strip_columns];
#pragma unroll
    for (int c = 0; c < Shape::strip_columns; ++c) {
      m[c] = strips_[slot][c][lane_];
    }
    __syncwarp();
    fetch(slot);
    memory_.all.x_arrival[left].wait();
    const bool last = row == left + 2 && strip == Shape::strips_a_square - 1;
#pragma unroll 1
    for (int column = 0; column < crew_.columns; ++column) {
      const E* const x = memory_.x[left * crew_.columns + column].of + strip * Shape::strip_columns;
      E& rest = y(row, column);
      const E result = subtract_products(rest, m, x);
      if (last) {
        memory_.all.y_arrival[row].send(result, &memory_.all.y[row % 2][column].of[lane_], 0);
      } else {
        rest = result;
      }
    }
  }

  /// In a few sums, so that not every product waits for the one before.
  static __device__ E subtract_products(E from, const E (&m)[Shape::strip_columns], const E* x) {
    constexpr int sums = 4;
    const E zero = from_real<E>(0);
    E sum[sums] = {from, zero, zero, zero};
#pragma unroll
    for (int c = 0; c < Shape::strip_columns; ++c) {
      sum[c % sums] = subtract_product(sum[c % sums], m[c], x[c]);
    }
    return sum_of(sum_of(sum[0], sum[1]), sum_of(sum[2], sum[3]));
  }

  const LowerSystem<E>& system_;
  const Crew& crew_;
  const SolveMemory<E>& memory_;
  Strip<E, Shape::strip_columns>* strips_;
  Rows<E>* y_;
  int first_;
  int all_;
  Place next_;
  int lane_ = lane_of_thread();
};

}  // namespace shardsolve::runtime::cuda
