/// Who does a step for small systems, and what is left where nobody can.
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/small_systems.hpp"

#include <cstdint>

namespace shardsolve::runtime::cuda::small {
namespace {

__global__ void store_undecided(SmallItems words) {
  *words.of<std::int32_t>(blockIdx.x) = SmallSystems::undecided;
}

}  // namespace

void leave_undecided(cudaStream_t stream, std::int64_t batch, const SmallItems& words) {
  launch(stream, &store_undecided, batch, {dim3(1)}, words);
}

void enqueue(cudaStream_t stream, const SmallSystems& call) {
  switch (call.step) {
    case SmallStep::cholesky_factor:
    case SmallStep::cholesky_solve:
      return enqueue_cholesky(stream, call);
    case SmallStep::lu_factor:
    case SmallStep::lu_solve:
      return enqueue_lu(stream, call);
  }
}

}  // namespace shardsolve::runtime::cuda::small
