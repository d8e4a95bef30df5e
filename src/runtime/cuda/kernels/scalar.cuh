/// Arithmetic of the four element types in device code.
#pragma once

#include "runtime/cuda/element.hpp"

namespace shardsolve::runtime::cuda {

template <class E>
__device__ E from_real(RealPart<E> value) {
  if constexpr (parts<E> == 2) {
    return {value, RealPart<E>{0}};
  } else {
    return value;
  }
}

template <class E>
__device__ RealPart<E> real(E x) {
  if constexpr (parts<E> == 2) {
    return x.re;
  } else {
    return x;
  }
}

template <class E>
__device__ E conjugate(E x) {
  if constexpr (parts<E> == 2) {
    return {x.re, -x.im};
  } else {
    return x;
  }
}

template <class E>
__device__ E scaled(E x, RealPart<E> factor) {
  if constexpr (parts<E> == 2) {
    return {x.re * factor, x.im * factor};
  } else {
    return x * factor;
  }
}

/// sum + x y.
template <class E>
__device__ E add_product(E sum, E x, E y) {
  if constexpr (parts<E> == 2) {
    return {sum.re + x.re * y.re - x.im * y.im, sum.im + x.re * y.im + x.im * y.re};
  } else {
    return sum + x * y;
  }
}

/// sum + x conj(y).
template <class E>
__device__ E add_product_conjugate(E sum, E x, E y) {
  return add_product(sum, x, conjugate(y));
}

/// sum - x conj(y).
template <class E>
__device__ E subtract_product_conjugate(E sum, E x, E y) {
  if constexpr (parts<E> == 2) {
    return {sum.re - x.re * y.re - x.im * y.im, sum.im - x.im * y.re + x.re * y.im};
  } else {
    return sum - x * y;
  }
}

}  // namespace shardsolve::runtime::cuda
