// Small systems in the caller's thread: as good as the gates ask for, and nothing where the usual
// calls have more to do.

#include "dense/cholesky/small.hpp"
#include "reference/dense_matrix.hpp"
#include "support/dtypes.hpp"
#include "support/gates.hpp"
#include "support/matrix_zoo.hpp"

#include <shardsolve/cholesky.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace shardsolve::testing {
namespace {

using dense::cholesky::factor_small;
using dense::cholesky::SmallFactor;
using dense::cholesky::solve_small;
using reference::DenseMatrix;

template <class T>
class SmallCholesky : public ::testing::Test {};
TYPED_TEST_SUITE(SmallCholesky, Dtypes, DtypeNames);

/// A factor and what solve_small() makes of it.
template <Scalar T>
struct Solved {
  DenseMatrix<T> slab;
  std::vector<RealOf<T>> diagonal;
  std::optional<SmallFactor> factor;
  DenseMatrix<T> x;
  std::optional<double> error;
};

template <Scalar T>
Solved<T> solved(const DenseMatrix<T>& a, const DenseMatrix<T>& b) {
  const std::int64_t n = a.rows();
  Solved<T> all{a,
                std::vector<RealOf<T>>(static_cast<std::size_t>(n)),
                {},
                DenseMatrix<T>(n, b.columns()),
                {}};
  all.factor = factor_small<T>(all.slab.view(), all.diagonal.data());
  if (all.factor) {
    all.error = solve_small<T>(all.slab.view(), all.diagonal.data(), all.factor->norm, b.view(),
                               all.x.view());
  }
  return all;
}

/// n I + a matrix of entries between -1 and 1.
template <Scalar T>
DenseMatrix<T> matrix(std::int64_t n) {
  DenseMatrix<T> a = right_hand_sides<T>(n, n);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < j; ++i) {
      if constexpr (is_complex<T>) {
        a(i, j) = std::conj(a(j, i));
      } else {
        a(i, j) = a(j, i);
      }
    }
    a(j, j) = T(static_cast<RealOf<T>>(4 * n) + std::real(a(j, j)));
  }
  return a;
}

TYPED_TEST(SmallCholesky, AnySize_PassesGates) {
  using T = TypeParam;
  for (const std::int64_t n : {1, 2, 5, 33, 64, 130}) {
    for (const std::int64_t columns : {1, 3}) {
      const auto a = matrix<T>(n);
      const auto b = right_hand_sides<T>(n, columns, 2);
      const auto all = solved<T>(a, b);
      ASSERT_TRUE(all.factor && all.error) << n;
      EXPECT_TRUE(solves(a, all.x, b)) << n;
      EXPECT_LE(*all.error, (columns == 1 ? 4 : 10) * unit_roundoff<T>);  // one is refined
    }
  }
}

TYPED_TEST(SmallCholesky, Zoo_IsSolvedOrLeftToTheUsualCall) {
  using T = TypeParam;
  constexpr std::int64_t n = 70;
  for (const ZooCase& zoo_case : matrix_zoo(dtype_of<T>, n)) {
    const auto a = dense<T>(zoo_case.recipe);
    const auto b = right_hand_sides<T>(n, 1);
    const auto all = solved<T>(a, b);
    if (zoo_case.expect == Expect::not_positive_definite) {
      EXPECT_FALSE(all.factor) << zoo_case.name;
    }
    if (all.error) {
      EXPECT_TRUE(solves(a, all.x, b)) << zoo_case.name;
    }
  }
}

TYPED_TEST(SmallCholesky, Figures_AreThoseOfTheUsualCall) {
  using T = TypeParam;
  constexpr std::int64_t n = 60;
  const auto a = matrix<T>(n);
  const auto all = solved<T>(a, right_hand_sides<T>(n, 1));
  ASSERT_TRUE(all.factor);
  Mesh mesh = Mesh::serial();
  DenseMatrix<T> slab = a;
  const SlabLayout layout({0, n}, 64);
  const auto usual = cholesky_factor(mesh, ShardedMatrix<T>(layout, {slab.view()}));
  ASSERT_TRUE(usual.outcome.ok());
  EXPECT_EQ(all.factor->norm.value(), usual.norm.value());
  EXPECT_NEAR(all.factor->log_determinant, usual.log_determinant,
              1e4 * unit_roundoff<T> * std::abs(usual.log_determinant));
  EXPECT_EQ(all.diagonal, *usual.diagonal);
}

TYPED_TEST(SmallCholesky, WhatIsWrong_IsLeftToTheUsualCall) {
  using T = TypeParam;
  constexpr std::int64_t n = 40;
  const auto b = right_hand_sides<T>(n, 1);
  const T nan(std::numeric_limits<RealOf<T>>::quiet_NaN());
  const T infinity(std::numeric_limits<RealOf<T>>::infinity());
  for (const T bad : {T(RealOf<T>(100)), nan, infinity}) {
    auto a = matrix<T>(n);
    a(3, 7) = bad;
    EXPECT_FALSE(solved<T>(a, b).factor);
    a(7, 3) = bad;
    EXPECT_EQ(bool(solved<T>(a, b).factor), bad == T(RealOf<T>(100)));
  }
  auto indefinite = matrix<T>(n);
  indefinite(5, 5) = T{-1};
  const auto all = solved<T>(indefinite, b);
  EXPECT_FALSE(all.factor);
  EXPECT_EQ(all.slab, indefinite);
  for (const RealOf<T> scale : {RealOf<T>(0x1p-80), RealOf<T>(0x1p+80)}) {
    auto a = matrix<T>(n);
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t i = 0; i < n; ++i) {
        a(i, j) *= scale;
      }
    }
    EXPECT_FALSE(solved<T>(a, b).factor);
  }
  for (const T bad : {nan, infinity}) {
    auto spoilt = b;
    spoilt(4, 0) = bad;
    EXPECT_FALSE(solved<T>(matrix<T>(n), spoilt).error);
  }
}

}  // namespace
}  // namespace shardsolve::testing
