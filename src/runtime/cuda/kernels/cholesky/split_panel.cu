/// Numbers of a packed panel split in two of float16, which tensor cores multiply.
///
/// A column, a row of L, is multiplied by the power of two that brings its largest number between
/// 2^14 and 2^15. Then x = high + low, each rounded to nearest: two times 11 bits hold a number of
/// float32 but for half a unit of its last place in one case of four; and of a number below 2^-17
/// of the largest what is below 2^-39 of that is lost, which is nothing beside the products of the
/// others. A row with NaN or infinity becomes NaN.
#include "runtime/cuda/cholesky_device_kernels.hpp"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/matrix.cuh"

#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int lanes = 32;
constexpr int columns_a_block = 4;
constexpr int max_numbers_a_lane = CholeskyDeviceKernels<float>::max_split / lanes;

/// A warp has a column, all of which it reads before it writes any of it.

template <class E>
__global__ void __launch_bounds__(columns_a_block* lanes)
    split_columns(const __grid_constant__ DeviceMatrix<E> panel) {
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const std::int64_t column = blockIdx.x * columns_a_block + threadIdx.x / lanes;
  if (column >= panel.columns) {
    return;
  }
  const int k = static_cast<int>(panel.rows) * parts<E>;
  float* const data = reinterpret_cast<float*>(&panel(0, column));
  float x[max_numbers_a_lane];
  float largest = 0.0F;
#pragma unroll
  for (int i = 0; i < max_numbers_a_lane; ++i) {
    x[i] = lane + i * lanes < k ? data[lane + i * lanes] : 0.0F;
    largest = fmaxf(largest, fabsf(x[i]));
  }
#pragma unroll
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(~0U, largest, distance));
  }
  constexpr int largest_exponent = 14;  // float16 has 15 too, which rounding up may need
  // As pivots are normal numbers, a row of a factor is 2^-63 long at least: what is so far below
  // that may lose bits.
  constexpr float shortest = 0x1p-100F;
  const int exponent = largest_exponent - ilogbf(fmaxf(largest, shortest));
  const float factor = scalbnf(1.0F, exponent);
  auto* const halves = reinterpret_cast<__half*>(data);
  __syncwarp();
#pragma unroll
  for (int i = 0; i < max_numbers_a_lane; ++i) {
    if (lane + i * lanes < k) {
      const float scaled = x[i] * factor;
      const __half high = __float2half_rn(scaled);
      halves[lane + i * lanes] = high;
      halves[k + lane + i * lanes] = __float2half_rn(scaled - __half2float(high));
    }
  }
  if (lane == 0) {
    data[k] = scalbnf(1.0F, -exponent);
  }
}

}  // namespace

template <class E>
void CholeskyDeviceKernels<E>::split_panel(cudaStream_t stream, Out packed) {
  if constexpr (std::is_same_v<RealPart<E>, float>) {
    launch(stream, &split_columns<E>, divide_up(packed.columns(), columns_a_block),
           {dim3(columns_a_block * lanes)}, device(packed));
  }
}

template void CholeskyDeviceKernels<float>::split_panel(cudaStream_t, Out);
template void CholeskyDeviceKernels<double>::split_panel(cudaStream_t, Out);
template void CholeskyDeviceKernels<Complex<float>>::split_panel(cudaStream_t, Out);
template void CholeskyDeviceKernels<Complex<double>>::split_panel(cudaStream_t, Out);

}  // namespace shardsolve::runtime::cuda
