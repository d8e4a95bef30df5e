// What libshardsolve looks up for products that each device makes with its own rows:
// cuda_loader.cpp.

#include "sparse/local_product.hpp"

#include "core/each_dtype.hpp"
#include "runtime/cuda/check.hpp"
#include "runtime/cuda/cuda_queue.hpp"
#include "runtime/cuda/sparse_device_kernels.hpp"

namespace shardsolve::sparse::cuda {
namespace {

using runtime::cuda::check;
using runtime::cuda::CurrentDevice;
using runtime::cuda::Element;

template <Scalar T>
void multiply(cudaStream_t stream, const LocalProduct& product) {
  using E = Element<T>;
  const runtime::SparseRows<E> a{
      .rows = product.rank_at != nullptr ? product.all_rows : product.rows,
      .own = product.size,
      .lanes = product.lanes,
      .row_pointers = product.row_pointers,
      .columns = product.columns,
      .values = static_cast<const E*>(product.values)};
  runtime::cuda::SparseDeviceKernels<E>::multiply(
      stream, a, {.count = product.rows}, static_cast<const E*>(product.x), nullptr,
      static_cast<E*>(product.y), product.skip, product.rank_at);
}

}  // namespace
}  // namespace shardsolve::sparse::cuda

extern "C" __attribute__((visibility("default"))) void shardsolve_cuda_sparse_product(
    int device, void* stream, const shardsolve::sparse::LocalProduct* product) {
  using namespace shardsolve::sparse::cuda;
  const CurrentDevice scope(device);
  shardsolve::with_dtype(
      product->dtype, [&]<class T>() { multiply<T>(static_cast<cudaStream_t>(stream), *product); });
  check(cudaGetLastError(), "a product with a sparse matrix");
}
