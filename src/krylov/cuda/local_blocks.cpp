// What libshardsolve looks up for solves with factored blocks that each device makes by itself:
// cuda_loader.cpp.

#include "krylov/local_blocks.hpp"

#include "core/each_dtype.hpp"
#include "runtime/cuda/check.hpp"
#include "runtime/cuda/cuda_queue.hpp"
#include "runtime/cuda/krylov_device_kernels.hpp"

namespace shardsolve::krylov::cuda {
namespace {

using runtime::cuda::check;
using runtime::cuda::CurrentDevice;
using runtime::cuda::Element;
using runtime::cuda::elements;

template <Scalar T>
void solve(cudaStream_t stream, const LocalBlocks& call) {
  runtime::cuda::KrylovDeviceKernels<Element<T>>::solve_blocks(
      stream, elements(call.factors<T>()),
      elements(MatrixView<const T>(static_cast<const T*>(call.x), call.size, 1)),
      elements(MatrixView<T>(static_cast<T*>(call.work), call.size, 1)), 0,
      elements(MatrixView<T>(static_cast<T*>(call.y), call.rows, 1)), call.skip, call.rank_at);
}

}  // namespace
}  // namespace shardsolve::krylov::cuda

extern "C" __attribute__((visibility("default"))) void shardsolve_cuda_krylov_blocks(
    int device, void* stream, const shardsolve::krylov::LocalBlocks* call) {
  using namespace shardsolve::krylov::cuda;
  const CurrentDevice scope(device);
  shardsolve::with_dtype(call->dtype,
                         [&]<class T>() { solve<T>(static_cast<cudaStream_t>(stream), *call); });
  check(cudaGetLastError(), "a solve with factored blocks");
}
