// The trace shows who did what: the work is n^3 / 3, each rank does its share, and LAPACK sees
// tiles only.

#include "support/matrix_zoo.hpp"
#include "support/sharded_problem.hpp"

#include <shardsolve/cholesky.hpp>
#include <shardsolve/plan.hpp>
#include <shardsolve/trace.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <numeric>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace shardsolve::testing {
namespace {

constexpr std::int64_t tile = 32;

/// Flops of each rank in the spans of these names.
std::vector<double> flops_of(const Trace& trace, const std::set<std::string>& names,
                             std::int64_t ranks) {
  std::vector<double> flops(static_cast<std::size_t>(ranks), 0.0);
  for (const Trace::Lane& lane : trace.lanes()) {
    for (const TraceSpan& span : lane.spans) {
      flops[static_cast<std::size_t>(lane.rank)] += names.count(span.name) > 0 ? span.flops : 0.0;
    }
  }
  return flops;
}

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

/// Largest share over the mean one.
double imbalance(const std::vector<double>& flops) {
  return *std::max_element(flops.begin(), flops.end()) * static_cast<double>(flops.size()) /
         sum(flops);
}

double bytes_of(const Trace& trace) {
  double bytes = 0.0;
  for (const Trace::Lane& lane : trace.lanes()) {
    for (const TraceSpan& span : lane.spans) {
      bytes += span.bytes;
    }
  }
  return bytes;
}

struct Share {
  std::int64_t ranks;
  std::int64_t blocks;  // a rank

  friend std::ostream& operator<<(std::ostream& out, const Share& share) {
    return out << share.ranks << " ranks, " << share.blocks << " blocks each";
  }
};

class Flops : public ::testing::TestWithParam<Share> {
 protected:
  SlabLayout layout_ =
      SlabLayout::even(GetParam().ranks * GetParam().blocks * tile, GetParam().ranks, tile);
  Mesh mesh_ = make_mesh(GetParam().ranks);
  double n_ = static_cast<double>(layout_.size());

  template <Scalar T>
  CholeskyFactor<T> factor(Trace* trace) {
    const DenseMatrix<T> a = dense<T>({.kind = matgen::Kind::minimum, .n = layout_.size()});
    return cholesky_factor(mesh_, shard(a, layout_), {.trace = trace});
  }
};

const std::set<std::string>& tile_work() {
  static const std::set<std::string> names{"potrf", "trsm", "gemm", "herk"};
  return names;
}

TEST_P(Flops, Factor_IsACubeOverThreeSharedEvenly) {
  Trace trace;
  const Outcome outcome = factor<double>(&trace).outcome;
  ASSERT_TRUE(outcome.ok());
  const std::vector<double> flops = flops_of(trace, tile_work(), GetParam().ranks);
  EXPECT_NEAR(sum(flops) / (n_ * n_ * n_ / 3.0), 1.0, 0.02);
  EXPECT_LE(imbalance(flops), 1.15);
  EXPECT_LE(imbalance(trace.flops_by_rank()), 1.15);
  EXPECT_NEAR(outcome.flops / sum(trace.flops_by_rank()), 1.0, 1e-12);
  EXPECT_NEAR(plan_cholesky_factor(layout_, Dtype::float64).flops / sum(flops), 1.0, 0.02);
}

TEST_P(Flops, ComplexFactor_CountsFourTimesAsMuch) {
  Trace trace;
  ASSERT_TRUE(factor<std::complex<float>>(&trace).outcome.ok());
  const std::vector<double> flops = flops_of(trace, tile_work(), GetParam().ranks);
  EXPECT_NEAR(sum(flops) / (4.0 * n_ * n_ * n_ / 3.0), 1.0, 0.02);
  EXPECT_NEAR(plan_cholesky_factor(layout_, Dtype::complex64).flops / sum(flops), 1.0, 0.02);
}

TEST_P(Flops, NoPotrf_IsLargerThanATile) {
  Trace trace;
  ASSERT_TRUE(factor<double>(&trace).outcome.ok());
  std::int64_t count = 0;
  for (const Trace::Lane& lane : trace.lanes()) {
    for (const TraceSpan& span : lane.spans) {
      if (std::string(span.name) == "potrf") {
        ++count;
        EXPECT_LE(span.flops, 1.0001 * tile * tile * tile / 3.0);
        EXPECT_EQ(layout_.owner(Step(span.step)), lane.rank);
      }
    }
  }
  EXPECT_EQ(count, layout_.steps());
}

TEST_P(Flops, Inverse_IsTwiceTheFactorSharedEvenly) {
  Trace trace;
  const Outcome outcome = cholesky_inverse(mesh_, factor<double>(nullptr), {.trace = &trace});
  ASSERT_TRUE(outcome.ok());
  const std::vector<double> flops = flops_of(trace, tile_work(), GetParam().ranks);
  // Diagonal tiles of L^-1 are used whole, zeros included: a term of one tile in n.
  const double steps = static_cast<double>(layout_.steps());
  EXPECT_NEAR(sum(flops) / (2.0 * n_ * n_ * n_ / 3.0), 1.0, 2.0 / steps);
  // Column j takes a share in proportion to n^2 - j^2: of a rank's first block more than of the
  // others' that follow it.
  const auto others = static_cast<double>(GetParam().ranks - 1);
  EXPECT_LE(imbalance(flops), 1.0 + 0.75 * others / steps);
  EXPECT_NEAR(outcome.flops / sum(trace.flops_by_rank()), 1.0, 1e-12);
}

TEST_P(Flops, Solve_IsWhatThePlanSays) {
  constexpr std::int64_t columns = 40;
  const CholeskyFactor<double> kept = factor<double>(nullptr);
  const RightHandSides<double> b =
      shard_rows(right_hand_sides<double>(layout_.size(), columns), layout_);
  Trace trace;
  ASSERT_TRUE(cholesky_solve(mesh_, kept, b, {.trace = &trace}).ok());
  const std::vector<double> flops = flops_of(trace, tile_work(), GetParam().ranks);
  EXPECT_NEAR(plan_cholesky_solve(layout_, Dtype::float64, columns).flops / sum(flops), 1.0, 0.1);
  EXPECT_LE(imbalance(flops), 1.5);
}

TEST_P(Flops, Half_IsWhatThePlanSays) {
  constexpr std::int64_t columns = 40;
  const CholeskyFactor<double> kept = factor<double>(nullptr);
  const RightHandSides<double> b =
      shard_rows(right_hand_sides<double>(layout_.size(), columns), layout_);
  const double planned = plan_cholesky_half(layout_, Dtype::float64, columns).flops;
  for (const Half half :
       {Half::solve, Half::solve_adjoint, Half::multiply, Half::multiply_adjoint}) {
    Trace trace;
    ASSERT_TRUE(cholesky_half(mesh_, kept, b, half, {.trace = &trace}).ok());
    const std::vector<double> flops = flops_of(trace, tile_work(), GetParam().ranks);
    // Products take diagonal tiles whole, zeros included: a term of one tile in n.
    EXPECT_NEAR(sum(flops) / planned, 1.0, 0.1 + 1.0 / static_cast<double>(layout_.steps()));
    EXPECT_LE(imbalance(flops), 1.5);
  }
}

TEST_P(Flops, BytesMovedByAFactor_AreAboutWhatThePlanSays) {
  Trace trace;
  ASSERT_TRUE(factor<double>(&trace).outcome.ok());
  const double planned = plan_cholesky_factor(layout_, Dtype::float64).bytes_moved;
  const double moved = bytes_of(trace);
  EXPECT_LE(moved, 1.2 * planned);
  EXPECT_GE(moved, 0.7 * planned);
}

INSTANTIATE_TEST_SUITE_P(Shares, Flops,
                         ::testing::Values(Share{2, 2}, Share{2, 5}, Share{3, 2}, Share{4, 2},
                                           Share{4, 4}, Share{6, 2}, Share{8, 2}));

}  // namespace
}  // namespace shardsolve::testing
