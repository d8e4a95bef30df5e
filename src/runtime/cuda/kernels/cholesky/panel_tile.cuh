/// Tiles of real or complex numbers, by whose products a panel is solved: parts are apart, as the
/// tensor cores want them. Of doubles those multiply any; of floats they see ten bits behind the
/// point, so factors are split (split_tile.cuh).
#pragma once

#include "runtime/cuda/element.hpp"
#include "runtime/cuda/kernels/cholesky/split_tile.cuh"
#include "runtime/cuda/kernels/tensor_core.cuh"

#include <climits>
#include <type_traits>

namespace shardsolve::runtime::cuda {

/// By integers: the units for doubles are those of the products, which are busy.
inline __device__ double negative(double x) {
  return __hiloint2double(__double2hiint(x) ^ INT_MIN, __double2loint(x));
}

inline __device__ double2 negative(double2 x) { return {negative(x.x), negative(x.y)}; }

inline __device__ Tile16x8<double> negative(const Tile16x8<double>& x) {
  return {{negative(x.low[0]), negative(x.low[1])}, {negative(x.high[0]), negative(x.high[1])}};
}

inline const __device__ Tile16x8<double>& as_factor(const Tile16x8<double>& x) { return x; }
inline __device__ double2 as_factor(double2 x) { return x; }

/// Two reals side by side.
template <class E>
using TwoReals = std::conditional_t<std::is_same_v<RealPart<E>, double>, double2, float2>;

/// 8 columns of a left factor, and two rows of a right one.
template <class E>
using LeftPart =
    std::conditional_t<std::is_same_v<RealPart<E>, double>, Tile16x8<double>, SplitTile>;
template <class E>
using RightPart = std::conditional_t<std::is_same_v<RealPart<E>, double>, double2, SplitTwo>;

/// 16 x 8 numbers: their real parts and, where there are some, their imaginary ones.
template <class E>
struct Tile {
  Tile16x8<RealPart<E>> part[parts<E>];
};

/// The left factor of a product: 16 x 16, two tiles side by side.
template <class E>
struct Left {
  LeftPart<E> part[parts<E>][2];
};

template <class E>
__device__ Left<E> side_by_side(const Tile<E>& first, const Tile<E>& second) {
  Left<E> both;
#pragma unroll
  for (int p = 0; p < parts<E>; ++p) {
    both.part[p][0] = as_factor(first.part[p]);
    both.part[p][1] = as_factor(second.part[p]);
  }
  return both;
}

template <class E>
__device__ Left<E> negative(const Left<E>& x) {
  Left<E> result;
#pragma unroll
  for (int p = 0; p < parts<E>; ++p) {
    result.part[p][0] = negative(x.part[p][0]);
    result.part[p][1] = negative(x.part[p][1]);
  }
  return result;
}

/// Two numbers that follow each other in memory, by parts.
template <class E>
struct Two {
  TwoReals<E> part[parts<E>];

  /// From an address that is a multiple of their size.
  static __device__ Two load(const E* from) {
    const auto* const numbers = reinterpret_cast<const TwoReals<E>*>(from);
    if constexpr (parts<E> == 1) {
      return {{numbers[0]}};
    } else if constexpr (sizeof(E) == sizeof(float2)) {
      const float4 all = *reinterpret_cast<const float4*>(from);
      return {{{all.x, all.z}, {all.y, all.w}}};
    } else {
      const TwoReals<E> first = numbers[0];
      const TwoReals<E> second = numbers[1];
      return {{{first.x, second.x}, {first.y, second.y}}};
    }
  }

  static __device__ void store(E* to, E first, E second) {
    if constexpr (parts<E> == 1) {
      *reinterpret_cast<TwoReals<E>*>(to) = {first, second};
    } else {
      to[0] = first;
      to[1] = second;
    }
  }
};

/// The right factor: 16 x 8.
template <class E>
struct Right {
  RightPart<E> part[parts<E>][2];
};

/// c += a b
template <class E>
__device__ void multiply_add(Tile<E>& c, const Left<E>& a, const Right<E>& b) {
  multiply_add_16x8x16(c.part[0], a.part[0], b.part[0]);
  if constexpr (parts<E> == 2) {
    multiply_add_16x8x16(c.part[1], a.part[0], b.part[1]);
    multiply_add_16x8x16(c.part[1], a.part[1], b.part[0]);
    const RightPart<E> minus[] = {negative(b.part[1][0]), negative(b.part[1][1])};
    multiply_add_16x8x16(c.part[0], a.part[1], minus);
  }
}

/// Likewise of floats for some tiles side by side: products that wait for each other are few, and
/// between those of one tile come those of the others.
template <class E, int count>
__device__ void multiply_add(Tile<E>* c, const Left<E>& a, const Right<E> (&b)[count]) {
  Tile16x8<float> sums[count][parts<E>][2] = {};
#pragma unroll
  for (int which = 0; which < split_products; ++which) {
#pragma unroll
    for (int of_a = 0; of_a < parts<E>; ++of_a) {
#pragma unroll
      for (int j = 0; j < count; ++j) {
#pragma unroll
        for (int of_b = 0; of_b < parts<E>; ++of_b) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const SplitTwo& factor = b[j].part[of_b][i];
            multiply_add_16x8x8(sums[j][of_a ^ of_b][i], which, a.part[of_a][i],
                                of_a + of_b == 2 ? negative(factor) : factor);
          }
        }
      }
    }
  }
#pragma unroll
  for (int j = 0; j < count; ++j) {
#pragma unroll
    for (int p = 0; p < parts<E>; ++p) {
      add(c[j].part[p], sums[j][p][0], sums[j][p][1]);
    }
  }
}

}  // namespace shardsolve::runtime::cuda
