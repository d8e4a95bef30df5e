// Ranks without columns: their parts may be given as views of nothing.

#include "support/process_meshes.hpp"
#include "support/rank_program.hpp"
#include "support/sharded_problem.hpp"
#include "support/thrown.hpp"

#include <shardsolve/cholesky.hpp>
#include <shardsolve/device_memory.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

namespace shardsolve::testing {
namespace {

constexpr std::int64_t n = 40;
const SlabLayout& layout() {
  static const SlabLayout one_is_empty({0, n, n}, 8);
  return one_is_empty;
}

template <class View>
std::vector<View> here_or_nothing(View view, bool here) {
  return {here ? view : View{}, View{}};
}

TEST(EmptyPart, GivenAsNothing_HasTheShapeOfItsRank) {
  std::vector<double> memory(n * n);
  const ShardedMatrix<double> a(layout(), {{memory.data(), n, n}, {}});
  EXPECT_EQ(a.slab(1).rows(), n);
  EXPECT_EQ(a.slab(1).columns(), 0);
  const RightHandSides<double> b(layout(), {{memory.data(), n, 3}, {}});
  EXPECT_EQ(b.block(1).rows(), 0);
  EXPECT_EQ(b.block(1).columns(), 3);
}

/// Everything that a call does with the parts of its rank.
TEST(EmptyPart, GivenAsNothing_IsSolvedWith) {
  Mesh mesh = Mesh::host(2);
  const DenseMatrix<double> dense_a = dense<double>({.n = n, .seed = 3});
  const RunOptions soon{.silence_limit = std::chrono::seconds(5)};
  for (const std::int64_t columns : {1, 3}) {
    DenseMatrix<double> a = dense_a;
    const DenseMatrix<double> b = right_hand_sides<double>(n, columns);
    DenseMatrix<double> x = b;
    const ShardedMatrix<double> slabs(layout(), here_or_nothing(a.view(), true));
    const RightHandSides<double> sides(layout(), here_or_nothing(x.view(), true));
    copy(mesh, sides, RightHandSides<double>(layout(), columns));
    CholeskyFactor<double> factor = cholesky_factor(mesh, slabs, soon);
    ASSERT_TRUE(factor.outcome.ok()) << factor.outcome.message();
    ASSERT_TRUE(cholesky_solve(mesh, factor, sides, soon).ok());
    EXPECT_TRUE(solves(dense_a, x, b));
    EXPECT_TRUE(cholesky_inverse(mesh, std::move(factor), soon).ok());
  }
}

/// The process of the rank without rows knows only from its own block how many columns there are.
TEST(EmptyPart, GivenAsNothingInItsProcess_IsRefusedInAll) {
  ProcessMeshes on(2);
  const DenseMatrix<double> dense_a = dense<double>({.n = n, .seed = 3});
  const DenseMatrix<double> dense_b = right_hand_sides<double>(n, 3);
  const RunOptions soon{.silence_limit = std::chrono::seconds(5)};
  const auto solve_with = [&](bool with_shape) {
    return on.together([&](Mesh& mesh, std::int64_t rank) {
      DenseMatrix<double> a = dense_a;
      DenseMatrix<double> b = dense_b;
      auto blocks = here_or_nothing(b.view(), rank == 0);
      if (with_shape) {
        blocks[1] = {nullptr, 0, 3};
      }
      const ShardedMatrix<double> slabs(layout(), here_or_nothing(a.view(), rank == 0));
      const Outcome outcome = solve(mesh, slabs, RightHandSides<double>(layout(), blocks), soon);
      EXPECT_TRUE(outcome.ok()) << outcome.message();
      if (rank == 0) {
        EXPECT_TRUE(solves(dense_a, b, dense_b));
      }
    });
  };
  for (const auto& error : solve_with(false)) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::invalid_argument) << error->what();
    EXPECT_THAT(error->what(), ::testing::HasSubstr("0 x k"));
  }
  for (const auto& error : solve_with(true)) {
    EXPECT_FALSE(error) << error->what();
  }
}

}  // namespace
}  // namespace shardsolve::testing
