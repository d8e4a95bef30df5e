/// What solve() does with a general matrix.
#pragma once

#include <shardsolve/lu.hpp>

namespace shardsolve::dense::lu {

/// op(A) X = B, X in place of B, by LU; A stays. The outcome is that of solve(), nearly_singular
/// where rcond says that no digit of X need be right.
template <Scalar T>
Outcome solve(Mesh& mesh, const ShardedMatrix<T>& a, const RightHandSides<T>& b,
              const RunOptions& options, Rcond rcond, Transpose transpose = Transpose::none);

}  // namespace shardsolve::dense::lu
