/// What the entries of a matrix tell without a product.
#pragma once

#include <shardsolve/diagnose.hpp>
#include <shardsolve/dtype.hpp>
#include <shardsolve/sparse.hpp>

namespace shardsolve::krylov {

/// Of a square matrix, in order. O(entries + rows).
template <Scalar T>
MatrixFigures figures_of(const CsrMatrix<T>& a);

/// A whose columns that belong to rows of the identity are 0 but for the diagonal.
template <Scalar T>
CsrMatrix<T> without_identity_columns(const CsrMatrix<T>& a);

}  // namespace shardsolve::krylov
