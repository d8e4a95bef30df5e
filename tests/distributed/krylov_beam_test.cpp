// The first systems of the beam: both boundary treatments, both laws, every rank count.

#include "support/beam_system.hpp"

#include <shardsolve/krylov.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace shardsolve::testing::krylov_problems {
namespace {

using krylov::Method;
using krylov::Options;
using krylov::Result;
using krylov::Status;
using ::testing::HasSubstr;

struct Solved {
  Result result;
  std::vector<double> x;
};

Solved solve_beam(const BeamSystem& system, std::int64_t ranks, const Operator<double>& m,
                  const Options& options) {
  Mesh& mesh = sparse_mesh_of(ranks);
  const SlabLayout layout = row_slabs(system.a.rows, ranks);
  const RightHandSides<double> b(layout, 1);
  const auto x = make_right_hand_sides<double>(mesh, layout, 1);
  for (std::int64_t r = 0; r < ranks; ++r) {
    std::copy_n(system.b.begin() + layout.segment(r).begin.value(), layout.width(r),
                b.block(r).data());
  }
  Solved solved;
  solved.result =
      krylov::solve(mesh, Operator<double>::sparse(SparseMatrix<double>(mesh, system.a, layout)), m,
                    to_devices(b), x, options);
  const RightHandSides<double> found = to_host(x);
  for (std::int64_t r = 0; r < ranks; ++r) {
    const double* const rows = found.block(r).data();
    solved.x.insert(solved.x.end(), rows, rows + layout.width(r));
  }
  return solved;
}

/// The same on one rank and on those.
Solved solve_beam_on(std::initializer_list<std::int64_t> all_ranks, const BeamSystem& system,
                     const Operator<double>& m, const Options& options) {
  const Solved alone = solve_beam(system, 1, m, options);
  for (const std::int64_t ranks : all_ranks) {
    const Solved other = solve_beam(system, ranks, m, options);
    EXPECT_EQ(other.result.message, alone.result.message) << ranks;
    EXPECT_EQ(other.x, alone.x) << ranks;
  }
  return alone;
}

TEST(KrylovBeam, WithBlocks_ConvergesWithinEightyIterations) {
  for (const char* const law : {"stvk-alpha", "faulty-alpha"}) {
    const BeamSystem system = beam_system(law, beam::Elimination::rows_and_columns);
    const auto m = Operator<double>::block_jacobi(krylov::blocks_of(system.a, 4), system.a);
    const Solved solved = solve_beam_on({2, 3, 4, 6}, system, m, {.rtol = 1e-9});
    EXPECT_EQ(solved.result.status, Status::converged_rtol) << solved.result.message;
    EXPECT_LE(solved.result.iterations, 80) << law;
  }
}

TEST(KrylovBeam, WithJacobi_ConvergesAsOftenAsItDid) {
  const BeamSystem system = beam_system("stvk-alpha", beam::Elimination::rows_and_columns);
  const Solved solved = solve_beam(system, 2, Operator<double>::jacobi(system.a), {.rtol = 2e-10});
  EXPECT_EQ(solved.result.status, Status::converged_rtol) << solved.result.message;
  EXPECT_GE(solved.result.iterations, 2600);
  EXPECT_LE(solved.result.iterations, 3150);
}

TEST(KrylovBeam, RowsOnly_IsRefusedByCgAndSolvedByOthers) {
  const BeamSystem system = beam_system("stvk-alpha", beam::Elimination::rows);
  const auto m = Operator<double>::block_jacobi(krylov::blocks_of(system.a, 4), system.a);
  EXPECT_EQ(solve_beam(system, 2, m, {.rtol = 1e-8}).result.status, Status::nonsymmetric_operator);
  for (const Method method : {Method::bicgstab, Method::fgmres}) {
    const Solved solved =
        solve_beam_on({3}, system, m, {.method = method, .rtol = 1e-8, .restart = 60});
    EXPECT_EQ(solved.result.status, Status::converged_rtol) << solved.result.message;
  }
}

/// The condition is 6e6, and LU leaves a residual of 2.4e-10.
TEST(KrylovBeam, ToleranceAtTheEdgeOfRounding_IsMetOrSaidToBeOutOfReach) {
  const BeamSystem system = beam_system("stvk-alpha", beam::Elimination::rows_and_columns);
  const auto m = Operator<double>::block_jacobi(krylov::blocks_of(system.a, 4), system.a);
  struct Attempt {
    Method method;
    double rtol;
  };
  for (const auto& [method, rtol] : {Attempt{Method::cg, 1e-10},
                                     {Method::cg, 2e-11},
                                     {Method::minres, 2e-11},
                                     {Method::bicgstab, 2e-11},
                                     {Method::fgmres, 2e-11}}) {
    SCOPED_TRACE(name(method));
    const Solved solved =
        solve_beam(system, 2, m, {.method = method, .rtol = rtol, .restart = 60, .log = true});
    if (krylov::is_converged(solved.result.status)) {
      EXPECT_EQ(rtol, 1e-10);
      continue;
    }
    EXPECT_EQ(solved.result.status, Status::accuracy_limit) << solved.result.message;
    EXPECT_THAT(solved.result.message, HasSubstr("e-10 is attainable"));
    // x is the best iterate whose residual was recomputed.
    double least = 1.0;
    for (const krylov::LogRecord& record : solved.result.log) {
      if (record.event != krylov::Event::none) {
        least = std::min(least, record.residual);
      }
    }
    EXPECT_LE(solved.result.residual, 1.001 * least);
    EXPECT_LT(solved.result.residual, 2e-10);
  }
}

}  // namespace
}  // namespace shardsolve::testing::krylov_problems
