/// LAPACK on one matrix in one process: the peer whose accuracy ours is measured against.
#pragma once

#include "reference/dense_matrix.hpp"
#include "reference/eigh.hpp"
#include "reference/matmul.hpp"

#include <cstdint>
#include <vector>

namespace shardsolve::testing {

using reference::DenseMatrix;
using reference::Eigenpairs;

/// What a LAPACK routine returned. `info` > 0: the pivot of that 1-based column was not positive,
/// and `matrix` is of no use.
template <Scalar T>
struct LapackResult {
  DenseMatrix<T> matrix;
  std::int64_t info = 0;

  bool ok() const { return info == 0; }
};

/// L of A = L L^H (potrf), its strict upper triangle zero.
template <Scalar T>
LapackResult<T> lapack_factor(const DenseMatrix<T>& a);

/// x with A x = b (potrf, potrs).
template <Scalar T>
LapackResult<T> lapack_solve(const DenseMatrix<T>& a, const DenseMatrix<T>& b);

/// A^-1, both triangles (potrf, potri).
template <Scalar T>
LapackResult<T> lapack_inverse(const DenseMatrix<T>& a);

/// P A = L U (getrf), in one matrix, with the row that each row was swapped with, 1-based. `info` >
/// 0: the pivot of that 1-based column is 0.
template <Scalar T>
struct LapackLu {
  DenseMatrix<T> lu;
  std::vector<int> swaps;
  std::int64_t info = 0;

  bool ok() const { return info == 0; }
};
template <Scalar T>
LapackLu<T> lapack_lu(const DenseMatrix<T>& a);

/// x with op(A) x = b (getrs), without refinement.
template <Scalar T>
DenseMatrix<T> lapack_lu_solve(const LapackLu<T>& factor, reference::Op op,
                               const DenseMatrix<T>& b);

/// A^-1 (getri). It is X A that is I up to rounding.
template <Scalar T>
DenseMatrix<T> lapack_lu_inverse(const LapackLu<T>& factor);

/// A = Q R for m >= n by reflections (geqrf, orgqr or ungqr); R with zeros below its diagonal.
template <Scalar T>
struct LapackQr {
  DenseMatrix<T> q;
  DenseMatrix<T> r;
};
template <Scalar T>
LapackQr<T> lapack_qr(const DenseMatrix<T>& a);

/// The shortest x with the least ||b - A x||, by the SVD of any A (gelsd), and what it has found.
template <Scalar T>
struct LapackLeastSquares {
  DenseMatrix<T> x;
  std::int64_t rank = 0;
  std::vector<RealOf<T>> singular_values;
};
template <Scalar T>
LapackLeastSquares<T> lapack_least_squares(const DenseMatrix<T>& a, const DenseMatrix<T>& b,
                                           double rcond);

/// Eigenvalues of a Hermitian matrix, ascending (syev, heev). Without vectors LAPACK takes a faster
/// way (sterf), whose values may be off by 50 u ||A|| at n = 200: lapack_eigh's are closer.
template <Scalar T>
std::vector<RealOf<T>> lapack_eigenvalues(const DenseMatrix<T>& a);

/// Z and w with A Z = Z diag(w), Z^H Z = I, for a Hermitian matrix, by divide and conquer (syevd,
/// heevd).
template <Scalar T>
Eigenpairs<T> lapack_eigh(const DenseMatrix<T>& a);

/// Z and w with A Z = B Z diag(w), Z^H B Z = I, for Hermitian A and positive definite B (sygvd,
/// hegvd). Throws std::runtime_error if B is not positive definite.
template <Scalar T>
Eigenpairs<T> lapack_generalised_eigh(const DenseMatrix<T>& a, const DenseMatrix<T>& b);

}  // namespace shardsolve::testing
