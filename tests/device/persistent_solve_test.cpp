// Solves for one right-hand side, which GPUs do in one kernel each. Left out without a GPU: see
// support/backend.hpp.

#include "dense/shared/persistent_solve.hpp"

#include "dense/lu/triangular_solve.hpp"
#include "mesh/mesh_state.hpp"
#include "reference/matmul.hpp"
#include "support/backend.hpp"
#include "support/bits.hpp"
#include "support/dtypes.hpp"
#include "support/gates.hpp"
#include "support/lapack.hpp"
#include "support/lu_zoo.hpp"
#include "support/matrix_zoo.hpp"
#include "support/rank_program.hpp"
#include "support/sharded_problem.hpp"
#include "support/thrown.hpp"

#include <shardsolve/cholesky.hpp>
#include <shardsolve/device_memory.hpp>
#include <shardsolve/lu.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace shardsolve::testing {
namespace {

class PersistentSolve : public ::testing::Test {
 protected:
  void SetUp() override {
    if (test_gpus().empty()) {
      GTEST_SKIP() << "no GPU: set SHARDSOLVE_TEST_GPUS";
    }
  }
};

/// The column that solves for some column of b alone.
template <Scalar T>
DenseMatrix<T> solved(Mesh& mesh, const CholeskyFactor<T>& factor, const DenseMatrix<T>& b) {
  const RightHandSides<T> x = shard_rows(b, factor.layout());
  const Outcome outcome = cholesky_solve(mesh, factor, x);
  EXPECT_TRUE(outcome.ok()) << outcome.message();
  EXPECT_LT(*outcome.backward_error, solve_gate * unit_roundoff<T>);
  return whole(x);
}

template <class T>
class PersistentSolveOf : public PersistentSolve {};
TYPED_TEST_SUITE(PersistentSolveOf, Dtypes, DtypeNames);

/// Blocks of 64 rows that are full, short, and cut by tiles; ranks without any.
TYPED_TEST(PersistentSolveOf, AnySize_PassesItsGate) {
  using T = TypeParam;
  for (const std::int64_t ranks : {1, 2, 3, 5}) {
    Mesh mesh = make_mesh(ranks);
    for (const std::int64_t n : {1, 2, 63, 64, 65, 129, 700}) {
      for (const std::int64_t tile : {7, 64, 100, 512}) {
        SCOPED_TRACE(std::to_string(n) + " on " + std::to_string(ranks) + " ranks, tile " +
                     std::to_string(tile));
        const SlabLayout layout = SlabLayout::even(n, ranks, tile);
        const DenseMatrix<T> a = dense<T>({.n = n, .seed = 5});
        const CholeskyFactor<T> factor = cholesky_factor(mesh, shard(a, layout));
        ASSERT_TRUE(factor.outcome.ok()) << factor.outcome.message();
        const DenseMatrix<T> b = right_hand_sides<T>(n, 1);
        const DenseMatrix<T> x = solved(mesh, factor, b);
        ASSERT_TRUE(solves(a, x, b));
        ASSERT_TRUE(same_bits(solved(mesh, factor, b), x));
      }
    }
  }
}

/// Thread blocks have several blocks each, one after the other, and clusters follow on clusters: on
/// GPUs with less than 180 multiprocessors, going back on one rank.
TYPED_TEST(PersistentSolveOf, MoreBlocksThanAGpuRunsAtOnce_PassesItsGate) {
  using T = TypeParam;
  const double jitter = sizeof(RealOf<T>) == sizeof(double) ? 1e-9 : 0.1;
  const DenseMatrix<T> a =
      dense<T>({.kind = matgen::Kind::gaussian_line, .n = 12000, .seed = 3, .jitter = jitter});
  const DenseMatrix<T> b = right_hand_sides<T>(a.rows(), 1);
  for (const std::int64_t ranks : {1, 2}) {
    SCOPED_TRACE(ranks);
    Mesh mesh = make_mesh(ranks);
    const SlabLayout layout = SlabLayout::even(a.rows(), ranks, 500);
    const CholeskyFactor<T> factor = cholesky_factor(mesh, shard(a, layout));
    ASSERT_TRUE(factor.outcome.ok()) << factor.outcome.message();
    EXPECT_TRUE(same_bits(solved(mesh, factor, b), solved(mesh, factor, b)));
    const LuFactor<T> lu = lu_factor(mesh, shard(a, layout));
    ASSERT_TRUE(lu.outcome.ok()) << lu.outcome.message();
    for (const Transpose op : {Transpose::none, Transpose::adjoint}) {
      const RightHandSides<T> x = shard_rows(b, layout);
      const Outcome outcome = lu_solve(mesh, lu, x, {}, op);
      EXPECT_TRUE(outcome.ok()) << outcome.message();
      EXPECT_LE(*outcome.backward_error, solve_gate * unit_roundoff<T>);
    }
  }
}

/// x by the factor alone, without refinement, one right-hand side after the other.
template <Scalar T>
DenseMatrix<T> solved_raw(Mesh& mesh, const LuFactor<T>& factor, reference::Op op,
                          const DenseMatrix<T>& b) {
  const runtime::Op by_kernel = op == reference::Op::none        ? runtime::Op::none
                                : op == reference::Op::transpose ? runtime::Op::transpose
                                                                 : runtime::Op::conjugate_transpose;
  const RightHandSides<T> x = shard_rows(b, factor.layout());
  run_on(mesh, [&](mesh::Rank& rank) {
    dense::lu::TriangularSolve<T> solve(rank, factor.layout(), factor.slabs.slab(rank.index()),
                                        *factor.rows, 1);
    solve.run(by_kernel, x.block(rank.index()));
    rank.finish(rank.update());
  });
  return whole(x);
}

/// Of the largest of LAPACK's and of 10 u; and the same bits once more.
template <Scalar T>
void expect_raw_solves(std::int64_t ranks, std::int64_t tile, const DenseMatrix<T>& a) {
  using reference::Op;
  const std::int64_t n = a.rows();
  Mesh mesh = make_mesh(ranks);
  const LuFactor<T> factor = lu_factor(mesh, shard(a, SlabLayout::even(n, ranks, tile)));
  if (!factor.outcome.ok()) {
    return;
  }
  const LapackLu<T> lapack = lapack_lu(a);
  const DenseMatrix<T> b = right_hand_sides<T>(n, 1);
  for (const Op op : {Op::none, Op::transpose, Op::conjugate_transpose}) {
    SCOPED_TRACE(std::to_string(n) + " on " + std::to_string(ranks) + " ranks, tile " +
                 std::to_string(tile) + " op " + std::to_string(static_cast<int>(op)));
    const DenseMatrix<T> of_a = reference::matmul(op, a, Op::none, DenseMatrix<T>::identity(n));
    const DenseMatrix<T> x = solved_raw(mesh, factor, op, b);
    const double theirs = solve_ratio(of_a, lapack_lu_solve(lapack, op, b), b);
    const double ours = solve_ratio(of_a, x, b);
    // where LAPACK leaves the range, nothing is promised
    EXPECT_TRUE(!std::isfinite(theirs) || ours <= std::max(10.0, 4.0 * theirs))
        << ours << " u, LAPACK " << theirs;
    EXPECT_TRUE(same_bits(solved_raw(mesh, factor, op, b), x));
  }
}

TYPED_TEST(PersistentSolveOf, LuOfAnySizeByAnyTranspose_IsAsGoodAsLapacks) {
  using T = TypeParam;
  for (const std::int64_t ranks : {1, 2, 3, 5}) {
    for (const std::int64_t n : {1, 2, 63, 64, 65, 129, 700}) {
      for (const std::int64_t tile : {7, 64, 100, 512}) {
        expect_raw_solves<T>(ranks, tile,
                             n < 2 ? DenseMatrix<T>::identity(n) : lu_zoo<T>(n).front().a);
      }
    }
  }
}

/// Scaled rows and columns, growth, triangles whose inverses have 2^63 in them.
TYPED_TEST(PersistentSolveOf, LuOfEveryMatrix_IsAsGoodAsLapacks) {
  using T = TypeParam;
  for (const std::int64_t n : {50, 150}) {
    std::vector<LuCase<T>> zoo = lu_zoo<T>(n);
    DenseMatrix<T> ones_below = DenseMatrix<T>::identity(n);
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t i = j + 1; i < n; ++i) {
        ones_below(i, j) = T{-1};
      }
    }
    zoo.push_back({"ones_below", ones_below});
    zoo.push_back(
        {"ones_above", reference::matmul(reference::Op::transpose, ones_below, reference::Op::none,
                                         DenseMatrix<T>::identity(n))});
    for (const LuCase<T>& one : zoo) {
      SCOPED_TRACE(one.name);
      for (const std::int64_t ranks : {1, 2}) {
        expect_raw_solves<T>(ranks, 40, one.a);
      }
    }
  }
}

TYPED_TEST(PersistentSolveOf, NearlySingularKernelMatrix_PassesItsGate) {
  using T = TypeParam;
  const double jitter = sizeof(RealOf<T>) == sizeof(double) ? 1e-12 : 1e-4;
  const SlabLayout layout = SlabLayout::even(1500, 2, 256);
  const DenseMatrix<T> a = dense<T>(
      {.kind = matgen::Kind::gaussian_line, .n = layout.size(), .seed = 3, .jitter = jitter});
  Mesh mesh = make_mesh(2);
  const CholeskyFactor<T> factor = cholesky_factor(mesh, shard(a, layout));
  ASSERT_TRUE(factor.outcome.ok()) << factor.outcome.message();
  const DenseMatrix<T> b = right_hand_sides<T>(layout.size(), 1);
  EXPECT_TRUE(solves(a, solved(mesh, factor, b), b));
}

/// Each would wait for ever if it had half of the GPUs' room and another mesh the other half.
TEST_F(PersistentSolve, TwoMeshesOnTheSameGpusAtOnce_DoNotWaitForEachOther) {
  constexpr std::int64_t n = 20000;
  const SlabLayout layout = SlabLayout::even(n, 2, 512);
  const auto work = [&] {
    Mesh mesh = make_mesh(2);
    const ShardedMatrix<double> a = make_matrix<double>(mesh, layout);
    mesh.state().run({}, [&](mesh::Rank& rank) {
      const MatrixView<double> slab = a.slab(rank.index());
      const std::int64_t first = layout.segment(rank.index()).begin.value();
      rank.kernels<double>().fill(rank.update(), 0.0, slab);
      rank.kernels<double>().identity(rank.update(), slab.block(first, 0, n / 2, n / 2));
      rank.update().synchronize();
    });
    const CholeskyFactor<double> factor = cholesky_factor(mesh, a);
    ASSERT_TRUE(factor.outcome.ok()) << factor.outcome.message();
    const DenseMatrix<double> b = right_hand_sides<double>(layout.size(), 1);
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(same_bits(solved(mesh, factor, b), b));
    }
  };
  std::thread other(work);
  work();
  other.join();
}

TEST_F(PersistentSolve, RankThatFailsBeforeItsKernel_EndsTheOthersAndTheNextSolveWorks) {
  if (test_gpus().size() < 2) {
    GTEST_SKIP() << "ranks that share a GPU go step by step";
  }
  const SlabLayout layout = SlabLayout::even(500, 2, 64);
  Mesh mesh = make_mesh(2);
  const DenseMatrix<double> a = dense<double>({.n = layout.size(), .seed = 5});
  const CholeskyFactor<double> factor = cholesky_factor(mesh, shard(a, layout));
  const DenseMatrix<double> b = right_hand_sides<double>(layout.size(), 1);
  const DenseMatrix<double> before = solved(mesh, factor, b);
  for (const std::int64_t failing : {0, 1}) {
    const RightHandSides<double> x = shard_rows(b, layout);
    EXPECT_TRUE(throws(ErrorKind::device, [&] {
      mesh.state().run({}, [&](mesh::Rank& rank) {
        const auto solve = dense::PersistentSolve<double>::make(
            rank, layout, factor.slabs.slab(rank.index()), dense::SlabOf::cholesky);
        ASSERT_NE(solve, nullptr);
        solve->clear();
        if (rank.index() == failing) {
          throw Error(ErrorKind::device, "as if this rank's GPU had failed");
        }
        solve->start(runtime::Op::none,
                     x.block(rank.index()));  // and waits in it for numbers of the other rank
        rank.update().synchronize();
      });
    }));
    EXPECT_TRUE(same_bits(solved(mesh, factor, b), before));
  }
}

}  // namespace
}  // namespace shardsolve::testing
