// What scripts/prove_waits.py runs under ThreadSanitizer with one event wait left out: every
// algorithm, on enough ranks and steps that each wait has something to wait for.

#include "mesh/host_backend.hpp"
#include "mesh/mesh_state.hpp"
#include "reference/matmul.hpp"
#include "support/gates.hpp"
#include "support/matrix_zoo.hpp"
#include "support/preparing_backend.hpp"
#include "support/sharded_problem.hpp"

#include <shardsolve/cholesky.hpp>
#include <shardsolve/lu.hpp>
#include <shardsolve/qr.hpp>

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace shardsolve::testing {
namespace {

using Windows = mesh::HostBackend::Windows;

/// How a matrix is cut, and whether the ranks read each other's memory or copy it.
using WaitsCase = std::tuple<std::vector<std::int64_t>, Windows>;

class Waits : public ::testing::TestWithParam<WaitsCase> {
 protected:
  static constexpr std::int64_t tile = 8;
  SlabLayout layout_{std::get<0>(GetParam()), tile};
  Mesh mesh_{mesh::MeshState::start(
      std::make_unique<mesh::HostBackend>(layout_.ranks(), std::get<1>(GetParam())))};
  DenseMatrix<double> a_ = dense<double>({.n = layout_.size(), .seed = 5});
};

TEST_P(Waits, SolveOfManyRightHandSides_WithAllWaits_IsRight) {
  const DenseMatrix<double> b = right_hand_sides<double>(layout_.size(), 2 * tile + 1);
  RightHandSides<double> x = shard_rows(b, layout_);
  const Outcome outcome = solve(mesh_, shard(a_, layout_), x);
  ASSERT_TRUE(outcome.ok()) << outcome.message();
  EXPECT_TRUE(solves(a_, whole(x), b));
  EXPECT_LT(*outcome.backward_error, solve_gate * unit_roundoff<double>);
}

TEST_P(Waits, Inverse_WithAllWaits_IsRight) {
  Mesh preparing{mesh::MeshState::start(
      std::make_unique<PreparingBackend>(layout_.ranks(), std::get<1>(GetParam())))};
  for (Mesh* mesh : {&mesh_, &preparing}) {
    CholeskyFactor<double> factor = cholesky_factor(*mesh, shard(a_, layout_));
    const ShardedMatrix<double> slabs = factor.slabs;
    const Outcome outcome = cholesky_inverse(*mesh, std::move(factor));
    ASSERT_TRUE(outcome.ok()) << outcome.message();
    EXPECT_TRUE(inverts(a_, whole(slabs)));
  }
}

TEST_P(Waits, EveryHalf_WithAllWaits_IsRight) {
  const DenseMatrix<double> b = right_hand_sides<double>(layout_.size(), 2 * tile + 1);
  const CholeskyFactor<double> factor = cholesky_factor(mesh_, shard(a_, layout_));
  const RightHandSides<double> x = shard_rows(b, layout_);
  for (const Half half : {Half::solve, Half::solve_adjoint}) {
    ASSERT_TRUE(cholesky_half(mesh_, factor, x, half).ok());
  }
  EXPECT_TRUE(solves(a_, whole(x), b));
  const DenseMatrix<double> solved = whole(x);
  for (const Half half : {Half::multiply_adjoint, Half::multiply}) {
    ASSERT_TRUE(cholesky_half(mesh_, factor, x, half).ok());
  }
  EXPECT_LT(solve_ratio(a_, solved, whole(x)), solve_gate);
}

TEST_P(Waits, LuAndItsSolves_WithAllWaits_AreRight) {
  const std::int64_t n = layout_.size();
  const DenseMatrix<double> a = right_hand_sides<double>(n, n, 7);
  const DenseMatrix<double> b = right_hand_sides<double>(n, 2 * tile + 1);
  const LuFactor<double> factor = lu_factor(mesh_, shard(a, layout_));
  ASSERT_TRUE(factor.outcome.ok()) << factor.outcome.message();
  for (const Transpose transpose : {Transpose::none, Transpose::transpose}) {
    const RightHandSides<double> x = shard_rows(b, layout_);
    const Outcome outcome = lu_solve(mesh_, factor, x, {}, transpose);
    ASSERT_TRUE(outcome.ok()) << outcome.message();
    const DenseMatrix<double> given = transpose == Transpose::none ? a : reference::transpose(a);
    EXPECT_LT(solve_ratio(given, whole(x), b), solve_gate);
    EXPECT_LT(*outcome.backward_error, solve_gate * unit_roundoff<double>);
  }
}

TEST_P(Waits, LuInverse_WithAllWaits_IsRight) {
  const std::int64_t n = layout_.size();
  const DenseMatrix<double> a = right_hand_sides<double>(n, n, 7);
  LuFactor<double> factor = lu_factor(mesh_, shard(a, layout_));
  const ShardedMatrix<double> x = factor.slabs;
  const Outcome outcome = lu_inverse(mesh_, std::move(factor));
  ASSERT_TRUE(outcome.ok()) << outcome.message();
  EXPECT_FALSE(outcome.component_error) << "by solves";
  EXPECT_LT(inverse_ratio(a, whole(x)), solve_gate);
}

TEST_P(Waits, QrAndLeastSquares_WithAllWaits_AreRight) {
  const std::int64_t m = layout_.size();
  const DenseMatrix<double> b = right_hand_sides<double>(m, 3);
  for (const std::int64_t columns : {std::int64_t{20}, m + 30}) {
    const RowBlocks<double> a = shard_rows(right_hand_sides<double>(m, columns, 7), layout_);
    const LeastSquares<double> found = least_squares(mesh_, a, shard_rows(b, layout_));
    ASSERT_TRUE(found.outcome.ok()) << found.outcome.message();
    EXPECT_LT(*found.outcome.backward_error, solve_gate * unit_roundoff<double>);
  }
  // columns that are dealt
  const RowBlocks<double> dealt = shard_rows(right_hand_sides<double>(m, m - 10, 7), layout_);
  const QrFactor<double> square = qr(mesh_, dealt);
  ASSERT_TRUE(square.outcome.ok()) << square.outcome.message();
  EXPECT_LT(*square.outcome.orthogonality, 5 * solve_gate * unit_roundoff<double>);
  EXPECT_LT(*square.outcome.residual, solve_gate * unit_roundoff<double>);
  // columns that no Gram matrix tells apart
  const RowBlocks<double> zero = shard_rows(DenseMatrix<double>(m, 20), layout_);
  const QrFactor<double> made = qr(mesh_, zero);
  ASSERT_TRUE(made.outcome.ok()) << made.outcome.message();
  EXPECT_LT(*made.outcome.orthogonality, solve_gate * unit_roundoff<double>);
}

/// Even cuts, and one where a rank goes on alone after the others have run out of blocks.
std::vector<std::vector<std::int64_t>> cuts() {
  constexpr std::int64_t n = 115;
  std::vector<std::vector<std::int64_t>> all{{0, 75, 83, 91, n}};
  for (const std::int64_t ranks : {1, 2, 3, 4, 6}) {
    all.push_back(SlabLayout::even(n, ranks, 1).boundaries());
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Meshes, Waits,
                         ::testing::Combine(::testing::ValuesIn(cuts()),
                                            ::testing::Values(Windows::in_place, Windows::copied)),
                         [](const ::testing::TestParamInfo<WaitsCase>& case_info) {
                           std::string name = "cut";
                           for (const std::int64_t boundary : std::get<0>(case_info.param)) {
                             name += '_';
                             name += std::to_string(boundary);
                           }
                           return name + (std::get<1>(case_info.param) == Windows::in_place
                                              ? "_in_place"
                                              : "_copied");
                         });

}  // namespace
}  // namespace shardsolve::testing
