/// What solve() does with a general matrix.
#pragma once

#include <shardsolve/lu.hpp>

#include <cstdint>
#include <optional>

namespace shardsolve::dense::lu {

/// What is kept of a matrix that its factor overwrites.
template <Scalar T>
struct SketchOf {
  bool wanted = false;
  std::optional<RightHandSides<T>> into;  ///< n x 16, or memory of the call
};

/// lu_factor() in the place of A, with a sketch or, for those who keep A elsewhere, without.
template <Scalar T>
LuFactor<T> factor_in_place(Mesh& mesh, const ShardedMatrix<T>& a, const RunOptions& options,
                            const SketchOf<T>& keep = {});

/// What a factor that has left the range still serves for: A, which is solved with by QR. Where A
/// is gone, or nothing has left the range, the factor as it is.
template <Scalar T>
LuFactor<T> of_matrix_alone(LuFactor<T> factor);

/// lu_inverse(); with `transpose` rcond is that of A^T or A^H, as of condition_estimate().
template <Scalar T>
Outcome inverse(Mesh& mesh, LuFactor<T>&& factor, const RunOptions& options, Transpose transpose);

/// What is known of an X: which system it solves, and its backward error by components.
template <Scalar T>
struct Solved {
  RightHandSides<T> x;
  Transpose transpose = Transpose::none;
  double component_error = 0.0;
};

/// rcond, as condition_estimate() has it. Where that is below 2 u, the forward error of X too, and
/// nearly_singular, if no digit of X need be right then.
template <Scalar T>
Outcome judge(Mesh& mesh, const LuFactor<T>& factor, const Solved<T>& solved,
              const RunOptions& options, Transpose transpose);

/// What a solve leaves of A: A, or its factor.
enum class Leaves : std::uint8_t { matrix, factor };

/// op(A) X = B, X in place of B, by LU. The outcome is that of solve(), as judge() has it where
/// rcond is estimated; or, where A is overwritten, that of lu_solve() with such a factor.
template <Scalar T>
Outcome solve(Mesh& mesh, const ShardedMatrix<T>& a, const RightHandSides<T>& b,
              const RunOptions& options, Rcond rcond, Transpose transpose = Transpose::none,
              Leaves leaves = Leaves::matrix);

}  // namespace shardsolve::dense::lu
