/// Triangular solve with one tile and few right-hand sides, on the critical path of every solve: a
/// chain of n unknowns, whose latency is all that matters. A cluster takes some right-hand sides;
/// further ones are the next cluster's.
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
#include "runtime/cuda/kernels/solve_helper.cuh"
#include "runtime/cuda/kernels/solve_shape.cuh"
#include "runtime/cuda/kernels/solve_steps.cuh"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

/// Loads are under way before the blocks meet.
template <class E>
__global__ void __launch_bounds__(max_threads, 1) solve(LowerSystem<E> all, Crew crew) {
  const LowerSystem<E> system =
      all.from_column(static_cast<int>(blockIdx.x) / crew.ranks * crew.columns);
  const SolveMemory<E> memory = SolveMemory<E>::of(crew);
  const int helper = warp_of_thread() - crew.columns - feeders;
  const bool helps = helper >= 0;
  const bool steps = !helps && Cluster::rank() == 0;
  Helper<E> help(system, crew, memory, helper);
  Chain<E> chain(system, crew, memory);
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

/// As few columns a cluster as let all clusters run at once, for which two thirds of a GPU have
/// room (measured on an H200); of these as many as shared memory takes, then as many helpers as
/// find a row; but rather fewer columns than a lonely helper. All this finds room where a block may
/// have 160 KiB.
template <class E>
Crew crew_for(std::int64_t rows, std::int64_t columns) {
  const int squares = static_cast<int>(divide_up(rows, side));
  const int helped = std::max(squares - 2, 0);
  const std::size_t limit = max_shared();
  const auto ranks = std::bit_ceil(static_cast<unsigned>(divide_up(helped, max_helpers)));
  Crew crew{1, 0, squares, 0};
  // Mail to itself is an illegal instruction for a block that was not started in a cluster (H200).
  if (helped > 0 && runs_clusters(&solve<E>)) {
    crew.ranks = std::clamp(static_cast<int>(ranks), 2, max_ranks);
  }
  const int at_once =
      std::max(device_attribute(cudaDevAttrMultiProcessorCount) * 2 / 3 / crew.ranks, 1);
  crew.columns = static_cast<int>(std::min<std::int64_t>(divide_up(columns, at_once), max_columns));
  for (; crew.columns > 0; --crew.columns) {
    const int fewest = std::min(helped, crew.columns > 1 ? 2 : 1);
    for (crew.helpers = std::min(helped, max_helpers); crew.helpers >= fewest; --crew.helpers) {
      if (shared_bytes<E>(crew) <= limit) {
        return crew;
      }
    }
  }
  return {1, 0, 0, 0};
}

}  // namespace

template <class E>
bool DeviceKernels<E>::solve_tile(cudaStream_t stream, Triangle triangle, Op op, In a, Out b,
                                  bool unit) {
  if (b.empty()) {
    return true;
  }
  const std::int64_t n = a.rows();
  const bool transposed = op == Op::conjugate_transpose;
  const bool backwards = (triangle == Triangle::upper) != transposed;
  const std::int64_t step = backwards ? -1 : 1;
  const std::int64_t first = backwards ? n - 1 : 0;
  const Crew crew = crew_for<E>(n, b.columns());
  if (crew.columns == 0) {
    return false;
  }
  const std::size_t bytes = shared_bytes<E>(crew);
  // The same whatever the size, as other threads may launch it on this GPU too.
  allow_shared(&solve<E>, max_shared());
  const LowerSystem<E> system{device(a).data + first * (1 + a.stride()),
                              step * (transposed ? a.stride() : 1),
                              step * (transposed ? 1 : a.stride()),
                              device(b).data + first,
                              step,
                              b.stride(),
                              static_cast<int>(n),
                              static_cast<int>(b.columns()),
                              transposed,
                              unit};
  const auto clusters = static_cast<int>(divide_up(b.columns(), crew.columns));
  launch_clusters(stream, &solve<E>, clusters, crew.ranks, {dim3(crew.threads()), bytes}, system,
                  crew);
  return true;
}

template bool DeviceKernels<float>::solve_tile(cudaStream_t, Triangle, Op, In, Out, bool);
template bool DeviceKernels<double>::solve_tile(cudaStream_t, Triangle, Op, In, Out, bool);
template bool DeviceKernels<Complex<float>>::solve_tile(cudaStream_t, Triangle, Op, In, Out, bool);
template bool DeviceKernels<Complex<double>>::solve_tile(cudaStream_t, Triangle, Op, In, Out, bool);

}  // namespace shardsolve::runtime::cuda
