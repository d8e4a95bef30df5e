// Inverses of general matrices, on the caller's own A and X: beside LAPACK's, certified, refused or
// solved for.

#include "dense/lu/sketch.hpp"
#include "reference/dense_matrix.hpp"
#include "reference/matmul.hpp"
#include "support/bits.hpp"
#include "support/cuts.hpp"
#include "support/dtypes.hpp"
#include "support/gates.hpp"
#include "support/lapack.hpp"
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
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace shardsolve::testing {
namespace {

template <class T>
class LuInverse : public ::testing::Test {};
TYPED_TEST_SUITE(LuInverse, Dtypes, DtypeNames);

/// One rank; ragged; an empty slab; an odd elimination order; a tile of one column.
std::vector<Cut> inverse_cuts(std::int64_t n) {
  return {{"one", SlabLayout::even(n, 1, 8)},
          {"ragged", SlabLayout({0, n / 3, n / 2, n}, 4)},
          {"one_empty", SlabLayout({0, n / 2, n / 2, n - 1, n}, 5)},
          {"odd_order", SlabLayout({0, n / 4, n / 4 + n / 3, n}, 1)},
          {"one_tile", SlabLayout::even(n, 2, n)}};
}

/// What an inverse gives, and where.
template <Scalar T>
struct Made {
  Outcome outcome;
  DenseMatrix<T> x;
  DenseMatrix<T> a_after;  ///< empty if A was overwritten
};

template <Scalar T>
Made<T> invert(Mesh& mesh, const DenseMatrix<T>& a, const SlabLayout& layout, bool in_place) {
  const ShardedMatrix<T> slabs = shard(a, layout);
  LuFactor<T> factor = in_place ? lu_factor(mesh, slabs, slabs) : lu_factor(mesh, slabs);
  const Outcome factored = factor.outcome;
  if (!factored.ok()) {
    return {factored, {}, {}};
  }
  const ShardedMatrix<T> x = factor.slabs;
  const Outcome outcome = lu_inverse(mesh, std::move(factor));
  return {outcome, whole(x), in_place ? DenseMatrix<T>() : whole(slabs)};
}

/// ||A X - I|| / (||A|| ||X|| u) is at most 10, or four times what LAPACK's X A - I has, of A and
/// of A in the order of elimination.
template <Scalar T>
double inverse_limit(const DenseMatrix<T>& a, const SlabLayout& layout) {
  double peer = 0.0;
  for (const DenseMatrix<T>& one : {a, columns_in_order(a, layout)}) {
    const LapackLu<T> factor = lapack_lu(one);
    if (factor.ok()) {
      peer = std::max(peer, inverse_ratio(reference::transpose(one),
                                          reference::transpose(lapack_lu_inverse(factor))));
    }
  }
  return std::max(10.0, 4.0 * peer);
}

/// The certificate beside the truth: the largest 2-norm of a column of A X - I, over the 1-norms.
template <Scalar T>
double column_ratio(const DenseMatrix<T>& a, const DenseMatrix<T>& x) {
  using reference::widen;
  using Real = reference::WideReal<T>;
  const std::int64_t n = a.rows();
  Real worst = 0;
  for (std::int64_t j = 0; j < n; ++j) {
    Real square = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      reference::Wide<T> sum = i == j ? Real{-1} : Real{0};
      for (std::int64_t k = 0; k < n; ++k) {
        sum += reference::product(widen(a(i, k)), widen(x(k, j)));
      }
      square += std::norm(sum);
    }
    worst = reference::larger(worst, square);
  }
  const Real size = reference::one_norm(a) * reference::one_norm(x);
  return static_cast<double>(std::sqrt(worst) / size) / unit_roundoff<T>;
}

template <Scalar T>
void expect_certified(const LuCase<T>& one, const Made<T>& made) {
  const double truth = column_ratio(one.a, made.x);
  const double said = *made.outcome.backward_error / unit_roundoff<T>;
  EXPECT_TRUE(said >= truth / 3.0 - 1e-3 && said <= 3.0 * truth + 1.0) << said << " for " << truth;
  const double rcond =
      1.0 / static_cast<double>(reference::one_norm(one.a) * reference::one_norm(made.x));
  if (rcond > 0.0) {  // in the range of double
    EXPECT_NEAR(*made.outcome.rcond / rcond, 1.0,
                0.1);  // moduli of complex numbers are rounded down
  }
}

TYPED_TEST(LuInverse, OfEveryMatrixOnEveryCut_IsAsGoodAsLapacksOrRefused) {
  using T = TypeParam;
  for (const std::int64_t n : {2, 7, 8, 40}) {
    for (const Cut& cut : inverse_cuts(n)) {
      Mesh mesh = make_mesh(cut.layout.ranks());
      for (const LuCase<T>& one : lu_zoo<T>(n)) {
        for (const bool in_place : {false, true}) {
          SCOPED_TRACE(one.name + " n " + std::to_string(n) + " " + cut.name +
                       (in_place ? " in place" : ""));
          const Made<T> made = invert(mesh, one.a, cut.layout, in_place);
          if (one.verdict == LuVerdict::singular) {
            EXPECT_EQ(made.outcome.status, Status::singular);
            continue;
          }
          if (!made.outcome.ok()) {
            // Growth, of which solves make good what they can, or rounding decides.
            EXPECT_NE(made.outcome.message(), "");
            EXPECT_TRUE(one.verdict == LuVerdict::any || (in_place && *made.outcome.growth > 1e3))
                << made.outcome.message();
            continue;
          }
          EXPECT_TRUE(in_place || same_bits(made.a_after, one.a)) << "A is not to be written";
          const double ratio = inverse_ratio(one.a, made.x);
          EXPECT_TRUE(ratio <= inverse_limit(one.a, cut.layout)) << ratio;
          if (!made.outcome.component_error) {  // of sweeps
            expect_certified(one, made);
          }
        }
      }
    }
  }
}

TYPED_TEST(LuInverse, OnEveryCut_IsThatOfTheMatrix) {
  using T = TypeParam;
  for (const Cut& cut : cuts()) {
    SCOPED_TRACE(cut.name);
    const std::int64_t n = cut.layout.size();
    const DenseMatrix<T> a = right_hand_sides<T>(n, n, 11);
    Mesh mesh = make_mesh(cut.layout.ranks());
    std::optional<DenseMatrix<T>> kept;
    for (const bool in_place : {false, true}) {
      const Made<T> made = invert(mesh, a, cut.layout, in_place);
      ASSERT_TRUE(made.outcome.ok()) << made.outcome.message();
      EXPECT_TRUE(inverse_ratio(a, made.x) <= inverse_limit(a, cut.layout));
      if (kept) {
        EXPECT_TRUE(same_bits(made.x, *kept)) << "the same sweeps";
      }
      kept = made.x;
    }
  }
}

/// Of which triangles are multiplied with in strips.
TYPED_TEST(LuInverse, OfWideTiles_IsThatOfTheMatrix) {
  using T = TypeParam;
  constexpr std::int64_t n = 300;
  const DenseMatrix<T> a = right_hand_sides<T>(n, n, 11);
  for (const SlabLayout& layout : {SlabLayout::even(n, 1, n), SlabLayout({0, 10, n}, 145)}) {
    Mesh mesh = make_mesh(layout.ranks());
    const Made<T> made = invert(mesh, a, layout, true);
    ASSERT_TRUE(made.outcome.ok()) << made.outcome.message();
    EXPECT_TRUE(inverse_ratio(a, made.x) <= inverse_limit(a, layout));
  }
}

TYPED_TEST(LuInverse, TwoRuns_GiveTheSameBits) {
  using T = TypeParam;
  constexpr std::int64_t n = 90;
  const SlabLayout layout({0, 20, 20, 61, n}, 7);
  const DenseMatrix<T> a = lu_zoo<T>(n).front().a;
  std::optional<Made<T>> first;
  for (int i = 0; i < 5; ++i) {
    Mesh mesh = make_mesh(layout.ranks());
    const Made<T> made = invert(mesh, a, layout, true);
    ASSERT_TRUE(made.outcome.ok());
    if (!first) {
      first = made;
    }
    EXPECT_TRUE(same_bits(made.x, first->x));
    EXPECT_EQ(*made.outcome.backward_error, *first->outcome.backward_error);
  }
}

TYPED_TEST(LuInverse, GrowthThatLeavesNoFactor_IsSolvedForWhereAIsKept) {
  using T = TypeParam;
  constexpr std::int64_t n = 64;
  const LuCase<T> one = lu_zoo<T>(n)[1];
  ASSERT_EQ(one.name, "wilkinson");
  // Entries that are no powers of two in the column that grows, so that it costs digits.
  DenseMatrix<T> a = one.a;
  for (std::int64_t i = 0; i < n; ++i) {
    a(i, n - 1) += RealOf<T>(0.3) / RealOf<T>(i + 3);
  }
  const SlabLayout layout = SlabLayout::even(n, 1, 8);
  Mesh mesh = make_mesh(1);
  const Made<T> kept = invert(mesh, a, layout, false);
  ASSERT_TRUE(kept.outcome.ok()) << kept.outcome.message();
  EXPECT_TRUE(same_bits(kept.a_after, a));
  EXPECT_TRUE(kept.outcome.component_error) << "by solves";
  EXPECT_TRUE(inverse_ratio(a, kept.x) <= 10.0);
  EXPECT_GT(*kept.outcome.growth, 1e3);
  const double rcond =
      1.0 / static_cast<double>(reference::one_norm(a) * reference::one_norm(kept.x));
  EXPECT_NEAR(*kept.outcome.rcond / rcond, 1.0, 1e-4);
  const Made<T> in_place = invert(mesh, a, layout, true);
  EXPECT_TRUE(in_place.outcome.status == Status::inaccurate) << in_place.outcome.message();
}

/// On several ranks the answer of solves goes where that of sweeps does.
TYPED_TEST(LuInverse, AFactorThatIsNotAs_IsFoundOut) {
  using T = TypeParam;
  constexpr std::int64_t n = 40;
  const DenseMatrix<T> a = lu_zoo<T>(n).front().a;
  for (const Cut& cut : inverse_cuts(n)) {
    Mesh mesh = make_mesh(cut.layout.ranks());
    for (const bool in_place : {false, true}) {
      SCOPED_TRACE(cut.name + (in_place ? " in place" : ""));
      const ShardedMatrix<T> slabs = shard(a, cut.layout);
      LuFactor<T> factor = in_place ? lu_factor(mesh, slabs, slabs) : lu_factor(mesh, slabs);
      // One entry of U, changed by some thousand times rounding.
      DenseMatrix<T> changed = whole(factor.slabs);
      changed(n / 2, n - 1) += T(4000 * unit_roundoff<T> * static_cast<double>(n));
      const ShardedMatrix<T> x = shard(changed, cut.layout);
      factor.slabs = x;
      factor.matrix = in_place ? x : factor.matrix;
      const Outcome outcome = lu_inverse(mesh, std::move(factor));
      if (in_place) {
        EXPECT_EQ(outcome.status, Status::inaccurate);
        continue;
      }
      ASSERT_TRUE(outcome.ok()) << outcome.message();
      EXPECT_TRUE(outcome.component_error) << "by solves";
      EXPECT_TRUE(inverse_ratio(a, whole(x)) <= 10.0);
    }
  }
}

TYPED_TEST(LuInverse, NearTheEndsOfTheRange_IsAnAnswerOrAnOverflow) {
  using T = TypeParam;
  using Real = RealOf<T>;
  constexpr std::int64_t n = 24;
  const int far = std::numeric_limits<Real>::max_exponent - 16;
  const SlabLayout layout = SlabLayout::even(n, 2, 4);
  Mesh mesh = make_mesh(2);
  for (const int exponent : {-far, -far / 2, far / 2, far}) {
    SCOPED_TRACE(exponent);
    LuCase<T> one = lu_zoo<T>(n).front();
    for (std::int64_t i = 0; i < n * n; ++i) {
      one.a.data()[i] *= std::ldexp(Real{1}, exponent);
    }
    const Made<T> made = invert(mesh, one.a, layout, true);
    ASSERT_TRUE(made.outcome.ok()) << made.outcome.message();
    EXPECT_TRUE(inverse_ratio(one.a, made.x) <= inverse_limit(one.a, layout));
    expect_certified(one, made);
  }
  DenseMatrix<T> a = DenseMatrix<T>::identity(n);
  a(3, 3) = std::numeric_limits<Real>::min() / 8;
  EXPECT_EQ(invert(mesh, a, layout, true).outcome.status, Status::overflow);
  EXPECT_FALSE(invert(mesh, a, layout, false).outcome.ok());
}

TYPED_TEST(LuInverse, Factor_IsConsumedInAllItsCopies) {
  using T = TypeParam;
  constexpr std::int64_t n = 12;
  const SlabLayout layout = SlabLayout::even(n, 2, 4);
  Mesh mesh = make_mesh(2);
  const DenseMatrix<T> a = lu_zoo<T>(n).front().a;
  LuFactor<T> factor = lu_factor(mesh, shard(a, layout));
  const LuFactor<T> copy = factor;
  ASSERT_TRUE(lu_inverse(mesh, std::move(factor)).ok());
  const RightHandSides<T> b = shard_rows(right_hand_sides<T>(n, 1), layout);
  EXPECT_TRUE(throws(ErrorKind::invalid_argument, [&] { lu_solve(mesh, copy, b); }));
  EXPECT_TRUE(throws(ErrorKind::invalid_argument, [&] { condition_estimate(mesh, copy); }));
  EXPECT_TRUE(throws(ErrorKind::invalid_argument, [&] { lu_inverse(mesh, LuFactor<T>(copy)); }));
  LuFactor<T> singular = lu_factor(mesh, shard(DenseMatrix<T>(n, n), layout));
  EXPECT_TRUE(throws(ErrorKind::invalid_argument, [&] { lu_inverse(mesh, std::move(singular)); }));
}

}  // namespace
}  // namespace shardsolve::testing
