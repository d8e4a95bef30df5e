/// Condition number from a Cholesky factor.
#pragma once

#include "dense/cholesky/certified_solve.hpp"
#include "mesh/rank.hpp"

namespace shardsolve::dense::cholesky {

/// 1 / (||A||_1 est(||A^-1||_1)), the same on every rank; 0 if that is below double's range.
/// N. J. Higham, FORTRAN codes for estimating the one-norm, ACM TOMS 14 (1988) 381; LAPACK: lacn2.
template <Scalar T>
double reciprocal_condition(mesh::Rank& rank, const FactorPart<T>& factor);

}  // namespace shardsolve::dense::cholesky
