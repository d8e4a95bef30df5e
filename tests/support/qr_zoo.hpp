/// The matrices of any shape that least squares has to cope with, by name, and the gates for QR and
/// for solutions.
#pragma once

#include "reference/dense_matrix.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace shardsolve::testing {

using reference::DenseMatrix;

template <Scalar T>
struct QrCase {
  std::string name;  ///< letters, digits and underscores
  DenseMatrix<T> a;
  /// Whether rounding decides how many columns are independent.
  bool undecided = false;
  /// Whether columns differ by more than the range of squares: singular values say little of them.
  bool graded = false;
};

/// All matrices of m x n, m > n >= 6, that make sense in this dtype.
///
/// random
/// lauchli        ones above 1e-9 I (single precision: 1e-4): A^H A has lost it
/// kahan          orthonormal times the triangle of Kahan: its diagonal says nothing of its rank
/// rank5          of rank 5
/// cond_1e6, cond_1e11, cond_1e20   geometric singular values
/// columns        random, its columns scaled by 1e150 ... 1e-150 (single precision: 15)
/// zero_column, zero
/// equal_columns  the last one is the first one
/// equal_rows     two of each
/// ones           rank 1, and rounding never fills what is missing
/// hilbert, vandermonde
/// tiny           random times 1e-300 (single precision: 1e-34)
template <Scalar T>
std::vector<QrCase<T>> qr_zoo(std::int64_t m, std::int64_t n);

/// Right-hand sides for one: a random one; one in the range of A, nearly; one in it, and a little
/// beside.
template <Scalar T>
DenseMatrix<T> sides_for(const QrCase<T>& one);

/// ||Q^H Q - I||, Frobenius, over u.
template <Scalar T>
double q_ratio(const DenseMatrix<T>& q);

/// The largest ||a_j - Q r_j|| / ||a_j|| of a column, over u: 2-norms.
template <Scalar T>
double qr_ratio(const DenseMatrix<T>& a, const DenseMatrix<T>& q, const DenseMatrix<T>& r);

/// How little A has to change, relative to ||A|| in the Frobenius norm, for x to make ||b - A x||
/// least: by the estimate of Karlson and Walden, which is within a factor of 2 (BIT 37 (1997) 862);
/// over u, the largest of the columns. With `rank`, of the largest singular values alone. For fewer
/// rows than columns, ||P (b - A x)|| / (||A|| ||x||).
template <Scalar T>
double least_squares_ratio(const DenseMatrix<T>& a, const DenseMatrix<T>& x,
                           const DenseMatrix<T>& b, std::int64_t rank);

/// Columns of A, and rows of x inversely, times powers of two that bring all columns of A to equal
/// size.
template <Scalar T>
struct ScaledPair {
  DenseMatrix<T> a;
  std::vector<int> exponents;

  DenseMatrix<T> unknowns(const DenseMatrix<T>& x) const;
};
template <Scalar T>
ScaledPair<T> with_equal_columns(const DenseMatrix<T>& a);

}  // namespace shardsolve::testing
