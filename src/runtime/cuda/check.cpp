#include "runtime/cuda/check.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

namespace shardsolve::runtime::cuda {

void throw_cuda(cudaError_t status, const char* what) {
  int device = -1;
  cudaGetDevice(&device);
  cudaGetLastError();  // or the next check of a launch would find this one again
  const auto kind =
      status == cudaErrorMemoryAllocation ? ErrorKind::out_of_memory : ErrorKind::device;
  throw Error(kind, fmt::format("{} failed on GPU {}: {} ({})", what, device,
                                cudaGetErrorString(status), cudaGetErrorName(status)));
}

void throw_cublas(cublasStatus_t status, const char* what) {
  int device = -1;
  cudaGetDevice(&device);
  const auto kind =
      status == CUBLAS_STATUS_ALLOC_FAILED ? ErrorKind::out_of_memory : ErrorKind::device;
  throw Error(kind, fmt::format("cuBLAS: {} failed on GPU {}: {}", what, device,
                                cublasGetStatusString(status)));
}

}  // namespace shardsolve::runtime::cuda
