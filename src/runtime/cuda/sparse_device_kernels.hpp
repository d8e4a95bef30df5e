/// The GPU kernels of our own behind SparseKernels, as nvcc compiles them.
#pragma once

#include "runtime/cuda/element.hpp"
#include "runtime/sparse_rows.hpp"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace shardsolve::runtime::cuda {

/// As DeviceKernels: enqueued on a stream of the current device, shapes checked by the caller, a
/// kernel each. What they compute is said in runtime/sparse_kernels.hpp. All have the bits of the
/// CPU.
template <class E>
struct SparseDeviceKernels {
  static void pack(cudaStream_t stream, const std::int32_t* places, std::int64_t count, const E* x,
                   E* packed);
  /// `halo`: null if no row chosen has an entry there. `done`: null, or where a ProductFlag is.
  /// `rank`: null, or in the GPU's memory how many times chosen.count rows lie in front of those
  /// that are chosen, as far as there are so many; y begins with the first of them.
  static void multiply(cudaStream_t stream, const SparseRows<E>& a, const RowChoice& chosen,
                       const E* x, const E* halo, E* y, const std::int32_t* done,
                       const std::int32_t* rank = nullptr);
};

template <Scalar T>
SparseRows<Element<T>> elements(const SparseRows<T>& a) {
  return {.rows = a.rows,
          .own = a.own,
          .halo = a.halo,
          .lanes = a.lanes,
          .row_pointers = a.row_pointers,
          .columns = a.columns,
          .values = reinterpret_cast<const Element<T>*>(a.values)};
}

}  // namespace shardsolve::runtime::cuda
