/// From whole matrices to slabs and back, for the tests of the distributed tier.
#pragma once

#include "reference/dense_matrix.hpp"
#include "support/backend.hpp"

#include <shardsolve/cholesky.hpp>
#include <shardsolve/sharded.hpp>

#include <complex>
#include <cstdint>

namespace shardsolve::testing {

using reference::DenseMatrix;

template <class T>
void copy_entries(MatrixView<const T> source, MatrixView<T> target) {
  for (std::int64_t j = 0; j < source.columns(); ++j) {
    for (std::int64_t i = 0; i < source.rows(); ++i) {
      target(i, j) = source(i, j);
    }
  }
}

/// A copy of `a` in slabs with memory of their own, where the devices of the tests compute.
template <Scalar T>
ShardedMatrix<T> shard(const DenseMatrix<T>& a, const SlabLayout& layout) {
  ShardedMatrix<T> sharded(layout);
  for (std::int64_t rank = 0; rank < layout.ranks(); ++rank) {
    const GlobalRange columns = layout.segment(rank);
    copy_entries<T>(a.view().columns_from(columns.begin.value(), columns.size()),
                    sharded.slab(rank));
  }
  return to_devices(sharded);
}

template <Scalar T>
RightHandSides<T> shard_rows(const DenseMatrix<T>& b, const SlabLayout& layout) {
  RightHandSides<T> sharded(layout, b.columns());
  for (std::int64_t rank = 0; rank < layout.ranks(); ++rank) {
    const GlobalRange rows = layout.segment(rank);
    copy_entries<T>(b.view().block(rows.begin.value(), 0, rows.size(), b.columns()),
                    sharded.block(rank));
  }
  return to_devices(sharded);
}

template <Scalar T>
DenseMatrix<T> whole(const ShardedMatrix<T>& anywhere) {
  const ShardedMatrix<T> sharded = to_host(anywhere);
  const SlabLayout& layout = sharded.layout();
  DenseMatrix<T> a(layout.size(), layout.size());
  for (std::int64_t rank = 0; rank < layout.ranks(); ++rank) {
    const GlobalRange columns = layout.segment(rank);
    copy_entries<T>(sharded.slab(rank),
                    a.view().columns_from(columns.begin.value(), columns.size()));
  }
  return a;
}

template <Scalar T>
DenseMatrix<T> whole(const RightHandSides<T>& anywhere) {
  const RightHandSides<T> sharded = to_host(anywhere);
  const SlabLayout& layout = sharded.layout();
  DenseMatrix<T> b(layout.size(), sharded.columns());
  for (std::int64_t rank = 0; rank < layout.ranks(); ++rank) {
    const GlobalRange rows = layout.segment(rank);
    copy_entries<T>(sharded.block(rank),
                    b.view().block(rows.begin.value(), 0, rows.size(), b.columns()));
  }
  return b;
}

}  // namespace shardsolve::testing
