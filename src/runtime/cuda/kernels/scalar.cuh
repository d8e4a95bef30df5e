/// Arithmetic of the four element types in device code.
#pragma once

#include "runtime/cuda/element.hpp"

#include <cmath>
#include <limits>

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

template <class E>
__device__ E product_of(E x, E y) {
  return add_product(from_real<E>(0), x, y);
}
template <class E>
__device__ E negated(E x) {
  return scaled(x, RealPart<E>{-1});
}
/// x - y z.
template <class E>
__device__ E subtract_product(E x, E y, E z) {
  return add_product(x, negated(y), z);
}
template <class E>
__device__ E sum_of(E x, E y) {
  if constexpr (parts<E> == 2) {
    return {x.re + y.re, x.im + y.im};
  } else {
    return x + y;
  }
}
template <class E>
__device__ RealPart<E> imaginary(E x) {
  if constexpr (parts<E> == 2) {
    return x.im;
  } else {
    return RealPart<E>{0};
  }
}
/// |x|^2.
template <class E>
__device__ RealPart<E> square(E x) {
  return real(x) * real(x) + imaginary(x) * imaginary(x);
}
/// The larger of |re| and |im|; NaN counts as nothing.
template <class E>
__device__ RealPart<E> size_of(E x) {
  const RealPart<E> re = real(x) < 0 ? -real(x) : real(x);
  const RealPart<E> im = imaginary(x) < 0 ? -imaginary(x) : imaginary(x);
  return re > im ? re : im;
}

/// 1 / x. The larger part is divided by first, so that no square overflows.
template <class E>
__device__ E inverse_of(E x) {
  if constexpr (parts<E> == 1) {
    return 1 / x;
  } else if (fabs(x.re) >= fabs(x.im)) {
    const auto ratio = x.im / x.re;
    const auto size = x.re + x.im * ratio;
    return {1 / size, -ratio / size};
  } else {
    const auto ratio = x.re / x.im;
    const auto size = x.im + x.re * ratio;
    return {ratio / size, -1 / size};
  }
}

/// A power of two that brings numbers of this size near 1, or nearer to it if there is none; its
/// reciprocal is a number, too.
template <class R>
__device__ R to_unit_size(R size) {
  constexpr int most = std::numeric_limits<R>::max_exponent - 4;
  if (!(size > 0)) {
    return R{1};
  }
  const int exponent = ilogb(size);
  return static_cast<R>(scalbn(R{1}, -(exponent < -most  ? -most
                                       : exponent > most ? most
                                                         : exponent)));
}

}  // namespace shardsolve::runtime::cuda
