/// The systems of runtime/small_systems.hpp on a stream.
#pragma once

#include "runtime/small_systems.hpp"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace shardsolve::runtime::cuda::small {

/// Enqueues one kernel. Larger systems than fit in the current device's shared memory are left
/// undecided. cudaGetLastError() has what went wrong.
void enqueue(cudaStream_t stream, const SmallSystems& call);

// For enqueue(): those of each family, and a first word for each item that says so.
void enqueue_cholesky(cudaStream_t stream, const SmallSystems& call);
void enqueue_lu(cudaStream_t stream, const SmallSystems& call);
void leave_undecided(cudaStream_t stream, std::int64_t batch, const SmallItems& words);

}  // namespace shardsolve::runtime::cuda::small
