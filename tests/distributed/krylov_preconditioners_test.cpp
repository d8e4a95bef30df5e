// Incomplete factors in blocks, and multigrid hierarchies, on meshes of any cut.

#include "krylov/incomplete_factor.hpp"
#include "krylov/multigrid.hpp"
#include "matgen/sparse_matrices.hpp"
#include "support/dtypes.hpp"
#include "support/krylov_sparse.hpp"
#include "support/process_meshes.hpp"
#include "support/thrown.hpp"

#include <shardsolve/diagnose.hpp>
#include <shardsolve/krylov.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace shardsolve::testing::krylov_problems {
namespace {

using krylov::Method;
using krylov::MultigridLevel;
using krylov::Options;
using krylov::Status;

template <Scalar T>
Options to_loose_rtol(Method method) {
  return {.method = method, .rtol = 1e5 * unit_roundoff<T>, .restart = 50};
}

template <class T>
class KrylovIncomplete : public ::testing::Test {};
TYPED_TEST_SUITE(KrylovIncomplete, Dtypes, DtypeNames);

TYPED_TEST(KrylovIncomplete, CholeskyOnAnyCut_HasTheSameBitsAndHelps) {
  using T = TypeParam;
  const System<T> system = system_of("poisson", matgen::laplacian_3d<T>(6));
  const CsrMatrix<T> a = csr_of(system);
  const Options options = to_loose_rtol<T>(Method::cg);
  const auto plain = solve_sparse_everywhere(system, options).result;
  for (const std::vector<std::int64_t>& blocks :
       {std::vector<std::int64_t>{0, 216}, {0, 50, 108, 216}}) {
    const auto answer = solve_sparse_everywhere<T>(system, options, [&](Mesh&, const SlabLayout&) {
      return Operator<T>::incomplete_cholesky(blocks, a);
    });
    EXPECT_EQ(answer.result.status, Status::converged_rtol) << answer.result.message;
    EXPECT_LT(answer.result.iterations, plain.iterations);
  }
}

TYPED_TEST(KrylovIncomplete, LuOnAnyCut_HasTheSameBitsAndHelps) {
  using T = TypeParam;
  const System<T> system =
      system_of("convection", matgen::convection_diffusion_2d<T>(14, 0.4, -0.3));
  const CsrMatrix<T> a = csr_of(system);
  for (const Method method : {Method::bicgstab, Method::fgmres}) {
    const Options options = to_loose_rtol<T>(method);
    const auto plain = solve_sparse_everywhere(system, options).result;
    const auto answer = solve_sparse_everywhere<T>(system, options, [&](Mesh&, const SlabLayout&) {
      return Operator<T>::incomplete_lu({0, 90, 196}, a);
    });
    EXPECT_TRUE(krylov::is_converged(answer.result.status)) << answer.result.message;
    EXPECT_LT(2 * answer.result.iterations, plain.iterations);
  }
}

TYPED_TEST(KrylovIncomplete, FactorsOfTridiagonals_AreExact) {
  using T = TypeParam;
  for (const System<T>& system : {laplacian<T>(80), convection<T>(80)}) {
    const CsrMatrix<T> a = csr_of(system);
    const bool is_hermitian = system.name == "laplacian";
    const auto answer = solve_sparse_everywhere<T>(
        system, to_loose_rtol<T>(is_hermitian ? Method::cg : Method::bicgstab),
        [&](Mesh&, const SlabLayout&) {
          return is_hermitian ? Operator<T>::incomplete_cholesky({0, 80}, a)
                              : Operator<T>::incomplete_lu({0, 80}, a);
        });
    EXPECT_TRUE(krylov::is_converged(answer.result.status)) << answer.result.message;
    EXPECT_LE(answer.result.iterations, 2);
  }
}

/// Positive definite, but its incomplete factors are not: D. S. Kershaw, J. Comput. Phys. 26 (1978)
/// 43.
CsrMatrix<double> kershaw() {
  return {4,
          4,
          {0, 3, 6, 9, 12},
          {0, 1, 3, 0, 1, 2, 1, 2, 3, 0, 2, 3},
          {3, -2, 2, -2, 3, -2, -2, 3, -2, 2, -2, 3}};
}

TEST(KrylovIncompleteCholesky, NegativePivot_IsShiftedAway) {
  const CsrMatrix<double> a = kershaw();
  const krylov::IncompleteCholesky<double> factor(a, {GlobalIndex(0), GlobalIndex(4)});
  EXPECT_GT(factor.shift(), 0.0);
  EXPECT_LE(factor.shift(), 1.1);
  const System<double> system = system_of("kershaw", a);
  const auto answer = solve_sparse_everywhere<double>(
      system, {.rtol = 1e-12},
      [&](Mesh&, const SlabLayout&) { return Operator<double>::incomplete_cholesky({0, 4}, a); });
  EXPECT_TRUE(krylov::is_converged(answer.result.status)) << answer.result.message;
  const CsrMatrix<double> easy = matgen::laplacian_3d<double>(3);
  EXPECT_EQ(krylov::IncompleteCholesky<double>(easy, {GlobalIndex(0), GlobalIndex(27)}).shift(),
            0.0);
}

TEST(KrylovIncompleteLu, ZeroPivot_IsNamed) {
  const System<double> system = make_system<double>(
      "exchange", 2, [](std::int64_t i, std::int64_t j) { return i != j ? 1.0 : 0.0; });
  CsrMatrix<double> a{2, 2, {0, 2, 4}, {0, 1, 0, 1}, {0.0, 1.0, 1.0, 0.0}};
  const Operator<double> m = Operator<double>::incomplete_lu({0, 2}, a);
  const auto answer = solve_sparse_on(sparse_mesh_of(1), row_slabs(2, 1), system, csr_of(system),
                                      &m, {.method = Method::bicgstab, .rtol = 1e-10});
  EXPECT_EQ(answer.result.status, Status::nonfinite_preconditioner) << answer.result.message;
}

TEST(KrylovIncompleteMisuse, DiagonalsThatDoNotFit_AreRefusedWithTheRow) {
  const CsrMatrix<double> hole{2, 2, {0, 1, 2}, {0, 0}, {1.0, 1.0}};
  expect_error([&] { Operator<double>::incomplete_lu({0, 2}, hole); }, ErrorKind::invalid_argument,
               {"row 1", "no entry", "block_jacobi"});
  const CsrMatrix<double> negative{2, 2, {0, 1, 2}, {0, 1}, {1.0, -1.0}};
  expect_error([&] { Operator<double>::incomplete_cholesky({0, 2}, negative); },
               ErrorKind::invalid_argument, {"row 1", "-1", "incomplete_lu"});
  expect_error([&] { Operator<double>::incomplete_lu({0, 1}, negative); },
               ErrorKind::invalid_argument, {"end at row 1", "2 rows"});
}

// Multigrid.

template <Scalar T>
CsrMatrix<T> from_entries(std::int64_t rows, std::int64_t columns,
                          const std::vector<std::pair<EntryPlace, double>>& entries) {
  CooMatrix<T> coo{rows, columns, {}, {}, {}};
  for (const auto& [place, value] : entries) {
    coo.row_indices.push_back(place.row);
    coo.column_indices.push_back(place.column);
    coo.values.push_back(static_cast<T>(static_cast<RealOf<T>>(value)));
  }
  return sorted(coo);
}

/// The 9-point Laplacian of bilinear elements on edge x edge points, times 3.
template <Scalar T>
CsrMatrix<T> poisson_2d(std::int64_t edge) {
  std::vector<std::pair<EntryPlace, double>> entries;
  for (std::int64_t y = 0; y < edge; ++y) {
    for (std::int64_t x = 0; x < edge; ++x) {
      for (std::int64_t v = std::max<std::int64_t>(y - 1, 0); v <= std::min(y + 1, edge - 1); ++v) {
        for (std::int64_t u = std::max<std::int64_t>(x - 1, 0); u <= std::min(x + 1, edge - 1);
             ++u) {
          entries.push_back({{y * edge + x, v * edge + u}, u == x && v == y ? 8.0 : -1.0});
        }
      }
    }
  }
  return from_entries<T>(edge * edge, edge * edge, entries);
}

/// Bilinear interpolation from every second point: coarse edge (edge - 1) / 2, edge odd.
template <Scalar T>
CsrMatrix<T> bilinear(std::int64_t edge) {
  const std::int64_t coarse = (edge - 1) / 2;
  std::vector<std::pair<EntryPlace, double>> entries;
  const auto along = [&](std::int64_t x) {
    // Coarse point c is fine point 2 c + 1.
    std::vector<std::pair<std::int64_t, double>> weights;
    if (x % 2 == 1) {
      weights.emplace_back((x - 1) / 2, 1.0);
    } else {
      if (x > 0) {
        weights.emplace_back(x / 2 - 1, 0.5);
      }
      if (x / 2 < coarse) {
        weights.emplace_back(x / 2, 0.5);
      }
    }
    return weights;
  };
  for (std::int64_t y = 0; y < edge; ++y) {
    for (std::int64_t x = 0; x < edge; ++x) {
      for (const auto& [v, in_y] : along(y)) {
        for (const auto& [u, in_x] : along(x)) {
          entries.push_back({{y * edge + x, v * coarse + u}, in_x * in_y});
        }
      }
    }
  }
  return from_entries<T>(edge * edge, coarse * coarse, entries);
}

/// Elements are bilinear, so the coarse matrices are those of the coarse grids.
template <Scalar T>
std::vector<MultigridLevel<T>> hierarchy_of(std::int64_t edge) {
  std::vector<MultigridLevel<T>> levels;
  for (; edge > 7; edge = (edge - 1) / 2) {
    levels.push_back({poisson_2d<T>(edge), bilinear<T>(edge)});
  }
  levels.push_back({poisson_2d<T>(edge), {}});
  return levels;
}

template <class T>
class KrylovMultigrid : public ::testing::Test {};
TYPED_TEST_SUITE(KrylovMultigrid, Dtypes, DtypeNames);

TYPED_TEST(KrylovMultigrid, OnAnyCut_HasTheSameBits) {
  using T = TypeParam;
  const auto levels = hierarchy_of<T>(31);
  ASSERT_EQ(levels.size(), 3U);
  const System<T> system = system_of("poisson", levels.front().a);
  for (const Method method : {Method::cg, Method::bicgstab}) {
    const auto answer = solve_sparse_everywhere<T>(
        system, to_loose_rtol<T>(method), [&](Mesh& mesh, const SlabLayout& layout) {
          return Operator<T>::multigrid(mesh, levels, layout);
        });
    EXPECT_TRUE(krylov::is_converged(answer.result.status)) << answer.result.message;
    EXPECT_LE(answer.result.iterations, 12);
  }
}

TEST(KrylovMultigridOfPoisson, Iterations_HardlyDependOnTheGrid) {
  std::vector<std::int64_t> iterations;
  for (const std::int64_t edge : {15, 31, 63, 127}) {
    const auto levels = hierarchy_of<double>(edge);
    Mesh& mesh = sparse_mesh_of(2);
    const SlabLayout layout = row_slabs(edge * edge, 2);
    const RightHandSides<double> b(layout, 1);
    const RightHandSides<double> x(layout, 1);
    for (std::int64_t r = 0; r < 2; ++r) {
      for (std::int64_t i = 0; i < layout.width(r); ++i) {
        b.block(r)(i, 0) = random_number(7, layout.segment(r).begin.value() + i);
      }
    }
    const krylov::Result result = krylov::solve(
        mesh, Operator<double>::sparse(SparseMatrix<double>(mesh, levels.front().a, layout)),
        Operator<double>::multigrid(mesh, levels, layout), to_devices(b), to_devices(x),
        {.rtol = 1e-10});
    EXPECT_TRUE(krylov::is_converged(result.status)) << result.message;
    iterations.push_back(result.iterations);
  }
  EXPECT_LE(iterations.back(), iterations.front() + 4) << ::testing::PrintToString(iterations);
  EXPECT_LE(iterations.back(), 12);
}

/// Signs off the diagonal, whose sums of rows are far above all eigenvalues; in the first rows two
/// entries that rounding has left.
TEST(KrylovMultigridBound, OfEntriesThatNearlyCancel_IsThatOfTheEigenvalues) {
  constexpr std::int64_t n = 60;
  CsrMatrix<double> a{n, n, {0}, {}, {}};
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      const std::int64_t both = std::min(i, j) * n + std::max(i, j);
      a.column_indices.push_back(j);
      a.values.push_back(i == j ? 1.0 : random_number(3, both) < 0.0 ? -0.05 : 0.05);
    }
    a.row_pointers.push_back(a.entries());
  }
  const std::vector<double> diagonal(n, 1.0);
  const double bound = krylov::largest_eigenvalue(a, diagonal);
  EXPECT_LT(bound, 2.2);
  a.values[1] = 1e-18;
  a.values[n] = -3e-18;
  const double of_rounded = krylov::largest_eigenvalue(a, diagonal);
  EXPECT_LT(of_rounded, 2.2);
  EXPECT_GT(of_rounded, 1.5);
  a.values[1] = 1e-3;
  EXPECT_GT(krylov::largest_eigenvalue(a, diagonal), 3.0);  // not Hermitian: sums of rows
}

TEST(KrylovMultigridOfPoisson, OneLevel_IsTheInverse) {
  const System<double> system = system_of("poisson", matgen::laplacian_3d<double>(4));
  const auto answer = solve_sparse_everywhere<double>(
      system, {.rtol = 1e-12}, [&](Mesh& mesh, const SlabLayout& layout) {
        return Operator<double>::multigrid(mesh, {{csr_of(system), {}}}, layout);
      });
  EXPECT_TRUE(krylov::is_converged(answer.result.status)) << answer.result.message;
  EXPECT_LE(answer.result.iterations, 2);
}

TEST(KrylovMultigridOfPoisson, SingularLastLevel_IsNamed) {
  auto levels = hierarchy_of<double>(15);
  for (double& value : levels.back().a.values) {
    value = 0.0;
  }
  Mesh& mesh = sparse_mesh_of(2);
  const System<double> system = system_of("poisson", levels.front().a);
  const Operator<double> m = Operator<double>::multigrid(mesh, levels, row_slabs(225, 2));
  EXPECT_EQ(solve_sparse_on(mesh, row_slabs(225, 2), system, levels.front().a, &m, {.rtol = 1e-10})
                .result.status,
            Status::nonfinite_preconditioner);
}

TEST(KrylovMultigridOfPoisson, InProcesses_GivesTheSame) {
  const auto levels = hierarchy_of<double>(31);
  const std::int64_t n = levels.front().a.rows;
  const SlabLayout layout = row_slabs({0, 300, 300, n});
  struct Found {
    std::string message;
    std::string diagnosis;
  };
  const auto solve = [&](Mesh& mesh, const RightHandSides<double>& b,
                         const RightHandSides<double>& x) {
    const auto result = krylov::solve(
        mesh, Operator<double>::sparse(SparseMatrix<double>(mesh, levels.front().a, layout)),
        Operator<double>::multigrid(mesh, levels, layout), b, x, {.rtol = 1e-10});
    return Found{result.message, to_text(krylov::diagnose(mesh, levels.front().a))};
  };
  const auto vector = [&] {
    const RightHandSides<double> made(layout, 1);
    for (std::int64_t r = 0; r < layout.ranks(); ++r) {
      for (std::int64_t i = 0; i < layout.width(r); ++i) {
        made.block(r)(i, 0) = random_number(7, layout.segment(r).begin.value() + i);
      }
    }
    return made;
  };
  const auto whole = [&](const RightHandSides<double>& x) {
    std::vector<double> all;
    for (std::int64_t r = 0; r < layout.ranks(); ++r) {
      all.insert(all.end(), x.block(r).data(), x.block(r).data() + layout.width(r));
    }
    return all;
  };
  const RightHandSides<double> b = vector();
  const RightHandSides<double> expected = vector();
  Mesh threads = Mesh::host(3);
  const Found alone = solve(threads, b, expected);

  ProcessMeshes processes(layout.ranks());
  const RightHandSides<double> x = vector();
  std::vector<Found> found(static_cast<std::size_t>(layout.ranks()));
  const auto errors = processes.together([&](Mesh& own, std::int64_t rank) {
    found[static_cast<std::size_t>(rank)] = solve(own, b, x);
  });
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    EXPECT_FALSE(errors[rank].has_value()) << errors[rank]->what();
    EXPECT_EQ(found[rank].message, alone.message);
    EXPECT_EQ(found[rank].diagnosis, alone.diagnosis);
  }
  EXPECT_EQ(whole(x), whole(expected));
}

TEST(KrylovMultigridMisuse, HierarchiesThatDoNotFit_AreRefused) {
  Mesh& mesh = sparse_mesh_of(2);
  const auto good = hierarchy_of<double>(15);
  const SlabLayout layout = row_slabs(225, 2);
  const auto refused = [&](std::vector<MultigridLevel<double>> levels,
                           const std::vector<std::string>& words,
                           const krylov::MultigridOptions& options = {}) {
    expect_error([&] { Operator<double>::multigrid(mesh, levels, layout, options); },
                 ErrorKind::invalid_argument, words);
  };
  refused({}, {"no level"});
  refused({good[0]}, {"last of 1 levels", "225 x 49"});
  refused({good[0], {poisson_2d<double>(6), {}}}, {"level 0", "225 x 49", "225 x 36"});
  refused({{poisson_2d<double>(63), {}}}, {"3969 rows", "2048"});
  refused({good[1]}, {"49 rows", "225"});
  refused(good, {"degree = 0"}, {.degree = 0});
  refused(good, {"smoothed = 1"}, {.smoothed = 1.0});
  auto hole = good;
  hole[0].a.values[0] = 0.0;
  refused(hole, {"multigrid divides", "row 0"});
  const Operator<double> m = Operator<double>::multigrid(mesh, good, layout);
  const System<double> system = system_of("poisson", good.front().a);
  expect_error(
      [&] {
        solve_sparse_on(mesh, row_slabs({0, 100, 225}), system, good.front().a, &m, Options{});
      },
      ErrorKind::invalid_argument, {"multigrid", "cut"});
}

}  // namespace
}  // namespace shardsolve::testing::krylov_problems
