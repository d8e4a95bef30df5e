/// Textbook Cholesky and what follows from it: the answers that the distributed routines are tested
/// against. Every sum is accumulated in Wide<T> and rounded to T once. For tests only.
#pragma once

#include "reference/dense_matrix.hpp"
#include "reference/wide.hpp"

#include <cstdint>
#include <optional>

namespace shardsolve::reference {

/// The lower triangular L of A = L L^H; its strict upper triangle is zero.
template <Scalar T>
struct CholeskyFactor {
  DenseMatrix<T> l;
  /// 0-based column of the first pivot that was not positive or is NaN; L is valid before it only.
  std::optional<std::int64_t> failed_pivot;
};

/// Unblocked Cholesky (LAPACK's potrf, lower). Reads the lower triangle of `a` and the real part of
/// its diagonal. n^3 / 3 flops.
template <Scalar T>
CholeskyFactor<T> cholesky(const DenseMatrix<T>& a);

/// x with L x = b, for lower triangular L.
template <Scalar T>
DenseMatrix<T> solve_lower(const DenseMatrix<T>& l, DenseMatrix<T> b);

/// x with L^H x = b, for lower triangular L.
template <Scalar T>
DenseMatrix<T> solve_lower_adjoint(const DenseMatrix<T>& l, DenseMatrix<T> b);

/// x with A x = b, for Hermitian positive definite A (LAPACK's posv).
/// Throws Error(invalid_argument) if A is not positive definite.
template <Scalar T>
DenseMatrix<T> solve(const DenseMatrix<T>& a, const DenseMatrix<T>& b);

/// A^-1 for Hermitian positive definite A. Throws Error(invalid_argument) if it is not.
template <Scalar T>
DenseMatrix<T> inverse(const DenseMatrix<T>& a);

/// log(det(A)) for Hermitian positive definite A. Throws Error(invalid_argument) if it is not.
template <Scalar T>
double log_determinant(const DenseMatrix<T>& a);

}  // namespace shardsolve::reference
