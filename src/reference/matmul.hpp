/// Naive products and norms, accumulated in higher precision. For tests only.
#pragma once

#include "reference/dense_matrix.hpp"
#include "reference/wide.hpp"

#include <cstdint>

namespace shardsolve::reference {

enum class Op : std::uint8_t { none, transpose, conjugate_transpose };

/// op_a(a) * op_b(b), each entry summed in Wide<T> and rounded to T once. 2 m n k flops.
/// Throws Error(invalid_argument) if the inner sizes differ.
template <Scalar T>
DenseMatrix<T> matmul(Op op_a, const DenseMatrix<T>& a, Op op_b, const DenseMatrix<T>& b);

/// a * b.
template <Scalar T>
DenseMatrix<T> matmul(const DenseMatrix<T>& a, const DenseMatrix<T>& b) {
  return matmul(Op::none, a, Op::none, b);
}

template <Scalar T>
DenseMatrix<T> transpose(const DenseMatrix<T>& a);

template <Scalar T>
DenseMatrix<T> conjugate_transpose(const DenseMatrix<T>& a);

/// sum over k of a[k] b[k], without conjugation, for contiguous vectors.
template <Scalar T>
Wide<T> dot(const T* a, const T* b, std::int64_t size);

/// Largest column sum of moduli; NaN if an entry is NaN. 0 for an empty matrix.
template <Scalar T>
WideReal<T> one_norm(const DenseMatrix<T>& a);

/// Largest row sum of moduli; NaN if an entry is NaN. 0 for an empty matrix.
template <Scalar T>
WideReal<T> inf_norm(const DenseMatrix<T>& a);

}  // namespace shardsolve::reference
