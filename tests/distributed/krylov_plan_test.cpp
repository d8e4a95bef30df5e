// What a Krylov solve takes is what its plan says, and one that does not fit is refused before any
// work.

#include "mesh/host_backend.hpp"
#include "mesh/mesh_state.hpp"
#include "mesh/rank.hpp"
#include "support/matrix_zoo.hpp"
#include "support/sharded_problem.hpp"
#include "support/thrown.hpp"

#include <shardsolve/krylov.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

namespace shardsolve::testing {
namespace {

struct Planned {
  std::string name;
  krylov::Options options;

  friend std::ostream& operator<<(std::ostream& out, const Planned& planned) {
    return out << planned.name;
  }
};

class KrylovPlan : public ::testing::TestWithParam<std::tuple<Planned, std::int64_t>> {};

/// The matrix (-1, 2.5, -1).
CsrMatrix<double> tridiagonal(std::int64_t n) {
  CsrMatrix<double> a{.rows = n, .columns = n, .row_pointers = {0}};
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = std::max<std::int64_t>(i - 1, 0); j < std::min(i + 2, n); ++j) {
      a.column_indices.push_back(j);
      a.values.push_back(i == j ? 2.5 : -1.0);
    }
    a.row_pointers.push_back(a.entries());
  }
  return a;
}

std::int64_t taken_by_the_largest(Mesh& mesh) {
  std::mutex mutex;
  std::int64_t most = 0;
  mesh.state().run({}, [&](mesh::Rank& rank) {
    const std::lock_guard lock(mutex);
    most = std::max(most, rank.max_workspace());
  });
  return most;
}

TEST_P(KrylovPlan, Workspace_IsWhatIsTaken) {
  const auto& [planned, ranks] = GetParam();
  constexpr std::int64_t n = 20000;
  const SlabLayout layout = row_slabs(n, ranks);
  Mesh matrix_mesh = Mesh::host(ranks);
  Mesh mesh = Mesh::host(ranks);
  const CsrMatrix<double> entries = tridiagonal(n);
  const SparseMatrix<double> a(matrix_mesh, entries, layout, layout);
  const RightHandSides<double> b = shard_rows(right_hand_sides<double>(n, 1), layout);
  const RightHandSides<double> x(layout, 1);
  const Plan plan = plan_krylov_solve(layout, Dtype::float64, planned.options);
  const krylov::Result result =
      krylov::solve(mesh, krylov::Operator<double>::sparse(a),
                    krylov::Operator<double>::jacobi(entries), b, x, planned.options);
  ASSERT_TRUE(result.outcome.ok()) << result.message;
  const auto taken = static_cast<double>(taken_by_the_largest(mesh));
  // A diagonal in M is a vector beside.
  const double expected = static_cast<double>(plan.workspace_bytes + 8 * layout.max_width());
  EXPECT_LE(taken, 1.05 * expected);
  EXPECT_GE(taken, 0.95 * expected);
  EXPECT_EQ(plan.right_hand_side_bytes, 2 * 8 * layout.max_width());
}

INSTANTIATE_TEST_SUITE_P(
    Methods, KrylovPlan,
    ::testing::Combine(
        ::testing::Values(Planned{"cg", {.method = krylov::Method::cg}},
                          Planned{"cg_with_log", {.method = krylov::Method::cg, .log = true}},
                          Planned{"minres", {.method = krylov::Method::minres}},
                          Planned{"bicgstab", {.method = krylov::Method::bicgstab}},
                          Planned{"fgmres", {.method = krylov::Method::fgmres, .restart = 20}}),
        ::testing::Values(1, 3)),
    [](const auto& info) {
      return std::get<0>(info.param).name + "_on_" + std::to_string(std::get<1>(info.param));
    });

TEST(KrylovPlanOptions, ThatMakeNoSense_AreRefused) {
  expect_error(
      [] {
        plan_krylov_solve(row_slabs(100, 2), Dtype::float64,
                          {.method = krylov::Method::fgmres, .restart = 0});
      },
      ErrorKind::invalid_argument, {"restart", "1 to 1000"});
}

/// CPU devices that have a mebibyte each.
class BackendOfLittleMemory final : public mesh::HostBackend {
 public:
  using HostBackend::HostBackend;
  std::int64_t available_memory() const override { return std::int64_t{1} << 20; }
};

TEST(KrylovPlanRefusal, SolveThatDoesNotFit_DoesNoWork) {
  if (!test_gpus().empty()) {
    GTEST_SKIP() << "of CPU devices";
  }
  Mesh mesh{mesh::MeshState::start(std::make_unique<BackendOfLittleMemory>(2))};
  std::atomic<int> products = 0;
  const auto a =
      krylov::Operator<double>::callable([&](const double* x, GlobalRange rows, double* y) {
        ++products;
        for (std::int64_t i = rows.begin.value(); i < rows.end.value(); ++i) {
          *y++ = 2 * x[i];
        }
      });
  const auto solve = [&](std::int64_t n, krylov::Method method) {
    const SlabLayout layout = row_slabs(n, 2);
    const RightHandSides<double> b = shard_rows(right_hand_sides<double>(n, 1), layout);
    const RightHandSides<double> x(layout, 1);
    return krylov::solve(mesh, a, b, x, {.method = method});
  };
  // 7 vectors of 100,000 numbers on each of 2 devices, and a basis of 30 and what M makes of it
  expect_error([&] { solve(200'000, krylov::Method::cg); }, ErrorKind::out_of_memory,
               {"the workspace of krylov::solve", "0.01 GB", "0.00 GB", "2 devices"});
  expect_error([&] { solve(200'000, krylov::Method::fgmres); }, ErrorKind::out_of_memory,
               {"0.05 GB", "a smaller restart"});
  EXPECT_EQ(products, 0);
  EXPECT_TRUE(solve(100, krylov::Method::cg).outcome.ok());
}

}  // namespace
}  // namespace shardsolve::testing
