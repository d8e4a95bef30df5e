/// Estimates by the units for special functions.
#pragma once

#include <cuda_runtime.h>

namespace shardsolve::runtime::cuda {

/// About 1 / sqrt(x), to 20 bits (float: 22), of positive numbers that are not subnormal.
inline __device__ double root_estimate(double x) {
  double y;
  asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
  return y;
}
inline __device__ float root_estimate(float x) { return rsqrtf(x); }

}  // namespace shardsolve::runtime::cuda
