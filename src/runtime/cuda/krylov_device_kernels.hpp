/// The GPU kernels of our own behind KrylovKernels, as nvcc compiles them.
#pragma once

#include "runtime/cuda/element.hpp"
#include "runtime/krylov/block_factors.hpp"
#include "runtime/krylov/ends.hpp"
#include "runtime/krylov/part.hpp"
#include "runtime/krylov/program.hpp"
#include "runtime/krylov/state.hpp"
#include "runtime/krylov_scan.hpp"

#include <shardsolve/matrix_view.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace shardsolve::runtime::cuda {

/// As DeviceKernels: enqueued on a stream of the current device, shapes checked by the caller, a
/// kernel each but for scan. What they compute is said in runtime/krylov_kernels.hpp. All have the
/// bits of the CPU.
template <class E>
struct KrylovDeviceKernels {
  using In = MatrixView<const E>;
  using Out = MatrixView<E>;

  /// Bytes of scratch that scan takes.
  static std::size_t scan_scratch();
  static void scan(cudaStream_t stream, In x, Scan* result, void* scratch);
  static void scale_exactly(cudaStream_t stream, int exponent, In source, Out target);
  /// `rank`: null, or in the GPU's memory whose rows and sums these are, which then lie at the
  /// boundaries of the layout; vectors.rows is the most that a rank has.
  static void run(cudaStream_t stream, const krylov::Program& program,
                  const krylov::Vectors<E>& vectors, const krylov::State* state,
                  const krylov::StateRoom& room, const krylov::SumTable<E>& sums,
                  const std::int32_t* rank = nullptr);
  /// Likewise where the program's shape is known (runtime/krylov/shape.hpp); false, and nothing is
  /// done, where it is not. run() tries this first.
  static bool run_known(cudaStream_t stream, const krylov::Program& program,
                        const krylov::Vectors<E>& vectors, const krylov::State* state,
                        const krylov::StateRoom& room, const krylov::SumTable<E>& sums,
                        const std::int32_t* rank);
  /// Whether run_to_end takes it: of one rank, with a shape that is known.
  static bool fits_end(const krylov::Program& program, const krylov::Vectors<E>& vectors,
                       const krylov::SumTable<E>& sums, const krylov::StateRoom& room);
  /// run() with the end of the reduction in the same kernel.
  static void run_to_end(cudaStream_t stream, const krylov::Problem& problem,
                         const krylov::Program& program, const krylov::Vectors<E>& vectors,
                         int reduction, const krylov::SumTable<E>& sums, krylov::State* state,
                         const krylov::StateRoom& room);
  static void finish(cudaStream_t stream, const krylov::Problem& problem, int reduction,
                     const krylov::SumTable<E>& sums, krylov::State* state,
                     const krylov::StateRoom& room);
  /// Whether run_part takes it: of one rank, with so few rows that one block of threads takes them
  /// at once (2048). `sums`: of any reduction.
  static bool fits_part(const krylov::Part& part, const krylov::Vectors<E>& vectors,
                        const krylov::SumTable<E>& sums);
  /// All of a part in one kernel. `sums`: of each of `reductions`.
  static void run_part(cudaStream_t stream, const krylov::Problem& problem,
                       const krylov::Part& part, const krylov::Vectors<E>& vectors,
                       const krylov::SumTable<E>* sums, int reductions, krylov::State* state,
                       const krylov::StateRoom& room);
  static void divide_rows(cudaStream_t stream, In diagonal, In source, Out target,
                          const std::int32_t* skip);
  static void combine(cudaStream_t stream, RealPart<E> a, In x, RealPart<E> b, Out y,
                      const std::int32_t* skip);
  /// A block of threads for each block, so that few blocks leave multiprocessors idle. If the rank
  /// is in the GPU's memory, `first` is that times the rows of `target`. Source and work have all
  /// rows, or those of `target`.
  static void solve_blocks(cudaStream_t stream, const krylov::BlockFactors<E>& factors, In source,
                           Out work, std::int64_t first, Out target, const std::int32_t* skip,
                           const std::int32_t* rank_at = nullptr);

  // As runtime/krylov/ends.hpp has them; pointers are to the GPU's memory.
  static void begin_solve(cudaStream_t stream, const krylov::Problem& problem, const Scan* of_b,
                          const Scan* of_x, const std::int64_t* boundaries, std::int64_t ranks,
                          krylov::SolveState* solve);
  static void end_solve(cudaStream_t stream, const krylov::Problem& problem, const Scan* of_x,
                        std::int64_t ranks, krylov::SolveState* solve, krylov::Report* report,
                        RealPart<E>* figures);
  /// By 2^exponent_of(solve, way); 0 if is_zero_vector().
  static void scale_for(cudaStream_t stream, krylov::Way way, const krylov::SolveState* solve,
                        In source, Out target);
};

/// The last block of threads makes the end of a reduction for up to so many rows. With more of them
/// it is a kernel of its own, which takes about as long.
constexpr std::int64_t max_rows_to_end = std::int64_t{1} << 20;

/// A part that is no kernel by itself, in turn: calls run(program, reduction), finish(reduction),
/// or run_to_end(program, reduction) for both.
template <class E, class Run, class Finish, class RunToEnd>
void in_turn(const krylov::Part& part, const krylov::Vectors<E>& vectors,
             const krylov::SumTable<E>* sums, const krylov::StateRoom& room, const Run& run,
             const Finish& finish, const RunToEnd& run_to_end) {
  for (int at = 0; at < part.items; ++at) {
    const krylov::Part::Item& item = part.item[at];
    if (item.program < 0) {
      finish(item.reduction);
      continue;
    }
    const krylov::Program& program = part.program[item.program];
    const bool has_end = vectors.rows <= max_rows_to_end && at + 1 < part.items &&
                         part.item[at + 1].program < 0 &&
                         part.item[at + 1].reduction == item.reduction;
    if (has_end && KrylovDeviceKernels<E>::fits_end(program, vectors, sums[item.reduction], room)) {
      run_to_end(program, item.reduction);
      ++at;
    } else {
      run(program, item.reduction);
    }
  }
}

/// The same vectors and sums as the kernels take them.
template <Scalar T>
krylov::Vectors<Element<T>> elements(const krylov::Vectors<T>& vectors) {
  krylov::Vectors<Element<T>> result;
  result.first_row = vectors.first_row;
  result.rows = vectors.rows;
  for (int v = 0; v < krylov::Vectors<T>::most; ++v) {
    result.base[v] = reinterpret_cast<Element<T>*>(vectors.base[v]);
    result.stride[v] = vectors.stride[v];
    result.column[v] = vectors.column[v];
  }
  return result;
}
template <Scalar T>
krylov::BlockFactors<Element<T>> elements(const krylov::BlockFactors<T>& factors) {
  return {.is_band = factors.is_band,
          .count = factors.count,
          .largest = factors.largest,
          .widest = factors.widest,
          .entries = factors.entries,
          .blocks = factors.blocks,
          .numbers = reinterpret_cast<const Element<T>*>(factors.numbers),
          .lists = factors.lists};
}
template <Scalar T>
krylov::SumTable<Element<T>> elements(const krylov::SumTable<T>& sums) {
  return {.layout = sums.layout,
          .rank = sums.rank,
          .slots = sums.slots,
          .fixed = sums.fixed,
          .parts = reinterpret_cast<Element<T>*>(sums.parts),
          .offsets = sums.offsets};
}

}  // namespace shardsolve::runtime::cuda
