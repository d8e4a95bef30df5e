/// Equality bit for bit: what "the same bits" and "left alone" mean.
#pragma once

#include "reference/dense_matrix.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace shardsolve::testing {

/// For EXPECT_TRUE(same_bits(a, b)): NaN equals NaN, and 0 differs from -0.
template <Scalar T>
::testing::AssertionResult same_bits(const reference::DenseMatrix<T>& a,
                                     const reference::DenseMatrix<T>& b) {
  if (a.rows() != b.rows() || a.columns() != b.columns()) {
    return ::testing::AssertionFailure() << "shapes differ";
  }
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    for (std::int64_t i = 0; i < a.rows(); ++i) {
      if (std::memcmp(&a(i, j), &b(i, j), sizeof(T)) != 0) {
        return ::testing::AssertionFailure()
               << "entry (" << i << ", " << j << "): " << a(i, j) << " and " << b(i, j);
      }
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace shardsolve::testing
