// What libshardsolve looks up for the steps of Krylov solves that each device makes by itself:
// cuda_loader.cpp. Their operands are those of the dtype; const void* as templates are not
// exported.

#include "core/each_dtype.hpp"
#include "runtime/cuda/check.hpp"
#include "runtime/cuda/cuda_queue.hpp"
#include "runtime/cuda/krylov_device_kernels.hpp"
#include "runtime/cuda/sparse_device_kernels.hpp"

#define SHARDSOLVE_LOOKED_UP extern "C" __attribute__((visibility("default")))

namespace {

using namespace shardsolve;
using runtime::cuda::check;
using runtime::cuda::CurrentDevice;
using runtime::cuda::Element;
using runtime::cuda::elements;

template <class Table, class Given>
const Table& as(const Given* given) {
  return *static_cast<const Table*>(given);
}

}  // namespace

SHARDSOLVE_LOOKED_UP void shardsolve_cuda_krylov_run(
    int device, void* stream, Dtype dtype, const krylov::Program* program, const void* vectors,
    const krylov::State* state, const krylov::StateRoom* room, const void* sums) {
  const CurrentDevice scope(device);
  with_dtype(dtype, [&]<Scalar T>() {
    runtime::cuda::KrylovDeviceKernels<Element<T>>::run(
        static_cast<cudaStream_t>(stream), *program, elements(as<krylov::Vectors<T>>(vectors)),
        state, *room, elements(as<krylov::SumTable<T>>(sums)));
  });
  check(cudaGetLastError(), "vectors of a Krylov solve");
}

SHARDSOLVE_LOOKED_UP void shardsolve_cuda_krylov_finish(int device, void* stream, Dtype dtype,
                                                        const krylov::Problem* problem,
                                                        int reduction, const void* sums,
                                                        krylov::State* state,
                                                        const krylov::StateRoom* room) {
  const CurrentDevice scope(device);
  with_dtype(dtype, [&]<Scalar T>() {
    runtime::cuda::KrylovDeviceKernels<Element<T>>::finish(
        static_cast<cudaStream_t>(stream), *problem, reduction,
        elements(as<krylov::SumTable<T>>(sums)), state, *room);
  });
  check(cudaGetLastError(), "a step of a Krylov solve");
}

SHARDSOLVE_LOOKED_UP void shardsolve_cuda_divide_rows(int device, void* stream, Dtype dtype,
                                                      std::int64_t rows, const void* diagonal,
                                                      const void* source, void* target,
                                                      const std::int32_t* skip) {
  const CurrentDevice scope(device);
  with_dtype(dtype, [&]<Scalar T>() {
    using E = Element<T>;
    using In = MatrixView<const E>;
    runtime::cuda::KrylovDeviceKernels<E>::divide_rows(
        static_cast<cudaStream_t>(stream),
        diagonal == nullptr ? In() : In(static_cast<const E*>(diagonal), rows, 1),
        In(static_cast<const E*>(source), rows, 1), MatrixView<E>(static_cast<E*>(target), rows, 1),
        skip);
  });
  check(cudaGetLastError(), "a division of rows");
}

SHARDSOLVE_LOOKED_UP void shardsolve_cuda_sparse_multiply(int device, void* stream, Dtype dtype,
                                                          const void* rows,
                                                          const runtime::RowChoice* chosen,
                                                          const void* x, const void* halo, void* y,
                                                          const std::int32_t* done) {
  const CurrentDevice scope(device);
  with_dtype(dtype, [&]<Scalar T>() {
    using E = Element<T>;
    runtime::cuda::SparseDeviceKernels<E>::multiply(
        static_cast<cudaStream_t>(stream), elements(as<runtime::SparseRows<T>>(rows)), *chosen,
        static_cast<const E*>(x), static_cast<const E*>(halo), static_cast<E*>(y), done);
  });
  check(cudaGetLastError(), "a product with a sparse matrix");
}
