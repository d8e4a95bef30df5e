/// Stands in for src/runtime/cuda/kernels/comes_last.cuh: see emulator.hpp.
#pragma once

#include "runtime/cuda/kernels/meeting.cuh"

#include <cstdint>

namespace shardsolve::runtime::cuda {

inline bool comes_last(std::uint32_t* counter, std::uint32_t blocks, int& in_shared) {
  __syncthreads();
  if (threadIdx.x == 0) {
    in_shared = take_number(counter, blocks) == blocks - 1 ? 1 : 0;
  }
  __syncthreads();
  return in_shared != 0;
}

}  // namespace shardsolve::runtime::cuda
