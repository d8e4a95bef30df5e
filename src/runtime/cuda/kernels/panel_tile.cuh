/// Tiles of real or complex doubles, by whose products a panel is solved: parts are apart, as the
/// tensor cores want them.
#pragma once

#include "runtime/cuda/element.hpp"
#include "runtime/cuda/kernels/tensor_core.cuh"

#include <climits>

namespace shardsolve::runtime::cuda {

/// By integers: the units for doubles are those of the products, which are busy.
inline __device__ double negative(double x) {
  return __hiloint2double(__double2hiint(x) ^ INT_MIN, __double2loint(x));
}

inline __device__ double2 negative(double2 x) { return {negative(x.x), negative(x.y)}; }

inline __device__ Tile16x8 negative(const Tile16x8& x) {
  return {{negative(x.low[0]), negative(x.low[1])}, {negative(x.high[0]), negative(x.high[1])}};
}

/// 16 x 8 numbers: their real parts and, where there are some, their imaginary ones.
template <class E>
struct Tile {
  Tile16x8 part[parts<E>];
};

/// The left factor of a product: 16 x 16, two tiles side by side.
template <class E>
struct Left {
  Tile16x8 part[parts<E>][2];
};

template <class E>
__device__ Left<E> side_by_side(const Tile<E>& first, const Tile<E>& second) {
  Left<E> both;
#pragma unroll
  for (int p = 0; p < parts<E>; ++p) {
    both.part[p][0] = first.part[p];
    both.part[p][1] = second.part[p];
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

/// The right factor: 16 x 8.
template <class E>
struct Right {
  double2 part[parts<E>][2];
};

/// c += a b
template <class E>
__device__ void multiply_add(Tile<E>& c, const Left<E>& a, const Right<E>& b) {
  multiply_add_16x8x16(c.part[0], a.part[0], b.part[0]);
  if constexpr (parts<E> == 2) {
    multiply_add_16x8x16(c.part[1], a.part[0], b.part[1]);
    multiply_add_16x8x16(c.part[1], a.part[1], b.part[0]);
    const double2 minus[] = {negative(b.part[1][0]), negative(b.part[1][1])};
    multiply_add_16x8x16(c.part[0], a.part[1], minus);
  }
}

/// Two numbers that follow each other in memory, at an address that is a multiple of 16 bytes; by
/// parts.
template <class E>
struct Two {
  double2 part[parts<E>];

  static __device__ Two load(const E* from) {
    const auto* const numbers = reinterpret_cast<const double2*>(from);
    if constexpr (parts<E> == 1) {
      return {{numbers[0]}};
    } else {
      const double2 first = numbers[0];
      const double2 second = numbers[1];
      return {{{first.x, second.x}, {first.y, second.y}}};
    }
  }

  static __device__ void store(E* to, E first, E second) {
    if constexpr (parts<E> == 1) {
      *reinterpret_cast<double2*>(to) = {first, second};
    } else {
      to[0] = first;
      to[1] = second;
    }
  }
};

}  // namespace shardsolve::runtime::cuda
