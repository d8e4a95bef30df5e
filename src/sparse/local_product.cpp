#include "sparse/local_product.hpp"

#include "core/each_dtype.hpp"
#include "runtime/sparse_kernels.hpp"

namespace shardsolve::sparse {

void enqueue(const runtime::KernelSource& device, runtime::Queue& queue,
             const LocalProduct& product) {
  with_dtype(product.dtype, [&]<class T>() {
    const runtime::SparseRows<T> a{
        .rows = product.rank_at != nullptr ? product.all_rows : product.rows,
        .own = product.size,
        .lanes = product.lanes,
        .row_pointers = product.row_pointers,
        .columns = product.columns,
        .values = static_cast<const T*>(product.values)};
    device.kernels<runtime::SparseKernels<T>>().multiply(
        queue, a, {.count = product.rows}, {static_cast<const T*>(product.x), product.size, 1}, {},
        {static_cast<T*>(product.y), product.rows, 1}, product.skip, product.rank_at);
  });
}

}  // namespace shardsolve::sparse
