/// Exchanges between the lanes of a warp, and sums over them.
#pragma once

#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/scalar.cuh"

namespace shardsolve::runtime::cuda {

/// What another lane has.
template <class E>
__device__ E from_lane(E value, int lane) {
  constexpr unsigned all = 0xffffffffU;
  if constexpr (parts<E> == 2) {
    return {__shfl_sync(all, value.re, lane), __shfl_sync(all, value.im, lane)};
  } else {
    return __shfl_sync(all, value, lane);
  }
}
/// Likewise; its number differs in the bits of `distance`.
template <class E>
__device__ E from_partner(E value, int distance) {
  constexpr unsigned all = 0xffffffffU;
  if constexpr (parts<E> == 2) {
    return {__shfl_xor_sync(all, value.re, distance), __shfl_xor_sync(all, value.im, distance)};
  } else {
    return __shfl_xor_sync(all, value, distance);
  }
}

/// The sums of four values a lane, each in the eight lanes of one quarter: two halvings and three
/// exchanges instead of four times five exchanges.
template <class R>
__device__ R sum_four(const R (&values)[4]) {
  const bool upper_half = (threadIdx.x & 16) != 0;
  const bool odd_quarter = (threadIdx.x & 8) != 0;
  const R first =
      (upper_half ? values[2] : values[0]) + from_partner(upper_half ? values[0] : values[2], 16);
  const R second =
      (upper_half ? values[3] : values[1]) + from_partner(upper_half ? values[1] : values[3], 16);
  R sum = (odd_quarter ? second : first) + from_partner(odd_quarter ? first : second, 8);
  sum = sum + from_partner(sum, 4);
  sum = sum + from_partner(sum, 2);
  sum = sum + from_partner(sum, 1);
  return sum;
}

template <class R>
__device__ Complex<R> sum_four(const Complex<R> (&values)[4]) {
  return {sum_four<R>({values[0].re, values[1].re, values[2].re, values[3].re}),
          sum_four<R>({values[0].im, values[1].im, values[2].im, values[3].im})};
}

}  // namespace shardsolve::runtime::cuda
