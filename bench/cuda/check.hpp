/// Every call of CUDA and its libraries is checked; what failed is named in the message.
#pragma once

#include <cuda_runtime_api.h>
#include <cusolver_common.h>

namespace shardsolve::bench {

/// Throws Error(device) unless `status` is success. `what` says which call, of what, on what.
void check(cudaError_t status, const char* what);
void check(cusolverStatus_t status, const char* what);

/// Throws Error(internal) with LAPACK's `info` unless it is 0.
void require_zero(int info, const char* routine);

/// Makes `device` the current one of this thread, with no error pending.
void select(int device);

/// Waits until a device has finished everything.
void synchronize(int device);

}  // namespace shardsolve::bench
