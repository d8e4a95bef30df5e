/// What the kernels compute with in place of std::complex: it has no functions in device code, and
/// nvcc's host compiler may have another standard library than ours, so no type of one is in the
/// interface between the two.
#pragma once

#include "runtime/kernel_arguments.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

#include <complex>
#include <type_traits>

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

/// float, double, Complex<float> or Complex<double>.
template <Scalar T>
using Element = typename detail::ElementOf<T>::Type;

template <class E>
using RealPart = typename detail::PartsOf<E>::Real;

/// Reals in one element.
template <class E>
inline constexpr int parts = detail::PartsOf<E>::count;

/// In the other precision: Complex<float> for Complex<double>.
template <class E>
using OtherElement =
    std::conditional_t<parts<E> == 2, Complex<OtherReal<RealPart<E>>>, OtherReal<RealPart<E>>>;

template <Scalar T>
Element<T> element(T value) {
  if constexpr (is_complex<T>) {
    return {value.real(), value.imag()};
  } else {
    return value;
  }
}

template <Scalar T>
MatrixView<Element<T>> elements(MatrixView<T> view) {
  return {reinterpret_cast<Element<T>*>(view.data()), view.rows(), view.columns(), view.stride()};
}
template <Scalar T>
MatrixView<const Element<T>> elements(MatrixView<const T> view) {
  return {reinterpret_cast<const Element<T>*>(view.data()), view.rows(), view.columns(),
          view.stride()};
}

}  // namespace shardsolve::runtime::cuda
