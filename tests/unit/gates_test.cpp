// The gates are what all other tests trust: they have to let an honest result through and nothing
// else.
#include "tests/support/gates.hpp"

#include "matgen/matrices.hpp"
#include "reference/cholesky.hpp"
#include "reference/matmul.hpp"
#include "tests/support/dtypes.hpp"
#include "tests/support/lapack.hpp"
#include "tests/support/matrix_zoo.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

namespace shardsolve::testing {
namespace {

using matgen::Kind;
using matgen::Recipe;

constexpr std::int64_t size = 200;
const Recipe random_recipe{.kind = Kind::random, .n = size, .seed = 1};

/// `a` with every real number changed by `change`.
template <Scalar T, class Change>
DenseMatrix<T> changed(DenseMatrix<T> a, Change change) {
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    for (std::int64_t i = 0; i < a.rows(); ++i) {
      if constexpr (is_complex<T>) {
        a(i, j) = {change(a(i, j).real()), change(a(i, j).imag())};
      } else {
        a(i, j) = change(a(i, j));
      }
    }
  }
  return a;
}

/// To the nearest number with this many bits of mantissa after the leading one (ties away from 0).
float round_to_bits(float value, int bits) {
  const int dropped = 23 - bits;
  const std::uint32_t half = std::uint32_t{1} << (dropped - 1);
  const std::uint32_t kept = ~((std::uint32_t{1} << dropped) - 1);
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(value) + half) & kept);
}

template <class T>
class Gates : public ::testing::Test {
 protected:
  DenseMatrix<T> a_ = dense<T>(random_recipe);
  DenseMatrix<T> b_ = right_hand_sides<T>(size, 3);
};
TYPED_TEST_SUITE(Gates, Dtypes, DtypeNames);

TYPED_TEST(Gates, LapacksResults_Pass) {
  EXPECT_TRUE(solves(this->a_, lapack_solve(this->a_, this->b_).matrix, this->b_));
  EXPECT_TRUE(factors(this->a_, lapack_factor(this->a_).matrix));
  EXPECT_TRUE(inverts(this->a_, lapack_inverse(this->a_).matrix));
}

TYPED_TEST(Gates, NanInOneEntry_Fails) {
  const RealOf<TypeParam> bad[] = {std::numeric_limits<RealOf<TypeParam>>::quiet_NaN(),
                                   std::numeric_limits<RealOf<TypeParam>>::infinity()};
  for (const RealOf<TypeParam> value : bad) {
    for (const std::int64_t row : {std::int64_t{0}, size - 1}) {
      auto x = lapack_solve(this->a_, this->b_).matrix;
      x(row, 1) = value;
      EXPECT_FALSE(solves(this->a_, x, this->b_));
      auto l = lapack_factor(this->a_).matrix;
      l(row, 0) = value;
      EXPECT_FALSE(factors(this->a_, l));
      auto inverse = lapack_inverse(this->a_).matrix;
      inverse(row, 7) = value;
      EXPECT_FALSE(inverts(this->a_, inverse));
    }
  }
}

TYPED_TEST(Gates, OneEntryOffByAThousandRoundoffs_Fails) {
  // Relative to the norm of x, L or A^-1: a single entry, in a single column.
  const auto off = static_cast<RealOf<TypeParam>>(1000.0 * unit_roundoff<TypeParam>);
  auto x = lapack_solve(this->a_, this->b_).matrix;
  x(17, 2) += off * static_cast<RealOf<TypeParam>>(reference::inf_norm(x));
  EXPECT_FALSE(solves(this->a_, x, this->b_));
  auto l = lapack_factor(this->a_).matrix;
  l(17, 4) += off * static_cast<RealOf<TypeParam>>(reference::one_norm(l));
  EXPECT_FALSE(factors(this->a_, l));
  auto inverse = lapack_inverse(this->a_).matrix;
  inverse(17, 4) += off * static_cast<RealOf<TypeParam>>(reference::one_norm(inverse));
  EXPECT_FALSE(inverts(this->a_, inverse));
}

TYPED_TEST(Gates, WrongShape_Fails) {
  const DenseMatrix<TypeParam> none;
  EXPECT_FALSE(solves(this->a_, none, this->b_));
  EXPECT_FALSE(solves(this->a_, DenseMatrix<TypeParam>(size, 2), this->b_));
  EXPECT_FALSE(factors(this->a_, none));
  EXPECT_FALSE(inverts(this->a_, none));
}

TYPED_TEST(Gates, NothingToSolve_Passes) {
  const DenseMatrix<TypeParam> none;
  EXPECT_TRUE(solves(none, none, none));
  EXPECT_TRUE(factors(none, none));
  EXPECT_TRUE(inverts(none, none));
  const DenseMatrix<TypeParam> zero(size, 3);
  EXPECT_TRUE(solves(this->a_, zero, zero));
}

TYPED_TEST(Gates, ZeroForAnAnswer_Fails) {
  EXPECT_FALSE(solves(this->a_, DenseMatrix<TypeParam>(size, 3), this->b_));
  EXPECT_FALSE(factors(this->a_, DenseMatrix<TypeParam>(size, size)));
  EXPECT_FALSE(inverts(this->a_, DenseMatrix<TypeParam>(size, size)));
}

TYPED_TEST(Gates, RatiosOfSmallMatrices_AreThoseByHand) {
  // Column 1 is wrong by 1/4 in two places: 1/2 of a norm of 3/2.
  const double by_hand = 0.5 / 1.5 / unit_roundoff<TypeParam>;
  const auto one = DenseMatrix<TypeParam>::identity(3);
  auto off = one;
  off(1, 0) = off(0, 1) = off(2, 1) = off(1, 2) = TypeParam(0.25);
  EXPECT_DOUBLE_EQ(factor_ratio(off, one), by_hand);
  EXPECT_DOUBLE_EQ(inverse_ratio(one, off), by_hand);
  // Row 1 of b - A x, against a norm of 3/2 of A and 1 of x and b.
  DenseMatrix<TypeParam> ones(3, 1);
  ones(0, 0) = ones(1, 0) = ones(2, 0) = TypeParam{1};
  EXPECT_DOUBLE_EQ(solve_ratio(off, ones, ones), 0.5 / 2.5 / unit_roundoff<TypeParam>);
}

TYPED_TEST(Gates, FourTimesLapacks_IsTheLimit) {
  // LAPACK solves with the identity exactly, so at most 4 u may be left; x = 1 + 2 k u leaves k u.
  const auto one = DenseMatrix<TypeParam>::identity(1);
  const auto eps = std::numeric_limits<RealOf<TypeParam>>::epsilon();
  for (const int k : {0, 3, 5, 9, 11}) {
    DenseMatrix<TypeParam> x = one;
    x(0, 0) += static_cast<RealOf<TypeParam>>(k) * eps;
    EXPECT_EQ(solve_ratio(one, x, one) < solve_gate, k < 10) << k;
    EXPECT_EQ(bool{solves(one, x, one)}, k < 4) << k;
  }
}

TYPED_TEST(Gates, WhereLapackFails_TheGateAloneDecides) {
  const auto one = DenseMatrix<TypeParam>::identity(1);
  DenseMatrix<TypeParam> minus_one(1, 1);
  minus_one(0, 0) = TypeParam{-1};
  DenseMatrix<TypeParam> bad(1, 1);
  bad(0, 0) = std::numeric_limits<RealOf<TypeParam>>::quiet_NaN();
  EXPECT_TRUE(solves(minus_one, minus_one, one));
  EXPECT_FALSE(solves(minus_one, one, one));
  EXPECT_FALSE(solves(minus_one, bad, one));
  EXPECT_TRUE(inverts(minus_one, minus_one));
  EXPECT_FALSE(inverts(minus_one, bad));
}

TYPED_TEST(Gates, TinyAndHugeMatrices_HaveTheRatiosOfTheUnscaledOne) {
  const bool single = std::is_same_v<RealOf<TypeParam>, float>;
  const int exponent = single ? 90 : 900;
  const auto x = lapack_solve(this->a_, this->b_).matrix;
  const auto inverse = lapack_inverse(this->a_).matrix;
  for (const int e : {-exponent, exponent}) {
    Recipe recipe = random_recipe;
    recipe.scale_exponent = e;
    const auto scaled = dense<TypeParam>(recipe);
    const auto unscale = [e](auto value) { return std::ldexp(value, -e); };
    EXPECT_EQ(solve_ratio(scaled, changed(x, unscale), this->b_),
              solve_ratio(this->a_, x, this->b_));
    EXPECT_EQ(inverse_ratio(scaled, changed(inverse, unscale)), inverse_ratio(this->a_, inverse));
    EXPECT_TRUE(factors(scaled, lapack_factor(scaled).matrix));
  }
}

TEST(SolveGate, InputsRoundedToALowerPrecision_Fail) {
  struct Case {
    std::string format;
    int mantissa_bits;
  };
  const auto a = dense<float>(random_recipe);
  const auto b = right_hand_sides<float>(size, 3);
  for (const Case& c : {Case{"bfloat16", 7}, Case{"TF32 and float16", 10}}) {
    const auto rounded =
        changed(a, [&](float value) { return round_to_bits(value, c.mantissa_bits); });
    const auto x = lapack_solve(rounded, b).matrix;
    EXPECT_GT(solve_ratio(a, x, b), solve_gate) << c.format;
    EXPECT_FALSE(solves(a, x, b)) << c.format;
    EXPECT_FALSE(factors(a, lapack_factor(rounded).matrix)) << c.format;
    EXPECT_FALSE(inverts(a, lapack_inverse(rounded).matrix)) << c.format;
  }
}

TEST(SolveGate, Float64SolvedInFloat32_Fails) {
  const auto a = dense<double>(random_recipe);
  const auto b = right_hand_sides<double>(size, 3);
  const auto x32 =
      lapack_solve(dense<float>(random_recipe), right_hand_sides<float>(size, 3)).matrix;
  DenseMatrix<double> x(size, 3);
  for (std::int64_t j = 0; j < 3; ++j) {
    for (std::int64_t i = 0; i < size; ++i) {
      x(i, j) = double{x32(i, j)};
    }
  }
  EXPECT_FALSE(solves(a, x, b));
}

/// a * b^H in the arithmetic of a BLAS: reference::matmul would hide the rounding that matters
/// here.
DenseMatrix<double> times_transpose(const DenseMatrix<double>& a, const DenseMatrix<double>& b) {
  DenseMatrix<double> c(a.rows(), b.rows());
  for (std::int64_t j = 0; j < c.columns(); ++j) {
    for (std::int64_t k = 0; k < a.columns(); ++k) {
      for (std::int64_t i = 0; i < c.rows(); ++i) {
        c(i, j) += a(i, k) * b(j, k);
      }
    }
  }
  return c;
}

/// Blocked Cholesky whose panel is l21 = a21 inv(l11)^T: fast, and not backward stable.
DenseMatrix<double> factor_with_explicit_inverses(DenseMatrix<double> a, std::int64_t tile) {
  const std::int64_t n = a.rows();
  for (std::int64_t begin = 0; begin < n; begin += tile) {
    const std::int64_t width = std::min(tile, n - begin);
    const std::int64_t below = begin + width;
    const auto part = [&](std::int64_t row, std::int64_t rows) {
      return DenseMatrix<double>(MatrixView<const double>(a.view().block(row, begin, rows, width)));
    };
    const auto l11 = lapack_factor(part(begin, width)).matrix;
    const auto inverse = reference::solve_lower(l11, DenseMatrix<double>::identity(width));
    const auto l21 = times_transpose(part(below, n - below), inverse);
    const auto update = times_transpose(l21, l21);
    for (std::int64_t j = begin; j < n; ++j) {
      for (std::int64_t i = begin; i < n; ++i) {
        if (j >= below && i >= below) {
          a(i, j) -= update(i - below, j - below);
        } else if (j < below) {
          a(i, j) = i < below ? l11(i - begin, j - begin) : l21(i - below, j - begin);
        }
      }
    }
  }
  return a;
}

TEST(FactorGate, PanelsByExplicitInverses_FailOnAGaussianKernel) {
  const auto a = dense<double>({.kind = Kind::gaussian_line, .n = size, .seed = 1, .jitter = 1e-8});
  const auto l = factor_with_explicit_inverses(a, 64);
  EXPECT_GT(factor_ratio(a, l), factor_gate);
  EXPECT_FALSE(factors(a, l));
  // Where the tiles are well conditioned the same code is as good as any.
  const auto easy = dense<double>(random_recipe);
  EXPECT_TRUE(factors(easy, factor_with_explicit_inverses(easy, 64)));
}

TEST(FactorGate, UpperTriangleOfL_IsNotRead) {
  const auto a = dense<double>(random_recipe);
  auto l = lapack_factor(a).matrix;
  l(3, 80) = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(factors(a, l));
}

TYPED_TEST(Gates, Verdict_IsHeldAgainstLapacksOnBothSidesOfTheEdge) {
  struct Case {
    Kind kind;
    bool may_succeed, may_fail;
  };
  const Case cases[] = {{Kind::random, true, false},
                        {Kind::indefinite, false, true},
                        {Kind::equal_rows, true, true},
                        {Kind::zero_row, true, true}};
  for (const Case& c : cases) {
    const auto a = dense<TypeParam>({.kind = c.kind, .n = 50, .seed = 1, .row = GlobalIndex(20)});
    EXPECT_EQ(bool{verdict_is_explained(a, true)}, c.may_succeed) << name(c.kind);
    EXPECT_EQ(bool{verdict_is_explained(a, false)}, c.may_fail) << name(c.kind);
  }
}

}  // namespace
}  // namespace shardsolve::testing
