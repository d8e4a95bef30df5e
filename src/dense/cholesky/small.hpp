/// Systems that are solved in less time than it takes to set a mesh to work: on the host, in the
/// caller's thread.
#pragma once

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>
#include <shardsolve/scaled.hpp>

#include <optional>

namespace shardsolve::dense::cholesky {

/// What is known of a factor beside its slab.
struct SmallFactor {
  Scaled norm;  ///< ||A||_1
  double log_determinant = 0.0;
};

/// What cholesky_factor() leaves on one rank, by the same look at A, in A's place. Nothing where it
/// would have more to do or to say: A has NaN or Inf, is not Hermitian, not positive definite, or
/// near the ends of the range. Then A is there for cholesky_factor(), which is to be asked; at most
/// the lower triangle has become the conjugate of the upper one, from which rounding told it.
///
/// `a`: n x n. `diagonal`: n values. IEEE arithmetic is the caller's matter.
template <Scalar T>
std::optional<SmallFactor> factor_small(MatrixView<T> a, RealOf<T>* diagonal);

/// X = A^-1 B with what factor_small() has left, and the largest backward error of its columns,
/// summed in twice the precision; one column is refined as cholesky_solve() does it. Nothing where
/// that would have more to do or to say: B has NaN or Inf, or numbers leave the range. `x` then
/// holds nothing of use.
///
/// `b`: n x k, kept; `x`: as large.
template <Scalar T>
std::optional<double> solve_small(MatrixView<const T> slab, const RealOf<T>* diagonal, Scaled norm,
                                  MatrixView<const T> b, MatrixView<T> x);

}  // namespace shardsolve::dense::cholesky
