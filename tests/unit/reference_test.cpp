#include "reference/cholesky.hpp"
#include "reference/matmul.hpp"
#include "reference/permute.hpp"
#include "tests/support/dtypes.hpp"
#include "tests/support/gates.hpp"
#include "tests/support/lapack.hpp"
#include "tests/support/matrix_zoo.hpp"

#include <shardsolve/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace shardsolve::reference {
namespace {

using matgen::Kind;
using testing::dense;
using ::testing::HasSubstr;
using testing::right_hand_sides;

/// Rows written out as in a book.
template <Scalar T>
DenseMatrix<T> matrix(const std::vector<std::vector<T>>& rows) {
  DenseMatrix<T> a(static_cast<std::int64_t>(rows.size()),
                   static_cast<std::int64_t>(rows.front().size()));
  for (std::int64_t i = 0; i < a.rows(); ++i) {
    for (std::int64_t j = 0; j < a.columns(); ++j) {
      a(i, j) = rows[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)];
    }
  }
  return a;
}

template <class T>
class Reference : public ::testing::Test {};
TYPED_TEST_SUITE(Reference, testing::Dtypes, testing::DtypeNames);

// ---- products and norms ------------------------------------------------------------------------

TEST(Matmul, EveryOp_IsTheProductWrittenOut) {
  using C = std::complex<double>;
  const C i(0, 1);
  const auto a = matrix<C>({{1, i}, {2, 3.0 - i}, {0, 1}});
  const auto b = matrix<C>({{1, 2}, {i, 0}});
  const auto ab = matrix<C>({{0, 2}, {3.0 + 3.0 * i, 4}, {i, 0}});
  EXPECT_EQ(matmul(a, b), ab);
  EXPECT_EQ(matmul(Op::conjugate_transpose, conjugate_transpose(a), Op::none, b), ab);
  EXPECT_EQ(matmul(Op::none, a, Op::conjugate_transpose, conjugate_transpose(b)), ab);
  EXPECT_EQ(matmul(Op::conjugate_transpose, b, Op::conjugate_transpose, a),
            conjugate_transpose(ab));
}

TEST(Matmul, DifferentInnerSizes_AreRefused) {
  EXPECT_THROW(matmul(DenseMatrix<float>(2, 3), DenseMatrix<float>(2, 3)), Error);
}

TYPED_TEST(Reference, Matmul_SumsInHigherPrecision) {
  // In the dtype itself 1 + u is 1, and the answer would be 0.
  const auto u = static_cast<RealOf<TypeParam>>(unit_roundoff<TypeParam>);
  const auto row = matrix<TypeParam>({{1, u, -1}});
  const auto ones = matrix<TypeParam>({{1}, {1}, {1}});
  EXPECT_EQ(matmul(row, ones)(0, 0), TypeParam{u});
}

TYPED_TEST(Reference, Norms_AreTheLargestSums) {
  const auto a = matrix<TypeParam>({{1, -5, 2}, {-4, 1, 0}});
  EXPECT_EQ(one_norm(a), 6);
  EXPECT_EQ(inf_norm(a), 8);
  EXPECT_EQ(one_norm(DenseMatrix<TypeParam>()), 0);
}

TYPED_TEST(Reference, Norms_OfNaN_AreNaN) {
  for (const std::int64_t place : {0, 1, 2}) {
    DenseMatrix<TypeParam> a = DenseMatrix<TypeParam>::identity(3);
    a(place, place) = std::numeric_limits<RealOf<TypeParam>>::quiet_NaN();
    EXPECT_TRUE(std::isnan(one_norm(a)));
    EXPECT_TRUE(std::isnan(inf_norm(a)));
  }
}

TYPED_TEST(Reference, Norms_OfTheLargestNumbers_DoNotOverflow) {
  const RealOf<TypeParam> largest = std::numeric_limits<RealOf<TypeParam>>::max();
  const auto a = matrix<TypeParam>({{largest, largest}, {largest, largest}});
  EXPECT_EQ(one_norm(a), 2 * WideReal<TypeParam>{largest});
}

// ---- Cholesky ----------------------------------------------------------------------------------

TYPED_TEST(Reference, Zoo_PassesTheGatesWithLapacksVerdict) {
  for (const std::int64_t n : {0, 1, 2, 70}) {
    for (const testing::ZooCase& c : testing::matrix_zoo(dtype_of<TypeParam>, n)) {
      SCOPED_TRACE(c.name + " " + std::to_string(n));
      const auto a = dense<TypeParam>(c.recipe);
      const CholeskyFactor<TypeParam> factor = cholesky(a);
      if (c.expect == testing::Expect::not_positive_definite) {
        EXPECT_EQ(factor.failed_pivot, c.recipe.row.value());
        EXPECT_EQ(testing::lapack_factor(a).info, c.recipe.row.value() + 1);
        continue;
      }
      EXPECT_TRUE(testing::verdict_is_explained(a, !factor.failed_pivot));
      if (factor.failed_pivot) {
        EXPECT_EQ(c.expect, testing::Expect::edge);
        continue;
      }
      const auto b = right_hand_sides<TypeParam>(n, 3);
      EXPECT_TRUE(testing::factors(a, factor.l));
      EXPECT_TRUE(testing::solves(a, solve(a, b), b));
      EXPECT_TRUE(testing::inverts(a, inverse(a)));
    }
  }
}

TYPED_TEST(Reference, TriangularSolves_UndoTheirProducts) {
  // Small integers: exact in every dtype.
  const auto l = matrix<TypeParam>({{1, 0, 0}, {2, 1, 0}, {-3, 4, 2}});
  const auto x = matrix<TypeParam>({{1, -2}, {3, 0}, {-5, 7}});
  EXPECT_EQ(solve_lower(l, matmul(l, x)), x);
  EXPECT_EQ(solve_lower_adjoint(l, matmul(Op::conjugate_transpose, l, Op::none, x)), x);
}

TYPED_TEST(Reference, LogDeterminant_IsKnown) {
  struct Case {
    matgen::Recipe recipe;
    double expected;
  };
  const double log_2 = std::log(2.0);
  const Case cases[] = {
      {{.kind = Kind::diagonal, .n = 0}, 0.0},
      {{.kind = Kind::diagonal, .n = 10}, std::lgamma(11.0)},
      {{.kind = Kind::minimum, .n = 20}, 0.0},
      {{.kind = Kind::minimum, .n = 20, .scale_exponent = -3}, -60.0 * log_2},
      {{.kind = Kind::spectrum_clustered, .n = 8, .seed = 1, .condition = 16.0}, -16.0 * log_2},
  };
  for (const Case& c : cases) {
    EXPECT_NEAR(log_determinant(dense<TypeParam>(c.recipe)), c.expected,
                1e4 * unit_roundoff<TypeParam>)
        << name(c.recipe.kind);
  }
}

TEST(CholeskyReference, NanPivot_Fails) {
  auto a = dense<double>({.kind = Kind::random, .n = 5});
  a(3, 1) = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(cholesky(a).failed_pivot, 3);
}

TEST(CholeskyReference, NotPositiveDefinite_IsRefusedByTheSolvers) {
  const auto a = dense<double>({.kind = Kind::indefinite, .n = 5, .row = GlobalIndex(2)});
  const auto b = right_hand_sides<double>(5, 1);
  EXPECT_THROW(solve(a, b), Error);
  EXPECT_THROW(inverse(a), Error);
  try {
    log_determinant(a);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    EXPECT_THAT(error.what(), HasSubstr("pivot 2 is not positive"));
  }
}

// ---- permutation -------------------------------------------------------------------------------

TEST(Permute, InterleavedOrder_IsThatOfTheLayout) {
  // Order 0 1 3 4 2 5: rank 0 has rows 0 1 2, rank 1 has 3 4 5, tiles of two.
  const SlabLayout layout = SlabLayout::even(6, 2, 2);
  const std::int64_t order[] = {0, 1, 3, 4, 2, 5};
  const auto a = right_hand_sides<double>(6, 6);
  const auto pap = permute(a, layout);
  for (std::int64_t j = 0; j < 6; ++j) {
    for (std::int64_t i = 0; i < 6; ++i) {
      EXPECT_EQ(pap(i, j), a(order[i], order[j]));
    }
  }
}

TYPED_TEST(Reference, Unpermute_UndoesPermute) {
  const SlabLayout layouts[] = {SlabLayout::even(10, 4, 2), SlabLayout({0, 3, 3, 3, 10}, 2),
                                SlabLayout::even(10, 1, 64)};
  for (const SlabLayout& layout : layouts) {
    const auto a = right_hand_sides<TypeParam>(10, 10);
    EXPECT_EQ(unpermute(permute(a, layout), layout), a);
  }
}

}  // namespace
}  // namespace shardsolve::reference
