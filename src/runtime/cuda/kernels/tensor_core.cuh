/// Products of small matrices on the tensor cores; before sm_80 without them.
#pragma once

#include "runtime/cuda/kernels/plain_products.cuh"

#include <cuda_runtime.h>

#include <cstdint>

namespace shardsolve::runtime::cuda {

/// c += a b for 8 x 4 and 4 x 8 matrices spread over a warp: lane 4 i + k holds a(i, k) and b(k,
/// i), and c(i, 2 k), c(i, 2 k + 1). PTX: mma.m8n8k4 with .f64.
inline __device__ void multiply_add_8x8x4(double& c0, double& c1, double a, double b) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
      : "+d"(c0), "+d"(c1)
      : "d"(a), "d"(b));
#else
  plain::multiply_add_8x8x4(c0, c1, a, b);
#endif
}

/// 16 x 8 numbers spread over a warp: lane 4 g + t holds columns 2 t and 2 t + 1 of rows g (`low`)
/// and g + 8 (`high`).
template <class Real>
struct Tile16x8 {
  Real low[2];
  Real high[2];
};

/// c += a b for 16 x 16 and 16 x 8 matrices, a as two tiles side by side. Which column of a meets
/// which row of b is for us to say: here such that a tile that was a result is a left factor where
/// it lies. So lane 4 g + t holds b(2 t, g), b(2 t + 1, g) and b(8 + 2 t, g), b(9 + 2 t, g). From
/// sm_90 on. PTX: mma.m16n8k16 with .f64.
inline __device__ void multiply_add_16x8x16(Tile16x8<double>& c, const Tile16x8<double> (&a)[2],
                                            const double2 (&b)[2]) {
#if __CUDA_ARCH__ >= 900
  asm("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, "
      "{%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%0, %1, %2, %3};"
      : "+d"(c.low[0]), "+d"(c.low[1]), "+d"(c.high[0]), "+d"(c.high[1])
      : "d"(a[0].low[0]), "d"(a[0].high[0]), "d"(a[0].low[1]), "d"(a[0].high[1]), "d"(a[1].low[0]),
        "d"(a[1].high[0]), "d"(a[1].low[1]), "d"(a[1].high[1]), "d"(b[0].x), "d"(b[0].y),
        "d"(b[1].x), "d"(b[1].y));
#endif
}

/// c += a b for 16 x 8 and 8 x 8 matrices, from their numbers' signs, exponents and first ten bits
/// behind the point alone. As above, so lane 4 g + t holds b(2 t, g) and b(2 t + 1, g). From sm_80
/// on. PTX: mma.m16n8k8 with .tf32.
inline __device__ void multiply_add_16x8x8(Tile16x8<float>& c, const Tile16x8<float>& a, float2 b) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c.low[0]), "+f"(c.low[1]), "+f"(c.high[0]), "+f"(c.high[1])
      : "r"(__float_as_uint(a.low[0])), "r"(__float_as_uint(a.high[0])),
        "r"(__float_as_uint(a.low[1])), "r"(__float_as_uint(a.high[1])), "r"(__float_as_uint(b.x)),
        "r"(__float_as_uint(b.y)));
#endif
}

/// Four matrices of 8 x 8 halves from shared memory: lane l gives the address of row l % 8 of
/// matrix l / 8, and receives of each matrix columns 2 (l % 4) and one more of row l / 4. PTX:
/// ldmatrix.
inline __device__ void load_four_8x8(std::uint32_t (&x)[4], std::uint32_t row) {
#if __CUDA_ARCH__ >= 800
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(row));
#else
  const plain::Place at = plain::place();
  for (int matrix = 0; matrix < 4; ++matrix) {
    const std::uint32_t from =
        __shfl_sync(plain::all_lanes, row, 8 * matrix + at.row) + 2 * at.column;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x[matrix]) : "r"(from));
  }
#endif
}

/// d += a b, 16 x 16 and 16 x 8 halves spread over a warp. PTX: mma.m16n8k16 with .f16.
inline __device__ void multiply_add_16x8x16(float (&d)[4], const std::uint32_t (&a)[4],
                                            std::uint32_t b0, std::uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  plain::multiply_add_16x8x16(d, a, b0, b1);
#endif
}

}  // namespace shardsolve::runtime::cuda
