// Matrices whose entries lie near the ends of the dtype's range.

#include "reference/matmul.hpp"
#include "support/backend.hpp"
#include "support/dtypes.hpp"
#include "support/gates.hpp"
#include "support/lapack.hpp"
#include "support/matrix_zoo.hpp"
#include "support/sharded_problem.hpp"

#include <shardsolve/cholesky.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>
#include <utility>
#include <vector>

namespace shardsolve::testing {
namespace {

using matgen::Kind;

/// A few binades are left for norms and for the digits of small entries.
template <Scalar T>
constexpr int near_the_end = std::numeric_limits<RealOf<T>>::max_exponent - 14;

template <Scalar T>
std::vector<int> exponents() {
  return {-near_the_end<T>, -near_the_end<T> / 2, near_the_end<T> / 2, near_the_end<T>};
}

/// The same with each entry in double's precision.
template <Scalar T>
auto in_double(const DenseMatrix<T>& a) {
  using Double = std::conditional_t<is_complex<T>, std::complex<double>, double>;
  DenseMatrix<Double> wide(a.rows(), a.columns());
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    for (std::int64_t i = 0; i < a.rows(); ++i) {
      wide(i, j) = static_cast<Double>(a(i, j));
    }
  }
  return wide;
}

/// 1 / (||A||_1 ||A^-1||_1), which scaling does not change.
template <Scalar T>
double true_rcond(matgen::Recipe recipe) {
  recipe.scale_exponent = 0;
  const auto a = in_double(dense<T>(recipe));
  const auto inverse = lapack_inverse(a);
  EXPECT_TRUE(inverse.ok());
  return static_cast<double>(1 / (reference::one_norm(a) * reference::one_norm(inverse.matrix)));
}

template <Scalar T>
DenseMatrix<T> scaled(DenseMatrix<T> b, int exponent) {
  for (std::int64_t j = 0; j < b.columns(); ++j) {
    for (std::int64_t i = 0; i < b.rows(); ++i) {
      b(i, j) *= static_cast<RealOf<T>>(std::ldexp(1.0, exponent));
    }
  }
  return b;
}

/// An estimate errs on the optimistic side only, and rarely by more than a factor of three.
template <Scalar T>
void expect_estimate(double estimate, double rcond) {
  const double rounding = 20.0 * unit_roundoff<T> / rcond;
  EXPECT_GE(estimate * (1.0001 + rounding), rcond);
  EXPECT_LE(estimate, 3.0 * rcond);
}

template <class T>
class Scaling : public ::testing::Test {
 protected:
  static std::vector<matgen::Recipe> recipes() {
    return {{.kind = Kind::random, .n = 45, .seed = 7},
            {.kind = Kind::minimum, .n = 24},
            {.kind = Kind::gaussian_line, .n = 45, .seed = 7, .jitter = 1e-2}};
  }
  static SlabLayout layout(std::int64_t n) { return SlabLayout::even(n, 3, 6); }
};
TYPED_TEST_SUITE(Scaling, Dtypes, DtypeNames);

TYPED_TEST(Scaling, Solve_NearTheEndsOfTheRange_IsCertified) {
  using T = TypeParam;
  Mesh mesh = make_mesh(3);
  for (matgen::Recipe recipe : this->recipes()) {
    const double rcond = true_rcond<T>(recipe);
    const SlabLayout layout = this->layout(recipe.n);
    for (const int exponent : exponents<T>()) {
      // x is of the size of the inverse of the unscaled matrix, or else b is of moderate size
      for (const int b_exponent : {exponent, exponent / 2}) {
        SCOPED_TRACE(std::string(name(recipe.kind)) + " 2^" + std::to_string(exponent) + " b 2^" +
                     std::to_string(b_exponent));
        recipe.scale_exponent = exponent;
        const DenseMatrix<T> a = dense<T>(recipe);
        const DenseMatrix<T> b = scaled(right_hand_sides<T>(recipe.n, 2), b_exponent);
        const RightHandSides<T> x = shard_rows(b, layout);
        const Outcome outcome = solve(mesh, shard(a, layout), x);
        ASSERT_TRUE(outcome.ok()) << outcome.message();
        EXPECT_LT(solve_ratio(a, whole(x), b), solve_gate);
        EXPECT_LT(*outcome.backward_error, solve_gate * unit_roundoff<T>);
        expect_estimate<T>(*outcome.rcond, rcond);
      }
    }
  }
}

TYPED_TEST(Scaling, Inverse_NearTheEndsOfTheRange_IsCertified) {
  using T = TypeParam;
  Mesh mesh = make_mesh(3);
  for (matgen::Recipe recipe : this->recipes()) {
    const double rcond = true_rcond<T>(recipe);
    const SlabLayout layout = this->layout(recipe.n);
    for (const int exponent : exponents<T>()) {
      SCOPED_TRACE(std::string(name(recipe.kind)) + " 2^" + std::to_string(exponent));
      recipe.scale_exponent = exponent;
      const DenseMatrix<T> a = dense<T>(recipe);
      CholeskyFactor<T> factor = cholesky_factor(mesh, shard(a, layout));
      ASSERT_TRUE(factor.outcome.ok()) << factor.outcome.message();
      const ShardedMatrix<T> slabs = factor.slabs;
      const Outcome outcome = cholesky_inverse(mesh, std::move(factor));
      ASSERT_TRUE(outcome.ok()) << outcome.message();
      EXPECT_LT(inverse_ratio(a, whole(slabs)), inverse_gate);
      EXPECT_LT(*outcome.backward_error, inverse_gate * unit_roundoff<T>);
      EXPECT_NEAR(*outcome.rcond / rcond, 1.0, 1e-3);
    }
  }
}

/// Twice a column sum is beyond the range of double.
TYPED_TEST(Scaling, MatrixAtTheEndOfTheRange_IsFactored) {
  using T = TypeParam;
  Mesh mesh = make_mesh(3);
  for (const std::int64_t n : {1, 3, 20}) {
    DenseMatrix<T> a(n, n);
    for (std::int64_t i = 0; i < n; ++i) {
      a(i, i) = std::numeric_limits<RealOf<T>>::max() / static_cast<RealOf<T>>(1.05);
    }
    const CholeskyFactor<T> factor = cholesky_factor(mesh, shard(a, this->layout(n)));
    EXPECT_TRUE(factor.outcome.ok()) << factor.outcome.message();
  }
}

/// ||A|| is so small that 1 / ||A|| is beyond the range.
TYPED_TEST(Scaling, SolveWithASubnormalMatrix_IsCertified) {
  using T = TypeParam;
  using Limits = std::numeric_limits<RealOf<T>>;
  Mesh mesh = make_mesh(3);
  for (const std::int64_t n : {1, 20}) {
    DenseMatrix<T> a(n, n);
    for (std::int64_t i = 0; i < n; ++i) {
      a(i, i) = 96 * Limits::denorm_min();
    }
    const DenseMatrix<T> b = scaled(right_hand_sides<T>(n, 2), Limits::min_exponent + 10);
    const RightHandSides<T> x = shard_rows(b, this->layout(n));
    const Outcome outcome = solve(mesh, shard(a, this->layout(n)), x);
    if (!test_gpus().empty() && outcome.status == Status::overflow) {
      continue;  // they do not take such pivots
    }
    ASSERT_TRUE(outcome.ok()) << outcome.message();
    EXPECT_TRUE(std::isfinite(*outcome.backward_error));
  }
}

/// Each right-hand side is looked at by itself.
TYPED_TEST(Scaling, BackwardError_IsTheLargestOverColumnsOfAnySize) {
  using T = TypeParam;
  using Limits = std::numeric_limits<RealOf<T>>;
  Mesh mesh = make_mesh(3);
  const SlabLayout layout = this->layout(20);
  const DenseMatrix<T> a = dense<T>({.n = 20, .seed = 7});
  DenseMatrix<T> small(20, 1);
  small(3, 0) = 4 * Limits::denorm_min();
  DenseMatrix<T> both(20, 2);
  for (std::int64_t i = 0; i < 20; ++i) {
    both(i, 0) = Limits::max() / 16;
    both(i, 1) = small(i, 0);
  }
  const Outcome alone = solve(mesh, shard(a, layout), shard_rows(small, layout));
  const Outcome beside = solve(mesh, shard(a, layout), shard_rows(both, layout));
  EXPECT_EQ(alone.status, Status::inaccurate);
  EXPECT_EQ(beside.status, Status::inaccurate);
  EXPECT_GT(*alone.backward_error, 1e-3);  // so few digits
  EXPECT_GE(*beside.backward_error, *alone.backward_error);
}

template <Scalar T>
DenseMatrix<T> two_by_two(T first, T beside, T last) {
  DenseMatrix<T> a(2, 2);
  a(0, 0) = first;
  a(0, 1) = a(1, 0) = beside;
  a(1, 1) = last;
  return a;
}

/// Scaling would not help.
TYPED_TEST(Scaling, IndefiniteMatrixWhoseFactorLeavesTheRange_IsNotPositiveDefinite) {
  using T = TypeParam;
  const auto large = static_cast<RealOf<T>>(std::ldexp(1.0, near_the_end<T> * 2 / 3));
  Mesh mesh = make_mesh(2);
  for (const std::int64_t tile : {1, 2}) {
    const DenseMatrix<T> a = two_by_two<T>(1, large, 1);
    const CholeskyFactor<T> factor = cholesky_factor(mesh, shard(a, SlabLayout::even(2, 2, tile)));
    EXPECT_EQ(factor.outcome.status, Status::not_positive_definite);
    ASSERT_TRUE(factor.outcome.location);
    EXPECT_EQ(factor.outcome.location->row.value(), 1);
  }
}

/// x fits, and so does b; L^-1 b does not.
TEST(ScalingOfFloat32, SolveThatLeavesTheRangeOnTheWay_IsTriedAgain) {
  Mesh mesh = make_mesh(2);
  const SlabLayout layout = SlabLayout::even(2, 2, 1);
  const DenseMatrix<float> a = two_by_two(209.62862F, -1.1897251e16F, 1.0391815e34F);
  DenseMatrix<float> b(2, 2);
  b(0, 0) = b(1, 0) = 6e26F;
  b(0, 1) = 1.0F;
  const RightHandSides<float> x = shard_rows(b, layout);
  const Outcome outcome = solve(mesh, shard(a, layout), x);
  ASSERT_TRUE(outcome.ok()) << outcome.message();
  EXPECT_LT(*outcome.backward_error, solve_gate * unit_roundoff<float>);
  EXPECT_TRUE(solves(a, whole(x), b));
}

/// Numbers inside of a solve are larger than b by the square root of the condition number.
TEST(ScalingOfFloat64, ConditionOfAGradedMatrix_IsFound) {
  Mesh mesh = make_mesh(2);
  const SlabLayout layout = SlabLayout::even(2, 2, 1);
  const DenseMatrix<double> a = two_by_two(200.0, -1.2e130, 1.04e262);
  CholeskyFactor<double> factor = cholesky_factor(mesh, shard(a, layout));
  ASSERT_TRUE(factor.outcome.ok()) << factor.outcome.message();
  const double estimate = condition_estimate(mesh, factor);
  const Outcome inverse = cholesky_inverse(mesh, std::move(factor));
  ASSERT_TRUE(inverse.ok()) << inverse.message();
  EXPECT_NEAR(estimate / *inverse.rcond, 1.0, 1e-3);
}

TYPED_TEST(Scaling, SolutionBeyondTheRange_IsOverflow) {
  using T = TypeParam;
  Mesh mesh = make_mesh(3);
  const SlabLayout layout = this->layout(20);
  const int exponent = near_the_end<T>;
  const DenseMatrix<T> a = dense<T>({.n = 20, .seed = 7, .scale_exponent = -exponent});
  const RightHandSides<T> x = shard_rows(scaled(right_hand_sides<T>(20, 2), exponent / 2), layout);
  const Outcome outcome = solve(mesh, shard(a, layout), x);
  EXPECT_EQ(outcome.status, Status::overflow) << outcome.message();
  EXPECT_FALSE(outcome.backward_error);
}

TYPED_TEST(Scaling, SolutionBelowTheRange_IsInaccurate) {
  using T = TypeParam;
  Mesh mesh = make_mesh(3);
  const SlabLayout layout = this->layout(20);
  const int exponent = near_the_end<T>;
  const DenseMatrix<T> a = dense<T>({.n = 20, .seed = 7, .scale_exponent = exponent});
  const RightHandSides<T> x = shard_rows(scaled(right_hand_sides<T>(20, 2), -exponent / 2), layout);
  const Outcome outcome = solve(mesh, shard(a, layout), x);
  EXPECT_EQ(outcome.status, Status::inaccurate) << outcome.message();
  EXPECT_NE(outcome.message().find("too small for the range"), std::string::npos);
}

TYPED_TEST(Scaling, InverseBeyondTheRange_IsOverflow) {
  using T = TypeParam;
  Mesh mesh = make_mesh(3);
  const SlabLayout layout = this->layout(20);
  const int exponent = std::numeric_limits<RealOf<T>>::max_exponent + 6;
  const DenseMatrix<T> a = dense<T>({.kind = Kind::diagonal, .n = 20, .scale_exponent = -exponent});
  CholeskyFactor<T> factor = cholesky_factor(mesh, shard(a, layout));
  // GPUs invert the tiles of the factor already.
  const Outcome outcome =
      factor.outcome.ok() ? cholesky_inverse(mesh, std::move(factor)) : factor.outcome;
  EXPECT_EQ(outcome.status, Status::overflow) << outcome.message();
}

/// A modulus beyond the range of its parts is no infinity.
TEST(ScalingOfComplexNumbers, PartsInRange_AreNoNonfiniteInput) {
  using T = std::complex<float>;
  Mesh mesh = make_mesh(2);
  const SlabLayout layout = SlabLayout::even(5, 2, 2);
  const DenseMatrix<T> a = dense<T>({.kind = Kind::diagonal, .n = 5});
  DenseMatrix<T> b(5, 2);
  b(3, 1) = T{3e38F, -3e38F};
  const RightHandSides<T> x = shard_rows(b, layout);
  const Outcome outcome = solve(mesh, shard(a, layout), x);
  ASSERT_TRUE(outcome.ok()) << outcome.message();
  EXPECT_TRUE(solves(a, whole(x), b));
}

TEST(ScalingOfComplexNumbers, MatrixWithPartsInRange_IsFactored) {
  using T = std::complex<double>;
  Mesh mesh = make_mesh(2);
  const SlabLayout layout = SlabLayout::even(4, 2, 2);
  DenseMatrix<T> a = DenseMatrix<T>::identity(4);
  for (std::int64_t i = 0; i < 4; ++i) {
    a(i, i) = 1.7e308;
  }
  a(3, 0) = T{1.1e308, 1.1e308};
  a(0, 3) = std::conj(a(3, 0));
  const CholeskyFactor<T> factor = cholesky_factor(mesh, shard(a, layout));
  EXPECT_TRUE(factor.outcome.ok()) << factor.outcome.message();
}

template <class T>
class Condition : public ::testing::Test {};
TYPED_TEST_SUITE(Condition, Dtypes, DtypeNames);

TYPED_TEST(Condition, Estimate_OfKnownSpectra_IsCloseAndNeverTooSmall) {
  using T = TypeParam;
  const SlabLayout layout({0, 20, 20, 41, 60}, 7);
  Mesh mesh = make_mesh(layout.ranks());
  for (const ZooCase& zoo_case : matrix_zoo(dtype_of<T>, layout.size())) {
    const DenseMatrix<T> a = dense<T>(zoo_case.recipe);
    const double rcond = zoo_case.expect == Expect::ok ? true_rcond<T>(zoo_case.recipe) : 0.0;
    if (rcond < 100.0 * unit_roundoff<T>) {
      continue;  // rounding decides
    }
    SCOPED_TRACE(zoo_case.name);
    const CholeskyFactor<T> factor = cholesky_factor(mesh, shard(a, layout));
    ASSERT_TRUE(factor.outcome.ok()) << factor.outcome.message();
    expect_estimate<T>(condition_estimate(mesh, factor), rcond);
  }
}

/// D A D with D_ii = 2^(step (i - n / 2)).
template <Scalar T>
DenseMatrix<T> in_other_units(DenseMatrix<T> a, std::int64_t step) {
  const std::int64_t n = a.columns();
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < n; ++i) {
      a(i, j) *= std::ldexp(RealOf<T>{1}, static_cast<int>(step * (i + j - n)));
    }
  }
  return a;
}

/// The identity but for two unknowns whose sum alone is almost free: a pivot is 4 u.
template <Scalar T>
DenseMatrix<T> almost_singular(std::int64_t n) {
  DenseMatrix<T> a = DenseMatrix<T>::identity(n);
  a(3, n - 2) = a(n - 2, 3) = std::numeric_limits<RealOf<T>>::epsilon() - 1;
  return a;
}

TYPED_TEST(Condition, NearlySingular_HasAnAnswerAndSaysSo_WhateverTheUnits) {
  using T = TypeParam;
  constexpr double u = unit_roundoff<T>;
  const SlabLayout layout({0, 8, 8, 17, 24}, 4);
  const std::int64_t n = layout.size();
  Mesh mesh = make_mesh(layout.ranks());
  for (const std::int64_t step : {0, 2}) {
    const DenseMatrix<T> a = in_other_units(almost_singular<T>(n), step);
    const DenseMatrix<T> b = right_hand_sides<T>(n, 2);
    const RightHandSides<T> x = shard_rows(b, layout);
    const Outcome outcome = solve(mesh, shard(a, layout), x);
    EXPECT_EQ(outcome.status, Status::nearly_singular);
    EXPECT_LT(*outcome.rcond, 2 * u);
    EXPECT_GE(*outcome.forward_error, 1.0);
    EXPECT_LE(*outcome.forward_error, 100.0);  // 2 to 6, by the backward error
    EXPECT_TRUE(solves(a, whole(x), b));
    const RightHandSides<T> again = shard_rows(b, layout);
    EXPECT_TRUE(solve(mesh, shard(a, layout), again, {}, Rcond::left_out).ok());
  }
}

TYPED_TEST(Condition, UnitsOfUnknowns_CostNoDigits) {
  using T = TypeParam;
  constexpr double u = unit_roundoff<T>;
  const SlabLayout layout({0, 8, 8, 17, 24}, 4);
  const std::int64_t n = layout.size();
  Mesh mesh = make_mesh(layout.ranks());
  const DenseMatrix<T> a = in_other_units(dense<T>({.n = n, .seed = 3}), 3);
  const DenseMatrix<T> b = right_hand_sides<T>(n, 1);
  const RightHandSides<T> x = shard_rows(b, layout);
  const Outcome outcome = solve(mesh, shard(a, layout), x);
  ASSERT_TRUE(outcome.ok()) << outcome.message();
  EXPECT_LT(*outcome.rcond, 2 * u);
  EXPECT_GE(*outcome.forward_error, 2 * u);
  EXPECT_LE(*outcome.forward_error, 1e4 * u);
}

}  // namespace
}  // namespace shardsolve::testing
