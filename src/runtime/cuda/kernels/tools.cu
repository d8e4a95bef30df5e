/// Small kernels around a factorization: its outcome, a value stored, a wait.
#include "runtime/cuda/device_kernels.hpp"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/matrix.cuh"
#include "runtime/cuda/kernels/scalar.cuh"

#include <complex>
#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int threads_a_block = 256;

/// One block. As on the host, the column that `status` names is looked at too: what stopped potrf
/// there may be a NaN.
template <class E>
__global__ void __launch_bounds__(threads_a_block)
    check_diagonal(DeviceMatrix<const E> l, const int* status, std::int64_t* info) {
  __shared__ unsigned long long first_bad;
  const std::int64_t failed = *status;
  const std::int64_t end = failed == 0 ? l.columns : min(failed, l.columns);
  if (threadIdx.x == 0) {
    first_bad = static_cast<unsigned long long>(l.columns);
  }
  __syncthreads();
  for (std::int64_t j = threadIdx.x; j < end; j += blockDim.x) {
    if (!isfinite(real(l(j, j)))) {
      atomicMin(&first_bad, static_cast<unsigned long long>(j));
      break;
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    const std::int64_t bad = static_cast<std::int64_t>(first_bad);
    *info = bad < l.columns ? -(bad + 1) : failed;
  }
}

__global__ void store_value(std::int64_t* target, std::int64_t value) { *target = value; }

__device__ std::int64_t nanoseconds_now() {
  std::int64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

__global__ void spin(std::int64_t nanoseconds) {
  const std::int64_t begin = nanoseconds_now();
  while (nanoseconds_now() - begin < nanoseconds) {
    __nanosleep(500);
  }
}

}  // namespace

template <Scalar T>
void check_tile(cudaStream_t stream, MatrixView<const T> l, const int* status, std::int64_t* info) {
  launch(stream, &check_diagonal<Element<T>>, 1, {dim3(threads_a_block)}, device(l), status, info);
}

void store(cudaStream_t stream, std::int64_t* target, std::int64_t value) {
  launch(stream, &store_value, 1, {dim3(1)}, target, value);
}

void delay(cudaStream_t stream, std::int64_t nanoseconds) {
  launch(stream, &spin, 1, {dim3(1)}, nanoseconds);
}

template void check_tile(cudaStream_t, MatrixView<const float>, const int*, std::int64_t*);
template void check_tile(cudaStream_t, MatrixView<const double>, const int*, std::int64_t*);
template void check_tile(cudaStream_t, MatrixView<const std::complex<float>>, const int*,
                         std::int64_t*);
template void check_tile(cudaStream_t, MatrixView<const std::complex<double>>, const int*,
                         std::int64_t*);

}  // namespace shardsolve::runtime::cuda
