// Calls that end before their end: a pivot that fails, a caller who cancels; and what the caller is
// told on the way.

#include "support/matrix_zoo.hpp"
#include "support/rank_program.hpp"
#include "support/sharded_problem.hpp"
#include "support/thrown.hpp"

#include <shardsolve/cholesky.hpp>
#include <shardsolve/trace.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

namespace shardsolve::testing {
namespace {

std::int64_t last_step(const Trace& trace) {
  std::int64_t last = -1;
  for (const Trace::Lane& lane : trace.lanes()) {
    for (const TraceSpan& span : lane.spans) {
      last = std::max(last, span.step);
    }
  }
  return last;
}

Step step_of(const SlabLayout& layout, GlobalIndex row) {
  Step step;
  while (!(layout.rows(step).begin <= row && row < layout.rows(step).end)) {
    ++step;
  }
  return step;
}

class Leaving : public ::testing::TestWithParam<std::int64_t> {
 protected:
  std::int64_t ranks_ = GetParam();
  Mesh mesh_ = make_mesh(ranks_);
  SlabLayout layout_ = SlabLayout::even(160, ranks_, 4);

  ShardedMatrix<double> matrix() const {
    return shard(dense<double>({.n = layout_.size(), .seed = 3}), layout_);
  }
  RightHandSides<double> rhs(std::int64_t columns) const {
    return shard_rows(right_hand_sides<double>(layout_.size(), columns), layout_);
  }
};

/// How far the host runs ahead of a flag.
constexpr std::int64_t lookahead = 5;

TEST_P(Leaving, PivotThatFails_EndsTheWorkAFewStepsLater) {
  for (const std::int64_t position : {0, 9, 60, 159}) {
    const GlobalIndex row = layout_.row_at(Position(position));
    SCOPED_TRACE(row.value());
    const DenseMatrix<double> a = dense<double>(
        {.kind = matgen::Kind::indefinite, .n = layout_.size(), .seed = 3, .row = row});
    Trace trace;
    const CholeskyFactor<double> factor =
        cholesky_factor(mesh_, shard(a, layout_), {.trace = &trace});
    ASSERT_EQ(factor.outcome.status, Status::not_positive_definite);
    EXPECT_EQ(factor.outcome.location->rows_before, position);
    const std::int64_t failed = step_of(layout_, row).value();
    EXPECT_GE(last_step(trace), failed);
    EXPECT_LE(last_step(trace), failed + lookahead);
  }
  EXPECT_TRUE(still_solves(mesh_));
}

TEST_P(Leaving, StopRequestedBeforeTheCall_ThrowsCancelled) {
  CholeskyFactor<double> factor = cholesky_factor(mesh_, matrix());
  std::stop_source source;
  source.request_stop();
  const RunOptions options{.cancel = source.get_token()};
  const auto cancelled = [](auto call) { return throws(ErrorKind::cancelled, call); };
  EXPECT_TRUE(cancelled([&] { cholesky_factor(mesh_, matrix(), options); }));
  EXPECT_TRUE(cancelled([&] { solve(mesh_, matrix(), rhs(1), options); }));
  EXPECT_TRUE(cancelled([&] { cholesky_solve(mesh_, factor, rhs(9), options); }));
  EXPECT_TRUE(cancelled([&] { condition_estimate(mesh_, factor, options); }));
  EXPECT_TRUE(cancelled([&] { cholesky_inverse(mesh_, std::move(factor), options); }));
  EXPECT_TRUE(still_solves(mesh_));
}

/// Requests a stop as soon as a phase is reported.
struct StopAt {
  std::string phase;
  std::stop_source source;

  RunOptions options() {
    return {.cancel = source.get_token(), .progress = [this](const Progress& progress) {
              if (progress.phase == phase) {
                source.request_stop();
              }
            }};
  }
};

TEST_P(Leaving, StopRequestedDuringTheCall_ThrowsCancelled) {
  StopAt factoring{.phase = "factor"};
  EXPECT_TRUE(
      throws(ErrorKind::cancelled, [&] { cholesky_factor(mesh_, matrix(), factoring.options()); }));
  EXPECT_TRUE(still_solves(mesh_));

  CholeskyFactor<double> factor = cholesky_factor(mesh_, matrix());
  StopAt solving{.phase = "solve"};
  EXPECT_TRUE(throws(ErrorKind::cancelled,
                     [&] { cholesky_solve(mesh_, factor, rhs(40), solving.options()); }));
  EXPECT_TRUE(still_solves(mesh_));

  StopAt inverting{.phase = "invert"};
  EXPECT_TRUE(throws(ErrorKind::cancelled,
                     [&] { cholesky_inverse(mesh_, std::move(factor), inverting.options()); }));
  EXPECT_TRUE(still_solves(mesh_));
}

TEST_P(Leaving, Progress_IsMonotoneInEachPhase) {
  std::vector<std::string> phases;
  double fraction = 0.0;
  const RunOptions options{.progress = [&](const Progress& progress) {
    if (phases.empty() || phases.back() != progress.phase) {
      phases.emplace_back(progress.phase);
      fraction = 0.0;
    }
    EXPECT_GE(progress.fraction, fraction);
    EXPECT_LE(progress.fraction, 1.0);
    EXPECT_GE(progress.seconds, 0.0);
    EXPECT_GE(progress.remaining, 0.0);
    fraction = progress.fraction;
  }};
  solve(mesh_, matrix(), rhs(40), options);
  EXPECT_THAT(phases, ::testing::IsSupersetOf({"check", "factor", "solve"}));
  phases.clear();
  cholesky_inverse(mesh_, cholesky_factor(mesh_, matrix(), options), options);
  EXPECT_THAT(phases, ::testing::IsSupersetOf({"check", "factor", "invert"}));
}

INSTANTIATE_TEST_SUITE_P(Ranks, Leaving, ::testing::Values(1, 2, 3, 4, 6));

/// Slow enough to be heard more than once.
TEST(LeavingALongCall, Progress_ComesSeveralTimesAndMovesOn) {
  const SlabLayout layout = SlabLayout::even(700, 2, 2);
  Mesh mesh = make_mesh(2);
  std::vector<double> fractions;
  double seconds = 0.0;  // of that phase
  const RunOptions options{.progress = [&](const Progress& progress) {
    if (progress.phase == "factor") {
      fractions.push_back(progress.fraction);
      seconds = progress.seconds;
    }
  }};
  const DenseMatrix<double> a = dense<double>({.kind = matgen::Kind::minimum, .n = layout.size()});
  const CholeskyFactor<double> factor = cholesky_factor(mesh, shard(a, layout), options);
  ASSERT_TRUE(factor.outcome.ok());
  if (seconds > 0.5) {
    EXPECT_GE(fractions.size(), 3U);
  }
  EXPECT_TRUE(std::is_sorted(fractions.begin(), fractions.end()));
}

}  // namespace
}  // namespace shardsolve::testing
