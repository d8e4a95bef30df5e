/// The GPU kernels of our own behind BoxKernels, as nvcc compiles them.
#pragma once

#include "runtime/device_boxes.hpp"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace shardsolve::runtime::cuda {

/// As DeviceKernels: enqueued on a stream of the current device. What they compute is said in
/// runtime/box_kernels.hpp.
struct BoxDeviceKernels {
  /// Bytes of scratch that jets through several layers take; 0 for one layer.
  static std::size_t layer_scratch(const BoxNetworks& networks);
  static void feature_rows(cudaStream_t stream, const BoxNetworks& networks,
                           const BoxPoints& points, const BoxRun* runs, std::int64_t count,
                           std::int64_t max_points, const double* derivatives,
                           const BoxBlocks& blocks, std::int64_t first_slot, double* rows,
                           double* scratch);
  static void network_jets(cudaStream_t stream, const BoxNetworks& networks,
                           const BoxPoints& points, const BoxRun* runs, std::int64_t count,
                           std::int64_t max_points, const double* last_layer, double* jets,
                           double* scratch);
  /// Columns that a box may have on the current device.
  static std::int64_t max_columns();
  static void orthonormalise(cudaStream_t stream, const BoxBlocks& blocks, std::int64_t first,
                             std::int64_t count, double tolerance, double* rows);
  static void gram(cudaStream_t stream, const BoxBlocks& blocks, const GramBlock* wanted,
                   std::int64_t count, double shift);
  static void multiply(cudaStream_t stream, const BoxBlocks& blocks, const std::int64_t* offsets,
                       const double* y, double* slots);
  static void multiply_adjoint(cudaStream_t stream, const BoxBlocks& blocks,
                               const std::int64_t* offsets, const double* r, double* slots,
                               double* g);
  static void weights_of(cudaStream_t stream, const BoxBlocks& blocks, const std::int64_t* offsets,
                         const double* y, double* z);
  static void add_listed(cudaStream_t stream, std::int64_t count, std::int64_t width,
                         const std::int64_t* begin, const std::int32_t* which, const double* values,
                         double* sums);
  static void pointwise_rows(cudaStream_t stream, const PointwisePart& part,
                             std::int64_t* nonfinite);
  static void largest(cudaStream_t stream, const double* a, const double* b, std::int64_t count,
                      double* largest);
};

}  // namespace shardsolve::runtime::cuda
