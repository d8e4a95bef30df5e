/// What tensor_core.cuh does, without tensor cores: for GPUs before sm_80, where those cannot.
/// Lanes pass their numbers on to each other, so it takes many times longer.
#pragma once

#include "runtime/cuda/kernels/launch.cuh"

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstring>

namespace shardsolve::runtime::cuda::plain {

inline constexpr unsigned all_lanes = 0xffffffffU;

/// By a lane: the row of a and of c that it has numbers of, and the first of its two columns of c.
struct Place {
  int row;
  int column;
};
inline __device__ Place place() {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  return {lane / 4, lane % 4 * 2};
}

/// See multiply_add_8x8x4 in tensor_core.cuh. Sums grow from the first product to the last one.
inline __device__ void multiply_add_8x8x4(double& c0, double& c1, double a, double b) {
  const Place at = place();
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const double left = __shfl_sync(all_lanes, a, 4 * at.row + k);
    c0 = fma(left, __shfl_sync(all_lanes, b, 4 * at.column + k), c0);
    c1 = fma(left, __shfl_sync(all_lanes, b, 4 * at.column + 4 + k), c1);
  }
}

/// The two halves in a word, as floats.
inline __device__ float2 floats_of(std::uint32_t two) {
  __half2 halves;
  memcpy(&halves, &two, sizeof(two));
  return __half22float2(halves);
}

/// See multiply_add_16x8x16 for halves in tensor_core.cuh. Rounded once, as products of halves are
/// added up in float64.
inline __device__ void multiply_add_16x8x16(float (&d)[4], const std::uint32_t (&a)[4],
                                            std::uint32_t b0, std::uint32_t b1) {
  const Place at = place();
  double sums[4] = {d[0], d[1], d[2], d[3]};
#pragma unroll
  for (int t = 0; t < 4; ++t) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {  // of k, 2 t + 8 half and one more
      const int left = 4 * at.row + t;
      const float2 low = floats_of(__shfl_sync(all_lanes, a[2 * half], left));
      const float2 high = floats_of(__shfl_sync(all_lanes, a[2 * half + 1], left));
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const int right = 4 * (at.column + n) + t;
        const float2 b = floats_of(__shfl_sync(all_lanes, half == 0 ? b0 : b1, right));
        // A product of two halves is a float.
        sums[n] += static_cast<double>(low.x * b.x) + static_cast<double>(low.y * b.y);
        sums[2 + n] += static_cast<double>(high.x * b.x) + static_cast<double>(high.y * b.y);
      }
    }
  }
  for (int i = 0; i < 4; ++i) {
    d[i] = static_cast<float>(sums[i]);
  }
}

}  // namespace shardsolve::runtime::cuda::plain
