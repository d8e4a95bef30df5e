#include "reference/cholesky.hpp"

#include "reference/matmul.hpp"
#include "reference/permute.hpp"
#include "support/bits.hpp"
#include "support/cuts.hpp"
#include "support/dtypes.hpp"
#include "support/gates.hpp"
#include "support/matrix_zoo.hpp"
#include "support/sharded_problem.hpp"

#include <shardsolve/cholesky.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>

namespace shardsolve::testing {
namespace {

template <class T>
class CholeskyFamily : public ::testing::Test {};
TYPED_TEST_SUITE(CholeskyFamily, Dtypes, DtypeNames);

/// What is not L is A, bit for bit; the diagonal is apart.
template <Scalar T>
void expect_rest_is_a(const CholeskyFactor<T>& factor, const DenseMatrix<T>& a) {
  const DenseMatrix<T> slabs = whole(factor.slabs);
  DenseMatrix<T> kept = a;
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    EXPECT_EQ(std::real(a(j, j)), (*factor.diagonal)[static_cast<std::size_t>(j)]);
    for (std::int64_t i = 0; i < a.rows(); ++i) {
      const bool above =
          factor.layout().position(GlobalIndex(i)) < factor.layout().position(GlobalIndex(j));
      kept(i, j) = above ? a(i, j) : slabs(i, j);
    }
  }
  EXPECT_TRUE(same_bits(slabs, kept));
}

TYPED_TEST(CholeskyFamily, Factor_OnEveryCut_PassesTheGateAndKeepsAllOfA) {
  using T = TypeParam;
  for (const Cut& cut : cuts()) {
    SCOPED_TRACE(cut.name);
    Mesh mesh = make_mesh(cut.layout.ranks());
    const DenseMatrix<T> a = dense<T>({.n = cut.layout.size(), .seed = 3});
    const CholeskyFactor<T> factor = cholesky_factor(mesh, shard(a, cut.layout));
    ASSERT_TRUE(factor.outcome.ok()) << factor.outcome.message();
    const DenseMatrix<T> pap = reference::permute(a, cut.layout);
    EXPECT_TRUE(factors(pap, reference::permute(whole(factor.slabs), cut.layout)));
    expect_rest_is_a(factor, a);
    EXPECT_NEAR(factor.norm.value(), static_cast<double>(reference::one_norm(a)),
                1e-13 * factor.norm.value());
    const double expected = reference::log_determinant(a);
    const double tolerance = 30.0 * unit_roundoff<T> * static_cast<double>(a.rows());
    EXPECT_NEAR(log_determinant(factor), expected, tolerance * (1.0 + std::abs(expected)));
  }
}

TYPED_TEST(CholeskyFamily, Solve_OnEveryCut_PassesTheGateAndCertifiesIt) {
  using T = TypeParam;
  for (const Cut& cut : cuts()) {
    Mesh mesh = make_mesh(cut.layout.ranks());
    const DenseMatrix<T> a = dense<T>({.n = cut.layout.size(), .seed = 3});
    for (const std::int64_t columns : {1, 20}) {
      SCOPED_TRACE(cut.name + " columns " + std::to_string(columns));
      const DenseMatrix<T> b = right_hand_sides<T>(a.rows(), columns);
      const RightHandSides<T> x = shard_rows(b, cut.layout);
      const Outcome outcome = solve(mesh, shard(a, cut.layout), x);
      ASSERT_TRUE(outcome.ok()) << outcome.message();
      EXPECT_TRUE(solves(a, whole(x), b));
      EXPECT_LT(*outcome.backward_error, solve_gate * unit_roundoff<T>);
      EXPECT_GT(*outcome.rcond, 0.05);
      EXPECT_LE(*outcome.rcond, 1.0 + 1e-6);
    }
  }
}

TYPED_TEST(CholeskyFamily, SolveWithoutRcond_GivesTheSameBitsForLessWork) {
  using T = TypeParam;
  Mesh mesh = make_mesh(3);
  const SlabLayout layout = SlabLayout::even(50, 3, 6);
  const DenseMatrix<T> a = dense<T>({.n = layout.size(), .seed = 3});
  const DenseMatrix<T> b = right_hand_sides<T>(layout.size(), 2);
  const RightHandSides<T> x = shard_rows(b, layout);
  const Outcome with = solve(mesh, shard(a, layout), x);
  const RightHandSides<T> y = shard_rows(b, layout);
  const Outcome without = solve(mesh, shard(a, layout), y, {}, Rcond::left_out);
  ASSERT_TRUE(with.ok() && without.ok()) << with.message() << without.message();
  EXPECT_TRUE(same_bits(whole(x), whole(y)));
  EXPECT_EQ(without.backward_error, with.backward_error);
  EXPECT_TRUE(with.rcond);
  EXPECT_FALSE(without.rcond);
  EXPECT_LT(without.flops, with.flops);
}

TYPED_TEST(CholeskyFamily, Inverse_OnEveryCut_PassesTheGateAndIsHermitian) {
  using T = TypeParam;
  for (const Cut& cut : cuts()) {
    SCOPED_TRACE(cut.name);
    Mesh mesh = make_mesh(cut.layout.ranks());
    const DenseMatrix<T> a = dense<T>({.n = cut.layout.size(), .seed = 3});
    CholeskyFactor<T> factor = cholesky_factor(mesh, shard(a, cut.layout));
    const ShardedMatrix<T> slabs = factor.slabs;
    const Outcome outcome = cholesky_inverse(mesh, std::move(factor));
    ASSERT_TRUE(outcome.ok()) << outcome.message();
    const DenseMatrix<T> x = whole(slabs);
    EXPECT_TRUE(inverts(a, x));
    EXPECT_TRUE(x == reference::conjugate_transpose(x)) << "not Hermitian to the last bit";
    EXPECT_LT(*outcome.backward_error, inverse_gate * unit_roundoff<T>);
    const auto condition = static_cast<double>(reference::one_norm(a) * reference::one_norm(x));
    EXPECT_NEAR(*outcome.rcond, a.rows() == 0 ? 1.0 : 1.0 / condition, 1e-12);
  }
}

}  // namespace
}  // namespace shardsolve::testing
