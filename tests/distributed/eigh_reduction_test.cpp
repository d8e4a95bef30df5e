// The reductions of an eigenproblem to a band and to a tridiagonal, each from what it leaves
// behind, and the way back. On CPU devices: GPUs have no such kernels.

#include "dense/eigh/back_transform.hpp"
#include "dense/eigh/band_to_tridiagonal.hpp"
#include "dense/eigh/full_to_band.hpp"
#include "mesh/host_backend.hpp"
#include "mesh/mesh_state.hpp"
#include "reference/matmul.hpp"
#include "reference/permute.hpp"
#include "support/bits.hpp"
#include "support/busy.hpp"
#include "support/cuts.hpp"
#include "support/dtypes.hpp"
#include "support/faults.hpp"
#include "support/faulty_backend.hpp"
#include "support/matrix_zoo.hpp"
#include "support/process_meshes.hpp"
#include "support/rank_program.hpp"
#include "support/sharded_problem.hpp"
#include "support/thrown.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

// LAPACK's eigenvalues are several times as accurate where it finds the vectors, too.
extern "C" {
void dsyevd_(const char*, const char*, const int*, double*, const int*, double*, double*,
             const int*, int*, const int*, int*, std::size_t, std::size_t);
void zheevd_(const char*, const char*, const int*, std::complex<double>*, const int*, double*,
             std::complex<double>*, const int*, double*, const int*, int*, const int*, int*,
             std::size_t, std::size_t);
}

namespace shardsolve::testing {
namespace {

using Windows = mesh::HostBackend::Windows;
using reference::matmul;
using ReferenceOp = reference::Op;

Mesh cpu_mesh(std::int64_t ranks, Windows windows = Windows::in_place) {
  return Mesh{mesh::MeshState::start(std::make_unique<mesh::HostBackend>(ranks, windows))};
}

template <Scalar T>
DenseMatrix<T> difference(const DenseMatrix<T>& a, const DenseMatrix<T>& b) {
  DenseMatrix<T> c = a;
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    for (std::int64_t i = 0; i < a.rows(); ++i) {
      c(i, j) -= b(i, j);
    }
  }
  return c;
}

/// (X + X^H) / 2 of random X.
template <Scalar T>
DenseMatrix<T> random_hermitian(std::int64_t n, std::uint64_t seed = 1) {
  const DenseMatrix<T> x = right_hand_sides<T>(n, n, seed);
  DenseMatrix<T> a(n, n);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < n; ++i) {
      a(i, j) = (x(i, j) + reference::conjugate(x(j, i))) / RealOf<T>{2};
    }
  }
  return a;
}

/// X^H X for random X of so many rows, made exactly Hermitian.
template <Scalar T>
DenseMatrix<T> of_rank(std::int64_t rank, std::int64_t n) {
  const DenseMatrix<T> x = right_hand_sides<T>(rank, n, 7);
  DenseMatrix<T> a = matmul(ReferenceOp::conjugate_transpose, x, ReferenceOp::none, x);
  for (std::int64_t j = 0; j < n; ++j) {
    a(j, j) = std::real(a(j, j));
    for (std::int64_t i = 0; i < j; ++i) {
      a(i, j) = reference::conjugate(a(j, i));
    }
  }
  return a;
}

/// Eigenvalues by LAPACK, in double precision.
template <Scalar T>
std::vector<double> eigenvalues(const DenseMatrix<T>& a) {
  using Wide = std::conditional_t<is_complex<T>, std::complex<double>, double>;
  const int n = static_cast<int>(a.rows());
  if (n == 0) {
    return {};
  }
  DenseMatrix<Wide> wide(n, n);
  std::transform(a.data(), a.data() + a.rows() * a.columns(), wide.data(),
                 [](T entry) { return Wide{entry}; });
  const int size = 1 + 6 * n + 2 * n * n;
  const int int_size = 3 + 5 * n;
  std::vector<Wide> work(static_cast<std::size_t>(size));
  std::vector<int> int_work(static_cast<std::size_t>(int_size));
  std::vector<double> values(static_cast<std::size_t>(n));
  int info = 0;
  if constexpr (is_complex<T>) {
    std::vector<double> real_work(static_cast<std::size_t>(size));
    zheevd_("V", "L", &n, wide.data(), &n, values.data(), work.data(), &size, real_work.data(),
            &size, int_work.data(), &int_size, &info, 1, 1);
  } else {
    dsyevd_("V", "L", &n, wide.data(), &n, values.data(), work.data(), &size, int_work.data(),
            &int_size, &info, 1, 1);
  }
  EXPECT_EQ(info, 0);
  return values;
}

/// The largest difference, in units of u times the largest modulus of the first ones.
template <Scalar T>
double spectrum_error(const std::vector<double>& expected, const std::vector<double>& values) {
  double error = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    error = std::max(error, std::abs(expected[i] - values[i]));
    norm = std::max(norm, std::abs(expected[i]));
  }
  return error == 0.0 ? 0.0 : error / (norm * unit_roundoff<T>);
}

template <Scalar T>
DenseMatrix<T> from_band(const DenseMatrix<T>& band) {
  DenseMatrix<T> a(band.columns(), band.columns());
  for (std::int64_t j = 0; j < band.columns(); ++j) {
    for (std::int64_t i = j; i < std::min(band.columns(), j + band.rows()); ++i) {
      a(i, j) = band(i - j, j);
      a(j, i) = reference::conjugate(band(i - j, j));
    }
  }
  return a;
}

/// A matrix that a rank program sees, on the host.
template <Scalar T>
DenseMatrix<T> kept(MatrixView<T> view) {
  return DenseMatrix<T>(MatrixView<const T>(view));
}

template <Scalar T>
struct ReducedToBand {
  DenseMatrix<T> band;
  DenseMatrix<T> t;
  DenseMatrix<T> v;  ///< the slabs, side by side
};

/// Expects the same on every rank.
template <Scalar T>
ReducedToBand<T> reduce_to_band(Mesh& mesh, const SlabLayout& layout, const DenseMatrix<T>& a,
                                std::int64_t deferred) {
  const ShardedMatrix<T> slabs = shard(a, layout);
  std::vector<ReducedToBand<T>> all(static_cast<std::size_t>(layout.ranks()));
  run_on(mesh, [&](mesh::Rank& rank) {
    const dense::eigh::BandForm<T> form = dense::eigh::make_band_form<T>(rank, layout);
    dense::eigh::full_to_band(rank, layout, slabs.slab(rank.index()), deferred, form);
    ReducedToBand<T>& mine = all[static_cast<std::size_t>(rank.index())];
    mine.band = kept(form.band);
    mine.t = kept(form.t);
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
        v(i, j) =
            reduced.v(layout.row_at(Position(i)).value(), layout.rows(step).begin.value() + j);
      }
    }
    reflect(v, DenseMatrix<T>(reduced.t.view().block(0, panel.first, k, k)), q);
  }
  return q;
}

template <Scalar T>
double in_roundoffs(const DenseMatrix<T>& error) {
  return static_cast<double>(reference::one_norm(error)) / unit_roundoff<T>;
}

/// ||A Q - Q B||_1 / (||A||_1 u)
template <Scalar T>
double similarity_ratio(const DenseMatrix<T>& a, const DenseMatrix<T>& q, const DenseMatrix<T>& b) {
  const auto norm = static_cast<double>(reference::one_norm(a));
  const double error = in_roundoffs(difference(matmul(a, q), matmul(q, b)));
  return error == 0.0 ? 0.0 : error / norm;
}

/// ||Q^H Q - I||_1 / u
template <Scalar T>
double orthogonality_ratio(const DenseMatrix<T>& q) {
  return in_roundoffs(difference(matmul(ReferenceOp::conjugate_transpose, q, ReferenceOp::none, q),
                                 DenseMatrix<T>::identity(q.columns())));
}

/// For products of n reflectors, or of n a row: the norms are sums of n entries, each of which has
/// the roundings of all of them. Of ||Q^H Q - I|| LAPACK's eigenvectors have about n u; four times
/// as much is the gate of the whole eigensolver.
double similarity_limit(std::int64_t n) { return 10.0 + 8.0 * std::sqrt(static_cast<double>(n)); }
double orthogonality_limit(std::int64_t n) { return 10.0 + 4.0 * static_cast<double>(n); }

constexpr double spectrum_limit = 20.0;

template <Scalar T>
void expect_reduced_to_band(const SlabLayout& layout, const DenseMatrix<T>& a,
                            const ReducedToBand<T>& reduced) {
  const std::int64_t n = layout.size();
  const std::int64_t b = layout.tile();
  for (std::int64_t j = 0; j < n; ++j) {
    EXPECT_EQ(std::imag(reduced.band(0, j)), RealOf<T>{0});
    for (std::int64_t i = 0; i < 2 * b; ++i) {
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
  EXPECT_LE(spectrum_error<T>(eigenvalues(a), eigenvalues(band)), spectrum_limit);
}

/// Cuts in which panels are short in the middle, and bands of other widths.
std::vector<Cut> reduction_cuts() {
  std::vector<Cut> all = testing::cuts();
  for (const std::int64_t b : {1, 2, 5, 13}) {
    all.push_back({fmt::format("ragged_band{}", b), SlabLayout({0, 7, 7, 50, 60}, b)});
    all.push_back({fmt::format("even_band{}", b), SlabLayout::even(37, 3, b)});
  }
  return all;
}

template <class T>
class EighFullToBand : public ::testing::Test {};
TYPED_TEST_SUITE(EighFullToBand, Dtypes, DtypeNames);

TYPED_TEST(EighFullToBand, OnEveryCut_IsASimilarBand) {
  using T = TypeParam;
  for (const Cut& cut : reduction_cuts()) {
    Mesh mesh = cpu_mesh(cut.layout.ranks());
    const DenseMatrix<T> a = random_hermitian<T>(cut.layout.size());
    for (const std::int64_t deferred : {1, 20}) {
      SCOPED_TRACE(::testing::Message() << cut.name << ", deferred " << deferred);
      expect_reduced_to_band(cut.layout, a, reduce_to_band(mesh, cut.layout, a, deferred));
    }
  }
}

TYPED_TEST(EighFullToBand, OfMatricesOfLowRank_IsASimilarBand) {
  using T = TypeParam;
  const SlabLayout layout({0, 17, 17, 50, 60}, 5);
  Mesh mesh = cpu_mesh(layout.ranks());
  for (const DenseMatrix<T>& a : {DenseMatrix<T>(60, 60), DenseMatrix<T>::identity(60),
                                  of_rank<T>(1, 60), of_rank<T>(3, 60), of_rank<T>(30, 60)}) {
    expect_reduced_to_band(layout, a, reduce_to_band(mesh, layout, a, 15));
  }
}

template <Scalar T>
void expect_same(const ReducedToBand<T>& a, const ReducedToBand<T>& b) {
  EXPECT_TRUE(same_bits(a.band, b.band));
  EXPECT_TRUE(same_bits(a.t, b.t));
  EXPECT_TRUE(same_bits(a.v, b.v));
}

/// A problem in which each step is of another kind.
struct Ragged {
  SlabLayout layout{{0, 17, 17, 50, 60}, 5};
  std::int64_t deferred = 12;

  template <Scalar T>
  ReducedToBand<T> reduce(Mesh& mesh) const {
    return reduce_to_band(mesh, layout, random_hermitian<T>(layout.size()), deferred);
  }
};

TYPED_TEST(EighFullToBand, WithoutCommonMemory_GivesTheSameBits) {
  const Ragged ragged;
  Mesh in_place = cpu_mesh(ragged.layout.ranks());
  Mesh copied = cpu_mesh(ragged.layout.ranks(), Windows::copied);
  expect_same(ragged.reduce<TypeParam>(copied), ragged.reduce<TypeParam>(in_place));
}

TYPED_TEST(EighFullToBand, OnALoadedMachine_GivesTheSameBits) {
  const Ragged ragged;
  Mesh mesh = cpu_mesh(ragged.layout.ranks());
  const ReducedToBand<TypeParam> quiet = ragged.reduce<TypeParam>(mesh);
  const BusyThreads busy(2);
  for (int run = 0; run < 10 && !::testing::Test::HasFailure(); ++run) {
    expect_same(ragged.reduce<TypeParam>(mesh), quiet);
  }
}

/// A mesh whose calls between ranks may come late.
struct LateMesh {
  explicit LateMesh(std::int64_t ranks)
      : faults(std::make_shared<Faults>(ranks)),
        mesh(mesh::MeshState::start(
            std::make_unique<FaultyBackend>(std::make_unique<mesh::HostBackend>(ranks), faults))) {}

  /// Runs `work` once without and then with each of some calls late: about `sample` a rank.
  template <class Work>
  void for_late_calls(std::int64_t sample, Work work) {
    faults->clear();
    work();
    std::vector<std::int64_t> calls;
    for (std::int64_t rank = 0; rank < mesh.ranks(); ++rank) {
      calls.push_back(faults->calls(rank));
    }
    for (std::int64_t rank = 0; rank < mesh.ranks(); ++rank) {
      const std::int64_t count = calls[static_cast<std::size_t>(rank)];
      for (std::int64_t call = rank; call < count;
           call += std::max<std::int64_t>(count / sample, 1)) {
        SCOPED_TRACE(fmt::format("call {} on rank {} is late", call, rank));
        faults->strike_call(rank, call, Fault::delayed, std::chrono::milliseconds(2));
        work();
      }
    }
  }

  std::shared_ptr<Faults> faults;
  Mesh mesh;
};

TYPED_TEST(EighFullToBand, CallThatComesLate_ChangesNoBit) {
  const Ragged ragged;
  LateMesh late(ragged.layout.ranks());
  const ReducedToBand<TypeParam> expected = ragged.reduce<TypeParam>(late.mesh);
  late.for_late_calls(8, [&] { expect_same(ragged.reduce<TypeParam>(late.mesh), expected); });
}

TYPED_TEST(EighFullToBand, AskedToStop_ThrowsCancelled) {
  using T = TypeParam;
  const Ragged ragged;
  Mesh mesh = cpu_mesh(ragged.layout.ranks());
  const ShardedMatrix<T> slabs = shard(random_hermitian<T>(ragged.layout.size()), ragged.layout);
  std::stop_source stop;
  stop.request_stop();
  expect_error(
      [&] {
        run_on(mesh,
               [&](mesh::Rank& rank) {
                 dense::eigh::full_to_band(rank, ragged.layout, slabs.slab(rank.index()),
                                           ragged.deferred,
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
      copy_entries<T>(band.view(), copy);
    }
    const MatrixView<RealOf<T>> tridiagonal = rank.workspace<RealOf<T>>(n, 2);
    std::optional<MatrixView<T>> reflectors;
    if (keep) {
      reflectors = dense::eigh::make_reflectors<T>(rank, groups);
    }
    dense::eigh::band_to_tridiagonal(rank, groups, copy, reflectors, tridiagonal);
    tridiagonals[static_cast<std::size_t>(rank.index())] = kept(tridiagonal);
    for (std::int64_t group = rank.index(); keep && group < groups.count(); group += rank.count()) {
      result.reflectors[static_cast<std::size_t>(group)] =
          kept(dense::eigh::reflectors_of(groups, *reflectors, group));
    }
  });
  for (const DenseMatrix<RealOf<T>>& one : tridiagonals) {
    EXPECT_TRUE(same_bits(one, tridiagonals[0]));
  }
  result.tridiagonal = tridiagonals[0];
  return result;
}

template <Scalar T>
DenseMatrix<T> from_tridiagonal(const DenseMatrix<RealOf<T>>& tridiagonal) {
  DenseMatrix<T> a(tridiagonal.rows(), tridiagonal.rows());
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    a(j, j) = tridiagonal(j, 0);
    if (j + 1 < a.columns()) {
      a(j + 1, j) = tridiagonal(j, 1);
      a(j, j + 1) = tridiagonal(j, 1);
    }
  }
  return a;
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
  DenseMatrix<T> band(2 * bandwidth, n);
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
  EXPECT_LE(spectrum_error<T>(eigenvalues(b), eigenvalues(tridiagonal)), spectrum_limit);
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
    Mesh mesh = cpu_mesh(ranks);
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
  Mesh one = cpu_mesh(1);
  const ReducedToTridiagonal<T> expected =
      reduce_to_tridiagonal(one, this->groups(60, 5, 7, 1), band);
  for (const Windows windows : {Windows::in_place, Windows::copied}) {
    Mesh mesh = cpu_mesh(3, windows);
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
  Mesh mesh = cpu_mesh(2);
  const dense::eigh::SweepGroups groups = this->groups(60, 5, 7, 2);
  std::stop_source stop;
  stop.request_stop();
  expect_error(
      [&] {
        run_on(mesh,
               [&](mesh::Rank& rank) {
                 const MatrixView<T> band = rank.workspace<T>(10, 60);
                 rank.kernels<T>().fill(rank.panel(), T{0}, band);
                 dense::eigh::band_to_tridiagonal<T>(rank, groups, band, std::nullopt,
                                                     rank.workspace<RealOf<T>>(60, 2));
               },
               {.cancel = stop.get_token()});
      },
      ErrorKind::cancelled, {"cancelled"});
}

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
  eigh::full_to_band(rank, layout, slab, pieces.deferred, form);
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
  eigh::to_caller_order(rank, layout, z);
  eigh::apply_panels(rank, layout, slab, form.t, pieces.merged, z);
  copy_entries<T>(z, result.q.view().columns_from(mine.begin.value(), mine.size()));
  if (rank.index() == 0) {
    copy_entries<RealOf<T>>(tridiagonal, result.tridiagonal.view());
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
    Mesh mesh = cpu_mesh(cut.layout.ranks());
    const DenseMatrix<T> a = random_hermitian<T>(cut.layout.size());
    expect_similar(a, there_and_back(mesh, cut.layout, a, {}));
  }
}

TYPED_TEST(EighBackTransform, InPiecesOfAnySize_GivesTheWholeTransformation) {
  using T = TypeParam;
  const SlabLayout layout({0, 17, 17, 50, 60}, 5);
  Mesh mesh = cpu_mesh(layout.ranks());
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
  Mesh copied = cpu_mesh(ragged.layout.ranks(), Windows::copied);
  expect_same(copied);
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
  Mesh mesh = cpu_mesh(layout.ranks());
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
  Mesh mesh = cpu_mesh(layout.ranks());
  DenseMatrix<T> a = random_hermitian<T>(60);
  for (std::int64_t j = 0; j < 60; ++j) {
    for (std::int64_t i = 0; i < 60; ++i) {
      a(i, j) *= std::ldexp(RealOf<T>{1}, -static_cast<int>(i % 13 + j % 13) * 5);
    }
  }
  expect_similar(a, there_and_back(mesh, layout, a, {}));
}

TYPED_TEST(EighBackTransform, InTheCallersThread_GivesTheSameBits) {
  using T = TypeParam;
  const SlabLayout layout({0, 60}, 5);
  const DenseMatrix<T> a = random_hermitian<T>(60);
  Mesh mesh = cpu_mesh(1);
  Mesh serial = Mesh::serial();
  const ThereAndBack<T> expected = there_and_back(mesh, layout, a, {});
  const ThereAndBack<T> result = there_and_back(serial, layout, a, {});
  EXPECT_TRUE(same_bits(result.tridiagonal, expected.tridiagonal));
  EXPECT_TRUE(same_bits(result.q, expected.q));
}

TYPED_TEST(EighBackTransform, InProcesses_GivesTheSameBits) {
  using T = TypeParam;
  const Ragged ragged;
  const DenseMatrix<T> a = random_hermitian<T>(ragged.layout.size());
  Mesh mesh = cpu_mesh(ragged.layout.ranks());
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
  Mesh mesh = cpu_mesh(layout.ranks());
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
  Mesh mesh = cpu_mesh(ragged.layout.ranks());
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

/// What scripts/prove_waits.py runs, as Waits of the other algorithms.
class EighReductionWaits
    : public ::testing::TestWithParam<std::tuple<std::vector<std::int64_t>, Windows>> {
 protected:
  SlabLayout layout_{std::get<0>(GetParam()), 8};
  Mesh mesh_ = cpu_mesh(layout_.ranks(), std::get<1>(GetParam()));
  DenseMatrix<double> a_ = random_hermitian<double>(layout_.size(), 5);
};

TEST_P(EighReductionWaits, FullToBand_WithAllWaits_IsRight) {
  for (const std::int64_t deferred : {1, 24}) {
    const ReducedToBand<double> reduced = reduce_to_band(mesh_, layout_, a_, deferred);
    EXPECT_LE(spectrum_error<double>(eigenvalues(a_), eigenvalues(from_band(reduced.band))),
              spectrum_limit);
  }
}

TEST_P(EighReductionWaits, BandToTridiagonal_WithAllWaits_IsRight) {
  const dense::eigh::SweepGroups groups{{115, 8, false}, 9, layout_.ranks()};
  const DenseMatrix<double> band = random_band<double>(115, 8);
  expect_reduced_to_tridiagonal(groups, band, reduce_to_tridiagonal(mesh_, groups, band));
}

TEST_P(EighReductionWaits, BackTransform_WithAllWaits_IsRight) {
  expect_similar(a_, there_and_back(mesh_, layout_, a_, {24, 9, 24}));
}

INSTANTIATE_TEST_SUITE_P(
    Meshes, EighReductionWaits,
    ::testing::Combine(::testing::Values(std::vector<std::int64_t>{0, 115},
                                         std::vector<std::int64_t>{0, 58, 115},
                                         std::vector<std::int64_t>{0, 75, 83, 91, 115}),
                       ::testing::Values(Windows::in_place, Windows::copied)),
    [](const auto& case_info) {
      std::string name = "cut";
      for (const std::int64_t boundary : std::get<0>(case_info.param)) {
        name += '_';
        name += std::to_string(boundary);
      }
      return name + (std::get<1>(case_info.param) == Windows::in_place ? "_in_place" : "_copied");
    });

}  // namespace
}  // namespace shardsolve::testing
