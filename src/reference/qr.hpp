/// Singular values by rotations, and the least-squares solutions that follow from them: the answers
/// that the distributed routines are tested against, in more digits than the dtype has. For tests
/// only.
#pragma once

#include "reference/dense_matrix.hpp"
#include "reference/wide.hpp"

#include <cstdint>
#include <vector>

namespace shardsolve::reference {

/// A column-major matrix of wide numbers.
template <class W>
struct WideMatrix {
  WideMatrix(std::int64_t rows, std::int64_t columns)
      : rows(rows), columns(columns), data(static_cast<std::size_t>(rows * columns)) {}
  W& operator()(std::int64_t i, std::int64_t j) {
    return data[static_cast<std::size_t>(i + j * rows)];
  }
  const W& operator()(std::int64_t i, std::int64_t j) const {
    return data[static_cast<std::size_t>(i + j * rows)];
  }
  std::int64_t rows;
  std::int64_t columns;
  std::vector<W> data;
};

/// A = U diag(s) V^H: m >= n; U m x n, its columns of length 1 or, for s = 0, 0; s descends.
template <Scalar T>
struct Svd {
  WideMatrix<Wide<T>> u;
  std::vector<WideReal<T>> s;
  WideMatrix<Wide<T>> v;
};

/// By one-sided Jacobi rotations (M. R. Hestenes, 1958), until nothing is left to rotate: about
/// 10 m n^2 sums of wide numbers.
template <Scalar T>
Svd<T> svd(const DenseMatrix<T>& a);

/// Of all x with the least ||b - A x||_2 the shortest one, where singular values of at most `rcond`
/// times the largest count as 0; any shape.
template <Scalar T>
DenseMatrix<T> shortest_solution(const DenseMatrix<T>& a, const DenseMatrix<T>& b, double rcond);

}  // namespace shardsolve::reference
