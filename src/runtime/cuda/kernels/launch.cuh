/// How kernels are started, and what every one of them needs.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace shardsolve::runtime::cuda {

/// Threads and dynamic shared memory of one block.
struct Block {
  dim3 threads;
  std::size_t shared_bytes = 0;
};

/// Enqueues `kernel` with a row of blocks, of which there may be none.
template <class... Parameters, class... Arguments>
void launch(cudaStream_t stream, void (*kernel)(Parameters...), std::int64_t blocks, Block block,
            const Arguments&... arguments) {
  if (blocks > 0) {
    kernel<<<static_cast<unsigned>(blocks), block.threads, block.shared_bytes, stream>>>(
        arguments...);
  }
}

/// Lets `kernel` have so much dynamic shared memory on the current device. Cheap, so it is said
/// before every launch instead of remembered for each device.
template <class... Parameters>
void allow_shared(void (*kernel)(Parameters...), std::size_t bytes) {
  cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                       cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
}

/// The dynamic shared memory of the block.
template <class Contents>
__device__ Contents& dynamic_shared() {
  extern __shared__ float4 shared_memory[];  // for its alignment to 16 bytes
  return *reinterpret_cast<Contents*>(shared_memory);
}

constexpr std::int64_t divide_up(std::int64_t count, std::int64_t size) {
  return (count + size - 1) / size;
}

}  // namespace shardsolve::runtime::cuda
