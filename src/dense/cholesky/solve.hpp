/// What solve() does with a Hermitian positive definite matrix.
#pragma once

#include <shardsolve/cholesky.hpp>

namespace shardsolve::dense::cholesky {

/// A X = B, X in place of B and the factor in place of A. Both lie on one layout.
template <Scalar T>
Outcome solve(Mesh& mesh, const ShardedMatrix<T>& a, const RightHandSides<T>& b,
              const RunOptions& options, Rcond rcond);

}  // namespace shardsolve::dense::cholesky
