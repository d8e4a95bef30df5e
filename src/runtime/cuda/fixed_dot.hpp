/// The dot product of runtime/fixed_dot.hpp on a stream.
#pragma once

#include "runtime/fixed_dot.hpp"

#include <cuda_runtime_api.h>

namespace shardsolve::runtime::cuda::dot {

/// Enqueues one or two kernels; at least one pair of at least one row. cudaGetLastError() has what
/// went wrong.
void enqueue(cudaStream_t stream, const DotCall& call);

}  // namespace shardsolve::runtime::cuda::dot
