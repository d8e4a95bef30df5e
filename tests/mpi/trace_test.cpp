// Rank 0 has the trace of all processes, by its clock.

#include "mesh/host_backend.hpp"
#include "mpi/processes.hpp"
#include "runtime/trace_messages.hpp"
#include "support/gates.hpp"
#include "support/matrix_zoo.hpp"
#include "support/rank_program.hpp"
#include "support/thrown.hpp"

#include <shardsolve/cholesky.hpp>
#include <shardsolve/trace.hpp>
#include <shardsolve/trace_summary.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>

namespace shardsolve::testing {
namespace {

using ::testing::HasSubstr;

double uncertainty_of(const Trace& trace, std::int64_t rank) {
  return trace.clocks().at(static_cast<std::size_t>(rank)).uncertainty;
}

/// Everything that a trace says but its times.
std::set<std::string> contents(const Trace& trace) {
  std::set<std::string> lines;
  for (const Trace::Lane& lane : trace.lanes()) {
    for (std::size_t i = 0; i < lane.spans.size(); ++i) {
      const TraceSpan& span = lane.spans[i];
      nlohmann::json line = {lane.rank,  lane.queue, i,         span.name, span.flops,
                             span.bytes, span.step,  span.turn, span.call};
      for (const TraceMessage& message : span.messages) {
        line.push_back({message.from, message.to, message.number, message.bytes});
      }
      lines.insert(line.dump());
    }
  }
  return lines;
}

class ProcessTrace : public ::testing::Test {
 protected:
  Mesh mesh_ = make_process_mesh();
  SlabLayout layout_ = SlabLayout::even(150, mesh_.ranks(), 8);
  DenseMatrix<double> a_ = dense<double>({.n = layout_.size(), .seed = 3});
  DenseMatrix<double> b_ = right_hand_sides<double>(layout_.size(), 2);

  Outcome solve_once(const RunOptions& options) {
    return solve(mesh_, share_of(mesh_, a_, layout_), share_of_rows(mesh_, b_, layout_), options);
  }
};

TEST_F(ProcessTrace, OfASolve_IsOnRank0AndOnTheOthersTheirOwn) {
  Trace trace;
  ASSERT_TRUE(solve_once({.trace = &trace}).ok());
  std::set<std::int64_t> ranks;
  for (const Trace::Lane& lane : trace.lanes()) {
    EXPECT_FALSE(lane.spans.empty()) << lane.queue;
    ranks.insert(lane.rank);
  }
  if (mesh_.is_here(0)) {
    EXPECT_EQ(ranks.size(), static_cast<std::size_t>(mesh_.ranks()));
    EXPECT_EQ(trace.lanes().size(), static_cast<std::size_t>(4 * mesh_.ranks()));
    ASSERT_EQ(trace.clocks().size(), static_cast<std::size_t>(mesh_.ranks()));
    EXPECT_EQ(summarize(trace).links.size(),
              static_cast<std::size_t>(mesh_.ranks() * (mesh_.ranks() - 1)));
  } else {
    EXPECT_EQ(ranks, std::set{own_rank(mesh_)});
    EXPECT_TRUE(trace.clocks().empty());
  }
}

/// Ranks that are threads do the same.
TEST_F(ProcessTrace, OfASolve_HoldsWhatThreadsRecord) {
  if (pretended_hosts() != nullptr) {
    GTEST_SKIP() << "from host to host broadcasts go another way";
  }
  Trace ours;
  ASSERT_TRUE(solve_once({.trace = &ours}).ok());
  using Windows = mesh::HostBackend::Windows;
  const Windows windows = mesh_.ranks() > 1 ? Windows::in_place : Windows::copied;
  Mesh threads(mesh::MeshState::start(std::make_unique<mesh::HostBackend>(mesh_.ranks(), windows)));
  Trace theirs;
  ASSERT_TRUE(solve(threads, shard(a_, layout_), shard_rows(b_, layout_), {.trace = &theirs}).ok());
  if (mesh_.is_here(0)) {
    EXPECT_EQ(contents(ours), contents(theirs));
  }
}

/// The processes of this test share a clock, so what is read as their difference is error.
TEST_F(ProcessTrace, Clocks_AreOffByNoMoreThanTheUncertainty) {
  Trace trace;
  for (int call = 0; call < 5; ++call) {
    ASSERT_TRUE(solve_once({.trace = &trace}).ok());
  }
  for (const TraceClock& clock : trace.clocks()) {
    EXPECT_LE(std::abs(clock.offset), clock.uncertainty + 1e-9) << clock.rank;
    EXPECT_LT(clock.uncertainty, 1.0);
    EXPECT_FALSE(clock.host.empty());
  }
}

TEST_F(ProcessTrace, Messages_EndAfterTheyHaveBegun) {
  Trace trace;
  ASSERT_TRUE(solve_once({.trace = &trace}).ok());
  const auto flows = runtime::find_flows(trace);
  if (mesh_.is_here(0) && mesh_.ranks() > 1) {
    EXPECT_GT(flows.size(), 50U);
  }
  for (const auto& flow : flows) {
    const std::chrono::duration<double> length = flow.receiver.span->end - flow.sender.span->begin;
    EXPECT_GE(length.count(),
              -uncertainty_of(trace, flow.message.from) - uncertainty_of(trace, flow.message.to));
  }
}

TEST_F(ProcessTrace, OfACallThatFailed_IsStillGathered) {
  const std::int64_t culprit = mesh_.ranks() - 1;
  Trace trace;
  const auto error = thrown_by([&] {
    run_on(mesh_,
           [culprit](mesh::Rank& rank) {
             for (std::int64_t root = 0; root <= culprit; ++root) {
               broadcast_value(rank, root, 1);  // so each has done something before it hears
             }
             if (rank.index() == culprit) {
               throw Error(ErrorKind::io, "planted");
             }
             broadcast_value(rank, culprit, 1);
           },
           {.trace = &trace});
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(std::string(error->what()), "planted");
  std::set<std::int64_t> ranks;
  for (const Trace::Lane& lane : trace.lanes()) {
    if (!lane.spans.empty()) {
      ranks.insert(lane.rank);
    }
  }
  EXPECT_EQ(ranks.size(), mesh_.is_here(0) ? static_cast<std::size_t>(mesh_.ranks()) : 1U);
  EXPECT_TRUE(solve_once({}).ok());
}

TEST_F(ProcessTrace, ManySpans_ArriveInPieces) {
  constexpr std::size_t spans = 10000;  // more than travel at a time
  Trace trace;
  run_on(mesh_,
         [](mesh::Rank& rank) {
           for (std::size_t i = 0; i < spans; ++i) {
             rank.set_step(static_cast<std::int64_t>(i));
             enqueue(rank.update(), "work", [] {});
           }
         },
         {.trace = &trace});
  for (const Trace::Lane& lane : trace.lanes()) {
    ASSERT_EQ(lane.spans.size(), lane.queue == "update" ? spans : 0U) << lane.queue;
    for (std::size_t i = 0; i < lane.spans.size(); ++i) {
      ASSERT_EQ(lane.spans[i].step, static_cast<std::int64_t>(i));
    }
  }
}

TEST_F(ProcessTrace, ThatSomeProcessesLack_IsRefused) {
  if (mesh_.ranks() == 1) {
    GTEST_SKIP() << "nobody to disagree with";
  }
  Trace trace;
  const auto error = thrown_by([&] { solve_once({.trace = mesh_.is_here(1) ? nullptr : &trace}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::invalid_argument) << error->what();
  EXPECT_THAT(error->what(), HasSubstr("rank 1 none"));
  EXPECT_TRUE(solve_once({}).ok());
}

}  // namespace
}  // namespace shardsolve::testing
