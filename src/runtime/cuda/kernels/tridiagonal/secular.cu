/// Roots, weights and eigenvectors of secular equations. Compiled with --fmad=false: roots and
/// weights have the bits of the CPU.
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/matrix.cuh"
#include "runtime/cuda/kernels/warp_sums.cuh"
#include "runtime/cuda/tridiagonal_device_kernels.hpp"
#include "runtime/secular_search.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int lanes = 32;
constexpr int roots_a_block = 4;
constexpr int weights_a_block = lanes;
constexpr int vector_threads = 256;
constexpr int vectors_a_block = 4;

/// See SecularSearch. A sum a lane; all lanes get what they add up to.
struct AdderOfWarp {
  static_assert(secular_sums_at_once == lanes);

  template <class Real, class Term>
  static __device__ SecularSum<Real> sum(std::int64_t begin, std::int64_t end, Term term) {
    SecularSum<Real> sum;
#pragma unroll 2
    for (std::int64_t i = begin + threadIdx.x % lanes; i < end; i += lanes) {
      sum.add(term(i));
    }
#pragma unroll
    for (int distance = lanes / 2; distance > 0; distance /= 2) {
      sum.add({from_partner(sum.value, distance), from_partner(sum.slope, distance)});
    }
    return sum;
  }
};

/// A warp has one root.
template <class Real>
__global__ void __launch_bounds__(roots_a_block* lanes)
    find_roots(SecularEquation<Real> equation, std::int64_t first, std::int64_t end,
               SecularRoot<Real>* roots) {
  const std::int64_t i = first + std::int64_t{blockIdx.x} * roots_a_block + threadIdx.x / lanes;
  if (i >= end) {
    return;
  }
  const SecularRoot<Real> root = SecularSearch<Real, AdderOfWarp>(equation, i).run();
  if (threadIdx.x % lanes == 0) {
    roots[i] = root;
  }
}

/// A warp multiplies one part of the factors of as many weights as it has lanes.
template <class Real>
__global__ void __launch_bounds__(weights_a_block* max_secular_parts)
    make_weights(SecularEquation<Real> equation, const SecularRoot<Real>* __restrict__ roots,
                 std::int64_t factors_a_part, Real* weights) {
  __shared__ Real products[max_secular_parts][weights_a_block];
  const std::int64_t lane = threadIdx.x % lanes;
  const std::int64_t part = threadIdx.x / lanes;
  const std::int64_t i = std::int64_t{blockIdx.x} * weights_a_block + lane;
  const Real* __restrict__ d = equation.poles;
  const std::int64_t last = equation.count - 1;
  const Real own = d[min(i, last)];
  const std::int64_t begin = part * factors_a_part;
  const std::int64_t end = min(begin + factors_a_part, last);
  Real product = 1;
#pragma unroll 4
  for (std::int64_t j = begin; j < end; ++j) {
    const SecularRoot<Real> root = roots[j];
    product *= ((d[root.origin] - own) + root.offset) / (d[i <= j ? j + 1 : j] - own);
  }
  products[part][lane] = product;
  __syncthreads();
  if (part != 0 || i > last) {
    return;
  }
  Real all = from_pole(equation, roots[last], i);
  for (std::int64_t p = 0; p * factors_a_part < last; ++p) {
    all *= products[p][lane];
  }
  weights[i] = std::copysign(std::sqrt(std::abs(all)), equation.weights[i]);
}

/// A block makes some eigenvectors, which share what it reads; it makes their entries a second time
/// when it knows the norms, as reading them again would take longer.
template <class Real>
__global__ void __launch_bounds__(vector_threads)
    make_vectors(SecularEquation<Real> equation, const SecularRoot<Real>* roots,
                 const std::int64_t* __restrict__ rows, std::int64_t first, DeviceMatrix<Real> u) {
  __shared__ Real sums[vectors_a_block][vector_threads];
  const std::int64_t left = std::int64_t{blockIdx.x} * vectors_a_block;
  Real origins[vectors_a_block];
  Real offsets[vectors_a_block];
#pragma unroll
  for (int c = 0; c < vectors_a_block; ++c) {
    const SecularRoot<Real> root = roots[first + min(left + c, u.columns - 1)];
    origins[c] = equation.poles[root.origin];
    offsets[c] = root.offset;
  }
  Real norms[vectors_a_block] = {};
  for (std::int64_t i = threadIdx.x; i < equation.count; i += vector_threads) {
    const std::int64_t pole = rows[i];
    const Real d = equation.poles[pole];
    const Real w = equation.weights[pole];
#pragma unroll
    for (int c = 0; c < vectors_a_block; ++c) {
      const Real entry = w / ((origins[c] - d) + offsets[c]);
      norms[c] += entry * entry;
    }
  }
#pragma unroll
  for (int c = 0; c < vectors_a_block; ++c) {
    sums[c][threadIdx.x] = norms[c];
  }
  __syncthreads();
  for (unsigned half = vector_threads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
#pragma unroll
      for (int c = 0; c < vectors_a_block; ++c) {
        sums[c][threadIdx.x] += sums[c][threadIdx.x + half];
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int c = 0; c < vectors_a_block; ++c) {
    norms[c] = std::sqrt(sums[c][0]);
  }
  for (std::int64_t i = threadIdx.x; i < equation.count; i += vector_threads) {
    const std::int64_t pole = rows[i];
    const Real d = equation.poles[pole];
    const Real w = equation.weights[pole];
#pragma unroll
    for (int c = 0; c < vectors_a_block; ++c) {
      if (left + c < u.columns) {
        u(i, left + c) = w / ((origins[c] - d) + offsets[c]) / norms[c];
      }
    }
  }
}

}  // namespace

template <class Real>
void TridiagonalDeviceKernels<Real>::secular_roots(cudaStream_t stream,
                                                   const SecularEquation<Real>& equation,
                                                   std::int64_t first, std::int64_t count,
                                                   Root* roots) {
  launch(stream, &find_roots<Real>, divide_up(count, roots_a_block), {dim3(roots_a_block * lanes)},
         equation, first, first + count, roots);
}

template <class Real>
void TridiagonalDeviceKernels<Real>::secular_weights(cudaStream_t stream,
                                                     const SecularEquation<Real>& equation,
                                                     const Root* roots, Real* weights) {
  const std::int64_t factors = equation.count - 1;
  const std::int64_t part = secular_part(factors);
  const auto parts = static_cast<unsigned>(std::max<std::int64_t>(divide_up(factors, part), 1));
  launch(stream, &make_weights<Real>, divide_up(equation.count, weights_a_block),
         {dim3(weights_a_block * parts)}, equation, roots, part, weights);
}

template <class Real>
void TridiagonalDeviceKernels<Real>::secular_vectors(cudaStream_t stream,
                                                     const SecularEquation<Real>& equation,
                                                     const Root* roots, const std::int64_t* rows,
                                                     std::int64_t first, Out u) {
  launch(stream, &make_vectors<Real>, divide_up(u.columns(), vectors_a_block),
         {dim3(vector_threads)}, equation, roots, rows, first, device(u));
}

#define SHARDSOLVE_INSTANTIATE(Real)                                                              \
  template void TridiagonalDeviceKernels<Real>::secular_roots(                                    \
      cudaStream_t, const SecularEquation<Real>&, std::int64_t, std::int64_t, Root*);             \
  template void TridiagonalDeviceKernels<Real>::secular_weights(                                  \
      cudaStream_t, const SecularEquation<Real>&, const Root*, Real*);                            \
  template void TridiagonalDeviceKernels<Real>::secular_vectors(                                  \
      cudaStream_t, const SecularEquation<Real>&, const Root*, const std::int64_t*, std::int64_t, \
      Out);
SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::runtime::cuda
