/// How far a solution of a general system is from the exact one.
#pragma once

#include "dense/lu/factor_part.hpp"
#include "dense/lu/triangular_solve.hpp"
#include "mesh/rank.hpp"
#include "runtime/kernel_arguments.hpp"

#include <shardsolve/dtype.hpp>

namespace shardsolve::dense::lu {

/// An estimate of ||x - op(A)^-1 b|| / ||x|| in the infinity norm, of the column of X where it is
/// largest:
///
///   2 max(w, u) || |op(A)^-1| |op(A)| y ||,   y_i = max_j |x_ij| / ||x_j||
///
/// with the backward error by components w of X. Scales of rows do not change it, and those of
/// columns count as far as X has them. Infinite where numbers may leave the range, and where L U is
/// so far from A that its inverse says nothing of A's; 0 if X is 0. Takes about six solves. R. D.
/// Skeel, J. ACM 26 (1979) 494; N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd
/// ed., theorem 7.4; LAPACK: gerfs.
///
/// `solve`: by the factor. `x`: the rank's rows of X. The same on every rank.
template <Scalar T>
double forward_error(mesh::Rank& rank, const FactorPart<T>& factor, TriangularSolve<T>& solve,
                     runtime::Op op, MatrixView<const T> x, double component_error);

}  // namespace shardsolve::dense::lu
