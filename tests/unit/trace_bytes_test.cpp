// Spans that travel between processes.

#include "runtime/trace_bytes.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace shardsolve::runtime {
namespace {

TraceSpan span(const std::string& name, std::int64_t step) {
  const auto begin = std::chrono::steady_clock::now();
  return {name, begin, begin + std::chrono::nanoseconds(17 + step), 1e300, 0.1, step, step + 9};
}

void expect_same(const TraceSpan& a, const TraceSpan& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.begin, b.begin);
  EXPECT_EQ(a.end, b.end);
  EXPECT_EQ(a.flops, b.flops);
  EXPECT_EQ(a.bytes, b.bytes);
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.turn, b.turn);
  EXPECT_EQ(a.link, b.link);
  ASSERT_EQ(a.messages.size(), b.messages.size());
  for (std::size_t i = 0; i < a.messages.size(); ++i) {
    EXPECT_EQ(a.messages[i].from, b.messages[i].from);
    EXPECT_EQ(a.messages[i].to, b.messages[i].to);
    EXPECT_EQ(a.messages[i].number, b.messages[i].number);
    EXPECT_EQ(a.messages[i].bytes, b.messages[i].bytes);
  }
}

TEST(TraceBytes, Lane_ArrivesAsItWas) {
  Trace::Lane lane{3, "transfer", {span("broadcast", 4), span("", -1)}};
  lane.spans[0].messages = {{3, 0, std::numeric_limits<std::uint64_t>::max(), 8e12},
                            {1, 3, 7, 0.0}};
  lane.spans[0].link = "NVLink";
  const Trace::Lane arrived = lane_from_bytes(to_bytes(lane));
  EXPECT_EQ(arrived.rank, 3);
  EXPECT_EQ(arrived.queue, "transfer");
  ASSERT_EQ(arrived.spans.size(), 2U);
  expect_same(arrived.spans[0], lane.spans[0]);
  expect_same(arrived.spans[1], lane.spans[1]);
}

TEST(TraceBytes, Pieces_HoldAllSpansInOrder) {
  const auto steps = [](const std::vector<Trace::Lane>& lanes, const std::string& queue) {
    std::vector<std::int64_t> found;
    for (const Trace::Lane& lane : lanes) {
      EXPECT_LE(lane.spans.size(), 3U);
      for (const TraceSpan& one : lane.spans) {
        if (lane.queue == queue) {
          found.push_back(one.step);
        }
      }
    }
    return found;
  };
  Trace::Lane many{0, "update", {}};
  for (std::int64_t step = 0; step < 7; ++step) {
    many.spans.push_back(span("gemm", step));
  }
  const auto pieces = in_pieces({many, {0, "panel", {}}, {0, "transfer", {span("copy", 5)}}}, 3);
  EXPECT_EQ(pieces.size(), 4U);
  EXPECT_EQ(steps(pieces, "update"), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(steps(pieces, "transfer"), (std::vector<std::int64_t>{5}));
}

}  // namespace
}  // namespace shardsolve::runtime
