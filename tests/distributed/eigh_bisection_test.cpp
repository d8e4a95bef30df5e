// Eigenvalues of tridiagonal matrices on ranks, by bisection.

#include "dense/eigh/bisection.hpp"
#include "mesh/host_backend.hpp"
#include "mesh/mesh_state.hpp"
#include "support/backend.hpp"
#include "support/dtypes.hpp"
#include "support/rank_program.hpp"
#include "support/tridiagonal_zoo.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace shardsolve::testing::tridiagonal {
namespace {

using dense::eigh::IndexRange;
using dense::eigh::TridiagonalStatus;

template <class T>
class EighBisection : public ::testing::Test {};
TYPED_TEST_SUITE(EighBisection, RealDtypes, DtypeNames);

TYPED_TEST(EighBisection, Eigenvalues_HaveTheSameBitsOnAnyNumberOfRanks) {
  using Real = TypeParam;
  for (const std::int64_t n : {0, 1, 2, 7, 33, 120, 300}) {
    for (const TridiagonalCase<Real>& t : tridiagonal_zoo<Real>(n)) {
      SCOPED_TRACE(t.name + " " + std::to_string(n));
      std::vector<Real> alone;
      for (const std::int64_t ranks : {1, 2, 3, 4}) {
        Mesh mesh = make_mesh(ranks);
        run_on(mesh, [&](mesh::Rank& rank) {
          const auto all = dense::eigh::bisect(rank, t.diagonal, t.off_diagonal, {0, n});
          const auto some = dense::eigh::bisect(rank, t.diagonal, t.off_diagonal, {n / 3, n / 2});
          EXPECT_TRUE(
              std::equal(some.values.begin(), some.values.end(), all.values.begin() + n / 3));
          EXPECT_EQ(static_cast<std::int64_t>(some.values.size()), n / 2 - n / 3);
          if (ranks == 1) {
            alone = all.values;
          }
          EXPECT_EQ(all.values, alone);
        });
      }
      EXPECT_TRUE(are_eigenvalues(truth_of(t), 0, alone));
    }
  }
}

TYPED_TEST(EighBisection, EigenvaluesBetween_AreCountedFromAboveLowUpToHigh) {
  using Real = TypeParam;
  constexpr Real infinity = std::numeric_limits<Real>::infinity();
  Mesh mesh = make_mesh(2);
  const auto between = [&](const TridiagonalCase<Real>& t, Real low, Real high) {
    IndexRange range;
    run_on(mesh, [&](mesh::Rank& rank) {
      const IndexRange found =
          dense::eigh::eigenvalues_between(rank, t.diagonal, t.off_diagonal, low, high);
      if (rank.index() == 0) {
        range = found;
      }
    });
    return range;
  };
  const TridiagonalCase<Real> steps{"steps", {0, 1, 2, 3, 4}, {0, 0, 0, 0}};
  EXPECT_EQ(between(steps, 1, 3), (IndexRange{2, 4}));
  EXPECT_EQ(between(steps, -infinity, 0), (IndexRange{0, 1}));
  EXPECT_EQ(between(steps, Real(3.5), infinity), (IndexRange{4, 5}));
  EXPECT_EQ(between(steps, -infinity, infinity), (IndexRange{0, 5}));
  EXPECT_EQ(between(steps, 3, 1).size(), 0);
  EXPECT_EQ(between({"none", {}, {}}, 0, 1).size(), 0);
  for (const TridiagonalCase<Real>& t : tridiagonal_zoo<Real>(65)) {
    if (t.name == "huge" || t.name == "tiny" || t.name == "random") {
      const TridiagonalTruth<Real> truth = truth_of(t);
      const auto split = [&](std::size_t i) {
        return static_cast<Real>((truth.values[i - 1] + truth.values[i]) / 2);
      };
      EXPECT_EQ(between(t, split(10), split(30)), (IndexRange{10, 30})) << t.name;
    }
  }
}

TYPED_TEST(EighBisection, NotANumberOrInfinity_IsSaid) {
  using Real = TypeParam;
  Mesh mesh = make_mesh(2);
  for (const Real bad :
       {std::numeric_limits<Real>::quiet_NaN(), std::numeric_limits<Real>::infinity()}) {
    TridiagonalCase<Real> t = tridiagonal_zoo<Real>(40).front();
    t.off_diagonal[17] = bad;
    run_on(mesh, [&](mesh::Rank& rank) {
      EXPECT_EQ(dense::eigh::bisect(rank, t.diagonal, t.off_diagonal, {0, 40}).status,
                TridiagonalStatus::nonfinite_input);
    });
  }
}

// What scripts/prove_waits.py runs.
TEST(EighBisectionWaits, WithAllWaits_AreRight) {
  using Windows = mesh::HostBackend::Windows;
  const TridiagonalCase<double> t = tridiagonal_zoo<double>(120).front();
  const TridiagonalTruth<double> truth = truth_of(t);
  for (const std::int64_t ranks : {1, 2, 4}) {
    Mesh mesh(
        mesh::MeshState::start(std::make_unique<mesh::HostBackend>(ranks, Windows::in_place)));
    run_on(mesh, [&](mesh::Rank& rank) {
      EXPECT_TRUE(are_eigenvalues(
          truth, 0, dense::eigh::bisect(rank, t.diagonal, t.off_diagonal, {0, 120}).values));
    });
  }
}

}  // namespace
}  // namespace shardsolve::testing::tridiagonal
