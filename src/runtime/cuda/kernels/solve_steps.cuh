/// The chain of a triangular solve: what solvers and feeders do, see solve_tile.cu.
#pragma once

#include "runtime/cuda/kernels/cluster.cuh"
#include "runtime/cuda/kernels/scalar.cuh"
#include "runtime/cuda/kernels/solve_shape.cuh"
#include "runtime/cuda/kernels/warp_sums.cuh"

#include <cuda_pipeline_primitives.h>

namespace shardsolve::runtime::cuda {

/// A warp that solves for one right-hand side; a lane has a row.
template <class E>
class Solver {
 public:
  __device__ Solver(const LowerSystem<E>& system, const Crew& crew, const SolveMemory<E>& memory,
                    int column)
      : system_(system), crew_(crew), memory_(memory), shared_(memory.all), column_(column) {}

  /// The first two steps have no helpers.
  __device__ void start() {
    shared_.y[0][column_].of[lane_] = system_.load(lane_, column_);
    shared_.y[1][column_].of[lane_] = system_.load(side + lane_, column_);
  }

  __device__ void run(int step) {
    if (step >= 2) {
      shared_.y_arrival[step].wait();
    }
    const E x = solve(step);
    if (step + 2 < crew_.squares) {
      E* const to = &memory_.x[step * crew_.columns + column_].of[lane_];
      for (int rank = 0; rank < crew_.ranks; ++rank) {
        shared_.x_arrival[step].send(x, to, rank);
      }
    }
    system_.store(step * side + lane_, column_, x);
  }

 private:
  /// Columns that every lane solves for by itself between two exchanges.
  static constexpr int group = 4;
  /// Such groups in a piece of straight code, which is as much as registers allow.
  static constexpr int unrolled = sizeof(E) == 16 ? 2 : 8;

  __device__ E solve(int step) {
    using Shape = SolveShape<E>;
    const int slot = step % Shape::diagonal_squares;
    const Strip<E, side>& diagonal = shared_.diagonal[slot];
    const Strip<E, side>& lower = shared_.lower[step % Shape::lower_squares];
    const E y = sum_of(next_, shared_.y[step % 2][column_].of[lane_]);
    E sum = product_of(y, shared_.inverse[slot].of[lane_]);
    E own = sum;
    next_ = from_real<E>(0);
#pragma unroll unrolled
    for (int first = 0; first < side; first += group) {
      E x[group];
#pragma unroll
      for (int c = 0; c < group; ++c) {
        x[c] = from_lane(sum, first + c);
      }
#pragma unroll
      for (int c = 0; c < group; ++c) {
#pragma unroll
        for (int row = c + 1; row < group; ++row) {
          x[row] = subtract_product(x[row], diagonal[first + c][first + row], x[c]);
        }
        // Rows above the diagonal are solved already, and what becomes of their sum is of no use.
        sum = subtract_product(sum, diagonal[first + c][lane_], x[c]);
        next_ = subtract_product(next_, lower[first + c][lane_], x[c]);
        own = lane_ == first + c ? x[c] : own;
      }
    }
    return own;
  }

  const LowerSystem<E>& system_;
  const Crew& crew_;
  const SolveMemory<E>& memory_;
  SolveShared<E>& shared_;
  int column_;
  int lane_ = lane_of_thread();
  /// -m(s+1, s) x(s)
  E next_ = from_real<E>(0);
};

/// A warp that keeps a ring of squares (s + below, s) ahead of the solver.
template <class E, int depth>
class Feeder {
 public:
  using Ring = Strip<E, side>[depth];

  __device__ Feeder(const LowerSystem<E>& system, Ring& ring, int below)
      : system_(system), ring_(ring), below_(below) {}

  __device__ void start() const {
    for (int step = 0; step < depth - 1; ++step) {
      fetch(step);
    }
    await();
  }

  /// Has the square of the next step there.
  __device__ void run(int step) const {
    fetch(step + depth - 1);
    await();
  }

 private:
  __device__ void fetch(int step) const {
    if ((step + below_) * side < system_.n) {
      copy_strip<E, side>(system_, (step + below_) * side, step * side, ring_[step % depth]);
    }
    __pipeline_commit();
  }

  __device__ void await() const {
    __pipeline_wait_prior(depth - 2);
    __syncwarp();
  }

  const LowerSystem<E>& system_;
  Ring& ring_;
  int below_;
};

/// Called by a warp; a lane has a row. `unit`: the diagonal is 1.
template <class E>
__device__ void divide_rows(SolveShared<E>& shared, int step, bool unit) {
  const int lane = lane_of_thread();
  const int slot = step % SolveShape<E>::diagonal_squares;
  Strip<E, side>& square = shared.diagonal[slot];
  const E inverse = unit ? from_real<E>(1) : inverse_of(square[lane][lane]);
  shared.inverse[slot].of[lane] = inverse;
#pragma unroll
  for (int column = 0; column < side; ++column) {
    if (column < lane) {
      square[column][lane] = product_of(square[column][lane], inverse);
    }
  }
}

/// The solvers of rank 0 and its feeders, which are the warps after them.
template <class E>
class Chain {
 public:
  using Shape = SolveShape<E>;

  __device__ Chain(const LowerSystem<E>& system, const Crew& crew, const SolveMemory<E>& memory)
      : crew_(crew),
        shared_(memory.all),
        unit_(system.unit),
        solver_(system, crew, memory, warp_of_thread()),
        diagonal_(system, memory.all.diagonal, 0),
        lower_(system, memory.all.lower, 1) {}

  __device__ void start() {
    if (solves_) {
      solver_.start();
    } else if (divides_) {
      diagonal_.start();
      divide_rows(shared_, 0, unit_);
    } else {
      lower_.start();
    }
  }

  __device__ void run() {
    for (int step = 0; step < crew_.squares; ++step) {
      sync_some(1, (crew_.columns + feeders) * lanes_a_warp);
      if (solves_) {
        solver_.run(step);
      } else if (divides_) {
        diagonal_.run(step);
        divide_rows(shared_, step + 1, unit_);
      } else {
        lower_.run(step);
      }
    }
  }

 private:
  const Crew& crew_;
  SolveShared<E>& shared_;
  bool unit_;
  Solver<E> solver_;
  Feeder<E, Shape::diagonal_squares> diagonal_;
  Feeder<E, Shape::lower_squares> lower_;
  bool solves_ = warp_of_thread() < crew_.columns;
  bool divides_ = warp_of_thread() == crew_.columns;
};

}  // namespace shardsolve::runtime::cuda
