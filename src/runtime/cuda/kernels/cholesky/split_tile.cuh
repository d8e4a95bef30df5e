/// Products of floats on tensor cores that see ten bits of them behind the point. Each number is
/// split in two such, x = high + low but for a unit of its last place in one case of four, and
///
///     a b = high_a high_b + high_a low_b + low_a high_b
///
/// but for low_a low_b, which is 2^-22 of that at most. The tensor cores chop what they add up:
/// only few products at a time, whose sums are added in float32.
///
/// Ootomo and Yokota, "Recovering single precision accuracy from Tensor Cores while surpassing the
/// FP32 theoretical peak performance" (2022).
#pragma once

#include "runtime/cuda/kernels/tensor_core.cuh"

#include <cstdint>

namespace shardsolve::runtime::cuda {

/// x rounded to ten bits behind the point, ties away from zero; cut off there where rounding might
/// leave the range, and NaN remains what it is.
inline __device__ float rounded_to_ten_bits(float x) {
  constexpr std::uint32_t unit = 1U << 13U;
  const std::uint32_t half = fabsf(x) < 0x1p127F ? unit / 2 : 0;
  return __uint_as_float((__float_as_uint(x) + half) & ~(unit - 1));
}

/// Two numbers, split; loaded and stored as one piece.
struct alignas(16) SplitTwo {
  float2 high;
  float2 low;
};

inline __device__ SplitTwo as_factor(float2 x) {
  const float2 high{rounded_to_ten_bits(x.x), rounded_to_ten_bits(x.y)};
  return {high, {rounded_to_ten_bits(x.x - high.x), rounded_to_ten_bits(x.y - high.y)}};
}

inline __device__ float2 negative(float2 x) { return {-x.x, -x.y}; }
inline __device__ SplitTwo negative(const SplitTwo& x) {
  return {negative(x.high), negative(x.low)};
}

/// 16 x 8 numbers, split.
struct SplitTile {
  Tile16x8<float> high;
  Tile16x8<float> low;
};

inline __device__ SplitTile as_factor(const Tile16x8<float>& x) {
  SplitTile split;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    split.high.low[i] = rounded_to_ten_bits(x.low[i]);
    split.high.high[i] = rounded_to_ten_bits(x.high[i]);
    split.low.low[i] = rounded_to_ten_bits(x.low[i] - split.high.low[i]);
    split.low.high[i] = rounded_to_ten_bits(x.high[i] - split.high.high[i]);
  }
  return split;
}

inline __device__ Tile16x8<float> negative(const Tile16x8<float>& x) {
  return {{-x.low[0], -x.low[1]}, {-x.high[0], -x.high[1]}};
}
inline __device__ SplitTile negative(const SplitTile& x) {
  return {negative(x.high), negative(x.low)};
}

/// sum += one of the three products of a and b, 16 x 8 and 8 x 8; the largest is the last.
constexpr int split_products = 3;
inline __device__ void multiply_add_16x8x8(Tile16x8<float>& sum, int which, const SplitTile& a,
                                           const SplitTwo& b) {
  multiply_add_16x8x8(sum, which == 0 ? a.low : a.high, which == 1 ? b.low : b.high);
}

inline __device__ void add(Tile16x8<float>& c, const Tile16x8<float>& x, const Tile16x8<float>& y) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    c.low[i] += x.low[i] + y.low[i];
    c.high[i] += x.high[i] + y.high[i];
  }
}

/// Powers of two that bring the numbers of a row near 1 and back: below 2^-113 a low part is too
/// small for the tensor cores, which see multiples of 2^-136.
struct RowScale {
  float there;
  float back;

  /// Of a row whose largest number that is one has that size.
  static __device__ RowScale of(float largest) {
    constexpr std::uint32_t fraction_bits = 23;
    constexpr std::uint32_t bias = 127;
    constexpr std::uint32_t most = 100;  // so that both are normal
    const std::uint32_t exponent =
        min(max(__float_as_uint(largest) >> fraction_bits, bias - most), bias + most);
    return {__uint_as_float((2 * bias - exponent) << fraction_bits),
            __uint_as_float(exponent << fraction_bits)};
  }
};

}  // namespace shardsolve::runtime::cuda
