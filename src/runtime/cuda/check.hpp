/// What CUDA and its libraries answer, as errors of ours.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

namespace shardsolve::runtime::cuda {

[[noreturn]] void throw_cuda(cudaError_t status, const char* what);
[[noreturn]] void throw_cublas(cublasStatus_t status, const char* what);

/// Throws Error(device), or Error(out_of_memory), unless the call went well. `what` names it.
inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) {
    throw_cuda(status, what);
  }
}
inline void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw_cublas(status, what);
  }
}

}  // namespace shardsolve::runtime::cuda
