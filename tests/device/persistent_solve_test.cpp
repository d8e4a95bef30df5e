// Solves for one right-hand side, which GPUs do in two kernels each. Left out without a GPU: see
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
#include <complex>
#include <cstdint>
#include <iterator>
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
    Mesh mesh = make_mesh(1);
    std::int64_t rows = 0;
    run_on(mesh, [&](mesh::Rank& rank) {
      rows = rank.kernels<std::complex<double>>().solve_block_rows();
    });
    if (rows == 0) {
      GTEST_SKIP() << "this GPU has too little shared memory: solves go step by step";
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

template <Scalar T>
T conjugate_of(T x) {
  if constexpr (is_complex<T>) {
    return std::conj(x);
  } else {
    return x;
  }
}

/// Several ranks as they are on GPUs of their own, each in a queue of one GPU, which has room for
/// the thread blocks of all while they are few. L and U, or L and L^H, are near a diagonal.
template <Scalar T>
void expect_ranks_solve_together(const SlabLayout& layout, dense::Factors what, runtime::Op op) {
  const std::int64_t n = layout.size();
  const std::int64_t ranks = layout.ranks();
  DenseMatrix<T> lu = right_hand_sides<T>(n, n);
  DenseMatrix<T> first = DenseMatrix<T>::identity(n);
  DenseMatrix<T> second = DenseMatrix<T>::identity(n);
  const bool is_lu = what == dense::Factors::l_and_u;
  const bool as_it_is = op == runtime::Op::none;
  const auto turned = [&](T x) { return op == runtime::Op::transpose ? x : conjugate_of(x); };
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < n; ++i) {
      lu(i, j) = i == j ? T{2} : lu(i, j) / static_cast<RealOf<T>>(n);
    }
  }
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < n; ++i) {
      const T l = i > j ? lu(i, j) : i < j ? T{0} : is_lu ? T{1} : lu(i, j);
      const T u = i <= j ? lu(i, j) : T{0};
      if (is_lu && as_it_is) {
        first(i, j) = l;
        second(i, j) = u;
      } else if (is_lu) {
        first(j, i) = turned(u);
        second(j, i) = turned(l);
      } else {
        first(i, j) = l;
        second(j, i) = conjugate_of(l);
      }
    }
  }
  const DenseMatrix<T> x = right_hand_sides<T>(n, 1);
  const auto product = [](const DenseMatrix<T>& a, const DenseMatrix<T>& b) {
    return reference::matmul(reference::Op::none, a, reference::Op::none, b);
  };
  const DenseMatrix<T> b = product(first, product(second, x));
  Mesh mesh = make_mesh(1);
  DenseMatrix<T> found(n, 1);
  run_on(mesh, [&](mesh::Rank& rank) {
    using Arguments = runtime::PersistentSolveArguments<T>;
    std::vector<Arguments> all(static_cast<std::size_t>(ranks));
    const std::int64_t width = layout.max_width();
    const std::int64_t needed = dense::persistent_solve_elements(what, n, width, ranks);
    std::vector<T*> memory;
    for (std::int64_t r = 0; r < ranks; ++r) {
      const MatrixView<T> mine = rank.workspace<T>(needed, 1);
      rank.kernels<T>().fill(rank.update(), dense::unwritten<T>(), mine);
      memory.push_back(mine.data());
    }
    for (std::int64_t r = 0; r < ranks; ++r) {
      Arguments& one = all[static_cast<std::size_t>(r)];
      const std::int64_t own = std::max<std::int64_t>(layout.width(r), 1);
      std::vector<T> slab(static_cast<std::size_t>(n * own), T{0});
      std::vector<T> own_b(static_cast<std::size_t>(own), T{0});
      for (Step s(0); s.value() < layout.steps(); ++s) {
        for (std::int64_t c = 0; layout.owner(s) == r && c < layout.rows(s).size(); ++c) {
          const std::int64_t column = layout.columns(s).begin.value() + c;
          own_b[static_cast<std::size_t>(column)] = b(layout.eliminated(s) + c, 0);
          for (Step t(0); t.value() < layout.steps(); ++t) {
            for (std::int64_t i = 0; i < layout.rows(t).size(); ++i) {
              const std::int64_t row =
                  (is_lu ? layout.eliminated(t) : layout.rows(t).begin.value()) + i;
              slab[static_cast<std::size_t>(row + column * n)] =
                  lu(layout.eliminated(t) + i, layout.eliminated(s) + c);
            }
          }
        }
      }
      one.slab = MatrixView<const T>(rank.upload(rank.update(), slab.data(), n * own), n, own);
      one.b = const_cast<T*>(rank.upload(rank.update(), own_b.data(), own));
      one.rank = static_cast<std::int32_t>(r);
      one.ranks = static_cast<std::int32_t>(ranks);
      one.width = width;
      std::copy(memory.begin(), memory.end(), one.memory);
      const dense::SolveLists there =
          dense::solve_lists(layout, what, r, rank.kernels<T>().solve_block_rows());
      const dense::SolveLists back = dense::turned(there);
      one.count = static_cast<std::int32_t>(there.all.size());
      one.own_count = static_cast<std::int32_t>(there.own.size());
      for (const bool second_one : {false, true}) {
        const dense::SolveLists& lists = second_one ? back : there;
        runtime::SolveSweep& sweep = one.sweeps[second_one ? 1 : 0];
        std::fill(std::begin(sweep.first), std::end(sweep.first), one.count);
        for (const runtime::SolveBlock& block : lists.all) {
          sweep.first[block.owner] = std::min(sweep.first[block.owner], block.number);
        }
        sweep.blocks = rank.upload(rank.update(), lists.all.data(), one.count);
        sweep.own = rank.upload(rank.update(), lists.own.data(), one.own_count);
      }
      dense::describe_sweeps(what, op, one);
    }
    rank.update().synchronize();
    runtime::Queue* const queues[] = {&rank.update(), &rank.panel(), &rank.transfer()};
    for (std::int64_t r = 0; r < ranks; ++r) {
      rank.kernels<T>().persistent_solve(*queues[r], all[static_cast<std::size_t>(r)], 0.0);
    }
    for (std::int64_t r = 0; r < ranks; ++r) {
      queues[r]->synchronize();
    }
    for (Step s(0); s.value() < layout.steps(); ++s) {
      const Arguments& owner = all[static_cast<std::size_t>(layout.owner(s))];
      const std::vector<T> part = rank.fetch(
          rank.update(), owner.b + layout.columns(s).begin.value(), layout.rows(s).size());
      std::copy(part.begin(), part.end(), &found(layout.eliminated(s), 0));
    }
  });
  double error = 0.0;
  for (std::int64_t i = 0; i < n; ++i) {
    error = std::max(error, static_cast<double>(std::abs(found(i, 0) - x(i, 0))));
  }
  EXPECT_TRUE(error <= 100.0 * unit_roundoff<T>) << error;
}

TYPED_TEST(PersistentSolveOf, RanksThatAnswerEachOther_SolveEverySystem) {
  using T = TypeParam;
  using runtime::Op;
  for (const std::int64_t ranks : {1, 2, 3}) {
    for (const std::int64_t tile : {37, 64, 100}) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks, tile " + std::to_string(tile));
      const SlabLayout layout = SlabLayout::even(700, ranks, tile);
      expect_ranks_solve_together<T>(layout, dense::Factors::l_and_adjoint, Op::none);
      for (const Op op : {Op::none, Op::transpose, Op::conjugate_transpose}) {
        SCOPED_TRACE(static_cast<char>(op));
        expect_ranks_solve_together<T>(layout, dense::Factors::l_and_u, op);
      }
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
            rank, layout, factor.slabs.slab(rank.index()), dense::Factors::l_and_adjoint);
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
