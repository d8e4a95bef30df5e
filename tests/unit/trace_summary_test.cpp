// Summaries of traces whose answers are known.

#include <shardsolve/trace_summary.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace shardsolve {
namespace {

constexpr double milli = 1e-3;

std::chrono::steady_clock::time_point at(int milliseconds) {
  return std::chrono::steady_clock::time_point(std::chrono::hours(1)) +
         std::chrono::milliseconds(milliseconds);
}

/// Work from one millisecond to another.
TraceSpan work(int begin, int end, std::int64_t step = -1, std::int64_t turn = 0) {
  return {"gemm", at(begin), at(end), 1.0, 0.0, step, turn};
}

TraceSpan transfer(int begin, int end, std::vector<TraceMessage> messages) {
  TraceSpan span{"broadcast", at(begin), at(end)};
  span.messages = std::move(messages);
  return span;
}

TEST(TraceSummary, OfNothing_IsEmpty) {
  const TraceSummary summary = summarize(Trace());
  EXPECT_EQ(summary.seconds, 0.0);
  EXPECT_TRUE(summary.ranks.empty());
  EXPECT_TRUE(summary.links.empty());
  EXPECT_FALSE(summary.steps);
  EXPECT_FALSE(summary.straggler);
}

TEST(TraceSummary, WorkOfSeveralQueues_CountsOnce) {
  Trace trace;
  trace.add(0, "panel", {work(0, 40)});
  trace.add(0, "update", {work(30, 50), work(45, 48), work(80, 100)});
  trace.add(1, "update", {work(10, 20), {"wait", at(20), at(90)}});
  const TraceSummary summary = summarize(trace);
  EXPECT_NEAR(summary.seconds, 100 * milli, 1e-9);
  ASSERT_EQ(summary.ranks.size(), 2U);
  EXPECT_NEAR(summary.ranks[0].busy, 0.7, 1e-9);
  EXPECT_NEAR(summary.ranks[1].busy, 0.1, 1e-9);
}

TEST(TraceSummary, TimeBetweenCalls_DoesNotCount) {
  Trace trace;
  trace.begin_call();
  trace.add(0, "panel", {work(0, 10)});
  trace.begin_call();
  trace.add(0, "panel", {work(1000, 1010)});
  trace.add(1, "panel", {work(1000, 1030)});
  const TraceSummary summary = summarize(trace);
  EXPECT_NEAR(summary.seconds, 40 * milli, 1e-9);
  EXPECT_NEAR(summary.ranks[0].busy, 0.5, 1e-9);
}

/// Rank 2 sends late to ranks 0 and 1, which wait for it; rank 1 works meanwhile for a part of
/// that.
TEST(TraceSummary, LateSender_IsTheStraggler) {
  Trace trace;
  trace.add(0, "transfer", {transfer(10, 35, {{2, 0, 1, 100.0}})});
  trace.add(1, "transfer", {transfer(20, 36, {{2, 1, 1, 100.0}})});
  trace.add(1, "update", {work(0, 22), work(25, 28)});
  trace.add(2, "update", {work(0, 30)});
  trace.add(2, "transfer", {transfer(30, 36, {{2, 0, 1, 100.0}, {2, 1, 1, 100.0}})});
  const TraceSummary summary = summarize(trace);
  EXPECT_NEAR(summary.ranks[0].waited_for[2], 20 * milli, 1e-9);
  EXPECT_NEAR(summary.ranks[0].waiting, 20 * milli, 1e-9);
  EXPECT_NEAR(summary.ranks[1].waited_for[2], 5 * milli, 1e-9);
  EXPECT_EQ(summary.ranks[2].waiting, 0.0);
  ASSERT_TRUE(summary.straggler);
  EXPECT_EQ(summary.straggler->rank, 2);
  EXPECT_NEAR(summary.straggler->seconds, 25 * milli, 1e-9);
}

TEST(TraceSummary, LateReceiver_IsWaitedForUntilItComes) {
  Trace trace;
  trace.add(0, "transfer", {transfer(0, 50, {{0, 1, 1, 8.0}})});
  trace.add(1, "transfer", {transfer(40, 50, {{0, 1, 1, 8.0}})});
  const TraceSummary summary = summarize(trace);
  EXPECT_NEAR(summary.ranks[0].waited_for[1], 40 * milli, 1e-9);
  EXPECT_EQ(summary.ranks[1].waiting, 0.0);
}

/// What was sent by the system without the receiver is not waited for.
TEST(TraceSummary, SenderThatGoesOn_WaitsNoLongerThanItsSpan) {
  Trace trace;
  trace.add(0, "transfer", {transfer(0, 2, {{0, 1, 1, 8.0}})});
  trace.add(1, "transfer", {transfer(40, 41, {{0, 1, 1, 8.0}})});
  EXPECT_NEAR(summarize(trace).ranks[0].waited_for[1], 2 * milli, 1e-9);
}

TEST(TraceSummary, OfSeveralThatAreLate_TheLastIsWaitedFor) {
  Trace trace;
  trace.add(0, "transfer", {transfer(0, 30, {{1, 0, 1, 8.0}, {2, 0, 1, 8.0}})});
  trace.add(1, "transfer", {transfer(25, 30, {{1, 0, 1, 8.0}})});
  trace.add(2, "transfer", {transfer(10, 30, {{2, 0, 1, 8.0}})});
  const TraceSummary summary = summarize(trace);
  EXPECT_NEAR(summary.ranks[0].waited_for[1], 25 * milli, 1e-9);
  EXPECT_EQ(summary.ranks[0].waited_for[2], 0.0);
}

TEST(TraceSummary, BytesOfALink_AreThoseOfItsMessagesInAllCalls) {
  Trace trace;
  for (int call = 0; call < 2; ++call) {
    trace.begin_call();
    trace.add(0, "transfer", {transfer(0, 9, {{0, 1, 1, 100.0}, {1, 0, 1, 7.0}})});
    trace.add(1, "transfer", {transfer(0, 9, {{0, 1, 1, 100.0}, {1, 0, 1, 7.0}})});
    trace.add(0, "transfer", {transfer(10, 11, {{0, 1, 2, 0.0}})});  // only gives leave
    trace.add(1, "transfer", {transfer(10, 11, {{0, 1, 2, 0.0}})});
  }
  const TraceSummary summary = summarize(trace);
  ASSERT_EQ(summary.links.size(), 2U);
  EXPECT_EQ(summary.links[0].from, 0);
  EXPECT_EQ(summary.links[0].to, 1);
  EXPECT_EQ(summary.links[0].bytes, 200.0);
  EXPECT_EQ(summary.links[0].messages, 2);
  EXPECT_EQ(summary.links[1].bytes, 14.0);
}

/// 100 steps, forward and back again, of which 94 take 1 ms, four 5 ms, one 20 and one 70 ms.
TEST(TraceSummary, Steps_HaveTheirPercentiles) {
  std::vector<TraceSpan> even;
  std::vector<TraceSpan> odd;
  int now = 0;
  for (int turn = 0; turn < 100; ++turn) {
    const int length = turn == 10 ? 20 : turn == 60 ? 70 : turn >= 90 && turn < 94 ? 5 : 1;
    const int step = turn < 50 ? turn : 99 - turn;
    // the step's work begins early, on another rank, and ends after that of the step before
    (turn % 2 == 0 ? even : odd).push_back(work(now - 1, now + length, step, turn));
    now += length;
    now += turn == 49 ? 300 : 0;  // nothing happens: no step's time
  }
  Trace trace;
  trace.add(0, "update", even);
  trace.add(1, "update", odd);
  const TraceSummary summary = summarize(trace);
  ASSERT_TRUE(summary.steps);
  EXPECT_EQ(summary.steps->count, 100);
  EXPECT_NEAR(summary.steps->p50, 1 * milli, 1e-9);
  EXPECT_NEAR(summary.steps->p95, 5 * milli, 1e-9);
  EXPECT_NEAR(summary.steps->p99, 20 * milli, 1e-9);
}

}  // namespace
}  // namespace shardsolve
