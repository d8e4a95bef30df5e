/// Sums of products in twice the precision of their operands.
#pragma once

#include "runtime/cuda/element.hpp"
#include "runtime/cuda/kernels/warp_sums.cuh"

namespace shardsolve::runtime::cuda {

/// Products of reals R, added.
template <class R>
struct WideSum;

/// What rounding takes from the sum is kept. T. Ogita, S. M. Rump, S. Oishi, SIAM J. Sci. Comput.
/// 26 (2005) 1955.
template <>
struct WideSum<double> {
  double high;
  double low;

  __device__ void add(double term) {
    const double next = high + term;
    const double taken = next - high;
    low += (high - (next - taken)) + (term - taken);
    high = next;
  }
  __device__ void add_product(double a, double b) {
    const double product = fma(a, b, 0.0);  // and not a * b, which may become part of the sum's fma
    add(product);
    low += fma(a, b, -product);
  }
  __device__ void add(const WideSum& other) {
    add(other.high);
    low += other.low;
  }
  __device__ double leading() const { return high + low; }
  __device__ double rest() const { return (high - leading()) + low; }
};

/// Products of floats are exact in double.
template <>
struct WideSum<float> {
  double high;

  __device__ void add_product(float a, float b) { high += double{a} * double{b}; }
  __device__ void add(const WideSum& other) { high += other.high; }
  __device__ float leading() const { return static_cast<float>(leading_bits()); }
  __device__ float rest() const { return static_cast<float>(high - leading_bits()); }

 private:
  /// As many bits as a float has. T. J. Dekker, Numer. Math. 18 (1971) 224. (Not by a cast to float
  /// and back, which GCC 12 takes for nothing where it makes two at a time.)
  __device__ double leading_bits() const {
    const double scaled = fma(high, 0x1p29 + 1, 0.0);
    return scaled - (scaled - high);
  }
};

template <class R>
__device__ WideSum<R> operator+(WideSum<R> a, const WideSum<R>& b) {
  a.add(b);
  return a;
}

__device__ inline WideSum<double> from_partner(const WideSum<double>& sum, int distance) {
  return {from_partner(sum.high, distance), from_partner(sum.low, distance)};
}
__device__ inline WideSum<float> from_partner(const WideSum<float>& sum, int distance) {
  return {from_partner(sum.high, distance)};
}

/// Real and imaginary part of a sum of elements E.
template <class E>
struct WideElement {
  WideSum<RealPart<E>> part[parts<E>];

  /// += x y.
  __device__ void add_product(E x, E y) {
    if constexpr (parts<E> == 2) {
      part[0].add_product(x.re, y.re);
      part[0].add_product(-x.im, y.im);
      part[1].add_product(x.re, y.im);
      part[1].add_product(x.im, y.re);
    } else {
      part[0].add_product(x, y);
    }
  }
  __device__ void add(const WideElement& other) {
    for (int p = 0; p < parts<E>; ++p) {
      part[p].add(other.part[p]);
    }
  }
  __device__ E leading() const {
    if constexpr (parts<E> == 2) {
      return {part[0].leading(), part[1].leading()};
    } else {
      return part[0].leading();
    }
  }
  __device__ E rest() const {
    if constexpr (parts<E> == 2) {
      return {part[0].rest(), part[1].rest()};
    } else {
      return part[0].rest();
    }
  }
};

}  // namespace shardsolve::runtime::cuda
