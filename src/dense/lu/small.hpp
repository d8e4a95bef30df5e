/// General systems that are solved in less time than it takes to set a mesh to work: on the host,
/// in the caller's thread.
#pragma once

#include "runtime/kernel_arguments.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>
#include <shardsolve/scaled.hpp>

#include <cstdint>
#include <optional>

namespace shardsolve::dense::lu {

/// What is known of a factor beside its slab and its rows.
template <Scalar T>
struct SmallFactor {
  Scaled one_norm;  ///< ||A||_1
  Scaled inf_norm;
  double growth = 1.0;
  T sign{1};  ///< det(A) = sign * exp(log_modulus)
  double log_modulus = 0.0;
};

/// What lu_factor() leaves on one rank. Nothing where it would have more to do or to say: A has NaN
/// or Inf, is near the ends of the range or singular, or entries grow beyond what can be relied on.
///
/// `a`: n x n, kept; `slab`: as large. `rows`: the row of A that came to each place; n values. IEEE
/// arithmetic is the caller's matter.
template <Scalar T>
std::optional<SmallFactor<T>> factor_small(MatrixView<const T> a, MatrixView<T> slab,
                                           std::int32_t* rows);

/// Backward errors of an X, the largest of its columns.
struct BackwardErrors {
  double by_norm = 0.0;
  double by_components = 0.0;
};

/// X = op(A)^-1 B, `op` none or conjugate_transpose, with what factor_small() has left, and its
/// errors, summed in twice the precision; refined as lu_solve() does
/// it. Nothing where that would have more to do or to say: B has NaN or Inf, numbers leave the
/// range, or the errors stay larger than rounding makes them. `x` then holds nothing of use.
///
/// `b`: n x k, kept; `x`: as large.
template <Scalar T>
std::optional<BackwardErrors> solve_small(runtime::Op op, MatrixView<const T> slab,
                                          MatrixView<const T> a, const std::int32_t* rows,
                                          const SmallFactor<T>& factor, MatrixView<const T> b,
                                          MatrixView<T> x);

}  // namespace shardsolve::dense::lu
