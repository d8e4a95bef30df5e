/// The permutation of a layout, carried out. For tests only.
#pragma once

#include "reference/dense_matrix.hpp"

#include <shardsolve/slab_layout.hpp>

namespace shardsolve::reference {

/// P A P^T: rows and columns of a square `a` in the elimination order of `layout`.
template <Scalar T>
DenseMatrix<T> permute(const DenseMatrix<T>& a, const SlabLayout& layout) {
  DenseMatrix<T> pap(a.rows(), a.columns());
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    const GlobalIndex column = layout.row_at(Position(j));
    for (std::int64_t i = 0; i < a.rows(); ++i) {
      pap(i, j) = a(layout.row_at(Position(i)).value(), column.value());
    }
  }
  return pap;
}

/// P^T B P: undoes `permute`.
template <Scalar T>
DenseMatrix<T> unpermute(const DenseMatrix<T>& pap, const SlabLayout& layout) {
  DenseMatrix<T> a(pap.rows(), pap.columns());
  for (std::int64_t j = 0; j < pap.columns(); ++j) {
    const Position column = layout.position(GlobalIndex(j));
    for (std::int64_t i = 0; i < pap.rows(); ++i) {
      a(i, j) = pap(layout.position(GlobalIndex(i)).value(), column.value());
    }
  }
  return a;
}

}  // namespace shardsolve::reference
