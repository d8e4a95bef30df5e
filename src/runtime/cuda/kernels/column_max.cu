/// The largest modulus in every column of a matrix.
#include "runtime/cuda/device_kernels.hpp"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/matrix.cuh"
#include "runtime/cuda/kernels/scalar.cuh"

#include <cfloat>
#include <cstddef>
#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int threads_a_block = 256;
constexpr int elements_a_thread = 8;
constexpr int rows_a_block = threads_a_block * elements_a_thread;

/// |x|; the largest double where finite parts have a modulus beyond it.
template <class E>
__device__ double magnitude(E x) {
  if constexpr (parts<E> == 1) {
    return fabs(static_cast<double>(x));
  } else if constexpr (sizeof(E) == sizeof(Complex<float>)) {
    // Squares of floats are far inside the range of double.
    return sqrt(static_cast<double>(x.re) * x.re + static_cast<double>(x.im) * x.im);
  } else {
    if (!isfinite(x.re) || !isfinite(x.im)) {
      return fabs(x.re) + fabs(x.im);
    }
    return fmin(hypot(x.re, x.im), DBL_MAX);
  }
}

/// The bits of doubles without a sign are ordered as their values, with every NaN above infinity.
using Bits = unsigned long long;

__device__ Bits bits_of(double size) {
  return static_cast<Bits>(__double_as_longlong(size)) & 0x7fffffffffffffffULL;
}

/// A largest value does not depend on the order of the comparisons, so atomics are harmless.
template <class E>
__global__ void __launch_bounds__(threads_a_block)
    raise_to_column_max(DeviceMatrix<const E> a, Bits* target, unsigned chunks) {
  const std::int64_t j = blockIdx.x / chunks;
  const std::int64_t first = std::int64_t{blockIdx.x % chunks} * rows_a_block + threadIdx.x;
  Bits largest = 0;
#pragma unroll
  for (int e = 0; e < elements_a_thread; ++e) {
    const std::int64_t i = first + e * threads_a_block;
    if (i < a.rows) {
      largest = max(largest, bits_of(magnitude(a(i, j))));
    }
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    largest = max(largest, __shfl_xor_sync(0xffffffffU, largest, distance));
  }
  if (threadIdx.x % 32 == 0) {
    atomicMax(target + j, largest);
  }
}

}  // namespace

template <class E>
void DeviceKernels<E>::column_max(cudaStream_t stream, In a, double* target) {
  static_assert(sizeof(Bits) == sizeof(double));
  if (a.columns() == 0) {
    return;
  }
  cudaMemsetAsync(target, 0, static_cast<std::size_t>(a.columns()) * sizeof(double), stream);
  const std::int64_t chunks = divide_up(a.rows(), rows_a_block);
  launch(stream, &raise_to_column_max<E>, chunks * a.columns(), {dim3(threads_a_block)}, device(a),
         reinterpret_cast<Bits*>(target), static_cast<unsigned>(chunks));
}

template void DeviceKernels<float>::column_max(cudaStream_t, In, double*);
template void DeviceKernels<double>::column_max(cudaStream_t, In, double*);
template void DeviceKernels<Complex<float>>::column_max(cudaStream_t, In, double*);
template void DeviceKernels<Complex<double>>::column_max(cudaStream_t, In, double*);

}  // namespace shardsolve::runtime::cuda
