/// Condition numbers from a Cholesky factor.
#pragma once

#include "dense/cholesky/certified_solve.hpp"
#include "mesh/rank.hpp"

namespace shardsolve::dense::cholesky {

/// 1 / (||A||_1 est(||A^-1||_1)), the same on every rank; 0 if that is below double's range.
/// N. J. Higham, FORTRAN codes for estimating the one-norm, ACM TOMS 14 (1988) 381; LAPACK: lacn2.
template <Scalar T>
double reciprocal_condition(mesh::Rank& rank, const FactorPart<T>& factor);

/// Likewise of D^-1 A D^-1 with D^2 = diag(A), where both norms are estimates. Units of unknowns do
/// not change it, and it is what the digits of x depend on: ||D (x - A^-1 b)|| / ||D x|| is at most
/// about the backward error over it. J. W. Demmel, LAPACK Working Note 14 (1989); Higham, Accuracy
/// and Stability, theorem 10.6.
template <Scalar T>
double scaled_reciprocal_condition(mesh::Rank& rank, const FactorPart<T>& factor);

}  // namespace shardsolve::dense::cholesky
