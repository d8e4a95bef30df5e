// LU in the place of A: answers are certified by a sketch that was made before.

#include "reference/dense_matrix.hpp"
#include "reference/matmul.hpp"
#include "support/bits.hpp"
#include "support/cuts.hpp"
#include "support/dtypes.hpp"
#include "support/lu_zoo.hpp"
#include "support/matrix_zoo.hpp"
#include "support/sharded_problem.hpp"
#include "support/thrown.hpp"

#include <shardsolve/lu.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace shardsolve::testing {
namespace {

using reference::Op;

template <class T>
class LuInPlace : public ::testing::Test {};
TYPED_TEST_SUITE(LuInPlace, Dtypes, DtypeNames);

/// The largest ||A x - b|| / (||A||_F ||x|| + ||b||) of a column, in units of rounding.
template <Scalar T>
double frobenius_ratio(const DenseMatrix<T>& a, const DenseMatrix<T>& x, const DenseMatrix<T>& b) {
  using reference::widen;
  using Real = reference::WideReal<T>;
  const std::int64_t n = a.rows();
  Real of_a = 0;
  for (std::int64_t i = 0; i < n * n; ++i) {
    of_a += std::norm(widen(a.data()[i]));
  }
  Real worst = 0;
  for (std::int64_t j = 0; j < b.columns(); ++j) {
    Real of_x = 0;
    Real of_b = 0;
    Real of_residual = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      reference::Wide<T> residual = widen(b(i, j));
      for (std::int64_t k = 0; k < n; ++k) {
        residual -= reference::product(widen(a(i, k)), widen(x(k, j)));
      }
      of_x += std::norm(widen(x(i, j)));
      of_b += std::norm(widen(b(i, j)));
      of_residual += std::norm(residual);
    }
    const Real size = std::sqrt(of_a) * std::sqrt(of_x) + std::sqrt(of_b);
    worst = reference::larger(worst, size > 0 ? std::sqrt(of_residual) / size : Real{0});
  }
  return static_cast<double>(worst) / unit_roundoff<T>;
}

template <Scalar T>
DenseMatrix<T> as_asked(Op op, const DenseMatrix<T>& a) {
  return reference::matmul(op, a, Op::none, DenseMatrix<T>::identity(a.rows()));
}

struct Kind {
  Transpose transpose;
  Op op;
};
const std::vector<Kind> kinds{{Transpose::none, Op::none},
                              {Transpose::transpose, Op::transpose},
                              {Transpose::adjoint, Op::conjugate_transpose}};

std::vector<Cut> some_cuts(std::int64_t n) {
  return {{"one", SlabLayout::even(n, 1, 8)},
          {"ragged", SlabLayout({0, n / 3, n / 2, n}, 4)},
          {"one_empty", SlabLayout({0, n / 2, n / 2, n - 1, n}, 5)}};
}

TYPED_TEST(LuInPlace, Solve_OfEveryMatrix_IsCertifiedByTheSketchOrRefused) {
  using T = TypeParam;
  constexpr double u = unit_roundoff<T>;
  for (const std::int64_t n : {7, 40}) {
    const DenseMatrix<T> b = right_hand_sides<T>(n, 11);
    for (const Cut& cut : some_cuts(n)) {
      Mesh mesh = make_mesh(cut.layout.ranks());
      for (const LuCase<T>& one : lu_zoo<T>(n)) {
        SCOPED_TRACE(one.name + " n " + std::to_string(n) + " " + cut.name);
        const ShardedMatrix<T> a = shard(one.a, cut.layout);
        const LuFactor<T> factor = lu_factor(mesh, a, a);
        if (one.verdict != LuVerdict::solved && !factor.outcome.ok()) {
          EXPECT_EQ(factor.outcome.status, Status::singular);
          continue;
        }
        const LuFactor<T> kept = lu_factor(mesh, shard(one.a, cut.layout));
        EXPECT_TRUE(same_bits(whole(a), whole(kept.slabs)));
        EXPECT_EQ(factor.log_modulus, kept.log_modulus);
        for (const Kind& kind : kinds) {
          SCOPED_TRACE("op " + std::to_string(static_cast<int>(kind.op)));
          const RightHandSides<T> x = shard_rows(b, cut.layout);
          const Outcome outcome = lu_solve(mesh, factor, x, {}, kind.transpose);
          if (!outcome.ok()) {
            EXPECT_TRUE(one.verdict == LuVerdict::any || *outcome.growth > 100.0 ||
                        !(*outcome.backward_error < 10.0 * u))
                << outcome.message();
            continue;
          }
          EXPECT_FALSE(outcome.component_error);
          const double truth = frobenius_ratio(as_asked(kind.op, one.a), whole(x), b);
          const double said = *outcome.backward_error / u;
          EXPECT_TRUE(truth <= 20.0) << truth;  // at most 10 by the estimate
          EXPECT_TRUE(said >= truth / 3.0 - 1e-9 && said <= 3.0 * truth + 0.01)
              << said << " for " << truth;
        }
      }
    }
  }
}

TYPED_TEST(LuInPlace, XThatIsWrongInOneRow_IsInaccurate) {
  using T = TypeParam;
  constexpr std::int64_t n = 60;
  const DenseMatrix<T> a = lu_zoo<T>(n).front().a;
  const DenseMatrix<T> b = right_hand_sides<T>(n, 2);
  for (const Cut& cut : some_cuts(n)) {
    Mesh mesh = make_mesh(cut.layout.ranks());
    const ShardedMatrix<T> slabs = shard(a, cut.layout);
    const LuFactor<T> factor = lu_factor(mesh, slabs, slabs);
    // One entry of U, changed by some thousand times rounding.
    DenseMatrix<T> changed = whole(slabs);
    changed(n / 2, n - 1) += T(4000 * unit_roundoff<T> * static_cast<double>(n));
    LuFactor<T> wrong = factor;
    wrong.slabs = shard(changed, cut.layout);
    wrong.matrix = wrong.slabs;
    for (const Kind& kind : kinds) {
      SCOPED_TRACE(cut.name + " op " + std::to_string(static_cast<int>(kind.op)));
      const RightHandSides<T> x = shard_rows(b, cut.layout);
      const Outcome outcome = lu_solve(mesh, wrong, x, {}, kind.transpose);
      EXPECT_EQ(outcome.status, Status::inaccurate) << *outcome.backward_error / unit_roundoff<T>;
      const double truth = frobenius_ratio(as_asked(kind.op, a), whole(x), b);
      const double said = *outcome.backward_error / unit_roundoff<T>;
      EXPECT_TRUE(said >= truth / 3.0 && said <= 3.0 * truth) << said << " for " << truth;
    }
  }
}

TYPED_TEST(LuInPlace, SystemsNearTheEndsOfTheRange_AreSolved) {
  using T = TypeParam;
  using Real = RealOf<T>;
  constexpr std::int64_t n = 24;
  const int far = std::numeric_limits<Real>::max_exponent - 12;
  const DenseMatrix<T> a = lu_zoo<T>(n).front().a;
  const DenseMatrix<T> b = right_hand_sides<T>(n, 1);
  Mesh mesh = make_mesh(2);
  const SlabLayout layout = SlabLayout::even(n, 2, 4);
  for (const int of_a : {-far, 0, far}) {
    for (const int of_b : {-far, 0, far}) {
      if (std::abs(of_b - of_a) > far) {
        continue;  // x is out of range
      }
      SCOPED_TRACE(std::to_string(of_a) + " " + std::to_string(of_b));
      DenseMatrix<T> scaled_a = a;
      DenseMatrix<T> scaled_b = b;
      for (std::int64_t i = 0; i < n * n; ++i) {
        scaled_a.data()[i] *= std::ldexp(Real{1}, of_a);
      }
      for (std::int64_t i = 0; i < n; ++i) {
        scaled_b.data()[i] *= std::ldexp(Real{1}, of_b);
      }
      const ShardedMatrix<T> slabs = shard(scaled_a, layout);
      const LuFactor<T> factor = lu_factor(mesh, slabs, slabs);
      const RightHandSides<T> x = shard_rows(scaled_b, layout);
      const Outcome outcome = lu_solve(mesh, factor, x);
      EXPECT_TRUE(outcome.ok()) << outcome.message();
      EXPECT_LT(*outcome.backward_error, 4.0 * unit_roundoff<T>);
    }
  }
}

TYPED_TEST(LuInPlace, ConditionNumber_IsThatOfTheFactorThatKeepsA) {
  using T = TypeParam;
  constexpr std::int64_t n = 33;
  const DenseMatrix<T> a = lu_zoo<T>(n).front().a;
  Mesh mesh = make_mesh(3);
  const SlabLayout layout = SlabLayout::even(n, 3, 4);
  const ShardedMatrix<T> slabs = shard(a, layout);
  const LuFactor<T> factor = lu_factor(mesh, slabs, slabs);
  EXPECT_EQ(condition_estimate(mesh, factor),
            condition_estimate(mesh, lu_factor(mesh, shard(a, layout))));
}

TYPED_TEST(LuInPlace, ConditionNumberAfterGrowth_IsRefused) {
  using T = TypeParam;
  constexpr std::int64_t n = 70;  // growth 2^69
  DenseMatrix<T> a(n, n);
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      a(i, j) = j == n - 1 || i == j ? T{1} : i > j ? T{-1} : T{0};
    }
  }
  Mesh mesh = make_mesh(3);
  const ShardedMatrix<T> slabs = shard(a, SlabLayout({0, n, n, n}, 4));  // in their order
  const LuFactor<T> factor = lu_factor(mesh, slabs, slabs);
  ASSERT_GT(*factor.outcome.growth, 1e20);
  EXPECT_TRUE(throws(ErrorKind::unsupported, [&] { condition_estimate(mesh, factor); }));
}

}  // namespace
}  // namespace shardsolve::testing
