// What a traced solve records of messages and steps, whatever the windows are: between threads, and
// between GPUs if there are some (support/backend.hpp).

#include "mesh/host_backend.hpp"
#include "mesh/mesh_state.hpp"
#include "runtime/trace_messages.hpp"
#include "support/backend.hpp"
#include "support/matrix_zoo.hpp"
#include "support/sharded_problem.hpp"

#include <shardsolve/cholesky.hpp>
#include <shardsolve/trace.hpp>
#include <shardsolve/trace_summary.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>

namespace shardsolve::testing {
namespace {

using Windows = mesh::HostBackend::Windows;

/// Times of GPUs are read from their own clocks.
std::chrono::microseconds clock_error() {
  return std::chrono::microseconds(test_gpus().empty() ? 0 : 500);
}

/// Of a solve in which every rank owns `rounds` blocks.
Trace traced_solve(Mesh& mesh, std::int64_t rounds) {
  constexpr std::int64_t tile = 8;
  const SlabLayout layout = SlabLayout::even(rounds * tile * mesh.ranks(), mesh.ranks(), tile);
  const DenseMatrix<double> a = dense<double>({.n = layout.size(), .seed = 3});
  const DenseMatrix<double> b = right_hand_sides<double>(layout.size(), 2);
  Trace trace;
  const Outcome outcome = solve(mesh, shard(a, layout), shard_rows(b, layout), {.trace = &trace});
  EXPECT_TRUE(outcome.ok()) << outcome.message();
  return trace;
}

std::size_t count_spans(const Trace& trace) {
  std::size_t count = 0;
  for (const Trace::Lane& lane : trace.lanes()) {
    count += lane.spans.size();
  }
  return count;
}

class TraceOfASolve : public ::testing::TestWithParam<Windows> {
 protected:
  void SetUp() override {
    if (!test_gpus().empty() && GetParam() == Windows::copied) {
      GTEST_SKIP() << "GPUs have windows of one kind";
    }
  }
  static Mesh make_mesh(std::int64_t ranks) {
    if (!test_gpus().empty()) {
      return testing::make_mesh(ranks);
    }
    return Mesh(mesh::MeshState::start(std::make_unique<mesh::HostBackend>(ranks, GetParam())));
  }
};

TEST_P(TraceOfASolve, EveryEndOfAMessage_HasItsOther) {
  Mesh mesh = make_mesh(3);
  const Trace trace = traced_solve(mesh, 4);
  std::size_t sent = 0;
  std::size_t received = 0;
  for (const Trace::Lane& lane : trace.lanes()) {
    for (const TraceSpan& span : lane.spans) {
      for (const TraceMessage& message : span.messages) {
        EXPECT_NE(message.from, message.to);
        sent += message.from == lane.rank ? 1 : 0;
        received += message.to == lane.rank ? 1 : 0;
      }
    }
  }
  const auto flows = runtime::find_flows(trace);
  EXPECT_GT(received, 100U);
  EXPECT_EQ(flows.size(), received);
  std::set<const TraceSpan*> senders;
  for (const auto& flow : flows) {
    EXPECT_EQ(trace.lanes()[flow.sender.lane].rank, flow.message.from);
    EXPECT_LE(flow.sender.span->begin, flow.receiver.span->end + clock_error())
        << flow.receiver.span->name;
    EXPECT_EQ(flow.sender.span->call, flow.receiver.span->call);
    senders.insert(flow.sender.span);
  }
  // What nobody receives is the release of memory that its owner needs no more.
  EXPECT_GE(sent, received);
  EXPECT_LE(sent - received, 100U);
}

TEST_P(TraceOfASolve, Summary_KnowsAllLinksAndSteps) {
  Mesh mesh = make_mesh(3);
  const TraceSummary summary = summarize(traced_solve(mesh, 4));
  EXPECT_EQ(summary.links.size(), 6U);
  ASSERT_TRUE(summary.steps);
  EXPECT_GE(summary.steps->count, 3 * 12) << "factor, forward, backward";
  EXPECT_EQ(summary.steps->count % 12, 0);
  for (const TraceSummary::Rank& rank : summary.ranks) {
    EXPECT_GT(rank.busy, 0.0);
    EXPECT_LE(rank.busy * summary.seconds + rank.waiting, summary.seconds * (1 + 1e-9));
  }
}

/// The cost of a trace is the number of its spans: in proportion to the steps, whatever n is.
TEST_P(TraceOfASolve, Spans_AreSomeDozenARankAndStep) {
  if (!test_gpus().empty()) {
    GTEST_SKIP() << "pieces of work of GPUs are smaller";
  }
  Mesh mesh = make_mesh(3);
  const Trace trace = traced_solve(mesh, 8);
  const auto steps = summarize(trace).steps.value().count;
  const double spans = static_cast<double>(count_spans(trace));
  EXPECT_LT(spans / static_cast<double>(steps * mesh.ranks()), 24.0);
}

INSTANTIATE_TEST_SUITE_P(Windows, TraceOfASolve,
                         ::testing::Values(Windows::in_place, Windows::copied),
                         [](const auto& test) {
                           return test.param == Windows::in_place ? "in_place" : "copied";
                         });

}  // namespace
}  // namespace shardsolve::testing
