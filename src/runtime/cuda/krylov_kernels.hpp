/// Krylov solves on a GPU.
#pragma once

#include "runtime/krylov_kernels.hpp"

namespace shardsolve::runtime::cuda {

template <Scalar T>
class CudaKrylovKernels final : public KrylovKernels<T> {
 protected:
  void do_scan(Queue& queue, const WorkInfo& info, MatrixView<const T> x,
               Scan* result) const override;
  void do_scale_exactly(Queue& queue, const WorkInfo& info, int exponent,
                        MatrixView<const T> source, MatrixView<T> target) const override;
  void do_begin_solve(Queue& queue, const WorkInfo& info, const krylov::Problem& problem,
                      const Scan* of_b, const Scan* of_x, const std::int64_t* boundaries,
                      std::int64_t ranks, krylov::SolveState* solve) const override;
  void do_end_solve(Queue& queue, const WorkInfo& info, const krylov::Problem& problem,
                    const Scan* of_x, std::int64_t ranks, krylov::SolveState* solve,
                    krylov::Report* report, RealOf<T>* figures) const override;
  void do_scale_for(Queue& queue, const WorkInfo& info, krylov::Way way,
                    const krylov::SolveState* solve, MatrixView<const T> source,
                    MatrixView<T> target) const override;
  void do_run(Queue& queue, const WorkInfo& info, const krylov::Program& program,
              const krylov::Vectors<T>& vectors, const krylov::State* state,
              const krylov::StateRoom& room, const krylov::SumTable<T>& sums,
              const std::int32_t* rank) const override;
  bool do_run_part(Queue& queue, const krylov::Problem& problem, const krylov::Part& part,
                   const krylov::Vectors<T>& vectors, const krylov::SumTable<T>* sums,
                   krylov::State* state, const krylov::StateRoom& room,
                   const std::int32_t* rank) const override;
  void do_finish(Queue& queue, const WorkInfo& info, const krylov::Problem& problem, int reduction,
                 const krylov::SumTable<T>& sums, krylov::State* state,
                 const krylov::StateRoom& room) const override;
  void do_divide_rows(Queue& queue, const WorkInfo& info, MatrixView<const T> diagonal,
                      MatrixView<const T> source, MatrixView<T> target,
                      const std::int32_t* skip) const override;
  void do_combine(Queue& queue, const WorkInfo& info, RealOf<T> a, MatrixView<const T> x,
                  RealOf<T> b, MatrixView<T> y, const std::int32_t* skip) const override;
  void do_solve_blocks(Queue& queue, const WorkInfo& info, const krylov::BlockFactors<T>& factors,
                       MatrixView<const T> source, MatrixView<T> work, std::int64_t first,
                       MatrixView<T> target, const std::int32_t* skip,
                       const std::int32_t* rank) const override;
};

}  // namespace shardsolve::runtime::cuda
