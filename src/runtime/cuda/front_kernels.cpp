#include "runtime/cuda/front_kernels.hpp"

#include "runtime/cuda/cuda_queue.hpp"
#include "runtime/cuda/front_device_kernels.hpp"

namespace shardsolve::runtime::cuda {

void CudaFrontKernels::do_add_to_parents(Queue& queue, const WorkInfo& info,
                                         const FrontBatch& children) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] { FrontDeviceKernels::add_to_parents(cuda.stream(), children); });
}

void CudaFrontKernels::do_factor(Queue& queue, const WorkInfo& info, const FrontBatch& batch,
                                 std::int32_t* failed) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] { FrontDeviceKernels::factor(cuda.stream(), batch, failed); });
}

void CudaFrontKernels::do_solve_forward(Queue& queue, const WorkInfo& info, const FrontBatch& batch,
                                        double* x) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] { FrontDeviceKernels::solve_forward(cuda.stream(), batch, x); });
}

void CudaFrontKernels::do_solve_back(Queue& queue, const WorkInfo& info, const FrontBatch& batch,
                                     double* x) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] { FrontDeviceKernels::solve_back(cuda.stream(), batch, x); });
}

void CudaFrontKernels::do_pack_columns(Queue& queue, const WorkInfo& info,
                                       const ColumnMove& move) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] { FrontDeviceKernels::pack_columns(cuda.stream(), move); });
}

void CudaFrontKernels::do_add_columns(Queue& queue, const WorkInfo& info,
                                      const ColumnMove& move) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] { FrontDeviceKernels::add_columns(cuda.stream(), move); });
}

}  // namespace shardsolve::runtime::cuda
