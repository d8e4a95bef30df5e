// The reductions of an eigenproblem to a band and to a tridiagonal, each from what it leaves
// behind.

#include "support/eigh_reduction.hpp"

#include "dense/eigh/band_to_tridiagonal.hpp"
#include "dense/eigh/full_to_band.hpp"
#include "dense/eigh/row_order.hpp"
#include "reference/matmul.hpp"
#include "reference/permute.hpp"
#include "support/bits.hpp"
#include "support/busy.hpp"
#include "support/cuts.hpp"
#include "support/dtypes.hpp"
#include "support/matrix_zoo.hpp"
#include "support/rank_program.hpp"
#include "support/sharded_problem.hpp"
#include "support/thrown.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <complex>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

namespace shardsolve::testing::reduction {
namespace {

template <Scalar T>
struct ReducedToBand {
  DenseMatrix<T> band;
  DenseMatrix<T> t;
  DenseMatrix<T> v;  ///< the slabs, side by side, rows in elimination order
};

struct Updates {
  std::int64_t deferred = 1;
  bool mirrored = true;
};

template <Scalar T>
void reduce_slab(mesh::Rank& rank, const SlabLayout& layout, MatrixView<T> slab,
                 const Updates& updates, const dense::eigh::BandForm<T>& form) {
  const dense::eigh::RowOrder<T> order(rank, layout);
  order.to_elimination_order(slab);
  dense::eigh::Mirror<T> mirror(rank, layout, order, slab);
  dense::eigh::full_to_band(rank, layout, order, slab,
                            {updates.deferred, updates.mirrored ? &mirror : nullptr}, form);
}

/// Expects the same on every rank.
template <Scalar T>
ReducedToBand<T> reduce_to_band(Mesh& mesh, const SlabLayout& layout, const DenseMatrix<T>& a,
                                const Updates& updates) {
  const ShardedMatrix<T> slabs = shard(a, layout);
  std::vector<ReducedToBand<T>> all(static_cast<std::size_t>(layout.ranks()));
  run_on(mesh, [&](mesh::Rank& rank) {
    const dense::eigh::BandForm<T> form = dense::eigh::make_band_form<T>(rank, layout);
    reduce_slab(rank, layout, slabs.slab(rank.index()), updates, form);
    ReducedToBand<T>& mine = all[static_cast<std::size_t>(rank.index())];
    mine.band = fetched(rank, form.band);
    mine.t = fetched(rank, form.t);
  });
  for (const ReducedToBand<T>& one : all) {
    EXPECT_TRUE(same_bits(one.band, all[0].band));
  }
  all[0].v = whole(slabs);
  return std::move(all[0]);
}

/// q -= v (t^H or t) (v^H q)
template <Scalar T>
void reflect(const DenseMatrix<T>& v, const DenseMatrix<T>& t, DenseMatrix<T>& q) {
  const DenseMatrix<T> vq = matmul(ReferenceOp::conjugate_transpose, v, ReferenceOp::none, q);
  q = difference(q, matmul(v, matmul(t, vq)));
}

/// Q of Q^H P A P^T Q = band.
template <Scalar T>
DenseMatrix<T> q_of(const SlabLayout& layout, const ReducedToBand<T>& reduced) {
  DenseMatrix<T> q = DenseMatrix<T>::identity(layout.size());
  for (Step step(layout.steps() - 1); step.value() >= 0; step = step - 1) {
    const dense::eigh::Panel panel(layout, step);
    const std::int64_t k = panel.reflectors;
    DenseMatrix<T> v(layout.size(), k);
    for (std::int64_t j = 0; j < k; ++j) {
      for (std::int64_t i = panel.begin; i < layout.size(); ++i) {
        v(i, j) = reduced.v(i, layout.rows(step).begin.value() + j);
      }
    }
    reflect(v, DenseMatrix<T>(reduced.t.view().block(0, panel.first, k, k)), q);
  }
  return q;
}

template <Scalar T>
void expect_reduced_to_band(const SlabLayout& layout, const DenseMatrix<T>& a,
                            const ReducedToBand<T>& reduced) {
  const std::int64_t n = layout.size();
  const std::int64_t b = layout.tile();
  for (std::int64_t j = 0; j < n; ++j) {
    EXPECT_EQ(std::imag(reduced.band(0, j)), RealOf<T>{0});
    for (std::int64_t i = 0; i <= 2 * b; ++i) {
      if (i > b || i + j >= n) {
        EXPECT_EQ(reduced.band(i, j), T{0});
      }
    }
  }
  const DenseMatrix<T> pap = reference::permute(a, layout);
  const DenseMatrix<T> band = from_band(reduced.band);
  const DenseMatrix<T> q = q_of(layout, reduced);
  EXPECT_LE(similarity_ratio(pap, q, band), similarity_limit(n));
  EXPECT_LE(orthogonality_ratio(q), orthogonality_limit(n));
  EXPECT_LE(spectrum_error(a, band), spectrum_limit);
}

template <class T>
class EighRowOrder : public ::testing::Test {};
TYPED_TEST_SUITE(EighRowOrder, Dtypes, DtypeNames);

TYPED_TEST(EighRowOrder, ThereAndBack_OnEveryCut_IsThatOfTheLayout) {
  using T = TypeParam;
  std::vector<Cut> all = reduction_cuts();
  all.push_back({"many_columns", SlabLayout({0, 300, 300, 620}, 32)});
  for (const Cut& cut : all) {
    SCOPED_TRACE(cut.name);
    const SlabLayout& layout = cut.layout;
    Mesh mesh = make_mesh(layout.ranks());
    const DenseMatrix<T> a = right_hand_sides<T>(layout.size(), layout.size(), 3);
    const ShardedMatrix<T> slabs = shard(a, layout);
    const auto move = [&](auto way) {
      run_on(mesh, [&](mesh::Rank& rank) {
        (dense::eigh::RowOrder<T>(rank, layout).*way)(slabs.slab(rank.index()));
      });
      return whole(slabs);
    };
    DenseMatrix<T> expected(layout.size(), layout.size());
    for (std::int64_t j = 0; j < layout.size(); ++j) {
      for (std::int64_t i = 0; i < layout.size(); ++i) {
        expected(i, j) = a(layout.row_at(Position(i)).value(), j);
      }
    }
    EXPECT_TRUE(same_bits(move(&dense::eigh::RowOrder<T>::to_elimination_order), expected));
    EXPECT_TRUE(same_bits(move(&dense::eigh::RowOrder<T>::to_caller_order), a));
  }
}

template <class T>
class EighFullToBand : public ::testing::Test {};
TYPED_TEST_SUITE(EighFullToBand, Dtypes, DtypeNames);

TYPED_TEST(EighFullToBand, OnEveryCut_IsASimilarBand) {
  using T = TypeParam;
  for (const Cut& cut : reduction_cuts()) {
    Mesh mesh = make_mesh(cut.layout.ranks());
    const DenseMatrix<T> a = random_hermitian<T>(cut.layout.size());
    for (const Updates& updates : {Updates{1}, {20}, {20, false}}) {
      SCOPED_TRACE(fmt::format("{}, deferred {}, mirrored: {}", cut.name, updates.deferred,
                               updates.mirrored));
      expect_reduced_to_band(cut.layout, a, reduce_to_band(mesh, cut.layout, a, updates));
    }
  }
}

TYPED_TEST(EighFullToBand, OfMatricesOfLowRank_IsASimilarBand) {
  using T = TypeParam;
  const SlabLayout layout({0, 17, 17, 50, 60}, 5);
  Mesh mesh = make_mesh(layout.ranks());
  for (const DenseMatrix<T>& a : {DenseMatrix<T>(60, 60), DenseMatrix<T>::identity(60),
                                  of_rank<T>(1, 60), of_rank<T>(3, 60), of_rank<T>(30, 60)}) {
    expect_reduced_to_band(layout, a, reduce_to_band(mesh, layout, a, {15}));
  }
}

template <Scalar T>
void expect_same(const ReducedToBand<T>& a, const ReducedToBand<T>& b) {
  EXPECT_TRUE(same_bits(a.band, b.band));
  EXPECT_TRUE(same_bits(a.t, b.t));
  EXPECT_TRUE(same_bits(a.v, b.v));
}

template <Scalar T>
ReducedToBand<T> reduce_to_band(Mesh& mesh, const Ragged& ragged) {
  return reduce_to_band(mesh, ragged.layout, random_hermitian<T>(ragged.layout.size()),
                        {ragged.deferred});
}

TYPED_TEST(EighFullToBand, WithoutCommonMemory_GivesTheSameBits) {
  if (!test_gpus().empty()) {
    GTEST_SKIP() << "of CPU devices";
  }
  const Ragged ragged;
  Mesh in_place = cpu_mesh(ragged.layout.ranks());
  Mesh copied = cpu_mesh(ragged.layout.ranks(), Windows::copied);
  expect_same(reduce_to_band<TypeParam>(copied, ragged),
              reduce_to_band<TypeParam>(in_place, ragged));
}

TYPED_TEST(EighFullToBand, OnALoadedMachine_GivesTheSameBits) {
  const Ragged ragged;
  Mesh mesh = make_mesh(ragged.layout.ranks());
  const ReducedToBand<TypeParam> quiet = reduce_to_band<TypeParam>(mesh, ragged);
  const BusyThreads busy(2);
  for (int run = 0; run < 10 && !::testing::Test::HasFailure(); ++run) {
    expect_same(reduce_to_band<TypeParam>(mesh, ragged), quiet);
  }
}

TYPED_TEST(EighFullToBand, CallThatComesLate_ChangesNoBit) {
  const Ragged ragged;
  LateMesh late(ragged.layout.ranks());
  const ReducedToBand<TypeParam> expected = reduce_to_band<TypeParam>(late.mesh, ragged);
  late.for_late_calls(8,
                      [&] { expect_same(reduce_to_band<TypeParam>(late.mesh, ragged), expected); });
}

TYPED_TEST(EighFullToBand, AskedToStop_ThrowsCancelled) {
  using T = TypeParam;
  const Ragged ragged;
  Mesh mesh = make_mesh(ragged.layout.ranks());
  const ShardedMatrix<T> slabs = shard(random_hermitian<T>(ragged.layout.size()), ragged.layout);
  std::stop_source stop;
  stop.request_stop();
  expect_error(
      [&] {
        run_on(mesh,
               [&](mesh::Rank& rank) {
                 reduce_slab(rank, ragged.layout, slabs.slab(rank.index()), {ragged.deferred},
                             dense::eigh::make_band_form<T>(rank, ragged.layout));
               },
               {.cancel = stop.get_token()});
      },
      ErrorKind::cancelled, {"cancelled"});
}

template <Scalar T>
struct ReducedToTridiagonal {
  DenseMatrix<RealOf<T>> tridiagonal;      ///< n x 2
  std::vector<DenseMatrix<T>> reflectors;  ///< by group
};

/// Expects the same tridiagonal on every rank; only the first has the band.
template <Scalar T>
ReducedToTridiagonal<T> reduce_to_tridiagonal(Mesh& mesh, const dense::eigh::SweepGroups& groups,
                                              const DenseMatrix<T>& band, bool keep = true) {
  const std::int64_t n = band.columns();
  std::vector<DenseMatrix<RealOf<T>>> tridiagonals(static_cast<std::size_t>(mesh.ranks()));
  ReducedToTridiagonal<T> result;
  result.reflectors.resize(static_cast<std::size_t>(groups.count()));
  run_on(mesh, [&](mesh::Rank& rank) {
    const MatrixView<T> copy = rank.workspace<T>(band.rows(), n);
    if (rank.index() == 0) {
      upload(rank, band, copy);
    }
    const MatrixView<RealOf<T>> tridiagonal = rank.workspace<RealOf<T>>(n, 2);
    std::optional<MatrixView<T>> reflectors;
    if (keep) {
      reflectors = dense::eigh::make_reflectors<T>(rank, groups);
    }
    dense::eigh::band_to_tridiagonal(rank, groups, copy, reflectors, tridiagonal);
    tridiagonals[static_cast<std::size_t>(rank.index())] = fetched(rank, tridiagonal);
    for (std::int64_t group = rank.index(); keep && group < groups.count(); group += rank.count()) {
      result.reflectors[static_cast<std::size_t>(group)] =
          fetched(rank, dense::eigh::reflectors_of(groups, *reflectors, group));
    }
  });
  for (const DenseMatrix<RealOf<T>>& one : tridiagonals) {
    EXPECT_TRUE(same_bits(one, tridiagonals[0]));
  }
  result.tridiagonal = tridiagonals[0];
  return result;
}

/// Q of Q^H B Q = tridiagonal: one reflector after the other, the last sweep's first.
template <Scalar T>
DenseMatrix<T> q_of(const dense::eigh::SweepGroups& groups,
                    const ReducedToTridiagonal<T>& reduced) {
  const runtime::Chase& chase = groups.chase;
  DenseMatrix<T> q = DenseMatrix<T>::identity(chase.size);
  for (std::int64_t sweep = chase.sweeps() - 1; sweep >= 0; --sweep) {
    const std::int64_t index = sweep / groups.size;
    const runtime::SweepGroup group = groups.group(index);
    for (std::int64_t number = chase.tasks(sweep) - 1; number >= 0; --number) {
      const runtime::ChaseTask task = chase.task(sweep, number);
      const DenseMatrix<T>& all = reduced.reflectors[static_cast<std::size_t>(index)];
      const T* const reflector = &all(0, number * group.count + sweep - group.first);
      for (std::int64_t j = 0; j < chase.size; ++j) {
        T sum{0};
        for (std::int64_t i = 0; i < task.rows; ++i) {
          sum += reference::conjugate(reflector[1 + i]) * q(task.row + i, j);
        }
        for (std::int64_t i = 0; i < task.rows; ++i) {
          q(task.row + i, j) -= reflector[0] * reflector[1 + i] * sum;
        }
      }
    }
  }
  return q;
}

/// A random band, as of a matrix that was reduced to it.
template <Scalar T>
DenseMatrix<T> random_band(std::int64_t n, std::int64_t bandwidth) {
  DenseMatrix<T> band(2 * bandwidth + 1, n);
  const DenseMatrix<T> a = random_hermitian<T>(n, 3);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i <= bandwidth && i + j < n; ++i) {
      band(i, j) = a(i + j, j);
    }
  }
  return band;
}

template <Scalar T>
void expect_reduced_to_tridiagonal(const dense::eigh::SweepGroups& groups,
                                   const DenseMatrix<T>& band,
                                   const ReducedToTridiagonal<T>& reduced) {
  const DenseMatrix<T> b = from_band(band);
  const DenseMatrix<T> tridiagonal = from_tridiagonal<T>(reduced.tridiagonal);
  const DenseMatrix<T> q = q_of(groups, reduced);
  EXPECT_LE(similarity_ratio(b, q, tridiagonal), similarity_limit(b.rows()));
  EXPECT_LE(orthogonality_ratio(q), orthogonality_limit(b.rows()));
  EXPECT_LE(spectrum_error(b, tridiagonal), spectrum_limit);
}

template <class T>
class EighBandToTridiagonal : public ::testing::Test {
 protected:
  static dense::eigh::SweepGroups groups(std::int64_t n, std::int64_t bandwidth, std::int64_t size,
                                         std::int64_t ranks) {
    return {{n, bandwidth, is_complex<T>}, size, ranks};
  }
};
TYPED_TEST_SUITE(EighBandToTridiagonal, Dtypes, DtypeNames);

TYPED_TEST(EighBandToTridiagonal, OfEverySizeAndWidth_IsSimilar) {
  using T = TypeParam;
  for (const std::int64_t ranks : {1, 2, 3, 4}) {
    Mesh mesh = make_mesh(ranks);
    for (const std::int64_t n : {0, 1, 2, 3, 8, 60}) {
      for (const std::int64_t bandwidth : {1, 3, 8}) {
        for (const std::int64_t size : {1, 4, 100}) {
          SCOPED_TRACE(
              fmt::format("{} ranks, n {}, band {}, groups of {}", ranks, n, bandwidth, size));
          const dense::eigh::SweepGroups groups = this->groups(n, bandwidth, size, ranks);
          const DenseMatrix<T> band = random_band<T>(n, bandwidth);
          expect_reduced_to_tridiagonal(groups, band, reduce_to_tridiagonal(mesh, groups, band));
        }
      }
    }
  }
}

TYPED_TEST(EighBandToTridiagonal, OnAnyMeshAndWithoutReflectors_GivesTheSameBits) {
  using T = TypeParam;
  const DenseMatrix<T> band = random_band<T>(60, 5);
  Mesh one = make_mesh(1);
  const ReducedToTridiagonal<T> expected =
      reduce_to_tridiagonal(one, this->groups(60, 5, 7, 1), band);
  for (const Windows windows : {Windows::in_place, Windows::copied}) {
    Mesh mesh = test_gpus().empty() ? cpu_mesh(3, windows) : make_mesh(3);
    const dense::eigh::SweepGroups groups = this->groups(60, 5, 7, 3);
    const ReducedToTridiagonal<T> result = reduce_to_tridiagonal(mesh, groups, band);
    EXPECT_TRUE(same_bits(result.tridiagonal, expected.tridiagonal));
    for (std::size_t i = 0; i < expected.reflectors.size(); ++i) {
      EXPECT_TRUE(same_bits(result.reflectors[i], expected.reflectors[i]));
    }
    EXPECT_TRUE(same_bits(reduce_to_tridiagonal(mesh, groups, band, false).tridiagonal,
                          expected.tridiagonal));
  }
}

TYPED_TEST(EighBandToTridiagonal, CallThatComesLate_ChangesNoBit) {
  using T = TypeParam;
  const DenseMatrix<T> band = random_band<T>(60, 5);
  const dense::eigh::SweepGroups groups = this->groups(60, 5, 7, 3);
  LateMesh late(3);
  const ReducedToTridiagonal<T> expected = reduce_to_tridiagonal(late.mesh, groups, band);
  late.for_late_calls(8, [&] {
    const ReducedToTridiagonal<T> result = reduce_to_tridiagonal(late.mesh, groups, band);
    EXPECT_TRUE(same_bits(result.tridiagonal, expected.tridiagonal));
    for (std::size_t i = 0; i < expected.reflectors.size(); ++i) {
      EXPECT_TRUE(same_bits(result.reflectors[i], expected.reflectors[i]));
    }
  });
}

TYPED_TEST(EighBandToTridiagonal, AskedToStop_ThrowsCancelled) {
  using T = TypeParam;
  Mesh mesh = make_mesh(2);
  const dense::eigh::SweepGroups groups = this->groups(60, 5, 7, 2);
  std::stop_source stop;
  stop.request_stop();
  expect_error(
      [&] {
        run_on(mesh,
               [&](mesh::Rank& rank) {
                 const MatrixView<T> band = rank.workspace<T>(11, 60);
                 rank.kernels<T>().fill(rank.panel(), T{0}, band);
                 dense::eigh::band_to_tridiagonal<T>(rank, groups, band, std::nullopt,
                                                     rank.workspace<RealOf<T>>(60, 2));
               },
               {.cancel = stop.get_token()});
      },
      ErrorKind::cancelled, {"cancelled"});
}

/// Both the rank that chases and one that waits for it, early and in the middle: its last call
/// nobody misses. All calls between ranks are those of the chase.
TEST(SilenceInTheChase, OfARank_IsReportedWithItsNumber) {
  if (!test_gpus().empty()) {
    GTEST_SKIP() << "who waits in CUDA for what its GPU does looks at no other rank";
  }
  constexpr std::chrono::milliseconds limit(300);
  const dense::eigh::SweepGroups groups{{60, 5, false}, 7, 3};
  const DenseMatrix<double> band = random_band<double>(60, 5);
  for (const std::int64_t rank : {std::int64_t{0}, groups.ranks - 1}) {
    for (const std::int64_t part : {0, 1}) {
      LateMesh late(groups.ranks);
      late.faults->clear();
      reduce_to_tridiagonal(late.mesh, groups, band);
      const std::int64_t call = 1 + part * late.faults->calls(rank) / 2;
      SCOPED_TRACE(fmt::format("call {} on rank {}", call, rank));
      late.faults->strike_call(rank, call, Fault::silent, 4 * limit);
      expect_error(
          [&] {
            run_on(late.mesh,
                   [&](mesh::Rank& here) {
                     const MatrixView<double> copy = here.workspace<double>(band.rows(), 60);
                     if (here.index() == 0) {
                       upload(here, band, copy);
                     }
                     dense::eigh::band_to_tridiagonal<double>(
                         here, groups, copy, dense::eigh::make_reflectors<double>(here, groups),
                         here.workspace<double>(60, 2));
                   },
                   {.silence_limit = limit});
          },
          ErrorKind::communication, {fmt::format("rank {} has been silent", rank)});
    }
  }
}

class EighReductionWaits : public ReductionWaits {};

TEST_P(EighReductionWaits, FullToBand_WithAllWaits_IsRight) {
  for (const Updates& updates : {Updates{1}, {24}, {24, false}}) {
    const ReducedToBand<double> reduced = reduce_to_band(mesh_, layout_, a_, updates);
    EXPECT_LE(spectrum_error(a_, from_band(reduced.band)), spectrum_limit);
  }
}

TEST_P(EighReductionWaits, BandToTridiagonal_WithAllWaits_IsRight) {
  const dense::eigh::SweepGroups groups{{115, 8, false}, 9, layout_.ranks()};
  const DenseMatrix<double> band = random_band<double>(115, 8);
  expect_reduced_to_tridiagonal(groups, band, reduce_to_tridiagonal(mesh_, groups, band));
}

INSTANTIATE_TEST_SUITE_P(Meshes, EighReductionWaits, ReductionWaits::cases(), ReductionWaits::name);

}  // namespace
}  // namespace shardsolve::testing::reduction
