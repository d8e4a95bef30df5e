/// Triangular solve with one tile and few right-hand sides, on the critical path of every solve: a
/// chain of n unknowns, whose latency is all that matters.
///
/// The system is brought to the form m x = y with m lower triangular by counting rows in the order
/// in which they are solved, and cut into squares (i, j) of 32 x 32:
///
///     solvers    m(s, s) x(s) = y(s)                              a warp a right-hand side
///                y(s+1) -= m(s+1, s) x(s)                         in the same warp
///     feeders    bring m(s, s), its rows divided by their diagonal entry, and m(s+1, s)
///     helpers    y(i) -= m(i, j) x(j)          j = 0 ... i - 2    a warp a row of squares
///
/// Solvers and feeders go step by step, in one block. Helpers hear of every x(j) and pass y(i) on
/// when it has seen x(i-2): while x(i-1) is solved for, which hides how long both messages take.
/// Nobody waits for memory. Since one SM reads too slowly, the helpers are spread over a cluster.
///
/// Dividing a row by its diagonal entry takes the division off the chain. It adds two roundings to
/// each entry of m and one to y, so that x solves a system as near to the given one, entry by
/// entry, as textbook substitution does.
#include "runtime/cuda/device_kernels.hpp"
#include "runtime/cuda/kernels/cluster.cuh"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/matrix.cuh"
#include "runtime/cuda/kernels/scalar.cuh"
#include "runtime/cuda/kernels/solve_shape.cuh"

#include <algorithm>
#include <bit>
#include <complex>
#include <cstddef>
#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int most_columns = DeviceKernels<double>::most_columns;
constexpr int most_helpers = 4;
constexpr int feeders = 2;
constexpr int most_threads = (most_columns + feeders + most_helpers) * lanes_a_warp;
constexpr int most_squares = 32;
constexpr unsigned all_lanes = 0xffffffffU;

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
  Rows<E> y[2][most_columns];
  Arrival y_arrival[most_squares];
  Arrival x_arrival[most_squares];
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

__device__ int lane_of_thread() { return static_cast<int>(threadIdx.x) % lanes_a_warp; }
__device__ int warp_of_thread() { return static_cast<int>(threadIdx.x) / lanes_a_warp; }

template <class E>
__device__ E product(E x, E y) {
  return add_product(from_real<E>(0), x, y);
}

/// sum - x y.
template <class E>
__device__ E subtract_product(E sum, E x, E y) {
  return add_product(sum, scaled(x, RealPart<E>{-1}), y);
}

template <class E>
__device__ E sum_of(E x, E y) {
  if constexpr (parts<E> == 2) {
    return {x.re + y.re, x.im + y.im};
  } else {
    return x + y;
  }
}

/// Divides by the larger part first, so that no square overflows.
template <class E>
__device__ E reciprocal(E x) {
  if constexpr (parts<E> == 1) {
    return 1 / x;
  } else if (fabs(x.re) >= fabs(x.im)) {
    const auto ratio = x.im / x.re;
    const auto size = x.re + x.im * ratio;
    return {1 / size, -ratio / size};
  } else {
    const auto ratio = x.re / x.im;
    const auto size = x.im + x.re * ratio;
    return {ratio / size, -1 / size};
  }
}

/// x of another lane.
template <class E>
__device__ E broadcast(E x, int lane) {
  if constexpr (parts<E> == 2) {
    return {__shfl_sync(all_lanes, x.re, lane), __shfl_sync(all_lanes, x.im, lane)};
  } else {
    return __shfl_sync(all_lanes, x, lane);
  }
}

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
    E sum = product(y, shared_.inverse[slot].of[lane_]);
    E own = sum;
    next_ = from_real<E>(0);
#pragma unroll unrolled
    for (int first = 0; first < side; first += group) {
      E x[group];
#pragma unroll
      for (int c = 0; c < group; ++c) {
        x[c] = broadcast(sum, first + c);
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

/// Called by a warp; a lane has a row.
template <class E>
__device__ void divide_rows(SolveShared<E>& shared, int step) {
  const int lane = lane_of_thread();
  const int slot = step % SolveShape<E>::diagonal_squares;
  Strip<E, side>& square = shared.diagonal[slot];
  const E inverse = reciprocal(square[lane][lane]);
  shared.inverse[slot].of[lane] = inverse;
#pragma unroll
  for (int column = 0; column < side; ++column) {
    if (column < lane) {
      square[column][lane] = product(square[column][lane], inverse);
    }
  }
}

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

/// The solvers of rank 0 and its feeders, which are the warps after them.
template <class E>
class Steps {
 public:
  using Shape = SolveShape<E>;

  __device__ Steps(const LowerSystem<E>& system, const Crew& crew, const SolveMemory<E>& memory)
      : crew_(crew),
        shared_(memory.all),
        solver_(system, crew, memory, warp_of_thread()),
        diagonal_(system, memory.all.diagonal, 0),
        lower_(system, memory.all.lower, 1) {}

  __device__ void start() {
    if (solves_) {
      solver_.start();
    } else if (divides_) {
      diagonal_.start();
      divide_rows(shared_, 0);
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
        divide_rows(shared_, step + 1);
      } else {
        lower_.run(step);
      }
    }
  }

 private:
  const Crew& crew_;
  SolveShared<E>& shared_;
  Solver<E> solver_;
  Feeder<E, Shape::diagonal_squares> diagonal_;
  Feeder<E, Shape::lower_squares> lower_;
  bool solves_ = warp_of_thread() < crew_.columns;
  bool divides_ = warp_of_thread() == crew_.columns;
};

/// Loads are under way before the blocks meet.
template <class E>
__global__ void __launch_bounds__(most_threads, 1) solve(LowerSystem<E> system, Crew crew) {
  const SolveMemory<E> memory = SolveMemory<E>::of(crew);
  const int helper = warp_of_thread() - crew.columns - feeders;
  const bool helps = helper >= 0;
  const bool steps = !helps && Cluster::rank() == 0;
  Helper<E> help(system, crew, memory, helper);
  Steps<E> chain(system, crew, memory);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < crew.squares) {
    memory.all.x_arrival[thread].expect(crew.columns * side, sizeof(E));
    memory.all.y_arrival[thread].expect(crew.columns * side, sizeof(E));
  }
  if (helps) {
    help.start();
  } else if (steps) {
    chain.start();
  }
  Cluster::sync();
  if (helps) {
    help.run();
  } else if (steps) {
    chain.run();
  }
  // Nobody leaves while others may write to his memory.
  Cluster::sync();
}

int attribute(cudaDeviceAttr name) {
  int device = 0;
  int value = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&value, name, device);
  return value;
}

/// As many columns at a time as shared memory takes, then as many helpers as find a row; but rather
/// fewer columns than a lonely helper. All this finds room where a block may have 160 KiB.
template <class E>
Crew crew_for(std::int64_t rows, std::int64_t columns) {
  const int squares = static_cast<int>(divide_up(rows, side));
  const int helped = std::max(squares - 2, 0);
  const auto limit = static_cast<std::size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
  const auto ranks = std::bit_ceil(static_cast<unsigned>(divide_up(helped, most_helpers)));
  Crew crew{1, 0, squares, static_cast<int>(std::min<std::int64_t>(columns, most_columns))};
  if (attribute(cudaDevAttrClusterLaunch) != 0) {
    crew.ranks = std::min(static_cast<int>(ranks), most_ranks);
  }
  for (; crew.columns > 0; --crew.columns) {
    const int fewest = std::min(helped, crew.columns > 1 ? 2 : 1);
    for (crew.helpers = std::min(helped, most_helpers); crew.helpers >= fewest; --crew.helpers) {
      if (shared_bytes<E>(crew) <= limit) {
        return crew;
      }
    }
  }
  return {1, std::min(helped, 1), squares, 1};
}

}  // namespace

template <Scalar T>
void DeviceKernels<T>::solve_tile(cudaStream_t stream, Triangle triangle, Op op, In a, Out b) {
  using E = Element<T>;
  if (b.empty()) {
    return;
  }
  const std::int64_t n = a.rows();
  const bool transposed = op == Op::conjugate_transpose;
  const bool backwards = (triangle == Triangle::upper) != transposed;
  const std::int64_t step = backwards ? -1 : 1;
  const std::int64_t first = backwards ? n - 1 : 0;
  const Crew crew = crew_for<E>(n, b.columns());
  const std::size_t bytes = shared_bytes<E>(crew);
  allow_shared(&solve<E>, bytes);
  for (std::int64_t column = 0; column < b.columns(); column += crew.columns) {
    const Out x =
        b.columns_from(column, std::min<std::int64_t>(crew.columns, b.columns() - column));
    const LowerSystem<E> system{device(a).data + first * (1 + a.stride()),
                                step * (transposed ? a.stride() : 1),
                                step * (transposed ? 1 : a.stride()),
                                device(x).data + first,
                                step,
                                x.stride(),
                                static_cast<int>(n),
                                transposed};
    Crew now = crew;
    now.columns = static_cast<int>(x.columns());
    launch_cluster(stream, &solve<E>, now.ranks, {dim3(now.threads()), bytes}, system, now);
  }
}

template void DeviceKernels<float>::solve_tile(cudaStream_t, Triangle, Op, In, Out);
template void DeviceKernels<double>::solve_tile(cudaStream_t, Triangle, Op, In, Out);
template void DeviceKernels<std::complex<float>>::solve_tile(cudaStream_t, Triangle, Op, In, Out);
template void DeviceKernels<std::complex<double>>::solve_tile(cudaStream_t, Triangle, Op, In, Out);

}  // namespace shardsolve::runtime::cuda
