// The backward error that a solve reports, beside the same evaluated in wider arithmetic: where all
// terms have one sign, rounding in a long sum would hide it.

#include "support/backend.hpp"
#include "support/dtypes.hpp"
#include "support/gates.hpp"
#include "support/matrix_zoo.hpp"
#include "support/sharded_problem.hpp"

#include <shardsolve/cholesky.hpp>

#include <gtest/gtest.h>

#include <complex>
#include <cstdint>
#include <limits>

namespace shardsolve::testing {
namespace {

template <class T>
class Certificate : public ::testing::Test {};
TYPED_TEST_SUITE(Certificate, Dtypes, DtypeNames);

template <Scalar T>
constexpr double unit_roundoff = std::numeric_limits<RealOf<T>>::epsilon() / 2;

/// Two on the diagonal, and one part in a thousand everywhere.
template <Scalar T>
DenseMatrix<T> one_sign(std::int64_t n) {
  DenseMatrix<T> a(n, n);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < n; ++i) {
      a(i, j) = static_cast<RealOf<T>>(i == j ? 2.001 : 0.001);
    }
  }
  return a;
}

template <Scalar T>
DenseMatrix<T> positive(std::int64_t n, std::int64_t columns) {
  DenseMatrix<T> b(n, columns);
  for (std::int64_t j = 0; j < columns; ++j) {
    for (std::int64_t i = 0; i < n; ++i) {
      b(i, j) = static_cast<RealOf<T>>(j == 0 ? 1.0 : 1.0 + 0.1 * static_cast<double>((i * j) % 7));
    }
  }
  return b;
}

/// What is reported over what is true.
template <Scalar T>
double reported_over_true(const DenseMatrix<T>& a, const DenseMatrix<T>& b,
                          const SlabLayout& layout) {
  Mesh mesh = make_mesh(layout.ranks());
  const RightHandSides<T> x = shard_rows(b, layout);
  const Outcome outcome = solve(mesh, shard(a, layout), x);
  EXPECT_TRUE(outcome.ok()) << outcome.message();
  return *outcome.backward_error / unit_roundoff<T> / solve_ratio(a, whole(x), b);
}

TYPED_TEST(Certificate, WhereAllTermsHaveOneSign_IsTheTrueBackwardError) {
  using T = TypeParam;
  constexpr std::int64_t n = 700;
  const DenseMatrix<T> a = one_sign<T>(n);
  for (const std::int64_t ranks : {1, 2}) {
    SCOPED_TRACE(ranks);
    const SlabLayout layout = SlabLayout::even(n, ranks, 128);
    EXPECT_NEAR(reported_over_true(a, positive<T>(n, 1), layout), 1.0, 0.05);
    const double of_several = reported_over_true(a, positive<T>(n, 5), layout);
    EXPECT_GT(of_several, 0.5);
    EXPECT_LT(of_several, 1.05);
  }
}

TYPED_TEST(Certificate, OfOneRightHandSide_IsRefinedToARounding) {
  using T = TypeParam;
  constexpr std::int64_t n = 700;
  const DenseMatrix<T> a = one_sign<T>(n);
  const DenseMatrix<T> b = positive<T>(n, 1);
  const SlabLayout layout = SlabLayout::even(n, 2, 128);
  Mesh mesh = make_mesh(layout.ranks());
  const RightHandSides<T> x = shard_rows(b, layout);
  ASSERT_TRUE(solve(mesh, shard(a, layout), x).ok());
  EXPECT_LT(solve_ratio(a, whole(x), b), 4.0);
}

}  // namespace
}  // namespace shardsolve::testing
