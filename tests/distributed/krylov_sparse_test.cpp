// Krylov solves of sparse matrices, and preconditioners that are made from them.

#include "support/krylov_sparse.hpp"

#include "matgen/sparse_matrices.hpp"
#include "support/dtypes.hpp"
#include "support/thrown.hpp"

#include <shardsolve/krylov.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace shardsolve::testing::krylov_problems {
namespace {

using krylov::Method;
using krylov::Options;
using krylov::Status;

template <Scalar T>
Options sparse_options(Method method) {
  return {.method = method, .rtol = 1e5 * unit_roundoff<T>, .restart = 50};
}

template <class T>
class KrylovSparse : public ::testing::Test {};
TYPED_TEST_SUITE(KrylovSparse, Dtypes, DtypeNames);

TYPED_TEST(KrylovSparse, EveryMethodOnAnyCut_HasTheSameBits) {
  using T = TypeParam;
  const System<T> symmetric = system_of("poisson", matgen::laplacian_3d<T>(5));
  const System<T> convective =
      system_of("convection", matgen::convection_diffusion_2d<T>(11, 0.4, -0.3));
  for (const Method method : {Method::cg, Method::minres, Method::bicgstab, Method::fgmres}) {
    const bool is_hermitian = method == Method::cg || method == Method::minres;
    const Answer<T> answer =
        solve_sparse_everywhere(is_hermitian ? symmetric : convective, sparse_options<T>(method));
    EXPECT_TRUE(krylov::is_converged(answer.result.status)) << answer.result.message;
  }
}

TYPED_TEST(KrylovSparse, SlabsOfThreeThreeThreeNothing_HaveTheSameBits) {
  using T = TypeParam;
  const System<T> system = laplacian<T>(9, 2.1);
  const CsrMatrix<T> a = csr_of(system);
  const Options options = sparse_options<T>(Method::cg);
  EXPECT_TRUE(same_bits(
      solve_sparse_on(sparse_mesh_of(4), row_slabs({0, 3, 6, 9, 9}), system, a, nullptr, options),
      solve_sparse_on(sparse_mesh_of(1), row_slabs(9, 1), system, a, nullptr, options)));
}

TYPED_TEST(KrylovSparse, JacobiOfTheMatrix_HasTheBitsOfTheDiagonal) {
  using T = TypeParam;
  System<T> system = laplacian<T>(100, 2.1);
  for (std::int64_t i = 0; i < 100; ++i) {
    system.a[static_cast<std::size_t>(101 * i)] += static_cast<RealOf<T>>(i % 5);
  }
  const CsrMatrix<T> a = csr_of(system);
  const Options options = sparse_options<T>(Method::cg);
  const Answer<T> ours = solve_sparse_everywhere<T>(
      system, options, [&](Mesh&, const SlabLayout&) { return Operator<T>::jacobi(a); });
  const SlabLayout one = row_slabs(100, 1);
  const RightHandSides<T> diagonal(one, 1);
  for (std::int64_t i = 0; i < 100; ++i) {
    diagonal.block(0)(i, 0) = system.entry(i, i);
  }
  const Operator<T> given = Operator<T>::jacobi(to_devices(diagonal));
  EXPECT_TRUE(same_bits(solve_sparse_on(sparse_mesh_of(1), one, system, a, &given, options), ours));
}

TYPED_TEST(KrylovSparse, BlocksOfTheMatrix_HaveTheBitsOfDenseOnes) {
  using T = TypeParam;
  for (const System<T>& system : {laplacian<T>(100), convection<T>(100), random_system<T>(40, 3)}) {
    const CsrMatrix<T> a = csr_of(system);
    const std::vector<std::int64_t> blocks{0, system.n / 4, system.n / 2 + 3, system.n};
    const Options options = sparse_options<T>(Method::bicgstab);
    const Answer<T> ours = solve_sparse_everywhere<T>(
        system, options,
        [&](Mesh&, const SlabLayout&) { return Operator<T>::block_jacobi(blocks, a); });
    EXPECT_TRUE(krylov::is_converged(ours.result.status)) << ours.result.message;
    const Operator<T> dense =
        Operator<T>::block_jacobi(blocks, [&](GlobalRange rows, MatrixView<T> block) {
          for (std::int64_t j = 0; j < rows.size(); ++j) {
            for (std::int64_t i = 0; i < rows.size(); ++i) {
              block(i, j) = system.entry(rows.begin.value() + i, rows.begin.value() + j);
            }
          }
        });
    EXPECT_TRUE(same_bits(
        solve_sparse_on(sparse_mesh_of(1), row_slabs(system.n, 1), system, a, &dense, options),
        ours));
  }
}

TEST(KrylovSparseBlocks, OfManyRows_TakeTheMemoryOfTheirBand) {
  // One block, of 320 GB if it were dense.
  const std::int64_t n = 200'000;
  CsrMatrix<double> a{n, n, {0}, {}, {}};
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = std::max<std::int64_t>(i - 1, 0); j <= std::min(i + 1, n - 1); ++j) {
      a.column_indices.push_back(j);
      a.values.push_back(i == j ? 2.5 : -1.0);
    }
    a.row_pointers.push_back(a.entries());
  }
  Mesh& mesh = sparse_mesh_of(2);
  const SlabLayout layout = row_slabs(n, 2);
  const RightHandSides<double> b(layout, 1);
  const auto x = make_right_hand_sides<double>(mesh, layout, 1);
  for (std::int64_t r = 0; r < 2; ++r) {
    std::fill_n(b.block(r).data(), layout.width(r), 1.0);
  }
  const krylov::Result result =
      krylov::solve(mesh, Operator<double>::sparse(SparseMatrix<double>(mesh, a, layout)),
                    Operator<double>::block_jacobi({0, n}, a), to_devices(b), x, {.rtol = 1e-12});
  EXPECT_EQ(result.status, Status::converged_rtol) << result.message;
  EXPECT_LE(result.iterations, 2);
}

TEST(KrylovSparseMisuse, MatricesThatDoNotFit_AreRefused) {
  Mesh& mesh = sparse_mesh_of(2);
  const System<double> system = laplacian<double>(9);
  const CsrMatrix<double> a = csr_of(system);
  const SparseMatrix<double> elsewhere(mesh, a, row_slabs({0, 2, 9}));
  const auto attempt = [&](const Operator<double>& op, const Operator<double>* m) {
    solve_on(mesh, row_slabs(9, 2), system, op, m, Options{});
  };
  expect_error([&] { attempt(Operator<double>::sparse(elsewhere), nullptr); },
               ErrorKind::invalid_argument, {"cut at other places"});
  const CsrMatrix<double> small = csr_of(laplacian<double>(8));
  const Operator<double> fits =
      Operator<double>::sparse(SparseMatrix<double>(mesh, a, row_slabs(9, 2)));
  const Operator<double> jacobi = Operator<double>::jacobi(small);
  expect_error([&] { attempt(fits, &jacobi); }, ErrorKind::invalid_argument, {"8 rows", "b has 9"});
  CsrMatrix<double> wrong = a;
  wrong.values[static_cast<std::size_t>(wrong.row_pointers[4] + 1)] = 0.0;
  expect_error([&] { Operator<double>::jacobi(wrong); }, ErrorKind::invalid_argument,
               {"row 4", "is 0"});
  const CsrMatrix<double> hole{2, 2, {0, 1, 2}, {0, 0}, {1.0, 1.0}};
  expect_error([&] { Operator<double>::jacobi(hole); }, ErrorKind::invalid_argument,
               {"row 1", "no entry"});
  const CsrMatrix<double> wide{1, 2, {0, 1}, {0}, {1.0}};
  expect_error([&] { Operator<double>::jacobi(wide); }, ErrorKind::invalid_argument,
               {"1 x 2", "square"});
  const CsrMatrix<double> unsorted{2, 2, {0, 2, 3}, {1, 0, 1}, {1.0, 1.0, 1.0}};
  expect_error([&] { Operator<double>::block_jacobi({0, 2}, unsorted); },
               ErrorKind::invalid_argument, {"row 0", "column 0 behind column 1", "sorted()"});
  expect_error([&] { Operator<double>::block_jacobi({0, 8}, a); }, ErrorKind::invalid_argument,
               {"end at row 8", "9 rows"});
}

}  // namespace
}  // namespace shardsolve::testing::krylov_problems
