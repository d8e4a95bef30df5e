#include "reference/matmul.hpp"

#include "core/each_dtype.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <complex>

namespace shardsolve::reference {

template <Scalar T>
DenseMatrix<T> transpose(const DenseMatrix<T>& a) {
  DenseMatrix<T> result(a.columns(), a.rows());
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    for (std::int64_t i = 0; i < a.rows(); ++i) {
      result(j, i) = a(i, j);
    }
  }
  return result;
}

template <Scalar T>
Wide<T> dot(const T* a, const T* b, std::int64_t size) {
  Wide<T> sum{};
  for (std::int64_t k = 0; k < size; ++k) {
    sum += product(widen(a[k]), widen(b[k]));
  }
  return sum;
}

template <Scalar T>
DenseMatrix<T> conjugate_transpose(const DenseMatrix<T>& a) {
  DenseMatrix<T> result = transpose(a);
  for (std::int64_t j = 0; j < result.columns(); ++j) {
    for (std::int64_t i = 0; i < result.rows(); ++i) {
      result(i, j) = conjugate(result(i, j));
    }
  }
  return result;
}

namespace {

template <Scalar T>
DenseMatrix<T> applied(Op op, const DenseMatrix<T>& a) {
  switch (op) {
    case Op::none:
      return a;
    case Op::transpose:
      return transpose(a);
    case Op::conjugate_transpose:
      break;
  }
  return conjugate_transpose(a);
}

}  // namespace

template <Scalar T>
DenseMatrix<T> matmul(Op op_a, const DenseMatrix<T>& a, Op op_b, const DenseMatrix<T>& b) {
  // The rows of op_a(a) as columns, and the columns of op_b(b): both contiguous.
  DenseMatrix<T> left = transpose(applied(op_a, a));
  DenseMatrix<T> right = applied(op_b, b);
  if (left.rows() != right.rows()) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("product of {} x {} and {} x {} asked for; the inner sizes have to "
                            "agree",
                            left.columns(), left.rows(), right.rows(), right.columns()));
  }
  const std::int64_t inner = left.rows();
  DenseMatrix<T> result(left.columns(), right.columns());
  for (std::int64_t j = 0; j < result.columns(); ++j) {
    for (std::int64_t i = 0; i < result.rows(); ++i) {
      result(i, j) = narrow<T>(dot(left.data() + i * inner, right.data() + j * inner, inner));
    }
  }
  return result;
}

template <Scalar T>
WideReal<T> one_norm(const DenseMatrix<T>& a) {
  WideReal<T> norm = 0;
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    WideReal<T> sum = 0;
    for (std::int64_t i = 0; i < a.rows(); ++i) {
      sum += std::abs(widen(a(i, j)));
    }
    norm = larger(norm, sum);
  }
  return norm;
}

template <Scalar T>
WideReal<T> inf_norm(const DenseMatrix<T>& a) {
  return one_norm(transpose(a));
}

#define SHARDSOLVE_INSTANTIATE(T)                                                          \
  template Wide<T> dot<T>(const T*, const T*, std::int64_t);                               \
  template DenseMatrix<T> transpose<T>(const DenseMatrix<T>&);                             \
  template DenseMatrix<T> conjugate_transpose<T>(const DenseMatrix<T>&);                   \
  template DenseMatrix<T> matmul<T>(Op, const DenseMatrix<T>&, Op, const DenseMatrix<T>&); \
  template WideReal<T> one_norm<T>(const DenseMatrix<T>&);                                 \
  template WideReal<T> inf_norm<T>(const DenseMatrix<T>&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::reference
