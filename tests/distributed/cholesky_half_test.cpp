// The half F of A = F F^H: on every cut it is the lower triangle that a plain factorisation of
// P A P^T gives, brought back into the order of A.

#include "reference/cholesky.hpp"
#include "reference/matmul.hpp"
#include "reference/permute.hpp"
#include "support/bits.hpp"
#include "support/cuts.hpp"
#include "support/dtypes.hpp"
#include "support/gates.hpp"
#include "support/matrix_zoo.hpp"
#include "support/sharded_problem.hpp"
#include "support/thrown.hpp"

#include <shardsolve/cholesky.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

namespace shardsolve::testing {
namespace {

template <class T>
class HalfFamily : public ::testing::Test {};
TYPED_TEST_SUITE(HalfFamily, Dtypes, DtypeNames);

/// F, whole: P^T L P of what the slabs hold.
template <Scalar T>
DenseMatrix<T> half_of(const CholeskyFactor<T>& factor) {
  DenseMatrix<T> l = reference::permute(whole(factor.slabs), factor.layout());
  for (std::int64_t j = 0; j < l.columns(); ++j) {
    for (std::int64_t i = 0; i < j; ++i) {
      l(i, j) = T{0};
    }
  }
  return reference::unpermute(l, factor.layout());
}

/// A factor and what it is of.
template <Scalar T>
struct Factored {
  Mesh mesh;
  SlabLayout layout;
  DenseMatrix<T> a;
  CholeskyFactor<T> factor;

  explicit Factored(const SlabLayout& on)
      : mesh(make_mesh(on.ranks())),
        layout(on),
        a(dense<T>({.n = on.size(), .seed = 3})),
        factor(cholesky_factor(mesh, shard(a, on))) {}

  DenseMatrix<T> apply(Half half, const DenseMatrix<T>& b) {
    const RightHandSides<T> x = shard_rows(b, layout);
    const Outcome outcome = cholesky_half(mesh, factor, x, half);
    EXPECT_TRUE(outcome.ok()) << outcome.message();
    EXPECT_FALSE(outcome.backward_error);
    return whole(x);
  }
};

/// Of L x = b, with F's rows and columns in the order in which it is triangular.
template <Scalar T>
void expect_solved(const DenseMatrix<T>& half, const DenseMatrix<T>& x, const DenseMatrix<T>& b) {
  EXPECT_LT(solve_ratio(half, x, b), solve_gate);
}

/// ||y - F x|| <= gate u || |F| |x| ||: y is the product.
template <Scalar T>
void expect_product(const DenseMatrix<T>& half, const DenseMatrix<T>& x, const DenseMatrix<T>& y) {
  EXPECT_LT(solve_ratio(half, x, y), solve_gate);
}

TYPED_TEST(HalfFamily, EveryHalf_OnEveryCut_IsThatOfTheFactor) {
  using T = TypeParam;
  for (const Cut& cut : cuts()) {
    Factored<T> system(cut.layout);
    ASSERT_TRUE(system.factor.outcome.ok());
    const DenseMatrix<T> f = half_of(system.factor);
    const DenseMatrix<T> f_adjoint = reference::conjugate_transpose(f);
    EXPECT_TRUE(
        factors(reference::permute(system.a, cut.layout), reference::permute(f, cut.layout)));
    for (const std::int64_t columns : {0, 1, 20}) {  // a tile is of 8
      SCOPED_TRACE(cut.name + " columns " + std::to_string(columns));
      const DenseMatrix<T> b = right_hand_sides<T>(cut.layout.size(), columns);
      expect_solved(f, system.apply(Half::solve, b), b);
      expect_solved(f_adjoint, system.apply(Half::solve_adjoint, b), b);
      expect_product(f, b, system.apply(Half::multiply, b));
      expect_product(f_adjoint, b, system.apply(Half::multiply_adjoint, b));
    }
  }
}

TYPED_TEST(HalfFamily, BothSolves_AreTheSolve) {
  using T = TypeParam;
  for (const std::int64_t ranks : {1, 3}) {
    Factored<T> system(SlabLayout::even(83, ranks, 8));
    const DenseMatrix<T> b = right_hand_sides<T>(83, 11);
    const DenseMatrix<T> x = system.apply(Half::solve_adjoint, system.apply(Half::solve, b));
    EXPECT_TRUE(solves(system.a, x, b));
  }
}

TYPED_TEST(HalfFamily, SameCall_GivesTheSameBits) {
  using T = TypeParam;
  Factored<T> system(SlabLayout::even(83, 3, 8));
  const DenseMatrix<T> b = right_hand_sides<T>(83, 11);
  for (const Half half :
       {Half::solve, Half::solve_adjoint, Half::multiply, Half::multiply_adjoint}) {
    EXPECT_TRUE(same_bits(system.apply(half, b), system.apply(half, b)));
  }
}

TEST(Half, NotANumber_IsNamedAndNothingIsWritten) {
  Factored<double> system(SlabLayout::even(30, 3, 4));
  DenseMatrix<double> b = right_hand_sides<double>(30, 2);
  b(17, 1) = std::numeric_limits<double>::quiet_NaN();
  const RightHandSides<double> x = shard_rows(b, system.layout);
  const Outcome outcome = cholesky_half(system.mesh, system.factor, x, Half::multiply);
  EXPECT_EQ(outcome.status, Status::nonfinite_input);
  EXPECT_THAT(outcome.message(), ::testing::HasSubstr("row 17"));
  EXPECT_TRUE(same_bits(whole(x), b));
}

TEST(Half, TooLarge_IsAnOverflow) {
  Mesh mesh = make_mesh(2);
  DenseMatrix<float> a(4, 4);
  for (std::int64_t i = 0; i < 4; ++i) {
    a(i, i) = 1e20F;
  }
  const SlabLayout layout = SlabLayout::even(4, 2, 1);
  const CholeskyFactor<float> factor = cholesky_factor(mesh, shard(a, layout));
  DenseMatrix<float> b(4, 1);
  b(2, 0) = 1e35F;
  const RightHandSides<float> x = shard_rows(b, layout);
  EXPECT_EQ(cholesky_half(mesh, factor, x, Half::multiply).status, Status::overflow);
}

TEST(Half, Misuse_IsRefused) {
  Factored<double> system(SlabLayout::even(30, 2, 4));
  const RightHandSides<double> x = shard_rows(right_hand_sides<double>(30, 1), system.layout);
  const auto unknown =
      thrown_by([&] { cholesky_half(system.mesh, system.factor, x, static_cast<Half>(9)); });
  ASSERT_TRUE(unknown);
  EXPECT_EQ(unknown->kind(), ErrorKind::unsupported);
  const RightHandSides<double> other =
      shard_rows(right_hand_sides<double>(30, 1), SlabLayout::even(30, 2, 5));
  const auto elsewhere =
      thrown_by([&] { cholesky_half(system.mesh, system.factor, other, Half::solve); });
  ASSERT_TRUE(elsewhere);
  EXPECT_EQ(elsewhere->kind(), ErrorKind::invalid_argument);
}

}  // namespace
}  // namespace shardsolve::testing
