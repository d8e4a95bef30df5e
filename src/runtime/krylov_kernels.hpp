/// Kernels of Krylov solves: fused vector updates with partial sums, and the end of a reduction
/// with the scalar step.
#pragma once

#include "runtime/kernel_set.hpp"
#include "runtime/krylov/ends.hpp"
#include "runtime/krylov/program.hpp"
#include "runtime/krylov_scan.hpp"
#include "runtime/operand_shapes.hpp"
#include "runtime/queue.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

#include <cstdint>

namespace shardsolve::runtime {

/// All pointers are to device memory. Bits depend on the numbers and on n alone.
template <Scalar T>
class KrylovKernels {
 public:
  static constexpr KernelSet set = KernelSet::krylov;
  static constexpr Dtype dtype = dtype_of<T>;

  virtual ~KrylovKernels() = default;

  void scan(Queue& queue, MatrixView<const T> x, Scan* result) const {
    require(x.columns() == 1, "scan");
    do_scan(queue, {.name = "scan"}, x, result);
  }
  /// target = 2^exponent source, exact but for what leaves the range.
  void scale_exactly(Queue& queue, int exponent, MatrixView<const T> source,
                     MatrixView<T> target) const {
    require(same_shape(source, target), "scale_exactly");
    do_scale_exactly(queue, {.name = "scale"}, exponent, source, target);
  }
  /// Zeros.
  void clear(Queue& queue, void* memory, std::int64_t bytes) const {
    if (bytes > 0) {
      do_clear(queue, {.name = "clear"}, memory, bytes);
    }
  }
  /// Runs a program on this rank's rows and writes its part of the sums.
  void run(Queue& queue, const krylov::Program& program, const krylov::Vectors<T>& vectors,
           const krylov::State* state, const krylov::StateRoom& room,
           const krylov::SumTable<T>& sums) const {
    do_run(queue,
           {.name = program.name,
            .flops = multiply_add<T> * static_cast<double>(vectors.rows) *
                     (program.updates + program.dots)},
           program, vectors, state, room, sums);
  }
  /// Adds the parts of all ranks and takes the step of reduction `reduction`.
  void finish(Queue& queue, const krylov::Problem& problem, int reduction,
              const krylov::SumTable<T>& sums, krylov::State* state,
              const krylov::StateRoom& room) const {
    do_finish(queue, {.name = "step"}, problem, reduction, sums, state, room);
  }
  /// The state that a solve begins with, from scans of b and, if there is a guess, of x0 by all
  /// `ranks`, which lie at `boundaries`.
  void begin(Queue& queue, const krylov::Problem& problem, const Scan* of_b, const Scan* of_x,
             const std::int64_t* boundaries, std::int64_t ranks, krylov::SolveState* solve) const {
    do_begin(queue, {.name = "begin"}, problem, of_b, of_x, boundaries, ranks, solve);
  }
  /// The report of a solve and three numbers of it: residual, tolerance, margin. From scans of x by
  /// all ranks; x that does not fit its dtype ends it with Status::overflow.
  void end(Queue& queue, const krylov::Problem& problem, const Scan* of_x, std::int64_t ranks,
           krylov::SolveState* solve, krylov::Report* report, RealOf<T>* figures) const {
    do_end(queue, {.name = "end"}, problem, of_x, ranks, solve, report, figures);
  }
  /// target = 2^e source with the solve's exponent e, or the other way 2^-e source; 0 for a solve
  /// that has not begun or whose x overflows.
  enum class Way : std::uint8_t { to_solve, from_solve };
  void scale_for(Queue& queue, Way way, const krylov::SolveState* solve, MatrixView<const T> source,
                 MatrixView<T> target) const {
    require(same_shape(source, target), "scale_for");
    do_scale_for(queue, {.name = "scale"}, way, solve, source, target);
  }
  /// target = diagonal^-1 source row by row, or the source if there is no diagonal, unless *skip is
  /// not 0.
  void divide_rows(Queue& queue, MatrixView<const T> diagonal, MatrixView<const T> source,
                   MatrixView<T> target, const std::int32_t* skip) const {
    require(same_shape(source, target) && (diagonal.empty() || same_shape(diagonal, target)),
            "divide_rows");
    do_divide_rows(queue, {.name = "jacobi", .flops = static_cast<double>(target.rows())}, diagonal,
                   source, target, skip);
  }

 protected:
  virtual void do_scan(Queue& queue, const WorkInfo& info, MatrixView<const T> x,
                       Scan* result) const = 0;
  virtual void do_scale_exactly(Queue& queue, const WorkInfo& info, int exponent,
                                MatrixView<const T> source, MatrixView<T> target) const = 0;
  virtual void do_run(Queue& queue, const WorkInfo& info, const krylov::Program& program,
                      const krylov::Vectors<T>& vectors, const krylov::State* state,
                      const krylov::StateRoom& room, const krylov::SumTable<T>& sums) const = 0;
  virtual void do_finish(Queue& queue, const WorkInfo& info, const krylov::Problem& problem,
                         int reduction, const krylov::SumTable<T>& sums, krylov::State* state,
                         const krylov::StateRoom& room) const = 0;
  virtual void do_clear(Queue& queue, const WorkInfo& info, void* memory,
                        std::int64_t bytes) const = 0;
  virtual void do_begin(Queue& queue, const WorkInfo& info, const krylov::Problem& problem,
                        const Scan* of_b, const Scan* of_x, const std::int64_t* boundaries,
                        std::int64_t ranks, krylov::SolveState* solve) const = 0;
  virtual void do_end(Queue& queue, const WorkInfo& info, const krylov::Problem& problem,
                      const Scan* of_x, std::int64_t ranks, krylov::SolveState* solve,
                      krylov::Report* report, RealOf<T>* figures) const = 0;
  virtual void do_scale_for(Queue& queue, const WorkInfo& info, Way way,
                            const krylov::SolveState* solve, MatrixView<const T> source,
                            MatrixView<T> target) const = 0;
  virtual void do_divide_rows(Queue& queue, const WorkInfo& info, MatrixView<const T> diagonal,
                              MatrixView<const T> source, MatrixView<T> target,
                              const std::int32_t* skip) const = 0;
};

}  // namespace shardsolve::runtime
