#include "sparse/local_product.hpp"

#include "core/each_dtype.hpp"
#include "runtime/host/in_caller.hpp"
#include "runtime/host/sparse_kernels.hpp"

namespace shardsolve::sparse {

void run_on_host(const LocalProduct& product) {
  runtime::host::in_caller([&](runtime::Queue& queue) {
    with_dtype(product.dtype, [&]<class T>() {
      enqueue<T>(runtime::host::HostSparseKernels<T>(), queue, product);
    });
  });
}

}  // namespace shardsolve::sparse
