/// Networks in boxes on a GPU.
#pragma once

#include "runtime/box_kernels.hpp"

namespace shardsolve::runtime::cuda {

class CudaBoxKernels final : public BoxKernels {
 protected:
  void do_feature_rows(Queue& queue, const WorkInfo& info, const BoxNetworks& networks,
                       const BoxPoints& points, const BoxRun* runs, std::int64_t count,
                       std::int64_t max_points, const double* derivatives, const BoxBlocks& blocks,
                       std::int64_t first_slot, double* rows) const override;
  void do_orthonormalise(Queue& queue, const WorkInfo& info, const BoxBlocks& blocks,
                         std::int64_t first, std::int64_t count, double tolerance,
                         double* rows) const override;
  void do_gram(Queue& queue, const WorkInfo& info, const BoxBlocks& blocks, const GramBlock* wanted,
               std::int64_t count, double shift) const override;
  void do_multiply(Queue& queue, const WorkInfo& info, const BoxBlocks& blocks,
                   const std::int64_t* offsets, const double* y, double* slots) const override;
  void do_multiply_adjoint(Queue& queue, const WorkInfo& info, const BoxBlocks& blocks,
                           const std::int64_t* offsets, const double* r, double* slots,
                           double* g) const override;
  void do_weights_of(Queue& queue, const WorkInfo& info, const BoxBlocks& blocks,
                     const std::int64_t* offsets, const double* y, double* z) const override;
  void do_network_jets(Queue& queue, const WorkInfo& info, const BoxNetworks& networks,
                       const BoxPoints& points, const BoxRun* runs, std::int64_t count,
                       std::int64_t max_points, const double* last_layer,
                       double* jets) const override;
  void do_add_listed(Queue& queue, const WorkInfo& info, std::int64_t count, std::int64_t width,
                     const std::int64_t* begin, const std::int32_t* which, const double* values,
                     double* sums) const override;
  void do_pointwise_rows(Queue& queue, const WorkInfo& info, const PointwisePart& part,
                         std::int64_t* nonfinite) const override;
  void do_largest(Queue& queue, const WorkInfo& info, const double* a, const double* b,
                  std::int64_t count, double* largest) const override;
};

}  // namespace shardsolve::runtime::cuda
