/// Sparse systems for tests: vectors, cuts, and bits to compare.
#pragma once

#include "matgen/philox.hpp"
#include "reference/sparse.hpp"
#include "runtime/sparse_row_sum.hpp"
#include "tests/support/sharded_problem.hpp"

#include <shardsolve/sparse.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardsolve::testing::sparse_problem {

/// Numbers whose parts are uniform in [-1, 1).
template <Scalar T>
std::vector<T> random_vector(std::int64_t n, std::uint64_t seed = 7) {
  std::vector<T> x;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto [re, im] = matgen::uniform_pair(seed, matgen::Stream::right_hand_side, i, 0);
    if constexpr (is_complex<T>) {
      x.emplace_back(static_cast<RealOf<T>>(re), static_cast<RealOf<T>>(im));
    } else {
      x.push_back(static_cast<T>(re));
    }
  }
  return x;
}

/// A vector as a matrix of one column.
template <Scalar T>
DenseMatrix<T> column(const std::vector<T>& x) {
  DenseMatrix<T> matrix(static_cast<std::int64_t>(x.size()), 1);
  for (std::size_t i = 0; i < x.size(); ++i) {
    matrix(static_cast<std::int64_t>(i), 0) = x[i];
  }
  return matrix;
}

/// What the library is to give for A x, to the bit.
template <Scalar T>
DenseMatrix<T> expected_product(const CsrMatrix<T>& a, const std::vector<T>& x) {
  return column(reference::multiply_in_lanes(a, x, runtime::row_lanes(a.rows, a.entries())));
}

/// Ways to cut `n` rows: even on 1 to 6 ranks, ragged ones, and slabs without rows.
inline std::vector<SlabLayout> row_cuts(std::int64_t n) {
  std::vector<SlabLayout> cuts;
  for (const std::int64_t ranks : {1, 2, 3, 4, 6}) {
    cuts.push_back(row_slabs(n, ranks));
  }
  cuts.push_back(row_slabs({0, n / 3, n / 3, n - n / 5, n}));
  cuts.push_back(row_slabs({0, 0, n, n}));
  return cuts;
}

/// The rows of one rank, columns of the whole matrix.
template <Scalar T>
CsrMatrix<T> rows_of(const CsrMatrix<T>& a, GlobalRange rows) {
  CsrMatrix<T> part{rows.size(), a.columns, {0}, {}, {}};
  for (std::int64_t row = rows.begin.value(); row < rows.end.value(); ++row) {
    for (auto k = static_cast<std::size_t>(a.row_pointers[static_cast<std::size_t>(row)]);
         k < static_cast<std::size_t>(a.row_pointers[static_cast<std::size_t>(row) + 1]); ++k) {
      part.column_indices.push_back(a.column_indices[k]);
      part.values.push_back(a.values[k]);
    }
    part.row_pointers.push_back(part.entries());
  }
  return part;
}

}  // namespace shardsolve::testing::sparse_problem
