#include "bench/cuda/check.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

namespace shardsolve::bench {

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) {
    const bool full = status == cudaErrorMemoryAllocation;
    throw Error(
        full ? ErrorKind::out_of_memory : ErrorKind::device,
        fmt::format("{}: {} ({})", what, cudaGetErrorString(status), cudaGetErrorName(status)));
  }
}

void check(cusolverStatus_t status, const char* what) {
  if (status != CUSOLVER_STATUS_SUCCESS) {
    throw Error(ErrorKind::device,
                fmt::format("{}: cusolverStatus_t {}; cusolver_common.h names it", what,
                            static_cast<int>(status)));
  }
}

void require_zero(int info, const char* routine) {
  if (info != 0) {
    throw Error(ErrorKind::internal, fmt::format("{} returned info = {}", routine, info));
  }
}

void select(int device) {
  const bool done = cudaSetDevice(device) == cudaSuccess;
  // A library may have left an error behind that it has dealt with.
  cudaGetLastError();
  if (!done) {
    int count = 0;
    check(cudaGetDeviceCount(&count), "counting the GPUs");
    throw Error(
        ErrorKind::invalid_argument,
        fmt::format("GPU {} asked for; this process sees {}, numbered from 0", device, count));
  }
}

void synchronize(int device) {
  select(device);
  check(cudaDeviceSynchronize(), "waiting for a GPU");
}

}  // namespace shardsolve::bench
