/// What CUDA's driver has and its runtime has not.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace shardsolve::runtime::cuda {

/// Enqueues a write of `value`, after all that the stream holds, to memory that GPUs reach.
void write_value(cudaStream_t stream, std::uint32_t* address, std::uint32_t value);
/// What the stream holds next starts when `*address` has reached `value`, modulo 2^32.
void wait_for_value(cudaStream_t stream, std::uint32_t* address, std::uint32_t value);
/// Beginning and bytes of the allocation that a pointer is in.
std::pair<std::byte*, std::size_t> allocation_of(const void* memory);

}  // namespace shardsolve::runtime::cuda
