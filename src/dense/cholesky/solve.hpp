/// What solve() does with a Hermitian positive definite matrix.
#pragma once

#include <shardsolve/cholesky.hpp>

#include <optional>

namespace shardsolve::dense::cholesky {

/// rcond, as condition_estimate() has it. Where that is below 2 u, the forward error of an X with
/// this backward error too, if there is one, and nearly_singular, if no digit of X need be right
/// then.
template <Scalar T>
Outcome judge(Mesh& mesh, const CholeskyFactor<T>& factor,
              const std::optional<double>& backward_error, const RunOptions& options);

/// A X = B, X in place of B and the factor in place of A. Both lie on one layout. The outcome is
/// that of solve(), as judge() has it where rcond is estimated.
template <Scalar T>
Outcome solve(Mesh& mesh, const ShardedMatrix<T>& a, const RightHandSides<T>& b,
              const RunOptions& options, Rcond rcond);

}  // namespace shardsolve::dense::cholesky
