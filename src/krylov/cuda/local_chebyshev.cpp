// What libshardsolve looks up for Chebyshev's iteration between products: cuda_loader.cpp.

#include "krylov/local_chebyshev.hpp"

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
void step(cudaStream_t stream, const LocalChebyshev& call) {
  using Own = runtime::cuda::KrylovDeviceKernels<Element<T>>;
  enqueue<T>(
      call,
      [&](RealOf<T> a, MatrixView<const T> x, RealOf<T> b, MatrixView<T> y) {
        Own::combine(stream, a, elements(x), b, elements(y), call.zero);
      },
      [&](MatrixView<const T> diagonal, MatrixView<const T> x, MatrixView<T> y) {
        Own::divide_rows(stream, elements(diagonal), elements(x), elements(y), call.zero);
      });
}

}  // namespace
}  // namespace shardsolve::krylov::cuda

extern "C" __attribute__((visibility("default"))) void shardsolve_cuda_krylov_chebyshev(
    int device, void* stream, const shardsolve::krylov::LocalChebyshev* call) {
  using namespace shardsolve::krylov::cuda;
  const CurrentDevice scope(device);
  shardsolve::with_dtype(call->dtype,
                         [&]<class T>() { step<T>(static_cast<cudaStream_t>(stream), *call); });
  check(cudaGetLastError(), "a step of Chebyshev's iteration");
}
