/// Kernels of Krylov solves: fused vector updates with partial sums, and the end of a reduction
/// with the scalar step.
#pragma once

#include "runtime/kernel_set.hpp"
#include "runtime/krylov/block_factors.hpp"
#include "runtime/krylov/ends.hpp"
#include "runtime/krylov/part.hpp"
#include "runtime/krylov/program.hpp"
#include "runtime/krylov_scan.hpp"
#include "runtime/operand_shapes.hpp"
#include "runtime/queue.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

#include <cstdint>

namespace shardsolve::runtime {

/// All pointers are to device memory. Bits depend on the numbers and on n alone. `rank`: null; or,
/// on GPUs, where in their memory the rank is, if the host does not know it.
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

  // As runtime/krylov/ends.hpp has them:
  void begin_solve(Queue& queue, const krylov::Problem& problem, const Scan* of_b, const Scan* of_x,
                   const std::int64_t* boundaries, std::int64_t ranks,
                   krylov::SolveState* solve) const {
    do_begin_solve(queue, {.name = "begin"}, problem, of_b, of_x, boundaries, ranks, solve);
  }
  void end_solve(Queue& queue, const krylov::Problem& problem, const Scan* of_x, std::int64_t ranks,
                 krylov::SolveState* solve, krylov::Report* report, RealOf<T>* figures) const {
    do_end_solve(queue, {.name = "end"}, problem, of_x, ranks, solve, report, figures);
  }
  /// target = 2^e source with e = exponent_of(*solve, way); 0 if is_zero_vector(*solve).
  void scale_for(Queue& queue, krylov::Way way, const krylov::SolveState* solve,
                 MatrixView<const T> source, MatrixView<T> target) const {
    require(same_shape(source, target) && source.columns() == 1, "scale_for");
    do_scale_for(queue, {.name = "scale"}, way, solve, source, target);
  }

  /// Runs a program on this rank's rows and writes its part of the sums. If the rank is in memory,
  /// its rows and sums lie at the boundaries of the layout, and vectors.rows is the most of any.
  void run(Queue& queue, const krylov::Program& program, const krylov::Vectors<T>& vectors,
           const krylov::State* state, const krylov::StateRoom& room,
           const krylov::SumTable<T>& sums, const std::int32_t* rank = nullptr) const {
    do_run(queue,
           {.name = program.name,
            .flops = multiply_add<T> * static_cast<double>(vectors.rows) *
                     (program.updates + program.dots)},
           program, vectors, state, room, sums, rank);
  }
  /// Adds the parts of all ranks and takes the step of reduction `reduction`.
  void finish(Queue& queue, const krylov::Problem& problem, int reduction,
              const krylov::SumTable<T>& sums, krylov::State* state,
              const krylov::StateRoom& room) const {
    do_finish(queue, {.name = "step"}, problem, reduction, sums, state, room);
  }
  /// All of a part in turn, with ends of reductions of the only rank alone. `sums`: of each
  /// reduction.
  void run_part(Queue& queue, const krylov::Problem& problem, const krylov::Part& part,
                const krylov::Vectors<T>& vectors, const krylov::SumTable<T>* sums,
                krylov::State* state, const krylov::StateRoom& room,
                const std::int32_t* rank = nullptr) const {
    if (do_run_part(queue, problem, part, vectors, sums, state, room, rank)) {
      return;
    }
    for (int at = 0; at < part.items; ++at) {
      const krylov::Part::Item& item = part.item[at];
      if (item.program >= 0) {
        run(queue, part.program[item.program], vectors, state, room, sums[item.reduction], rank);
      } else {
        finish(queue, problem, item.reduction, sums[item.reduction], state, room);
      }
    }
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
  /// y = a x + b y, each part of a row as fma(a, x, b y), or a x if b is 0; unless *skip is not 0.
  void combine(Queue& queue, RealOf<T> a, MatrixView<const T> x, RealOf<T> b, MatrixView<T> y,
               const std::int32_t* skip) const {
    require(same_shape(x, y) && x.columns() == 1, "combine");
    do_combine(queue, {.name = "combine", .flops = multiply_add<T> * static_cast<double>(x.rows())},
               a, x, b, y, skip);
  }
  /// target = block^-1 source in the rows of `target`, which are those from `first` on of all that
  /// the blocks have, or from *rank times as many rows on. Source and work: all of them, or those
  /// of `target` if it ends no block within. Unless *skip is not 0.
  void solve_blocks(Queue& queue, const char* name, const krylov::BlockFactors<T>& factors,
                    MatrixView<const T> source, MatrixView<T> work, std::int64_t first,
                    MatrixView<T> target, const std::int32_t* skip,
                    const std::int32_t* rank = nullptr) const {
    require(same_shape(source, work) && first >= 0 &&
                (work.rows() == target.rows() || first + target.rows() <= work.rows()),
            "solve_blocks");
    if (!target.empty()) {
      do_solve_blocks(
          queue, {.name = name, .flops = multiply_add<T> * static_cast<double>(factors.entries)},
          factors, source, work, first, target, skip, rank);
    }
  }

 protected:
  virtual void do_scan(Queue& queue, const WorkInfo& info, MatrixView<const T> x,
                       Scan* result) const = 0;
  virtual void do_scale_exactly(Queue& queue, const WorkInfo& info, int exponent,
                                MatrixView<const T> source, MatrixView<T> target) const = 0;
  virtual void do_begin_solve(Queue& queue, const WorkInfo& info, const krylov::Problem& problem,
                              const Scan* of_b, const Scan* of_x, const std::int64_t* boundaries,
                              std::int64_t ranks, krylov::SolveState* solve) const = 0;
  virtual void do_end_solve(Queue& queue, const WorkInfo& info, const krylov::Problem& problem,
                            const Scan* of_x, std::int64_t ranks, krylov::SolveState* solve,
                            krylov::Report* report, RealOf<T>* figures) const = 0;
  virtual void do_scale_for(Queue& queue, const WorkInfo& info, krylov::Way way,
                            const krylov::SolveState* solve, MatrixView<const T> source,
                            MatrixView<T> target) const = 0;
  virtual void do_run(Queue& queue, const WorkInfo& info, const krylov::Program& program,
                      const krylov::Vectors<T>& vectors, const krylov::State* state,
                      const krylov::StateRoom& room, const krylov::SumTable<T>& sums,
                      const std::int32_t* rank) const = 0;
  /// Whether it has done that at once.
  virtual bool do_run_part(Queue& /*queue*/, const krylov::Problem& /*problem*/,
                           const krylov::Part& /*part*/, const krylov::Vectors<T>& /*vectors*/,
                           const krylov::SumTable<T>* /*sums*/, krylov::State* /*state*/,
                           const krylov::StateRoom& /*room*/, const std::int32_t* /*rank*/) const {
    return false;
  }
  virtual void do_finish(Queue& queue, const WorkInfo& info, const krylov::Problem& problem,
                         int reduction, const krylov::SumTable<T>& sums, krylov::State* state,
                         const krylov::StateRoom& room) const = 0;
  virtual void do_divide_rows(Queue& queue, const WorkInfo& info, MatrixView<const T> diagonal,
                              MatrixView<const T> source, MatrixView<T> target,
                              const std::int32_t* skip) const = 0;
  virtual void do_combine(Queue& queue, const WorkInfo& info, RealOf<T> a, MatrixView<const T> x,
                          RealOf<T> b, MatrixView<T> y, const std::int32_t* skip) const = 0;
  virtual void do_solve_blocks(Queue& queue, const WorkInfo& info,
                               const krylov::BlockFactors<T>& factors, MatrixView<const T> source,
                               MatrixView<T> work, std::int64_t first, MatrixView<T> target,
                               const std::int32_t* skip, const std::int32_t* rank) const = 0;
};

}  // namespace shardsolve::runtime
