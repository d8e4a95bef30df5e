/// A product with some rows of a sparse matrix whose memory is all on one device: what the JAX
/// package calls. The kernels are those of multiply(), so the bits are.
#pragma once

#include "runtime/host/spare_threads.hpp"
#include "runtime/sparse_kernels.hpp"

#include <shardsolve/dtype.hpp>

#include <cstdint>

namespace shardsolve::sparse {

/// y = A x, or what the ProductFlag `skip` says. Memory is the device's. Travels between libraries
/// as it is.
struct LocalProduct {
  Dtype dtype = Dtype::float64;
  std::int64_t rows = 0;                       ///< of y
  std::int64_t size = 0;                       ///< of x
  std::int64_t lanes = 1;                      ///< of the sum of a row
  const std::int64_t* row_pointers = nullptr;  ///< rows + 1
  const std::int32_t* columns = nullptr;
  const void* values = nullptr;
  const void* x = nullptr;
  void* y = nullptr;
  const std::int32_t* skip = nullptr;  ///< or null
  /// On a GPU with several ranks: where the rank is in its memory. y has rows rank * rows to then,
  /// as far as there are `all_rows`, which row_pointers are of.
  const std::int32_t* rank_at = nullptr;
  std::int64_t all_rows = 0;
};

template <Scalar T>
void enqueue(const runtime::SparseKernels<T>& kernels, runtime::Queue& queue,
             const LocalProduct& product) {
  const runtime::SparseRows<T> a{.rows = product.rows,
                                 .own = product.size,
                                 .lanes = product.lanes,
                                 .row_pointers = product.row_pointers,
                                 .columns = product.columns,
                                 .values = static_cast<const T*>(product.values)};
  kernels.multiply(queue, a, {.count = product.rows},
                   {static_cast<const T*>(product.x), product.size, 1}, {},
                   {static_cast<T*>(product.y), product.rows, 1}, product.skip);
}

/// Does it on the CPU, in the caller's thread, with help if there are many entries.
void run_on_host(const LocalProduct& product, runtime::host::SpareThreads* spare = nullptr);

}  // namespace shardsolve::sparse
