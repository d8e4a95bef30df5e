// The way from a matrix to a tridiagonal and back, as a whole.

#include "dense/eigh/back_transform.hpp"
#include "dense/eigh/band_to_tridiagonal.hpp"
#include "dense/eigh/full_to_band.hpp"
#include "dense/eigh/row_order.hpp"
#include "support/bits.hpp"
#include "support/cuts.hpp"
#include "support/dtypes.hpp"
#include "support/eigh_reduction.hpp"
#include "support/process_meshes.hpp"
#include "support/rank_program.hpp"
#include "support/sharded_problem.hpp"
#include "support/thrown.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <stop_token>
#include <type_traits>
#include <vector>

namespace shardsolve::testing::reduction {
namespace {

/// How the way from a matrix to a tridiagonal and back is cut.
struct Pieces {
  std::int64_t deferred = 20;
  std::int64_t sweeps = 4;
  std::int64_t merged = 20;
};

/// A Q = Q T, all rows in the caller's order.
template <Scalar T>
struct ThereAndBack {
  DenseMatrix<RealOf<T>> tridiagonal;
  DenseMatrix<T> q;
};

/// The program of one rank, which leaves what it has in `result`: columns of Q on every rank but
/// the last, which has none if there are others.
template <Scalar T>
void go_there_and_back(mesh::Rank& rank, const SlabLayout& layout, MatrixView<T> slab,
                       const Pieces& pieces, ThereAndBack<T>& result) {
  namespace eigh = dense::eigh;
  const std::int64_t n = layout.size();
  const eigh::BandForm<T> form = eigh::make_band_form<T>(rank, layout);
  const eigh::RowOrder<T> order(rank, layout);
  order.to_elimination_order(slab);
  eigh::Mirror<T> mirror(rank, layout, order, slab);
  eigh::full_to_band(rank, layout, order, slab, {pieces.deferred, &mirror}, form);
  const eigh::SweepGroups groups{{n, layout.tile(), is_complex<T>}, pieces.sweeps, layout.ranks()};
  const MatrixView<T> reflectors = eigh::make_reflectors<T>(rank, groups);
  const MatrixView<RealOf<T>> tridiagonal = rank.workspace<RealOf<T>>(n, 2);
  eigh::band_to_tridiagonal<T>(rank, groups, form.band, reflectors, tridiagonal);
  const SlabLayout columns = SlabLayout::even(n, std::max<std::int64_t>(layout.ranks() - 1, 1), 1);
  const GlobalRange mine = rank.index() < columns.ranks()
                               ? columns.segment(rank.index())
                               : GlobalRange{GlobalIndex(n), GlobalIndex(n)};
  const MatrixView<T> z = rank.workspace<T>(n, mine.size());
  rank.kernels<T>().fill(rank.update(), T{0}, z);
  rank.kernels<T>().identity(rank.update(),
                             z.block(mine.begin.value(), 0, mine.size(), mine.size()));
  eigh::apply_sweeps(rank, groups, reflectors, z);
  eigh::apply_panels(rank, layout, slab, form.t, pieces.merged, z);
  order.to_caller_order(z);
  copy_entries<T>(fetched(rank, z).view(),
                  result.q.view().columns_from(mine.begin.value(), mine.size()));
  if (rank.index() == 0) {
    result.tridiagonal = fetched(rank, tridiagonal);
  }
}

template <Scalar T>
ThereAndBack<T> room_for(const SlabLayout& layout) {
  return {DenseMatrix<RealOf<T>>(layout.size(), 2), DenseMatrix<T>(layout.size(), layout.size())};
}

template <Scalar T>
ThereAndBack<T> there_and_back(Mesh& mesh, const SlabLayout& layout, const DenseMatrix<T>& a,
                               const Pieces& pieces) {
  const ShardedMatrix<T> slabs = shard(a, layout);
  ThereAndBack<T> result = room_for<T>(layout);
  run_on(mesh, [&](mesh::Rank& rank) {
    go_there_and_back(rank, layout, slabs.slab(rank.index()), pieces, result);
  });
  return result;
}

template <Scalar T>
void expect_similar(const DenseMatrix<T>& a, const ThereAndBack<T>& result) {
  const DenseMatrix<T> tridiagonal = from_tridiagonal<T>(result.tridiagonal);
  EXPECT_LE(similarity_ratio(a, result.q, tridiagonal), similarity_limit(a.rows()));
  EXPECT_LE(orthogonality_ratio(result.q), orthogonality_limit(a.rows()));
}

template <class T>
class EighBackTransform : public ::testing::Test {};
TYPED_TEST_SUITE(EighBackTransform, Dtypes, DtypeNames);

TYPED_TEST(EighBackTransform, OnEveryCut_GivesTheWholeTransformation) {
  using T = TypeParam;
  for (const Cut& cut : reduction_cuts()) {
    SCOPED_TRACE(cut.name);
    Mesh mesh = make_mesh(cut.layout.ranks());
    const DenseMatrix<T> a = random_hermitian<T>(cut.layout.size());
    expect_similar(a, there_and_back(mesh, cut.layout, a, {}));
  }
}

TYPED_TEST(EighBackTransform, InPiecesOfAnySize_GivesTheWholeTransformation) {
  using T = TypeParam;
  const SlabLayout layout({0, 17, 17, 50, 60}, 5);
  Mesh mesh = make_mesh(layout.ranks());
  const DenseMatrix<T> a = random_hermitian<T>(60);
  for (const std::int64_t sweeps : {1, 5, 13, 100}) {
    for (const std::int64_t merged : {1, 7, 1000}) {
      SCOPED_TRACE(fmt::format("groups of {}, {} columns merged", sweeps, merged));
      expect_similar(a, there_and_back(mesh, layout, a, {12, sweeps, merged}));
    }
  }
}

TYPED_TEST(EighBackTransform, WithoutCommonMemoryAndWithLateCalls_GivesTheSameBits) {
  using T = TypeParam;
  const Ragged ragged;
  const DenseMatrix<T> a = random_hermitian<T>(ragged.layout.size());
  LateMesh late(ragged.layout.ranks());
  const ThereAndBack<T> expected = there_and_back(late.mesh, ragged.layout, a, {});
  const auto expect_same = [&](Mesh& mesh) {
    const ThereAndBack<T> result = there_and_back(mesh, ragged.layout, a, {});
    EXPECT_TRUE(same_bits(result.tridiagonal, expected.tridiagonal));
    EXPECT_TRUE(same_bits(result.q, expected.q));
  };
  if (test_gpus().empty()) {
    Mesh copied = cpu_mesh(ragged.layout.ranks(), Windows::copied);
    expect_same(copied);
  }
  late.for_late_calls(8, [&] { expect_same(late.mesh); });
}

/// The range in which the caller keeps the largest entry of a matrix.
template <Scalar T>
std::vector<RealOf<T>> ends_of_the_range() {
  const int exponent = std::is_same_v<RealOf<T>, float> ? 30 : 300;
  return {std::ldexp(RealOf<T>{1}, -exponent), std::ldexp(RealOf<T>{1}, exponent)};
}

TYPED_TEST(EighBackTransform, OfScaledMatrix_IsTheSameButForTheScale) {
  using T = TypeParam;
  const SlabLayout layout({0, 17, 17, 50, 60}, 5);
  Mesh mesh = make_mesh(layout.ranks());
  const DenseMatrix<T> a = random_hermitian<T>(60);
  const ThereAndBack<T> expected = there_and_back(mesh, layout, a, {});
  for (const RealOf<T> scale : ends_of_the_range<T>()) {
    DenseMatrix<T> scaled = a;
    std::for_each(scaled.data(), scaled.data() + 60 * 60, [&](T& entry) { entry *= scale; });
    const ThereAndBack<T> result = there_and_back(mesh, layout, scaled, {});
    EXPECT_TRUE(same_bits(result.q, expected.q));
    DenseMatrix<RealOf<T>> tridiagonal = expected.tridiagonal;
    std::for_each(tridiagonal.data(), tridiagonal.data() + 2 * 60,
                  [&](RealOf<T>& entry) { entry *= scale; });
    EXPECT_TRUE(same_bits(result.tridiagonal, tridiagonal));
  }
}

/// Rows and columns of all sizes: each panel has columns that are tiny beside the others.
TYPED_TEST(EighBackTransform, OfGradedMatrix_GivesTheWholeTransformation) {
  using T = TypeParam;
  const SlabLayout layout({0, 17, 17, 50, 60}, 5);
  Mesh mesh = make_mesh(layout.ranks());
  DenseMatrix<T> a = random_hermitian<T>(60);
  for (std::int64_t j = 0; j < 60; ++j) {
    for (std::int64_t i = 0; i < 60; ++i) {
      a(i, j) *= std::ldexp(RealOf<T>{1}, -static_cast<int>(i % 13 + j % 13) * 5);
    }
  }
  expect_similar(a, there_and_back(mesh, layout, a, {}));
}

TYPED_TEST(EighBackTransform, InTheCallersThread_GivesTheSameBits) {
  if (!test_gpus().empty()) {
    GTEST_SKIP() << "of CPU devices";
  }
  using T = TypeParam;
  const SlabLayout layout({0, 60}, 5);
  const DenseMatrix<T> a = random_hermitian<T>(60);
  Mesh mesh = make_mesh(1);
  Mesh serial = Mesh::serial();
  const ThereAndBack<T> expected = there_and_back(mesh, layout, a, {});
  const ThereAndBack<T> result = there_and_back(serial, layout, a, {});
  EXPECT_TRUE(same_bits(result.tridiagonal, expected.tridiagonal));
  EXPECT_TRUE(same_bits(result.q, expected.q));
}

TYPED_TEST(EighBackTransform, InProcesses_GivesTheSameBits) {
  if (!test_gpus().empty()) {
    GTEST_SKIP() << "of CPU devices";
  }
  using T = TypeParam;
  const Ragged ragged;
  const DenseMatrix<T> a = random_hermitian<T>(ragged.layout.size());
  Mesh mesh = make_mesh(ragged.layout.ranks());
  const ThereAndBack<T> expected = there_and_back(mesh, ragged.layout, a, {});
  for (const Hosts hosts : {Hosts::one_each, Hosts::one}) {
    ProcessMeshes processes(ragged.layout.ranks(), ProcessMeshes::usual_eager, hosts);
    const ShardedMatrix<T> slabs = shard(a, ragged.layout);
    ThereAndBack<T> result = room_for<T>(ragged.layout);
    const auto errors = processes.together([&](Mesh& own, std::int64_t) {
      run_on(own, [&](mesh::Rank& rank) {
        go_there_and_back(rank, ragged.layout, slabs.slab(rank.index()), {}, result);
      });
    });
    for (const auto& error : errors) {
      EXPECT_FALSE(error.has_value()) << error->what();
    }
    EXPECT_TRUE(same_bits(result.tridiagonal, expected.tridiagonal));
    EXPECT_TRUE(same_bits(result.q, expected.q));
  }
}

TYPED_TEST(EighBackTransform, OfNumbersThatAreNone_Ends) {
  using T = TypeParam;
  const SlabLayout layout({0, 17, 17, 50, 60}, 5);
  Mesh mesh = make_mesh(layout.ranks());
  for (const RealOf<T> none :
       {std::numeric_limits<RealOf<T>>::quiet_NaN(), std::numeric_limits<RealOf<T>>::infinity()}) {
    DenseMatrix<T> a = random_hermitian<T>(60);
    a(20, 20) = none;
    EXPECT_FALSE(std::isfinite(there_and_back(mesh, layout, a, {}).tridiagonal(59, 0)));
  }
}

TYPED_TEST(EighBackTransform, AskedToStop_ThrowsCancelled) {
  using T = TypeParam;
  const Ragged ragged;
  const dense::eigh::SweepGroups groups{{60, 5, is_complex<T>}, 7, ragged.layout.ranks()};
  Mesh mesh = make_mesh(ragged.layout.ranks());
  std::stop_source stop;
  stop.request_stop();
  const auto expect_cancelled = [&](const mesh::RankProgram& program) {
    expect_error([&] { run_on(mesh, program, {.cancel = stop.get_token()}); }, ErrorKind::cancelled,
                 {"cancelled"});
  };
  const auto zeros = [](mesh::Rank& rank, std::int64_t rows, std::int64_t columns) {
    const MatrixView<T> view = rank.workspace<T>(rows, columns);
    rank.kernels<T>().fill(rank.transfer(), T{0}, view);
    rank.finish(rank.transfer());
    return view;
  };
  expect_cancelled([&](mesh::Rank& rank) {
    dense::eigh::apply_sweeps(rank, groups, zeros(rank, 6, groups.columns_of(rank.index())),
                              zeros(rank, 60, 3));
  });
  expect_cancelled([&](mesh::Rank& rank) {
    dense::eigh::apply_panels(rank, ragged.layout,
                              zeros(rank, 60, ragged.layout.width(rank.index())),
                              zeros(rank, 5, 60), 10, zeros(rank, 60, 3));
  });
}

class EighBackTransformWaits : public ReductionWaits {};

TEST_P(EighBackTransformWaits, ThereAndBack_WithAllWaits_IsRight) {
  expect_similar(a_, there_and_back(mesh_, layout_, a_, {24, 9, 24}));
}

INSTANTIATE_TEST_SUITE_P(Meshes, EighBackTransformWaits, ReductionWaits::cases(),
                         ReductionWaits::name);

}  // namespace
}  // namespace shardsolve::testing::reduction
