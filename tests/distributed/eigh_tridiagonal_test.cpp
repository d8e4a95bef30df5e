// The tridiagonal eigenproblem on ranks, by divide and conquer.

#include "dense/eigh/divide_and_conquer.hpp"
#include "mesh/host_backend.hpp"
#include "mesh/mesh_state.hpp"
#include "runtime/host/host_device.hpp"
#include "support/backend.hpp"
#include "support/bits.hpp"
#include "support/busy.hpp"
#include "support/dtypes.hpp"
#include "support/rank_program.hpp"
#include "support/thrown.hpp"
#include "support/tridiagonal_zoo.hpp"

#include <shardsolve/slab_layout.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace shardsolve::testing::tridiagonal {
namespace {

using dense::eigh::IndexRange;
using dense::eigh::RowRange;
using dense::eigh::TridiagonalOutcome;
using dense::eigh::TridiagonalStatus;
using Bounds = std::vector<std::int64_t>;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// What all ranks have given.
template <class Real>
struct Solution {
  std::vector<TridiagonalOutcome<Real>> outcomes;  // by rank
  DenseMatrix<Real> z;                             // the eigenvectors wanted

  const std::vector<Real>& values() const { return outcomes.front().values; }
};

template <class Real>
Solution<Real> divide_and_conquer(Mesh& mesh, const TridiagonalCase<Real>& t, const Bounds& bounds,
                                  IndexRange wanted) {
  Solution<Real> solution;
  solution.outcomes.resize(at(mesh.ranks()));
  solution.z = DenseMatrix<Real>(t.order(), wanted.size());
  run_on(mesh, [&](mesh::Rank& rank) {
    const std::int64_t begin = bounds[at(rank.index())];
    const std::int64_t rows = bounds[at(rank.index() + 1)] - begin;
    const MatrixView<Real> z = rank.workspace<Real>(rows, t.order());
    rank.kernels<Real>().fill(rank.update(), std::numeric_limits<Real>::quiet_NaN(), z);
    solution.outcomes[at(rank.index())] = dense::eigh::divide_and_conquer<Real>(
        rank, {t.diagonal, t.off_diagonal, bounds, wanted}, z);
    copy_entries<Real>(fetched(rank, z.columns_from(0, wanted.size())).view(),
                       solution.z.view().block(begin, 0, rows, wanted.size()));
  });
  return solution;
}

template <class Real>
Solution<Real> divide_and_conquer(Mesh& mesh, const TridiagonalCase<Real>& t,
                                  const Bounds& bounds) {
  return divide_and_conquer(mesh, t, bounds, IndexRange{0, t.order()});
}

template <class Real>
bool all_alike(const std::vector<TridiagonalOutcome<Real>>& outcomes) {
  return std::all_of(outcomes.begin(), outcomes.end(), [&](const auto& one) {
    return one.status == outcomes[0].status && one.failed == outcomes[0].failed &&
           one.values == outcomes[0].values;
  });
}

Bounds even(std::int64_t n, std::int64_t ranks) {
  return SlabLayout::even(n, ranks, 1).boundaries();
}

/// Cuts of n rows: even ones, ragged ones, and some with ranks that have nothing.
std::vector<Bounds> cuts_of(std::int64_t n) {
  if (n == 500) {
    return {even(n, 4), {0, 130, 131, 400, n}};
  }
  return {even(n, 1),   even(n, 2),       even(n, 3), even(n, 4), {0, n / 7, n / 7, n - n / 4, n},
          {0, 0, n, n}, {0, n - n / 9, n}};
}

std::vector<std::int64_t> sizes() {
  std::vector<std::int64_t> all{0, 1, 2, 7, 32, 33, 64, 65, 120};
#ifndef SHARDSOLVE_TEST_FEW_DTYPES  // builds with sanitizers
  all.push_back(500);
#endif
  return all;
}

template <class T>
class EighTridiagonal : public ::testing::Test {};
TYPED_TEST_SUITE(EighTridiagonal, RealDtypes, DtypeNames);

TYPED_TEST(EighTridiagonal, EveryMatrixOnEveryCut_PassesTheGates) {
  using Real = TypeParam;
  std::map<std::int64_t, Mesh> meshes;
  for (const std::int64_t ranks : {1, 2, 3, 4}) {
    meshes.emplace(ranks, make_mesh(ranks));
  }
  for (const std::int64_t n : sizes()) {
    for (const TridiagonalCase<Real>& t : tridiagonal_zoo<Real>(n)) {
      const TridiagonalTruth<Real> truth = truth_of(t);
      for (const Bounds& bounds : cuts_of(n)) {
        SCOPED_TRACE(t.name + " " + ::testing::PrintToString(bounds));
        Mesh& mesh = meshes.at(static_cast<std::int64_t>(bounds.size()) - 1);
        const Solution<Real> solution = divide_and_conquer(mesh, t, bounds);
        ASSERT_TRUE(solution.outcomes.front().ok());
        EXPECT_TRUE(all_alike(solution.outcomes));
        EXPECT_TRUE(are_eigenvalues(truth, 0, solution.values()));
        EXPECT_TRUE(are_eigenpairs(t, truth, solution.values().data(), solution.z));
      }
    }
  }
}

TYPED_TEST(EighTridiagonal, SomeEigenvectors_AreThoseOfTheirEigenvalues) {
  using Real = TypeParam;
  Mesh mesh = make_mesh(3);
  for (const std::int64_t n : {1, 7, 32, 65, 200}) {
    const Bounds all_on_one{0, 0, n, n};
    for (const TridiagonalCase<Real>& t : tridiagonal_zoo<Real>(n)) {
      const TridiagonalTruth<Real> truth = truth_of(t);
      for (const Bounds& bounds : {even(n, 3), all_on_one}) {
        for (const IndexRange wanted :
             {IndexRange{0, 0}, IndexRange{0, 1}, IndexRange{n / 3, n / 2 + 1},
              IndexRange{n - 1, n}, IndexRange{n, n}}) {
          SCOPED_TRACE(t.name + " " + ::testing::PrintToString(bounds) + " from " +
                       std::to_string(wanted.first));
          const Solution<Real> solution = divide_and_conquer(mesh, t, bounds, wanted);
          ASSERT_TRUE(solution.outcomes.front().ok());
          EXPECT_TRUE(are_eigenvalues(truth, 0, solution.values()));
          EXPECT_TRUE(
              are_eigenpairs(t, truth, solution.values().data() + wanted.first, solution.z));
        }
      }
    }
  }
}

TYPED_TEST(EighTridiagonal, NotANumberOrInfinity_IsSaidOnAllRanks) {
  using Real = TypeParam;
  Mesh mesh = make_mesh(3);
  for (const Real bad :
       {std::numeric_limits<Real>::quiet_NaN(), std::numeric_limits<Real>::infinity()}) {
    for (const bool in_diagonal : {false, true}) {
      TridiagonalCase<Real> t = tridiagonal_zoo<Real>(120).front();
      (in_diagonal ? t.diagonal : t.off_diagonal)[77] = bad;
      const Solution<Real> solution = divide_and_conquer(mesh, t, even(120, 3));
      EXPECT_EQ(solution.outcomes.front().status, TridiagonalStatus::nonfinite_input);
      EXPECT_TRUE(all_alike(solution.outcomes));
    }
  }
}

TYPED_TEST(EighTridiagonal, Workspace_IsWhatIsSaid) {
  using Real = TypeParam;
  const TridiagonalCase<Real> t = tridiagonal_zoo<Real>(200).front();
  for (const Bounds& bounds : {even(200, 1), even(200, 4), Bounds{0, 0, 200}}) {
    Mesh mesh = make_mesh(static_cast<std::int64_t>(bounds.size()) - 1);
    divide_and_conquer(mesh, t, bounds);
    run_on(mesh, [&](mesh::Rank& rank) {
      const std::int64_t rows = bounds[at(rank.index() + 1)] - bounds[at(rank.index())];
      EXPECT_EQ(rank.max_workspace(),
                static_cast<std::int64_t>(sizeof(Real)) * rows * 200 +
                    dense::eigh::divide_and_conquer_bytes<Real>(
                        200, rows, rank.kernels<runtime::TridiagonalKernels<Real>>().tuning()));
    });
  }
}

TYPED_TEST(EighTridiagonal, CancelledCall_EndsOnAllRanks) {
  using Real = TypeParam;
  const TridiagonalCase<Real> t = tridiagonal_zoo<Real>(200).front();
  for (const std::int64_t ranks : {1, 3}) {
    Mesh mesh = make_mesh(ranks);
    std::stop_source source;
    source.request_stop();
    const Bounds bounds = even(200, ranks);
    EXPECT_TRUE(throws(ErrorKind::cancelled, [&] {
      run_on(mesh,
             [&](mesh::Rank& rank) {
               const std::int64_t rows = bounds[at(rank.index() + 1)] - bounds[at(rank.index())];
               dense::eigh::divide_and_conquer<Real>(rank,
                                                     {t.diagonal, t.off_diagonal, bounds, {0, 200}},
                                                     rank.workspace<Real>(rows, 200));
             },
             {.cancel = source.get_token()});
    }));
  }
}

/// Everything that bits could differ in.
template <class Real>
std::vector<Solution<Real>> all_solutions(Mesh& mesh) {
  std::vector<Solution<Real>> all;
  for (const TridiagonalCase<Real>& t : tridiagonal_zoo<Real>(150)) {
    if (t.name == "random" || t.name == "glued_wilkinson" || t.name == "spread_clusters") {
      all.push_back(divide_and_conquer(mesh, t, even(150, mesh.ranks())));
      all.push_back(divide_and_conquer(mesh, t, {0, 10, 25, 25, 150}));
    }
  }
  return all;
}

TYPED_TEST(EighTridiagonal, RunsOnALoadedMachine_GiveTheSameBits) {
  using Real = TypeParam;
  constexpr int runs = 10;
  Mesh mesh = make_mesh(4);
  const std::vector<Solution<Real>> quiet = all_solutions<Real>(mesh);
  const BusyThreads busy(2);
  for (int run = 0; run < runs && !::testing::Test::HasFailure(); ++run) {
    if (run % 5 == 0) {
      mesh = make_mesh(4);
    }
    const std::vector<Solution<Real>> again = all_solutions<Real>(mesh);
    for (std::size_t i = 0; i < quiet.size(); ++i) {
      EXPECT_EQ(again[i].values(), quiet[i].values());
      EXPECT_TRUE(same_bits(again[i].z, quiet[i].z));
    }
  }
}

// What goes wrong in the middle.

/// Kernels that do one thing otherwise, in matrices and equations of order `least` and more.
class PlantedKernels final : public runtime::host::HostTridiagonalKernels<double> {
 public:
  enum class Change : std::uint8_t {
    none,
    small_pieces,           ///< merges cut into many
    weights_as_given,       ///< not those for which the roots are exact
    rounded_roots,          ///< offsets from rounded eigenvalues
    roots_found_too_early,  ///< offsets with ten digits
    no_leaf,                ///< a leaf that does not converge
    no_root,                ///< a root that is not found
  };

  PlantedKernels(Change change, std::int64_t least) : change_(change), least_(least) {}

  runtime::TridiagonalTuning tuning() const override {
    return change_ == Change::small_pieces ? runtime::TridiagonalTuning{.rows = 7, .columns = 5}
                                           : HostTridiagonalKernels::tuning();
  }

 protected:
  void do_solve_small(runtime::Queue& queue, const runtime::WorkInfo& info,
                      const runtime::Tridiagonal<double>& t, const runtime::SmallParts& parts,
                      double* values, Out vectors, std::int64_t* infos) const override {
    HostTridiagonalKernels::do_solve_small(queue, info, t, parts, values, vectors, infos);
    if (change_ == Change::no_leaf) {
      enqueue(queue, "planted", [=, least = least_] {
        for (std::int64_t p = 0; p < parts.count; ++p) {
          const std::int64_t order =
              parts.bounds == nullptr ? t.order : parts.bounds[2 * p + 1] - parts.bounds[2 * p];
          if (order >= least) {
            infos[p] = 3;
          }
        }
      });
    }
  }
  void do_secular_roots(runtime::Queue& queue, const runtime::WorkInfo& info,
                        const runtime::SecularEquation<double>& equation, std::int64_t first,
                        std::int64_t count, Root* roots) const override {
    HostTridiagonalKernels::do_secular_roots(queue, info, equation, first, count, roots);
    if (equation.count < least_) {
      return;
    }
    enqueue(queue, "planted", [=, change = change_] {
      for (std::int64_t i = first; i < first + count; ++i) {
        Root& root = roots[i];
        if (change == Change::rounded_roots) {
          const double pole = equation.poles[root.origin];
          const double offset = (pole + root.offset) - pole;
          root.offset = offset == 0 ? std::copysign(1e-300, root.offset) : offset;
        } else if (change == Change::roots_found_too_early) {
          root.offset *= 1 + 1e-10;
        } else if (change == Change::no_root && i == equation.count / 2) {
          root = {};
        }
      }
    });
  }
  void do_secular_weights(runtime::Queue& queue, const runtime::WorkInfo& info,
                          const runtime::SecularEquation<double>& equation, const Root* roots,
                          double* weights) const override {
    if (change_ == Change::weights_as_given) {
      enqueue(queue, "planted", [=] { std::copy_n(equation.weights, equation.count, weights); });
    } else {
      HostTridiagonalKernels::do_secular_weights(queue, info, equation, roots, weights);
    }
  }

 private:
  Change change_;
  std::int64_t least_;
};
using Change = PlantedKernels::Change;

class PlantedDevice final : public runtime::host::HostDevice {
 public:
  PlantedDevice(runtime::Pulse& pulse, Change change, std::int64_t least)
      : HostDevice(pulse), kernels_(change, least) {}
  const void* find_kernels(runtime::KernelSet set, Dtype dtype) const override {
    if (set == runtime::KernelSet::tridiagonal && dtype == Dtype::float64) {
      return static_cast<const runtime::TridiagonalKernels<double>*>(&kernels_);
    }
    return HostDevice::find_kernels(set, dtype);
  }

 private:
  PlantedKernels kernels_;
};

/// `rank`: the one whose kernels they are; -1 for all.
class PlantedBackend final : public mesh::HostBackend {
 public:
  PlantedBackend(std::int64_t ranks, Change change, std::int64_t least = 0, std::int64_t rank = -1)
      : HostBackend(ranks), change_(change), least_(least), rank_(rank) {}
  std::unique_ptr<runtime::Device> make_device(std::int64_t rank, runtime::Pulse& pulse) override {
    return std::make_unique<PlantedDevice>(
        pulse, rank_ < 0 || rank_ == rank ? change_ : Change::none, least_);
  }

 private:
  Change change_;
  std::int64_t least_;
  std::int64_t rank_;
};

template <class... Arguments>
Mesh planted_mesh(Arguments... arguments) {
  return Mesh(mesh::MeshState::start(std::make_unique<PlantedBackend>(arguments...)));
}

class EighTridiagonalPlanted : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!test_gpus().empty()) {
      GTEST_SKIP() << "of CPU devices";
    }
  }
};

TEST_F(EighTridiagonalPlanted, EachMistake_IsNoticedByTheGates) {
  constexpr std::int64_t n = 120;
  std::map<Change, int> noticed;
  for (const TridiagonalCase<double>& t : tridiagonal_zoo<double>(n)) {
    const TridiagonalTruth<double> truth = truth_of(t);
    for (const Change change : {Change::none, Change::weights_as_given, Change::rounded_roots,
                                Change::roots_found_too_early}) {
      Mesh mesh = planted_mesh(4, change);
      const Solution<double> solution = divide_and_conquer(mesh, t, even(n, 4));
      ASSERT_TRUE(solution.outcomes.front().ok());
      noticed[change] += !are_eigenpairs(t, truth, solution.values().data(), solution.z);
    }
  }
  EXPECT_EQ(noticed[Change::none], 0);
  EXPECT_GT(noticed[Change::weights_as_given], 0);
  EXPECT_GT(noticed[Change::rounded_roots], 0);
  EXPECT_GT(noticed[Change::roots_found_too_early], 0);
}

TEST_F(EighTridiagonalPlanted, MergesInManyPieces_PassTheGates) {
  Mesh mesh = planted_mesh(3, Change::small_pieces);
  for (const TridiagonalCase<double>& t : tridiagonal_zoo<double>(90)) {
    SCOPED_TRACE(t.name);
    const TridiagonalTruth<double> truth = truth_of(t);
    for (const IndexRange wanted : {IndexRange{0, 90}, IndexRange{31, 58}}) {
      const Solution<double> solution = divide_and_conquer(mesh, t, {0, 20, 62, 90}, wanted);
      EXPECT_TRUE(are_eigenpairs(t, truth, solution.values().data() + wanted.first, solution.z));
    }
  }
  const TridiagonalCase<double> small = tridiagonal_zoo<double>(30).front();
  const Solution<double> leaf = divide_and_conquer(mesh, small, {0, 0, 21, 30}, {11, 25});
  EXPECT_TRUE(are_eigenpairs(small, truth_of(small), leaf.values().data() + 11, leaf.z));
}

/// What is said when something is not found on one rank.
std::vector<TridiagonalOutcome<double>> outcomes_with(Change change, std::int64_t least,
                                                      const Bounds& bounds) {
  std::vector<TridiagonalOutcome<double>> first;
  for (std::int64_t rank = 0; rank + 1 < static_cast<std::int64_t>(bounds.size()); ++rank) {
    Mesh mesh = planted_mesh(static_cast<std::int64_t>(bounds.size()) - 1, change, least, rank);
    TridiagonalCase<double> t{.name = "of which little is set aside"};
    for (std::int64_t i = 0; i < bounds.back(); ++i) {
      t.diagonal.push_back(static_cast<double>(i) / static_cast<double>(bounds.back()));
    }
    t.off_diagonal.assign(at(bounds.back() - 1), 1.0);
    const Solution<double> solution = divide_and_conquer(mesh, t, bounds);
    EXPECT_TRUE(all_alike(solution.outcomes));
    first.push_back(solution.outcomes.front());
  }
  return first;
}

TEST_F(EighTridiagonalPlanted, LeafThatDoesNotConverge_IsNamedOnAllRanks) {
  const auto own = outcomes_with(Change::no_leaf, 20, {0, 150, 230, 300});
  EXPECT_EQ(own[1].failed, (RowRange{150, 170}));
  EXPECT_TRUE(own[0].ok() && own[2].ok()) << "their leaves are smaller";
  const auto shared = outcomes_with(Change::no_leaf, 32, {0, 10, 20, 32});
  EXPECT_EQ(shared[0].failed, (RowRange{0, 32}));
  EXPECT_TRUE(shared[1].ok() && shared[2].ok()) << "the first rank solves it";
  const auto alone = outcomes_with(Change::no_leaf, 1, {0, 0, 30, 30});
  EXPECT_EQ(alone[1].failed, (RowRange{0, 30}));
}

TEST_F(EighTridiagonalPlanted, MergeThatDoesNotConverge_IsNamedOnAllRanks) {
  const Bounds bounds{0, 120, 220, 300};
  const auto own = outcomes_with(Change::no_root, 65, bounds);
  for (std::size_t rank = 0; rank < own.size(); ++rank) {
    EXPECT_EQ(own[rank].status, TridiagonalStatus::not_converged);
  }
  EXPECT_EQ(own[0].failed, (RowRange{0, 120}));
  EXPECT_EQ(own[1].failed, (RowRange{120, 220}));
  EXPECT_EQ(own[2].failed, (RowRange{220, 300}));
  const auto last = outcomes_with(Change::no_root, 250, bounds);
  EXPECT_EQ(last[1].failed, (RowRange{0, 300})) << "its rank has the root in the middle";
  EXPECT_TRUE(last[0].ok());
  const auto alone = outcomes_with(Change::no_root, 90, {0, 0, 100, 100});
  EXPECT_EQ(alone[1].failed, (RowRange{0, 100}));
  EXPECT_TRUE(alone[2].ok());
}

// What scripts/prove_waits.py runs.

using Windows = mesh::HostBackend::Windows;
using WaitsCase = std::tuple<Bounds, Windows>;

class EighTridiagonalWaits : public ::testing::TestWithParam<WaitsCase> {};

TEST_P(EighTridiagonalWaits, WithAllWaits_AreRight) {
  const auto& [bounds, windows] = GetParam();
  Mesh mesh(mesh::MeshState::start(
      std::make_unique<mesh::HostBackend>(static_cast<std::int64_t>(bounds.size()) - 1, windows)));
  const TridiagonalCase<double> t = tridiagonal_zoo<double>(bounds.back()).front();
  const TridiagonalTruth<double> truth = truth_of(t);
  const Solution<double> solution = divide_and_conquer(mesh, t, bounds);
  ASSERT_TRUE(solution.outcomes.front().ok());
  EXPECT_TRUE(all_alike(solution.outcomes));
  EXPECT_TRUE(are_eigenpairs(t, truth, solution.values().data(), solution.z));
}

INSTANTIATE_TEST_SUITE_P(
    Meshes, EighTridiagonalWaits,
    ::testing::Combine(::testing::Values(Bounds{0, 150}, Bounds{0, 0, 150, 150},
                                         Bounds{0, 100, 230}, Bounds{0, 15, 30, 140, 150, 160}),
                       ::testing::Values(Windows::in_place, Windows::copied)),
    [](const ::testing::TestParamInfo<WaitsCase>& case_info) {
      std::string name = "cut";
      for (const std::int64_t bound : std::get<0>(case_info.param)) {
        name += '_' + std::to_string(bound);
      }
      return name + (std::get<1>(case_info.param) == Windows::in_place ? "_in_place" : "_copied");
    });

}  // namespace
}  // namespace shardsolve::testing::tridiagonal
