/// Sums and largest numbers over a block of threads, in an order that depends on its size alone.
#pragma once

#include "runtime/cuda/kernels/scalar.cuh"

namespace shardsolve::runtime::cuda::qr {

constexpr int threads = 256;

/// The larger one, NaN if one is.
inline __device__ double larger(double a, double b) { return a >= b || isnan(a) ? a : b; }

/// Called by all threads of the block; all have the result.
template <class Combine>
__device__ double over_block(double mine, Combine combine) {
  __shared__ double meeting[threads];
  __syncthreads();  // what was here before has been read
  meeting[threadIdx.x] = mine;
  __syncthreads();
  for (unsigned half = threads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      meeting[threadIdx.x] = combine(meeting[threadIdx.x], meeting[threadIdx.x + half]);
    }
    __syncthreads();
  }
  return meeting[0];
}

struct Sum {
  __device__ double operator()(double a, double b) const { return a + b; }
};
struct Larger {
  __device__ double operator()(double a, double b) const { return larger(a, b); }
};
struct Smaller {
  __device__ double operator()(double a, double b) const { return a <= b || isnan(a) ? a : b; }
};

template <class W>
__device__ W block_sum(W mine) {
  if constexpr (parts<W> == 2) {
    const double re = over_block(mine.re, Sum{});
    return {re, over_block(mine.im, Sum{})};
  } else {
    return over_block(mine, Sum{});
  }
}

/// In double precision.
template <class E>
__device__ auto widened(E x) {
  if constexpr (parts<E> == 2) {
    return Complex<double>{static_cast<double>(x.re), static_cast<double>(x.im)};
  } else {
    return static_cast<double>(x);
  }
}
template <class E, class W>
__device__ E rounded(W x) {
  using R = RealPart<E>;
  if constexpr (parts<E> == 2) {
    return {static_cast<R>(x.re), static_cast<R>(x.im)};
  } else {
    return static_cast<R>(x);
  }
}

template <class W>
__device__ double modulus(W x) {
  if constexpr (parts<W> == 2) {
    return hypot(x.re, x.im);
  } else {
    return fabs(x);
  }
}

}  // namespace shardsolve::runtime::cuda::qr
