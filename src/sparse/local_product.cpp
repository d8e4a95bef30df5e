#include "sparse/local_product.hpp"

#include "core/each_dtype.hpp"
#include "runtime/host/in_caller.hpp"
#include "runtime/host/sparse_kernels.hpp"

#include <algorithm>
#include <cstdint>

namespace shardsolve::sparse {

namespace {

/// Entries that a piece has about: what it costs to hand one to a thread is little beside them.
constexpr std::int64_t entries_of_piece = 65536;

/// Rows from `begin` to `end`.
template <Scalar T>
LocalProduct part_of(LocalProduct product, std::int64_t begin, std::int64_t end) {
  product.rows = end - begin;
  product.row_pointers += begin;
  product.y = static_cast<T*>(product.y) + begin;
  return product;
}

}  // namespace

void run_on_host(const LocalProduct& product, runtime::host::SpareThreads* spare) {
  const std::int64_t entries = product.row_pointers[product.rows] - product.row_pointers[0];
  const std::int64_t pieces = std::clamp<std::int64_t>(entries / entries_of_piece, 1,
                                                       std::max<std::int64_t>(product.rows, 1));
  runtime::host::in_pieces(spare, pieces, [&](std::int64_t piece) {
    runtime::host::in_caller([&](runtime::Queue& queue) {
      with_dtype(product.dtype, [&]<class T>() {
        enqueue<T>(runtime::host::HostSparseKernels<T>(), queue,
                   part_of<T>(product, piece * product.rows / pieces,
                              (piece + 1) * product.rows / pieces));
      });
    });
  });
}

}  // namespace shardsolve::sparse
