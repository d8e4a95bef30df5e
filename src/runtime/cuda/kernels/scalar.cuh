/// Arithmetic of the four element types in device code, where std::complex has no functions.
#pragma once

#include <shardsolve/dtype.hpp>

#include <complex>

namespace shardsolve::runtime::cuda {

/// Laid out as std::complex<R>; loaded and stored as one piece, which device memory is aligned for.
template <class R>
struct alignas(2 * sizeof(R)) Complex {
  R re;
  R im;
};

namespace detail {
template <class T>
struct ElementOf {
  using Type = T;
};
template <class R>
struct ElementOf<std::complex<R>> {
  using Type = Complex<R>;
};
template <class E>
struct PartsOf {
  using Real = E;
  static constexpr int count = 1;
};
template <class R>
struct PartsOf<Complex<R>> {
  using Real = R;
  static constexpr int count = 2;
};
}  // namespace detail

/// What kernels compute with in place of T: float, double, Complex<float> or Complex<double>.
template <Scalar T>
using Element = typename detail::ElementOf<T>::Type;

template <class E>
using RealPart = typename detail::PartsOf<E>::Real;

/// Reals in one element.
template <class E>
inline constexpr int parts = detail::PartsOf<E>::count;

template <Scalar T>
Element<T> element(T value) {
  if constexpr (is_complex<T>) {
    return {value.real(), value.imag()};
  } else {
    return value;
  }
}

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

}  // namespace shardsolve::runtime::cuda
