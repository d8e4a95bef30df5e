/// Which of the blocks of one kernel comes last.
#pragma once

#include "runtime/cuda/kernels/meeting.cuh"

#include <cstdint>

namespace shardsolve::runtime::cuda {

/// By all threads of each of `blocks` blocks: whether this one comes last. It sees then what the
/// others had written. `counter` is 0 before and after; `in_shared` is shared memory.
inline __device__ bool comes_last(std::uint32_t* counter, std::uint32_t blocks, int& in_shared) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    in_shared = take_number(counter, blocks) == blocks - 1 ? 1 : 0;
    __threadfence();
  }
  __syncthreads();
  return in_shared != 0;
}

}  // namespace shardsolve::runtime::cuda
