#include <shardsolve/trace.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace shardsolve {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

/// A span that begins `begin` microseconds after some time and takes `length`.
TraceSpan span(const char* name, int begin, int length, double flops = 0.0, double bytes = 0.0,
               std::int64_t step = -1) {
  static const auto origin = std::chrono::steady_clock::now();
  const auto at = origin + std::chrono::microseconds(begin);
  return {name, at, at + std::chrono::microseconds(length), flops, bytes, step};
}

Trace example() {
  Trace trace;
  trace.add(1, "panel", {span("potrf", 50, 10, 300.0, 0.0, 4)});
  trace.add(0, "panel", {span("trsm", 20, 5, 100.0, 0.0, 2)});
  trace.add(1, "transfer", {span("broadcast", 60, 7, 0.0, 4096.0, 4)});
  trace.add(0, "panel", {span("gemm", 30, 5, 11.0)});
  return trace;
}

std::vector<json> events(const Trace& trace, const std::string& phase) {
  std::vector<json> chosen;
  const json document = json::parse(trace.to_json());
  for (const json& event : document.at("traceEvents")) {
    if (event.at("ph") == phase) {
      chosen.push_back(event);
    }
  }
  return chosen;
}

TEST(Trace, SpansOfOneQueue_AreOneLane) {
  const Trace trace = example();
  ASSERT_EQ(trace.lanes().size(), 3U);
  for (const Trace::Lane& lane : trace.lanes()) {
    EXPECT_EQ(lane.spans.size(), lane.rank == 0 ? 2U : 1U);
  }
}

TEST(Trace, FlopsByRank_AreSumsOverQueues) {
  EXPECT_THAT(example().flops_by_rank(), ElementsAre(111.0, 300.0));
  EXPECT_THAT(Trace().flops_by_rank(), ::testing::IsEmpty());
}

TEST(Trace, RankWithoutSpans_CountsAsZero) {
  Trace trace;
  trace.add(2, "panel", {span("gemm", 0, 1, 5.0)});
  EXPECT_THAT(trace.flops_by_rank(), ElementsAre(0.0, 0.0, 5.0));
}

TEST(TraceJson, EveryRank_IsAProcessAndEveryQueueAThread) {
  std::map<std::pair<int, int>, std::string> queues;  // by (pid, tid)
  std::map<int, std::string> ranks;
  for (const json& event : events(example(), "M")) {
    const int pid = event.at("pid");
    const std::string label = event.at("args").at("name");
    if (event.at("name") == "thread_name") {
      EXPECT_TRUE(queues.emplace(std::pair(pid, event.at("tid").get<int>()), label).second);
    } else {
      EXPECT_EQ(event.at("name"), "process_name");
      ranks[pid] = label;
    }
  }
  EXPECT_THAT(ranks, ElementsAre(std::pair(0, "rank 0"), std::pair(1, "rank 1")));
  ASSERT_EQ(queues.size(), 3U);
  const std::map<std::string, std::string> queue_of{
      {"potrf", "panel"}, {"trsm", "panel"}, {"gemm", "panel"}, {"broadcast", "transfer"}};
  for (const json& event : events(example(), "X")) {
    const std::pair<int, int> place(event.at("pid"), event.at("tid"));
    ASSERT_EQ(queues.count(place), 1U) << "a span on a thread that has no name";
    EXPECT_EQ(queues[place], queue_of.at(event.at("name")));
  }
}

TEST(TraceJson, Spans_HaveTheirTimesAndCosts) {
  const std::vector<json> spans = events(example(), "X");
  ASSERT_EQ(spans.size(), 4U);
  for (const json& event : spans) {
    const std::string name = event.at("name");
    if (name == "trsm") {
      EXPECT_DOUBLE_EQ(event.at("ts"), 0.0) << "the first span begins the trace";
      EXPECT_EQ(event.at("pid"), 0);
    } else if (name == "broadcast") {
      EXPECT_NEAR(event.at("ts").get<double>(), 40.0, 1e-6);
      EXPECT_NEAR(event.at("dur").get<double>(), 7.0, 1e-6);
      EXPECT_EQ(event.at("pid"), 1);
      EXPECT_EQ(event.at("args").at("bytes"), 4096.0);
      EXPECT_EQ(event.at("args").at("step"), 4);
    } else if (name == "potrf") {
      EXPECT_EQ(event.at("args").at("flops"), 300.0);
    }
  }
}

TEST(TraceJson, SpanOverALink_SaysWhich) {
  Trace trace;
  TraceSpan copy = span("publish", 0, 3, 0.0, 4096.0);
  copy.link = "PCIe";
  trace.add(0, "transfer", {copy, span("copy", 4, 1)});
  const std::vector<json> spans = events(trace, "X");
  EXPECT_EQ(spans.at(0).at("args").at("link"), "PCIe");
  EXPECT_FALSE(spans.at(1).at("args").contains("link"));
}

TraceSpan with_messages(TraceSpan span, std::vector<TraceMessage> messages) {
  span.messages = std::move(messages);
  return span;
}

/// Two calls in which rank 0 sends to ranks 1 and 2, and a message that nobody has sent.
Trace example_of_messages() {
  Trace trace;
  for (int call = 0; call < 2; ++call) {
    trace.begin_call();
    const int t = 100 * call;
    const std::vector<TraceMessage> messages = {{0, 1, 1, 64.0}, {0, 2, 1, 32.0}};
    trace.add(0, "transfer", {with_messages(span("publish", t + 20, 5), messages)});
    trace.add(1, "transfer", {with_messages(span("await", t + 10, 20), {messages[0]})});
    trace.add(2, "transfer",
              {with_messages(span("await", t + 30, 5), {messages[1]}),
               with_messages(span("reclaim", t + 40, 5), {{1, 2, 9, 0.0}})});
  }
  return trace;
}

/// Whether a span of its thread is open when an end of an arrow is met.
bool lies_in_a_span(const Trace& trace, const json& flow) {
  for (const json& span : events(trace, "X")) {
    const double begin = span.at("ts");
    const double end = begin + span.at("dur").get<double>();
    if (span.at("pid") == flow.at("pid") && span.at("tid") == flow.at("tid") &&
        begin <= flow.at("ts") && flow.at("ts") < end) {
      return true;
    }
  }
  return false;
}

TEST(TraceJson, EveryMessage_IsAnArrowBetweenTwoSpans) {
  const Trace trace = example_of_messages();
  std::map<int, json> starts;
  for (const json& start : events(trace, "s")) {
    EXPECT_TRUE(starts.emplace(start.at("id"), start).second) << "one arrow from each start";
    EXPECT_TRUE(lies_in_a_span(trace, start));
  }
  EXPECT_EQ(starts.size(), 4U);
  std::set<int> finished;
  for (const json& finish : events(trace, "f")) {
    const int id = finish.at("id");
    ASSERT_EQ(starts.count(id), 1U);
    const json& start = starts.at(id);
    EXPECT_TRUE(finished.insert(id).second);
    EXPECT_TRUE(lies_in_a_span(trace, finish));
    EXPECT_EQ(finish.at("bp"), "e") << "the span around it, not the next one";
    EXPECT_EQ(finish.at("cat"), start.at("cat"));
    EXPECT_EQ(finish.at("name"), start.at("name"));
    EXPECT_EQ(start.at("pid"), 0);
    EXPECT_EQ(start.at("args").at("to"), finish.at("pid"));
    const double length = finish.at("ts").get<double>() - start.at("ts").get<double>();
    EXPECT_GE(length, 0.0);
    EXPECT_LT(length, 50.0) << "from one call into another";
  }
  EXPECT_EQ(finished.size(), starts.size());
}

TEST(TraceJson, Metadata_HoldsClocksAndSummary) {
  Trace trace = example_of_messages();
  trace.set_clock({0, "node1", 0.0, 0.0});
  trace.set_clock({1, "node2", 2.0, 3e-6});
  trace.set_clock({1, "node2", 2.5, 1e-6});
  const json document = json::parse(trace.to_json());
  const json& other = document.at("otherData");
  ASSERT_EQ(other.at("clocks").size(), 2U);
  EXPECT_EQ(other.at("clocks")[1].at("host"), "node2");
  EXPECT_DOUBLE_EQ(other.at("clocks")[1].at("offset_us"), 2.5e6) << "the last";
  EXPECT_DOUBLE_EQ(other.at("clocks")[1].at("uncertainty_us"), 3.0) << "the largest";
  EXPECT_TRUE(other.at("origin_ns").is_number_integer()) << "of the first span";
  EXPECT_EQ(other.at("summary").at("ranks").size(), 3U);
  EXPECT_EQ(other.at("summary").at("links")[0].at("bytes"), 128.0);
  EXPECT_EQ(other.at("summary").at("straggler").at("rank"), 0);
  EXPECT_EQ(events(trace, "M").at(0).at("args").at("name"), "rank 0 on node1");
}

TEST(TraceJson, OfNothing_IsValidAndEmpty) {
  EXPECT_TRUE(json::parse(Trace().to_json()).at("traceEvents").empty());
  EXPECT_TRUE(json::parse(Trace().to_json()).at("otherData").at("origin_ns").is_null());
}

TEST(TraceJson, NamesWithQuotes_AreEscaped) {
  Trace trace;
  trace.add(0, "a \"queue\" \\ of its own", {span("say \"x\"", 0, 1)});
  EXPECT_EQ(events(trace, "X").at(0).at("name"), "say \"x\"");
}

}  // namespace
}  // namespace shardsolve
