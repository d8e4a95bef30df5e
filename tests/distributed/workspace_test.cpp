// A plan is made before anything is allocated: what a call then takes has to be what was said.

#include "dense/qr/lstsq_in_steps.hpp"
#include "dense/qr/plan.hpp"
#include "mesh/mesh_state.hpp"
#include "mesh/rank.hpp"
#include "support/matrix_zoo.hpp"
#include "support/sharded_problem.hpp"

#include <shardsolve/cholesky.hpp>
#include <shardsolve/lu.hpp>
#include <shardsolve/plan.hpp>
#include <shardsolve/qr.hpp>
#include <shardsolve/svd.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace shardsolve::testing {
namespace {

struct Shape {
  std::string name;
  SlabLayout layout;

  friend std::ostream& operator<<(std::ostream& out, const Shape& shape) {
    return out << shape.name;
  }
};

/// Pieces are rounded up.
constexpr std::int64_t small_change = 64 * 512;

/// Bytes that the rank that takes most has taken.
std::int64_t most_taken(Mesh& mesh) {
  std::mutex mutex;
  std::int64_t most = 0;
  mesh.state().run({}, [&](mesh::Rank& rank) {
    const std::lock_guard lock(mutex);
    most = std::max(most, rank.max_workspace());
  });
  return most;
}

class Workspace : public ::testing::TestWithParam<Shape> {
 protected:
  const SlabLayout& layout_ = GetParam().layout;
  Mesh mesh_ = Mesh::host(layout_.ranks());
  ShardedMatrix<double> matrix_ =
      shard(dense<double>({.kind = matgen::Kind::minimum, .n = layout_.size()}), layout_);

  /// Bytes that the rank that takes most has taken in one run of a call, on a mesh that has made no
  /// other.
  template <class Call>
  std::int64_t taken_by(Call call) const {
    Mesh mesh = Mesh::host(layout_.ranks());
    call(mesh);
    return most_taken(mesh);
  }
};

TEST_P(Workspace, OfAFactor_IsWhatThePlanSays) {
  const Plan plan = plan_cholesky_factor(layout_, Dtype::float64);
  const std::int64_t taken = taken_by([&](Mesh& mesh) { cholesky_factor(mesh, matrix_); });
  EXPECT_LE(taken, plan.workspace_bytes + small_change);
  EXPECT_GE(taken, plan.workspace_bytes / 2);
}

TEST_P(Workspace, OfASolve_IsWhatThePlanSays) {
  const CholeskyFactor<double> factor = cholesky_factor(mesh_, matrix_);
  ASSERT_TRUE(factor.outcome.ok());
  for (const std::int64_t columns : {1, 5, 100}) {
    SCOPED_TRACE(columns);
    const RightHandSides<double> b =
        shard_rows(right_hand_sides<double>(layout_.size(), columns), layout_);
    // what the solve copies of B is in the plan's workspace
    const Plan plan = plan_cholesky_solve(layout_, Dtype::float64, columns);
    const std::int64_t taken = taken_by([&](Mesh& mesh) { cholesky_solve(mesh, factor, b); });
    EXPECT_LE(taken, plan.workspace_bytes + small_change);
    EXPECT_GE(taken, plan.workspace_bytes / 3);
  }
}

TEST_P(Workspace, OfAConditionEstimate_IsThatOfASolve) {
  const CholeskyFactor<double> factor = cholesky_factor(mesh_, matrix_);
  ASSERT_TRUE(factor.outcome.ok());
  const Plan plan = plan_cholesky_solve(layout_, Dtype::float64, 1);
  const std::int64_t taken = taken_by([&](Mesh& mesh) { condition_estimate(mesh, factor); });
  EXPECT_LE(taken, plan.workspace_bytes + small_change);
}

TEST_P(Workspace, OfAHalf_IsWhatThePlanSays) {
  const CholeskyFactor<double> factor = cholesky_factor(mesh_, matrix_);
  ASSERT_TRUE(factor.outcome.ok());
  for (const std::int64_t columns : {1, 100}) {
    const RightHandSides<double> b =
        shard_rows(right_hand_sides<double>(layout_.size(), columns), layout_);
    const Plan plan = plan_cholesky_half(layout_, Dtype::float64, columns);
    for (const Half half :
         {Half::solve, Half::solve_adjoint, Half::multiply, Half::multiply_adjoint}) {
      SCOPED_TRACE(::testing::Message() << columns << " " << static_cast<int>(half));
      const std::int64_t taken =
          taken_by([&](Mesh& mesh) { cholesky_half(mesh, factor, b, half); });
      EXPECT_LE(taken, plan.workspace_bytes + small_change);
    }
  }
}

TEST_P(Workspace, OfAnInverse_IsWhatThePlanSays) {
  CholeskyFactor<double> factor = cholesky_factor(mesh_, matrix_);
  ASSERT_TRUE(factor.outcome.ok());
  const Plan plan = plan_cholesky_inverse(layout_, Dtype::float64);
  const std::int64_t taken =
      taken_by([&](Mesh& mesh) { cholesky_inverse(mesh, std::move(factor)); });
  EXPECT_LE(taken, plan.workspace_bytes + small_change);
}

TEST_P(Workspace, OfAnLuFactor_IsWhatThePlanSays) {
  const Plan plan = plan_lu_factor(layout_, Dtype::float64);
  const std::int64_t taken = taken_by([&](Mesh& mesh) { lu_factor(mesh, matrix_); });
  EXPECT_LE(taken, plan.workspace_bytes + small_change);
  EXPECT_GE(taken, plan.workspace_bytes / 2);
}

TEST_P(Workspace, OfAnLuFactorInPlaceAndItsSolves_IsWhatThePlanSays) {
  const Plan plan = plan_lu_factor_in_place(layout_, Dtype::float64);
  EXPECT_LT(plan.matrix_bytes, plan_lu_factor(layout_, Dtype::float64).matrix_bytes);
  const ShardedMatrix<double> a = shard(whole(matrix_), layout_);
  std::optional<LuFactor<double>> factor;
  const std::int64_t taken = taken_by([&](Mesh& mesh) { factor = lu_factor(mesh, a, a); });
  EXPECT_LE(taken, plan.workspace_bytes + small_change);
  EXPECT_GE(taken, plan.workspace_bytes / 2);
  for (const std::int64_t columns : {1, 100}) {
    const RightHandSides<double> b =
        shard_rows(right_hand_sides<double>(layout_.size(), columns), layout_);
    EXPECT_LE(taken_by([&](Mesh& mesh) { lu_solve(mesh, *factor, b); }),
              plan_lu_solve(layout_, Dtype::float64, columns).workspace_bytes + small_change);
  }
}

TEST_P(Workspace, OfAnLuInverse_IsWhatThePlanSays) {
  const Plan plan = plan_lu_inverse(layout_, Dtype::float64);
  LuFactor<double> factor = lu_factor(mesh_, matrix_);
  ASSERT_TRUE(factor.outcome.ok());
  const std::int64_t taken =
      taken_by([&](Mesh& mesh) { EXPECT_TRUE(lu_inverse(mesh, std::move(factor)).ok()); });
  EXPECT_LE(taken, plan.workspace_bytes + small_change);
  EXPECT_GE(taken, plan.workspace_bytes / 2);
  const Plan in_place = plan_lu_inverse_in_place(layout_, Dtype::float64);
  EXPECT_LT(in_place.matrix_bytes, plan.matrix_bytes);
  const ShardedMatrix<double> a = shard(whole(matrix_), layout_);
  LuFactor<double> overwriting = lu_factor(mesh_, a, a);
  EXPECT_LE(taken_by([&](Mesh& mesh) { lu_inverse(mesh, std::move(overwriting)); }),
            in_place.workspace_bytes + small_change);
}

TEST_P(Workspace, OfAnLuSolve_IsWhatThePlanSays) {
  const LuFactor<double> factor = lu_factor(mesh_, matrix_);
  ASSERT_TRUE(factor.outcome.ok());
  for (const std::int64_t columns : {1, 5, 100}) {
    for (const Transpose transpose : {Transpose::none, Transpose::transpose}) {
      SCOPED_TRACE(columns);
      const RightHandSides<double> b =
          shard_rows(right_hand_sides<double>(layout_.size(), columns), layout_);
      const Plan plan = plan_lu_solve(layout_, Dtype::float64, columns);
      const std::int64_t taken =
          taken_by([&](Mesh& mesh) { lu_solve(mesh, factor, b, {}, transpose); });
      EXPECT_LE(taken, plan.workspace_bytes + small_change);
      EXPECT_GE(taken, plan.workspace_bytes / 3);
    }
  }
  const Plan plan = plan_lu_solve(layout_, Dtype::float64, 1);
  EXPECT_LE(taken_by([&](Mesh& mesh) { condition_estimate(mesh, factor); }),
            plan.workspace_bytes + small_change);
}

TEST_P(Workspace, OfQrAndLeastSquares_IsWhatThePlanSays) {
  for (const std::int64_t columns : {50, 900}) {
    SCOPED_TRACE(columns);
    const RowBlocks<double> a =
        shard_rows(right_hand_sides<double>(layout_.size(), columns, 5), layout_);
    if (columns < layout_.size()) {
      const Plan plan = plan_qr(layout_, Dtype::float64, columns);
      const std::int64_t taken = taken_by([&](Mesh& mesh) { qr(mesh, a, QrMode::r); });
      EXPECT_LE(taken, plan.workspace_bytes + small_change);
      EXPECT_GE(taken, plan.workspace_bytes / 4);  // the rest is for reflections
    }
    for (const std::int64_t sides :
         columns > 50 ? std::vector<std::int64_t>{5} : std::vector<std::int64_t>{1, 5, 100}) {
      SCOPED_TRACE(sides);
      const RowBlocks<double> b =
          shard_rows(right_hand_sides<double>(layout_.size(), sides), layout_);
      const Plan plan = plan_least_squares(layout_, Dtype::float64, columns, sides);
      const std::int64_t taken =
          std::max(taken_by([&](Mesh& mesh) { ridge(mesh, a, b, 0.1); }),
                   columns > 50 ? 0 : taken_by([&](Mesh& mesh) { lstsq(mesh, a, b); }));
      EXPECT_LE(taken, plan.workspace_bytes + small_change);
      EXPECT_GE(taken, plan.workspace_bytes / 4);
    }
  }
  // columns that are dealt
  const RowBlocks<double> dealt =
      shard_rows(right_hand_sides<double>(layout_.size(), 400, 5), layout_);
  const RowBlocks<double> r = shard_rows(DenseMatrix<double>(layout_.size(), 400), layout_);
  const Plan plan = plan_qr(layout_, Dtype::float64, 400);
  for (const std::int64_t taken : {taken_by([&](Mesh& mesh) { qr(mesh, dealt); }),
                                   taken_by([&](Mesh& mesh) { qr(mesh, dealt, r); })}) {
    EXPECT_LE(taken, plan.workspace_bytes + small_change);
    EXPECT_GE(taken, plan.workspace_bytes / 2);
  }
  // what passes do not end with
  const RowBlocks<double> zero = shard_rows(DenseMatrix<double>(layout_.size(), 50), layout_);
  EXPECT_LE(taken_by([&](Mesh& mesh) { qr(mesh, zero); }),
            plan_qr(layout_, Dtype::float64, 50).workspace_bytes + small_change);
}

TEST(WorkspaceOfManyRanks, OfLstsqInSteps_IsWhatThePlanSays) {
  const SlabLayout layout({0, 320, 640, 640, 640, 640, 640, 640, 640}, 64);
  constexpr std::int64_t n = 512;
  Mesh mesh = Mesh::host(layout.ranks());
  const RowBlocks<double> a = shard_rows(right_hand_sides<double>(layout.size(), n, 5), layout);
  const SlabLayout square =
      SlabLayout::even(n, layout.ranks(), mesh.default_tile(n, Dtype::float64));
  const auto bytes = dense::qr::bytes_in_steps(layout, Dtype::float64, n, n, square, Memory::host);
  // with vectors, as some do not count
  const dense::qr::Request request{.by_singular_values = true, .rcond = 0.5};
  dense::qr::lstsq_in_steps(mesh, a, a, request, {});
  const std::int64_t taken = most_taken(mesh);
  EXPECT_LE(taken, bytes.all() - bytes.kept + small_change);
  EXPECT_GE(taken, (bytes.all() - bytes.kept) / 6);  // its own figures are those of each step
}

TEST_P(Workspace, OfSingularValues_IsWhatThePlanSays) {
  const std::int64_t m = layout_.size();
  for (const std::int64_t n : {std::int64_t{50}, m, m + 20}) {
    for (const bool vectors : {false, true}) {
      SCOPED_TRACE(::testing::Message() << n << (vectors ? " with vectors" : ""));
      const std::int64_t least = std::min(m, n);
      const RowBlocks<double> a = shard_rows(right_hand_sides<double>(m, n, 5), layout_);
      const RowBlocks<double> u = shard_rows(DenseMatrix<double>(m, least), layout_);
      const RowBlocks<double> v = shard_rows(DenseMatrix<double>(n, least),
                                             SlabLayout::even(n, layout_.ranks(), layout_.tile()));
      const Plan plan = plan_svd(layout_, Dtype::float64, n, vectors, Memory::host);
      const std::int64_t taken = taken_by([&](Mesh& mesh) {
        const SingularValues<double> found = vectors ? svd(mesh, a, u, v) : svdvals(mesh, a);
        EXPECT_TRUE(found.outcome.ok()) << found.outcome.message();
      });
      EXPECT_LE(taken, plan.workspace_bytes + small_change);
      EXPECT_GE(taken, plan.workspace_bytes / 4);  // the rest is LAPACK's, or kept between steps
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Workspace,
    ::testing::Values(Shape{"even", SlabLayout::even(640, 4, 64)},
                      Shape{"one_rank", SlabLayout::even(640, 1, 64)},
                      Shape{"uneven", SlabLayout({0, 500, 500, 560, 640}, 64)},
                      Shape{"few_of_many",
                            SlabLayout({0, 320, 640, 640, 640, 640, 640, 640, 640}, 64)},
                      Shape{"all_on_one", SlabLayout({0, 640, 640, 640, 640}, 64)}),
    [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace shardsolve::testing
