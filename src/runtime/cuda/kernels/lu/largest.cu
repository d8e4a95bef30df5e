/// Largest numbers of columns: of U's entries, and of errors by components. A block has a column.
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/matrix.cuh"
#include "runtime/cuda/kernels/warp_sums.cuh"
#include "runtime/cuda/lu_device_kernels.hpp"

#include <cmath>
#include <cstdint>
#include <limits>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int threads = 256;
constexpr int lanes = 32;
constexpr double no_number = std::numeric_limits<double>::quiet_NaN();

template <class E>
__device__ double modulus(E x) {
  if constexpr (parts<E> == 1) {
    return fabs(static_cast<double>(x));
  } else {
    return hypot(static_cast<double>(x.re), static_cast<double>(x.im));
  }
}

/// The larger one, NaN if one is.
__device__ double larger(double a, double b) { return a >= b || isnan(a) ? a : b; }

/// Called by all `threads` of the block; the first one stores it.
template <int threads>
__device__ void store_largest(double mine, double* target) {
  constexpr int warps = threads / lanes;
  __shared__ double meeting[warps];
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    mine = larger(mine, from_partner(mine, distance));
  }
  if (threadIdx.x % lanes == 0) {
    meeting[threadIdx.x / lanes] = mine;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < warps; ++w) {
      mine = larger(mine, meeting[w]);
    }
    *target = mine;
  }
}

template <class E>
__global__ void __launch_bounds__(threads)
    largest_above(std::int64_t first, DeviceMatrix<const E> a, double* target) {
  const std::int64_t j = blockIdx.x;
  double largest = 0;
#pragma unroll 4
  for (std::int64_t i = threadIdx.x; i <= first + j; i += threads) {
    largest = larger(largest, modulus(a(i, j)));
  }
  store_largest<threads>(largest, target + j);
}

/// |r| / size, where a size of less than `least` is not judged by, and one that left the range is
/// no number.
template <class E>
__device__ double component_error(E r, double size, double least) {
  if (!isfinite(size)) {
    return no_number;
  }
  return size < least ? 0 : modulus(r) / size;
}

/// There are as many columns as right-hand sides, as a rule one.
constexpr int threads_of_few = 1024;
template <class E>
__global__ void __launch_bounds__(threads_of_few)
    largest_error(double least, DeviceMatrix<const E> r, DeviceMatrix<const double> sizes,
                  DeviceMatrix<const E> b, double* target) {
  const std::int64_t j = blockIdx.x;
  double largest = 0;
#pragma unroll 4
  for (std::int64_t i = threadIdx.x; i < r.rows; i += threads_of_few) {
    const double size = sizes(i, j) + modulus(b(i, j));
    largest = larger(largest, component_error(r(i, j), size, least));
  }
  store_largest<threads_of_few>(largest, target + j);
}

}  // namespace

template <class E>
void LuDeviceKernels<E>::upper_max(cudaStream_t stream, std::int64_t first, In a, double* target) {
  launch(stream, &largest_above<E>, a.columns(), {dim3(threads)}, first, device(a), target);
}

template <class E>
void LuDeviceKernels<E>::component_errors(cudaStream_t stream, double least, In r,
                                          MatrixView<const double> sizes, In b, double* target) {
  launch(stream, &largest_error<E>, r.columns(), {dim3(threads_of_few)}, least, device(r),
         device(sizes), device(b), target);
}

#define SHARDSOLVE_INSTANTIATE(E)                                                       \
  template void LuDeviceKernels<E>::upper_max(cudaStream_t, std::int64_t, In, double*); \
  template void LuDeviceKernels<E>::component_errors(cudaStream_t, double, In,          \
                                                     MatrixView<const double>, In, double*);

SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
SHARDSOLVE_INSTANTIATE(Complex<float>)
SHARDSOLVE_INSTANTIATE(Complex<double>)

}  // namespace shardsolve::runtime::cuda
