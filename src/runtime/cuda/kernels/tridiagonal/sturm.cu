/// Eigenvalues counted and found by Sturm sequences, a thread each: with the operations of
/// runtime/host/sturm.cpp, which says why. Compiled with --fmad=false: they have the bits of the
/// CPU.
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/tridiagonal_device_kernels.hpp"

#include <cmath>
#include <cstdint>
#include <limits>

namespace shardsolve::runtime::cuda {
namespace {

/// Few, so that they are spread over the GPU: a sequence is one long chain of divisions.
constexpr int threads_a_block = 64;

/// A pivot this small counts as negative. All threads of the block have to ask.
template <class Real>
__device__ Real smallest_pivot(const Tridiagonal<Real>& t) {
  __shared__ Real largest[threads_a_block];
  Real own = 1;
  for (std::int64_t i = threadIdx.x; i + 1 < t.order; i += threads_a_block) {
    const Real square = t.off_diagonal[i] * t.off_diagonal[i];
    own = own < square ? square : own;
  }
  largest[threadIdx.x] = own;
  __syncthreads();
  for (unsigned half = threads_a_block / 2; half > 0; half /= 2) {
    if (threadIdx.x < half && largest[threadIdx.x] < largest[threadIdx.x + half]) {
      largest[threadIdx.x] = largest[threadIdx.x + half];
    }
    __syncthreads();
  }
  return std::numeric_limits<Real>::min() * largest[0];
}

template <class Real>
__device__ std::int64_t count_below(const Tridiagonal<Real>& t, Real pivot_min, Real point) {
  const Real* __restrict__ diagonal = t.diagonal;
  const Real* __restrict__ off_diagonal = t.off_diagonal;
  Real last = 1;
  std::int64_t below = 0;
#pragma unroll 8
  for (std::int64_t i = 0; i < t.order; ++i) {
    const Real e = i == 0 ? Real{0} : off_diagonal[i - 1];
    const Real pivot = (diagonal[i] - point) - e * e / last;
    const bool is_below = pivot <= pivot_min;
    below += is_below ? 1 : 0;
    last = is_below && -pivot_min < pivot ? -pivot_min : pivot;
  }
  return below;
}

template <class Real>
__global__ void __launch_bounds__(threads_a_block)
    count_at_points(Tridiagonal<Real> t, const Real* points, std::int64_t count,
                    std::int64_t* below) {
  const Real pivot_min = smallest_pivot(t);
  const std::int64_t i = std::int64_t{blockIdx.x} * threads_a_block + threadIdx.x;
  if (i < count) {
    below[i] = count_below(t, pivot_min, points[i]);
  }
}

/// [low, high] for all; each thread halves it down to its own eigenvalue.
template <class Real>
__global__ void __launch_bounds__(threads_a_block)
    bisect_all(Tridiagonal<Real> t, Real low, Real high, Real width, std::int64_t first,
               std::int64_t count, Real* values) {
  // Halvings that any interval can take: those of exponents and those of digits.
  constexpr int max_halvings = std::numeric_limits<Real>::max_exponent -
                               std::numeric_limits<Real>::min_exponent +
                               2 * std::numeric_limits<Real>::digits;
  const Real pivot_min = smallest_pivot(t);
  const std::int64_t i = std::int64_t{blockIdx.x} * threads_a_block + threadIdx.x;
  if (i >= count) {
    return;
  }
  Real middle = low + (high - low) / 2;
  for (int turn = 0; turn < max_halvings; ++turn) {
    if (!(high - low > width && middle > low && middle < high)) {
      break;
    }
    (count_below(t, pivot_min, middle) > first + i ? high : low) = middle;
    middle = low + (high - low) / 2;
  }
  values[i] = middle;
}

}  // namespace

template <class Real>
void TridiagonalDeviceKernels<Real>::count_eigenvalues(cudaStream_t stream,
                                                       const Tridiagonal<Real>& t,
                                                       const Real* points, std::int64_t count,
                                                       std::int64_t* below) {
  launch(stream, &count_at_points<Real>, divide_up(count, threads_a_block), {dim3(threads_a_block)},
         t, points, count, below);
}

template <class Real>
void TridiagonalDeviceKernels<Real>::bisect(cudaStream_t stream, const Tridiagonal<Real>& t,
                                            Real low, Real high, Real width, std::int64_t first,
                                            std::int64_t count, Real* values) {
  launch(stream, &bisect_all<Real>, divide_up(count, threads_a_block), {dim3(threads_a_block)}, t,
         low, high, width, first, count, values);
}

#define SHARDSOLVE_INSTANTIATE(Real)                                                           \
  template void TridiagonalDeviceKernels<Real>::count_eigenvalues(                             \
      cudaStream_t, const Tridiagonal<Real>&, const Real*, std::int64_t, std::int64_t*);       \
  template void TridiagonalDeviceKernels<Real>::bisect(cudaStream_t, const Tridiagonal<Real>&, \
                                                       Real, Real, Real, std::int64_t,         \
                                                       std::int64_t, Real*);
SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::runtime::cuda
