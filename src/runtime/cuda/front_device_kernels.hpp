/// The GPU kernels of our own behind FrontKernels, as nvcc compiles them.
#pragma once

#include "runtime/device_fronts.hpp"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace shardsolve::runtime::cuda {

/// As DeviceKernels: enqueued on a stream of the current device. What they compute is said in
/// runtime/front_kernels.hpp.
struct FrontDeviceKernels {
  static void add_to_parents(cudaStream_t stream, const FrontBatch& children);
  static void factor(cudaStream_t stream, const FrontBatch& batch, std::int32_t* failed);
  static void solve_forward(cudaStream_t stream, const FrontBatch& batch, double* x);
  static void solve_back(cudaStream_t stream, const FrontBatch& batch, double* x);
  static void pack_columns(cudaStream_t stream, const ColumnMove& move);
  static void add_columns(cudaStream_t stream, const ColumnMove& move);
};

}  // namespace shardsolve::runtime::cuda
