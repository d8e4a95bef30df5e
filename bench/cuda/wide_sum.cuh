/// Sums in twice the precision of double.
#pragma once

#include "bench/cuda/entries.cuh"

namespace shardsolve::bench {

/// A sum whose rounding errors are summed too. Source: Dot2 of Ogita, Rump, Oishi (SIAM J. Sci.
/// Comput. 26, 2005).
struct WideSum {
  double high = 0.0;
  double low = 0.0;

  __device__ void add(double term) {
    const double sum = __dadd_rn(high, term);
    const double part = __dsub_rn(sum, high);
    low += __dsub_rn(high, __dsub_rn(sum, part)) + __dsub_rn(term, part);
    high = sum;
  }
  __device__ void add_product(double a, double b) {
    const double product = __dmul_rn(a, b);
    low += __fma_rn(a, b, -product);
    add(product);
  }
  __device__ void add(const WideSum& other) {
    low += other.low;
    add(other.high);
  }
  __device__ double value() const { return high + low; }
};

/// The sum over all threads of a block of up to 1024, valid in thread 0.
inline __device__ WideSum sum_over_block(WideSum sum) {
  __shared__ double high_of_warp[32];
  __shared__ double low_of_warp[32];
  for (int offset = 16; offset > 0; offset /= 2) {
    WideSum other;
    other.high = __shfl_down_sync(0xFFFFFFFF, sum.high, offset);
    other.low = __shfl_down_sync(0xFFFFFFFF, sum.low, offset);
    sum.add(other);
  }
  // The block may still be reading what the last call left here.
  __syncthreads();
  if (threadIdx.x % 32 == 0) {
    high_of_warp[threadIdx.x / 32] = sum.high;
    low_of_warp[threadIdx.x / 32] = sum.low;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) {
      sum.low += low_of_warp[warp];
      sum.add(high_of_warp[warp]);
    }
  }
  return sum;
}

/// The same for complex numbers.
struct WideComplexSum {
  WideSum real;
  WideSum imag;

  /// Subtracts a * x.
  template <Scalar T>
  __device__ void subtract_product(Value a, Value x) {
    real.add_product(-a.real, x.real);
    if constexpr (is_complex<T>) {
      real.add_product(a.imag, x.imag);
      imag.add_product(-a.real, x.imag);
      imag.add_product(-a.imag, x.real);
    }
  }
};

}  // namespace shardsolve::bench
