/// Fronts of a Cholesky factorisation on a GPU.
#pragma once

#include "runtime/front_kernels.hpp"

namespace shardsolve::runtime::cuda {

class CudaFrontKernels final : public FrontKernels {
 protected:
  void do_add_to_parents(Queue& queue, const WorkInfo& info,
                         const FrontBatch& children) const override;
  void do_factor(Queue& queue, const WorkInfo& info, const FrontBatch& batch,
                 std::int32_t* failed) const override;
  void do_solve_forward(Queue& queue, const WorkInfo& info, const FrontBatch& batch,
                        double* x) const override;
  void do_solve_back(Queue& queue, const WorkInfo& info, const FrontBatch& batch,
                     double* x) const override;
  void do_pack_columns(Queue& queue, const WorkInfo& info, const ColumnMove& move) const override;
  void do_add_columns(Queue& queue, const WorkInfo& info, const ColumnMove& move) const override;
};

}  // namespace shardsolve::runtime::cuda
