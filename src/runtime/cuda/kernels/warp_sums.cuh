/// Sums over the lanes of a warp.
#pragma once

namespace shardsolve::runtime::cuda {

/// The sums of four values a lane, each in the eight lanes of one quarter: two halvings and three
/// exchanges instead of four times five exchanges.
template <class R>
__device__ R sum_four(const R (&values)[4]) {
  constexpr unsigned all = 0xffffffffU;
  const bool upper_half = (threadIdx.x & 16) != 0;
  const bool odd_quarter = (threadIdx.x & 8) != 0;
  const R first = (upper_half ? values[2] : values[0]) +
                  __shfl_xor_sync(all, upper_half ? values[0] : values[2], 16);
  const R second = (upper_half ? values[3] : values[1]) +
                   __shfl_xor_sync(all, upper_half ? values[1] : values[3], 16);
  R sum = (odd_quarter ? second : first) + __shfl_xor_sync(all, odd_quarter ? first : second, 8);
  sum += __shfl_xor_sync(all, sum, 4);
  sum += __shfl_xor_sync(all, sum, 2);
  sum += __shfl_xor_sync(all, sum, 1);
  return sum;
}

}  // namespace shardsolve::runtime::cuda
