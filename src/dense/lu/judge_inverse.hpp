/// The certificate of an inverse.
#pragma once

#include "mesh/rank.hpp"

#include <shardsolve/matrix_view.hpp>
#include <shardsolve/outcome.hpp>
#include <shardsolve/scaled.hpp>
#include <shardsolve/slab_layout.hpp>

namespace shardsolve::dense::lu {

/// What is known of A when its inverse is judged.
template <Scalar T>
struct Inverted {
  MatrixView<const T> half_sketch;  ///< this rank's rows of A^T G, divided by a power of two
  Scaled one_norm;                  ///< ||A||_1
  Scaled inf_norm;                  ///< ||A||_inf
};

/// The largest ||A x - e|| / (||A||_1 ||X||_1) of a column of X, in the 2-norm, by the rows of
/// G^T A X - G^T, and rcond, of A or of its transpose. ok, inaccurate, or overflow if X is not
/// finite; the same on every rank. `x`: the rank's slab of X.
template <Scalar T>
Outcome judge_inverse(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> x,
                      const Inverted<T>& of, bool transposed);

/// rcond alone, and overflow.
template <Scalar T>
Outcome condition_of_inverse(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> x,
                             const Inverted<T>& of, bool transposed);

}  // namespace shardsolve::dense::lu
