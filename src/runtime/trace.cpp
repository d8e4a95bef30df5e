#include "runtime/trace_json.hpp"
#include "runtime/trace_messages.hpp"

#include <shardsolve/trace.hpp>
#include <shardsolve/trace_summary.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <utility>

namespace shardsolve {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using nlohmann::ordered_json;
using TimePoint = std::chrono::steady_clock::time_point;

double microseconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

json metadata(const char* what, std::int64_t pid, std::size_t tid, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", pid}, {"tid", tid}, {"args", {{"name", name}}}};
}

TimePoint first_begin(const std::vector<Trace::Lane>& lanes) {
  auto first = TimePoint::max();
  for (const Trace::Lane& lane : lanes) {
    for (const TraceSpan& span : lane.spans) {
      first = std::min(first, span.begin);
    }
  }
  return first;
}

std::string label(const Trace& trace, std::int64_t rank) {
  for (const TraceClock& clock : trace.clocks()) {
    if (clock.rank == rank) {
      return fmt::format("rank {} on {}", rank, clock.host);
    }
  }
  return fmt::format("rank {}", rank);
}

/// Spans by the index of their lane, which is their thread: names of threads are looked up by it.
void add_spans(const Trace& trace, TimePoint origin, json& events) {
  for (std::size_t tid = 0; tid < trace.lanes().size(); ++tid) {
    const Trace::Lane& lane = trace.lanes()[tid];
    events.push_back(metadata("process_name", lane.rank, tid, label(trace, lane.rank)));
    events.push_back(metadata("thread_name", lane.rank, tid, lane.queue));
    for (const TraceSpan& span : lane.spans) {
      json args = {{"step", span.step}, {"flops", span.flops}, {"bytes", span.bytes}};
      if (!span.link.empty()) {
        args["link"] = span.link;
      }
      events.push_back({{"ph", "X"},
                        {"name", span.name},
                        {"pid", lane.rank},
                        {"tid", tid},
                        {"ts", microseconds(span.begin - origin)},
                        {"dur", microseconds(span.end - span.begin)},
                        {"args", std::move(args)}});
    }
  }
}

/// An arrow begins with its sending span. It ends inside of the receiving one (where viewers look
/// for the span that it belongs to), but not before it has begun, as viewers drop such arrows.
void add_flows(const Trace& trace, TimePoint origin, json& events) {
  constexpr std::chrono::nanoseconds inside(1);
  std::uint64_t id = 0;
  for (const runtime::TraceFlow& flow : runtime::find_flows(trace)) {
    const auto& [message, sender, receiver] = flow;
    const TimePoint arrival =
        std::max(receiver.span->begin, std::min(sender.span->begin, receiver.span->end - inside));
    json start = {{"ph", "s"},
                  {"cat", "message"},
                  {"name", sender.span->name},
                  {"id", ++id},
                  {"pid", message.from},
                  {"tid", sender.lane},
                  {"ts", microseconds(sender.span->begin - origin)}};
    json finish = start;
    finish["ph"] = "f";
    finish["bp"] = "e";
    finish["pid"] = message.to;
    finish["tid"] = receiver.lane;
    finish["ts"] = microseconds(arrival - origin);
    start["args"] = {{"bytes", message.bytes}, {"from", message.from}, {"to", message.to}};
    events.push_back(std::move(start));
    events.push_back(std::move(finish));
  }
}

ordered_json to_json(const std::vector<TraceClock>& clocks) {
  constexpr double micro = 1e6;
  ordered_json list = ordered_json::array();
  for (const TraceClock& clock : clocks) {
    list.push_back({{"rank", clock.rank},
                    {"host", clock.host},
                    {"offset_us", micro * clock.offset},
                    {"uncertainty_us", micro * clock.uncertainty}});
  }
  return list;
}

}  // namespace

namespace runtime {

ordered_json to_json(const TraceSummary& summary) {
  ordered_json ranks = ordered_json::array();
  for (std::size_t rank = 0; rank < summary.ranks.size(); ++rank) {
    const TraceSummary::Rank& one = summary.ranks[rank];
    ranks.push_back({{"rank", rank},
                     {"busy", one.busy},
                     {"waiting", one.waiting},
                     {"waited_for", one.waited_for}});
  }
  ordered_json links = ordered_json::array();
  for (const TraceSummary::Link& link : summary.links) {
    links.push_back(
        {{"from", link.from}, {"to", link.to}, {"bytes", link.bytes}, {"messages", link.messages}});
  }
  ordered_json steps;
  if (summary.steps) {
    steps = {{"count", summary.steps->count},
             {"p50", summary.steps->p50},
             {"p95", summary.steps->p95},
             {"p99", summary.steps->p99}};
  }
  ordered_json straggler;
  if (summary.straggler) {
    straggler = {{"rank", summary.straggler->rank}, {"seconds", summary.straggler->seconds}};
  }
  return {{"seconds", summary.seconds},
          {"ranks", std::move(ranks)},
          {"links", std::move(links)},
          {"steps", std::move(steps)},
          {"straggler", std::move(straggler)}};
}

}  // namespace runtime

void Trace::add(std::int64_t rank, const std::string& queue, std::vector<TraceSpan> spans) {
  for (TraceSpan& span : spans) {
    span.call = call_;
  }
  const auto lane = std::find_if(lanes_.begin(), lanes_.end(), [&](const Lane& candidate) {
    return candidate.rank == rank && candidate.queue == queue;
  });
  if (lane == lanes_.end()) {
    lanes_.push_back({rank, queue, std::move(spans)});
  } else {
    std::move(spans.begin(), spans.end(), std::back_inserter(lane->spans));
  }
}

void Trace::set_clock(const TraceClock& clock) {
  const auto known = std::find_if(clocks_.begin(), clocks_.end(), [&](const TraceClock& candidate) {
    return candidate.rank == clock.rank;
  });
  if (known == clocks_.end()) {
    clocks_.push_back(clock);
  } else {
    const double uncertainty = std::max(known->uncertainty, clock.uncertainty);
    *known = clock;
    known->uncertainty = uncertainty;
  }
}

std::vector<double> Trace::flops_by_rank() const {
  std::vector<double> flops;
  for (const Lane& lane : lanes_) {
    const auto rank = static_cast<std::size_t>(lane.rank);
    flops.resize(std::max(flops.size(), rank + 1), 0.0);
    for (const TraceSpan& span : lane.spans) {
      flops[rank] += span.flops;
    }
  }
  return flops;
}

std::string Trace::to_json() const {
  const TimePoint origin = first_begin(lanes_);
  json events = json::array();
  add_spans(*this, origin, events);
  add_flows(*this, origin, events);
  // Of the steady clock, so that others can add what they have seen.
  const bool is_empty = origin == TimePoint::max();
  const json began = is_empty ? json() : json(origin.time_since_epoch() / 1ns);
  return ordered_json{{"traceEvents", std::move(events)},
                      {"displayTimeUnit", "ms"},
                      {"otherData",
                       {{"origin_ns", began},
                        {"clocks", shardsolve::to_json(clocks_)},
                        {"summary", runtime::to_json(summarize(*this))}}}}
      .dump();
}

}  // namespace shardsolve
