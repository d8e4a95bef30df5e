/// Condition numbers from a Cholesky factor.
#pragma once

#include "dense/cholesky/certified_solve.hpp"
#include "dense/cholesky/triangular_solve.hpp"
#include "mesh/rank.hpp"

namespace shardsolve::dense::cholesky {

/// 1 / (||A||_1 est(||A^-1||_1)), the same on every rank; 0 if that is below double's range.
/// `solve`: by the factor. N. J. Higham, FORTRAN codes for estimating the one-norm, ACM TOMS 14
/// (1988) 381; LAPACK: lacn2.
template <Scalar T>
double reciprocal_condition(mesh::Rank& rank, const FactorPart<T>& factor,
                            TriangularSolve<T>& solve);

/// 2 max(backward_error, u) || |A^-1| d d^T y || in the infinity norm, the same on every rank: an
/// estimate of ||x - A^-1 b|| / ||x|| for the columns of x, this rank's rows, with
/// y_i = max_j |x_ij| / ||x_j|| and d^2 = diag(A). Rounding in the factor is a change of A that is
/// small beside d d^T, entry by entry. Infinite where nothing is known.
/// J. W. Demmel, LAPACK Working Note 14 (1989); Higham, Accuracy and Stability, section 10.1.
template <Scalar T>
double forward_error(mesh::Rank& rank, const FactorPart<T>& factor, TriangularSolve<T>& solve,
                     MatrixView<const T> x, double backward_error);

}  // namespace shardsolve::dense::cholesky
