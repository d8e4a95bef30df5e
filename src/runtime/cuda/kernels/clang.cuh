/// What nvcc knows by itself and clang, as a compiler for CUDA, does not.
#pragma once

#include <cuda_runtime.h>

#if defined(__clang__) && defined(__CUDA__)
// NOLINTBEGIN(bugprone-reserved-identifier): nvcc's names
/// Stores into the memory that all multiprocessors see. PTX: st.cg.
inline __device__ void __stcg(float* place, float x) {
  asm volatile("st.global.cg.f32 [%0], %1;" ::"l"(place), "f"(x) : "memory");
}
inline __device__ void __stcg(double* place, double x) {
  asm volatile("st.global.cg.f64 [%0], %1;" ::"l"(place), "d"(x) : "memory");
}
inline __device__ void __stcg(float2* place, float2 x) {
  asm volatile("st.global.cg.v2.f32 [%0], {%1, %2};" ::"l"(place), "f"(x.x), "f"(x.y) : "memory");
}
inline __device__ void __stcg(double2* place, double2 x) {
  asm volatile("st.global.cg.v2.f64 [%0], {%1, %2};" ::"l"(place), "d"(x.x), "d"(x.y) : "memory");
}
// NOLINTEND(bugprone-reserved-identifier)
#endif
