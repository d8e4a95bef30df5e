// Small general systems in the caller's thread: as good as the gates ask for, and nothing where the
// usual calls have more to do.

#include "dense/lu/small.hpp"
#include "reference/dense_matrix.hpp"
#include "reference/matmul.hpp"
#include "support/dtypes.hpp"
#include "support/gates.hpp"
#include "support/lu_zoo.hpp"
#include "support/matrix_zoo.hpp"

#include <shardsolve/lu.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace shardsolve::testing {
namespace {

using dense::lu::BackwardErrors;
using dense::lu::factor_small;
using dense::lu::SmallFactor;
using dense::lu::solve_small;
using reference::DenseMatrix;

template <class T>
class SmallLu : public ::testing::Test {};
TYPED_TEST_SUITE(SmallLu, Dtypes, DtypeNames);

/// A factor and what solve_small() makes of it.
template <Scalar T>
struct SolvedLu {
  DenseMatrix<T> slab;
  std::vector<std::int32_t> rows;
  std::optional<SmallFactor<T>> factor;
  DenseMatrix<T> x;
  std::optional<BackwardErrors> errors;
};

template <Scalar T>
SolvedLu<T> solved(runtime::Op op, const DenseMatrix<T>& a, const DenseMatrix<T>& b) {
  const std::int64_t n = a.rows();
  SolvedLu<T> all{DenseMatrix<T>(n, n),
                  std::vector<std::int32_t>(static_cast<std::size_t>(n)),
                  {},
                  DenseMatrix<T>(n, b.columns()),
                  {}};
  all.factor = factor_small<T>(a.view(), all.slab.view(), all.rows.data());
  if (all.factor) {
    all.errors = solve_small<T>(op, all.slab.view(), a.view(), all.rows.data(), *all.factor,
                                b.view(), all.x.view());
  }
  return all;
}

template <Scalar T>
DenseMatrix<T> adjoint(const DenseMatrix<T>& a) {
  return reference::matmul(reference::Op::conjugate_transpose, a, reference::Op::none,
                           DenseMatrix<T>::identity(a.rows()));
}

TYPED_TEST(SmallLu, AnySize_PassesGates) {
  using T = TypeParam;
  for (const std::int64_t n : {1, 2, 5, 33, 64, 130}) {
    const auto a = dense<T>({.kind = matgen::Kind::general, .n = n, .seed = 3});
    const auto b = right_hand_sides<T>(n, 3, 2);
    for (const runtime::Op op : {runtime::Op::none, runtime::Op::conjugate_transpose}) {
      const auto all = solved<T>(op, a, b);
      ASSERT_TRUE(all.factor && all.errors) << n;
      EXPECT_TRUE(solves(op == runtime::Op::none ? a : adjoint(a), all.x, b)) << n;
      EXPECT_LE(all.errors->by_norm, 4 * unit_roundoff<T>);
      EXPECT_LE(all.errors->by_components, 10 * unit_roundoff<T>);
    }
  }
}

TYPED_TEST(SmallLu, Zoo_IsSolvedOrLeftToTheUsualCall) {
  using T = TypeParam;
  constexpr std::int64_t n = 40;
  int answers = 0;
  for (const LuCase<T>& one : lu_zoo<T>(n)) {
    const auto b = right_hand_sides<T>(n, 1);
    const auto all = solved<T>(runtime::Op::none, one.a, b);
    if (one.verdict == LuVerdict::singular) {
      EXPECT_FALSE(all.factor) << one.name;
    }
    if (all.errors) {
      ++answers;
      EXPECT_TRUE(solves(one.a, all.x, b)) << one.name;
    }
  }
  EXPECT_GE(answers, 5);
}

TYPED_TEST(SmallLu, Figures_AreThoseOfTheUsualCall) {
  using T = TypeParam;
  constexpr std::int64_t n = 60;
  const auto a = dense<T>({.kind = matgen::Kind::general, .n = n, .seed = 4});
  const auto all = solved<T>(runtime::Op::none, a, right_hand_sides<T>(n, 1));
  ASSERT_TRUE(all.factor);
  Mesh mesh = Mesh::serial();
  DenseMatrix<T> kept = a;
  const SlabLayout layout({0, n}, 64);
  const LuFactor<T> usual = lu_factor(mesh, ShardedMatrix<T>(layout, {kept.view()}));
  ASSERT_TRUE(usual.outcome.ok());
  const double near = 1e4 * unit_roundoff<T>;
  EXPECT_NEAR(all.factor->one_norm.value() / usual.one_norm.value(), 1.0, near);
  EXPECT_NEAR(all.factor->inf_norm.value() / usual.inf_norm.value(), 1.0, near);
  EXPECT_NEAR(all.factor->growth / usual.outcome.growth.value_or(0), 1.0, near);
  EXPECT_NEAR(all.factor->log_modulus, usual.log_modulus, near * std::abs(usual.log_modulus));
  EXPECT_LE(std::abs(all.factor->sign - usual.sign), near);
  EXPECT_EQ(std::vector<std::int64_t>(all.rows.begin(), all.rows.end()), *usual.rows);
}

TYPED_TEST(SmallLu, WhatIsWrong_IsLeftToTheUsualCall) {
  using T = TypeParam;
  using Real = RealOf<T>;
  constexpr std::int64_t n = 40;
  const auto a = dense<T>({.kind = matgen::Kind::general, .n = n, .seed = 3});
  const auto b = right_hand_sides<T>(n, 1);
  const T nan(std::numeric_limits<Real>::quiet_NaN());
  const T infinity(std::numeric_limits<Real>::infinity());
  for (const T bad : {nan, infinity}) {
    for (const std::int64_t column : {std::int64_t{0}, n - 1}) {
      auto spoilt = a;
      spoilt(3, column) = bad;
      EXPECT_FALSE(solved<T>(runtime::Op::none, spoilt, b).factor);
    }
    auto sides = b;
    sides(n - 1, 0) = bad;
    EXPECT_FALSE(solved<T>(runtime::Op::none, a, sides).errors);
    EXPECT_FALSE(solved<T>(runtime::Op::conjugate_transpose, a, sides).errors);
  }
  for (const Real scale : {Real(0x1p-80), Real(0x1p+80)}) {
    auto scaled = a;
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t i = 0; i < n; ++i) {
        scaled(i, j) *= scale;
      }
    }
    EXPECT_FALSE(solved<T>(runtime::Op::none, scaled, b).factor);
  }
  auto growing = solved<T>(runtime::Op::none, a, b);
  ASSERT_TRUE(growing.factor);
  growing.factor->growth = 1e12;
  EXPECT_FALSE(solve_small<T>(runtime::Op::none, growing.slab.view(), a.view(), growing.rows.data(),
                              *growing.factor, b.view(), growing.x.view()));
}

/// With a factor that is wrong in its last digits.
TYPED_TEST(SmallLu, Solve_IsRefined) {
  using T = TypeParam;
  constexpr std::int64_t n = 40;
  const auto a = dense<T>({.kind = matgen::Kind::general, .n = n, .seed = 3});
  const auto b = right_hand_sides<T>(n, 1);
  auto all = solved<T>(runtime::Op::none, a, b);
  ASSERT_TRUE(all.factor);
  for (std::int64_t j = 0; j < n; ++j) {
    all.slab(j, j) *= RealOf<T>(1 + 1000 * unit_roundoff<T>);
  }
  const auto errors = solve_small<T>(runtime::Op::none, all.slab.view(), a.view(), all.rows.data(),
                                     *all.factor, b.view(), all.x.view());
  ASSERT_TRUE(errors);
  EXPECT_LE(errors->by_norm, 4 * unit_roundoff<T>);
  EXPECT_TRUE(solves(a, all.x, b));
}

}  // namespace
}  // namespace shardsolve::testing
