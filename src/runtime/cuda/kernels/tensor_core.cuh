/// Products of small matrices of doubles on the tensor cores.
#pragma once

namespace shardsolve::runtime::cuda {

/// c += a b for 8 x 4 and 4 x 8 matrices spread over a warp: lane 4 i + k holds a(i, k) and b(k,
/// i), and c(i, 2 k), c(i, 2 k + 1). PTX: mma.m8n8k4 with .f64.
inline __device__ void multiply_add_8x8x4(double& c0, double& c1, double a, double b) {
  asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
      : "+d"(c0), "+d"(c1)
      : "d"(a), "d"(b));
}

}  // namespace shardsolve::runtime::cuda
