/// What queues enqueue themselves.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace shardsolve::runtime::cuda {

/// Stores `value` in `count` consecutive places, at most a block of threads.
void store(cudaStream_t stream, std::int64_t* target, std::int64_t value, std::int64_t count);
/// Keeps the stream busy for so long.
void delay(cudaStream_t stream, std::int64_t nanoseconds);

}  // namespace shardsolve::runtime::cuda
