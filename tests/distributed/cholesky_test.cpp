#include <shardsolve/cholesky.hpp>

#include "reference/matmul.hpp"
#include "reference/permute.hpp"
#include "support/dtypes.hpp"
#include "support/gates.hpp"
#include "support/matrix_zoo.hpp"
#include "support/sharded_problem.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace shardsolve::testing {
namespace {

/// A cut of a matrix into slabs.
struct Cut {
  std::string name;
  std::vector<std::int64_t> boundaries;
  std::int64_t tile;
};

std::vector<Cut> cuts() {
  const auto even = [](std::int64_t n, std::int64_t ranks, std::int64_t tile) {
    return SlabLayout::even(n, ranks, tile).boundaries();
  };
  std::vector<Cut> all;
  constexpr std::int64_t tile = 8;
  for (const std::int64_t ranks : {1, 2, 3, 4, 6}) {
    for (const std::int64_t n : {0L, 1L, tile - 1, tile, tile + 1, 5 * tile + 3, 12 * tile + 3}) {
      all.push_back({"n" + std::to_string(n) + "_ranks" + std::to_string(ranks),
                     even(n, ranks, tile), tile});
    }
  }
  all.push_back({"padded_like_jax", {0, 30, 60, 90, 90}, tile});
  all.push_back({"nothing_in_the_middle", {0, 40, 40, 70, 71}, tile});
  all.push_back({"nothing_at_first", {0, 0, 0, 50}, tile});
  all.push_back({"tile_of_one", even(23, 3, 1), 1});
  all.push_back({"tile_wider_than_slabs", even(50, 4, 64), 64});
  return all;
}

template <class T>
class CholeskyFamily : public ::testing::Test {};
TYPED_TEST_SUITE(CholeskyFamily, Dtypes, DtypeNames);

TYPED_TEST(CholeskyFamily, Factor_OnEveryCut_PassesTheGateAndKeepsAllOfA) {
  using T = TypeParam;
  for (const Cut& cut : cuts()) {
    SCOPED_TRACE(cut.name);
    const SlabLayout layout(cut.boundaries, cut.tile);
    Mesh mesh = Mesh::host(layout.ranks());
    const DenseMatrix<T> a = dense<T>({.n = layout.size(), .seed = 3});
    const CholeskyFactor<T> factor = cholesky_factor(mesh, shard(a, layout));
    ASSERT_TRUE(factor.outcome.ok()) << factor.outcome.message();
    const DenseMatrix<T> pap = reference::permute(a, layout);
    const DenseMatrix<T> l = reference::permute(whole(factor.slabs), layout);
    EXPECT_TRUE(factors(pap, l));
    // what is not L is A, bit for bit
    for (std::int64_t j = 0; j < a.columns(); ++j) {
      EXPECT_EQ(std::real(a(j, j)), (*factor.diagonal)[static_cast<std::size_t>(j)]);
      for (std::int64_t i = 0; i < j; ++i) {
        ASSERT_EQ(pap(i, j), l(i, j)) << i << ", " << j;
      }
    }
  }
}

TYPED_TEST(CholeskyFamily, Solve_OnEveryCut_PassesTheGateAndCertifiesIt) {
  using T = TypeParam;
  for (const Cut& cut : cuts()) {
    for (const std::int64_t columns : {1, 3, 20}) {
      SCOPED_TRACE(cut.name + " columns " + std::to_string(columns));
      const SlabLayout layout(cut.boundaries, cut.tile);
      Mesh mesh = Mesh::host(layout.ranks());
      const DenseMatrix<T> a = dense<T>({.n = layout.size(), .seed = 3});
      const DenseMatrix<T> b = right_hand_sides<T>(layout.size(), columns);
      RightHandSides<T> x = shard_rows(b, layout);
      const Outcome outcome = solve(mesh, shard(a, layout), x);
      ASSERT_TRUE(outcome.ok()) << outcome.message();
      EXPECT_TRUE(solves(a, whole(x), b));
      EXPECT_LT(*outcome.backward_error, solve_gate * unit_roundoff<T>);
      EXPECT_GT(*outcome.rcond, 0.05);
      EXPECT_LE(*outcome.rcond, 1.0 + 1e-6);
    }
  }
}

TYPED_TEST(CholeskyFamily, Inverse_OnEveryCut_PassesTheGateAndIsHermitian) {
  using T = TypeParam;
  for (const Cut& cut : cuts()) {
    SCOPED_TRACE(cut.name);
    const SlabLayout layout(cut.boundaries, cut.tile);
    Mesh mesh = Mesh::host(layout.ranks());
    const DenseMatrix<T> a = dense<T>({.n = layout.size(), .seed = 3});
    CholeskyFactor<T> factor = cholesky_factor(mesh, shard(a, layout));
    const ShardedMatrix<T> slabs = factor.slabs;
    const Outcome outcome = cholesky_inverse(mesh, std::move(factor));
    ASSERT_TRUE(outcome.ok()) << outcome.message();
    const DenseMatrix<T> x = whole(slabs);
    EXPECT_TRUE(inverts(a, x));
    EXPECT_LT(*outcome.backward_error, inverse_gate * unit_roundoff<T>);
  }
}

}  // namespace
}  // namespace shardsolve::testing
