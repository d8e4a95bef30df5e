/// Calls from JAX that no rank program makes, on a GPU.
#pragma once

#include "runtime/cuda/cuda_queue.hpp"
#include "runtime/cuda/fixed_dot.hpp"
#include "runtime/cuda/small_systems.hpp"
#include "runtime/local_kernels.hpp"

namespace shardsolve::runtime::cuda {

class CudaLocalKernels final : public LocalKernels {
 protected:
  void do_dot(Queue& queue, const WorkInfo& info, const DotCall& call) const override {
    CudaQueue& cuda = as_cuda(queue);
    cuda.launch(info, [&] { dot::enqueue(cuda.stream(), call); });
  }
  void do_solve_small(Queue& queue, const WorkInfo& info, const SmallSystems& call) const override {
    CudaQueue& cuda = as_cuda(queue);
    cuda.launch(info, [&] { small::enqueue(cuda.stream(), call); });
  }
};

}  // namespace shardsolve::runtime::cuda
