/// The GPU kernels of our own behind HermitianKernels, as nvcc compiles them.
#pragma once

#include "runtime/cuda/element.hpp"
#include "runtime/upper_part.hpp"

#include <shardsolve/matrix_view.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>

namespace shardsolve::runtime::cuda {

/// As DeviceKernels: enqueued on a stream of the current device, shapes checked by the caller. What
/// they compute is said in runtime/hermitian_kernels.hpp.
template <class E>
struct HermitianDeviceKernels {
  using In = MatrixView<const E>;
  using Out = MatrixView<E>;

  /// y = A x, for vectors of as many elements as the matrix has rows: of the columns that are here
  /// and, as A is Hermitian, of the rows of the same numbers.
  using Upper = UpperPart<E, RealPart<E>>;
  static void hermitian_multiply(cudaStream_t stream, const Upper& a, const E* x, E* y,
                                 void* scratch);
  static std::size_t hermitian_multiply_scratch(const Upper& a);
  static void add_twofold(cudaStream_t stream, In source, Out sums);
};

}  // namespace shardsolve::runtime::cuda
