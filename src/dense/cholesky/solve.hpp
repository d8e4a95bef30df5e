/// What solve() does with a Hermitian positive definite matrix.
#pragma once

#include <shardsolve/cholesky.hpp>

#include <optional>

namespace shardsolve::dense::cholesky {

/// X of a solve, and its backward error.
template <Scalar T>
struct Solved {
  RightHandSides<T> x;
  double backward_error;
};

/// rcond, as condition_estimate() has it. Where that is below 2 u and there is an X, its forward
/// error, too, and nearly_singular, if no digit of X need be right then.
template <Scalar T>
Outcome judge(Mesh& mesh, const CholeskyFactor<T>& factor, const std::optional<Solved<T>>& solved,
              const RunOptions& options);

/// A X = B, X in place of B and the factor in place of A. Both lie on one layout. The outcome is
/// that of solve(), as judge() has it where rcond is estimated.
template <Scalar T>
Outcome solve(Mesh& mesh, const ShardedMatrix<T>& a, const RightHandSides<T>& b,
              const RunOptions& options, Rcond rcond);

}  // namespace shardsolve::dense::cholesky
