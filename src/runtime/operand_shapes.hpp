/// Shapes and costs of kernels: what is checked and counted alike for every backend.
#pragma once

#include "runtime/kernel_arguments.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

#include <cstdint>

namespace shardsolve::runtime {

/// Real operations in one multiply-add of T.
template <Scalar T>
inline constexpr double multiply_add = is_complex<T> ? 8.0 : 2.0;

template <class... Sizes>
double product(Sizes... sizes) {
  return (static_cast<double>(sizes) * ...);
}

/// Throws Error(internal).
[[noreturn]] void refuse_operands(const char* kernel);

/// Shapes are settled by the algorithms; a misfit is their bug and is found before it does harm.
inline void require(bool fits, const char* kernel) {
  if (!fits) {
    refuse_operands(kernel);
  }
}

template <class T>
std::int64_t rows_of(Op op, MatrixView<T> a) {
  return op == Op::none ? a.rows() : a.columns();
}

template <class T>
std::int64_t columns_of(Op op, MatrixView<T> a) {
  return op == Op::none ? a.columns() : a.rows();
}

template <class A, class B>
bool same_shape(MatrixView<A> a, MatrixView<B> b) {
  return a.rows() == b.rows() && a.columns() == b.columns();
}

/// The inner size of c = op(a) op(b).
template <class T>
std::int64_t require_product(Op op_a, MatrixView<const T> a, Op op_b, MatrixView<const T> b,
                             MatrixView<T> c) {
  const std::int64_t k = columns_of(op_a, a);
  require(
      rows_of(op_a, a) == c.rows() && columns_of(op_b, b) == c.columns() && rows_of(op_b, b) == k,
      "gemm");
  return k;
}

/// The inner size of c = op(a) op(a)^H.
template <class T>
std::int64_t require_square_product(Op op, MatrixView<const T> a, MatrixView<T> c) {
  require(op != Op::transpose && c.rows() == c.columns() && rows_of(op, a) == c.rows(), "herk");
  return columns_of(op, a);
}

}  // namespace shardsolve::runtime
