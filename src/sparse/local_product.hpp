/// A product with some rows of a sparse matrix whose memory is all on one device: what the JAX
/// package calls. The kernels are those of multiply(), so the bits are.
#pragma once

#include "runtime/kernel_set.hpp"
#include "runtime/queue.hpp"

#include <shardsolve/dtype.hpp>

#include <cstdint>

namespace shardsolve::sparse {

/// y = A x, or what the ProductFlag `skip` says. Memory is the device's.
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
  /// On a GPU: where the rank is in its memory, as the host does not know it. y has rows
  /// rank * rows to then, as far as there are `all_rows`, which row_pointers are of.
  const std::int32_t* rank_at = nullptr;
  std::int64_t all_rows = 0;
};

/// Does nothing but enqueue.
void enqueue(const runtime::KernelSource& device, runtime::Queue& queue,
             const LocalProduct& product);

}  // namespace shardsolve::sparse
