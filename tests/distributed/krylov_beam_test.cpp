// The first systems of the beam: both boundary treatments, both laws, every rank count.

#include "support/beam_system.hpp"

#include <shardsolve/krylov.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
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
    const BeamSystem& system = beam_system(law, beam::Elimination::rows_and_columns);
    const auto m = Operator<double>::block_jacobi(krylov::blocks_of(system.a, 4), system.a);
    const Solved solved = solve_beam_on({2, 3, 4, 6}, system, m, {.rtol = 1e-9});
    EXPECT_EQ(solved.result.status, Status::converged_rtol) << solved.result.message;
    EXPECT_LE(solved.result.iterations, 80) << law;
  }
}

TEST(KrylovBeam, WithJacobi_ConvergesAsOftenAsItDid) {
  const BeamSystem& system = beam_system("stvk-alpha", beam::Elimination::rows_and_columns);
  const Solved solved = solve_beam(system, 2, Operator<double>::jacobi(system.a), {.rtol = 2e-10});
  EXPECT_EQ(solved.result.status, Status::converged_rtol) << solved.result.message;
  EXPECT_GE(solved.result.iterations, 2600);
  EXPECT_LE(solved.result.iterations, 3150);
}

TEST(KrylovBeam, RowsOnly_IsRefusedByCgAndSolvedByOthers) {
  for (const char* const law : {"stvk-alpha", "faulty-alpha"}) {
    const BeamSystem& system = beam_system(law, beam::Elimination::rows);
    const auto m = Operator<double>::block_jacobi(krylov::blocks_of(system.a, 4), system.a);
    EXPECT_EQ(solve_beam(system, 2, m, {.rtol = 1e-8}).result.status,
              Status::nonsymmetric_operator);
    for (const Method method : {Method::bicgstab, Method::fgmres}) {
      const Options options{.method = method, .rtol = 1e-8, .restart = 60};
      const Solved solved = method == Method::bicgstab
                                ? solve_beam_on({2, 3, 4, 6}, system, m, options)
                                : solve_beam_on({3}, system, m, options);
      EXPECT_EQ(solved.result.status, Status::converged_rtol) << solved.result.message;
    }
  }
}

/// y = A x with the sums of rows from the left, as trees, or in an order that is another one at
/// every product.
Operator<double> in_order(const BeamSystem& system, int order) {
  const auto calls = std::make_shared<std::int64_t>(0);
  return Operator<double>::callable([&a = system.a, order, calls](const double* x, GlobalRange rows,
                                                                  double* y) {
    ++*calls;
    std::vector<double> terms;
    for (std::int64_t i = rows.begin.value(); i < rows.end.value(); ++i) {
      terms.clear();
      for (auto k = static_cast<std::size_t>(a.row_pointers[static_cast<std::size_t>(i)]);
           k < static_cast<std::size_t>(a.row_pointers[static_cast<std::size_t>(i) + 1]); ++k) {
        terms.push_back(a.values[k] * x[a.column_indices[k]]);
      }
      const auto turn = static_cast<std::ptrdiff_t>((*calls * 7919 + i * 31) % std::ssize(terms));
      if (order == 2) {
        std::rotate(terms.begin(), terms.begin() + turn, terms.end());
      }
      for (std::size_t width = 1; order == 1 && width < terms.size(); width *= 2) {
        for (std::size_t k = 0; k + width < terms.size(); k += 2 * width) {
          terms[k] += terms[k + width];
        }
      }
      *y++ = order == 1 ? terms.front() : std::accumulate(terms.begin(), terms.end(), 0.0);
    }
  });
}

TEST(KrylovBeam, OrderOfTheSumsOfProducts_ChangesNoVerdict) {
  for (const char* const law : {"stvk-alpha", "faulty-alpha"}) {
    for (const auto elimination : {beam::Elimination::rows_and_columns, beam::Elimination::rows}) {
      const BeamSystem& system = beam_system(law, elimination);
      const auto m = Operator<double>::block_jacobi(krylov::blocks_of(system.a, 4), system.a);
      const SlabLayout layout = row_slabs(system.a.rows, 1);
      const RightHandSides<double> b(layout, 1);
      std::copy(system.b.begin(), system.b.end(), b.block(0).data());
      const bool is_symmetric = elimination == beam::Elimination::rows_and_columns &&
                                std::string_view(law) == "stvk-alpha";
      const Options options{.method = is_symmetric ? Method::cg : Method::bicgstab, .rtol = 1e-8};
      for (const int order : {0, 1, 2}) {
        SCOPED_TRACE(::testing::Message() << law << ", order " << order);
        const RightHandSides<double> x(layout, 1);
        const Result result = krylov::solve(cpu_rank(), in_order(system, order), m, b, x, options);
        EXPECT_EQ(result.status, Status::converged_rtol) << result.message;
        EXPECT_LE(result.iterations, 200) << result.message;
        double above = 0.0;
        double below = 0.0;
        for (std::size_t i = 0; i < system.b.size(); ++i) {
          long double r = system.b[i];
          for (auto k = static_cast<std::size_t>(system.a.row_pointers[i]);
               k < static_cast<std::size_t>(system.a.row_pointers[i + 1]); ++k) {
            r -= static_cast<long double>(system.a.values[k]) *
                 x.block(0)(system.a.column_indices[k], 0);
          }
          above = std::hypot(above, static_cast<double>(r));
          below = std::hypot(below, system.b[i]);
        }
        EXPECT_LE(above, 1.01e-8 * below);
      }
    }
  }
}

/// The condition is 6e6, and LU leaves a residual of 2.4e-10; restarts from residuals that are
/// known with twice the digits leave a tenth of that.
TEST(KrylovBeam, ToleranceAtTheEdgeOfRounding_IsMetOrSaidToBeOutOfReach) {
  const BeamSystem& system = beam_system("stvk-alpha", beam::Elimination::rows_and_columns);
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
    EXPECT_THAT(solved.result.message, HasSubstr("e-11 is attainable"));
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
