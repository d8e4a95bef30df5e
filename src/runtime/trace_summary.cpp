#include "runtime/trace_messages.hpp"

#include <shardsolve/trace_summary.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsolve {
namespace {

using TimePoint = std::chrono::steady_clock::time_point;

double seconds_of(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

struct Interval {
  TimePoint begin = TimePoint::max();
  TimePoint end = TimePoint::min();

  void cover(const TraceSpan& span) {
    begin = std::min(begin, span.begin);
    end = std::max(end, span.end);
  }
};

bool is_work(const TraceSpan& span) {
  return span.messages.empty() && span.bytes == 0.0 && span.name != "wait";
}

template <class Visit>
void for_each_span(const Trace& trace, Visit visit) {
  for (const Trace::Lane& lane : trace.lanes()) {
    for (const TraceSpan& span : lane.spans) {
      visit(static_cast<std::size_t>(lane.rank), span);
    }
  }
}

/// When a rank worked: intervals in order that do not touch.
std::vector<Interval> unite(std::vector<Interval> spans) {
  std::sort(spans.begin(), spans.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::vector<Interval> united;
  for (const Interval& span : spans) {
    if (united.empty() || span.begin > united.back().end) {
      united.push_back(span);
    } else {
      united.back().end = std::max(united.back().end, span.end);
    }
  }
  return united;
}

/// Seconds of `interval` that lie in none of `others`, which are as from unite().
double seconds_outside(const Interval& interval, const std::vector<Interval>& others) {
  double seconds = seconds_of(interval.end - interval.begin);
  auto other = std::lower_bound(others.begin(), others.end(), interval.begin,
                                [](const Interval& o, TimePoint t) { return o.end < t; });
  for (; other != others.end() && other->begin < interval.end; ++other) {
    seconds -=
        seconds_of(std::min(interval.end, other->end) - std::max(interval.begin, other->begin));
  }
  return std::max(seconds, 0.0);
}

std::vector<std::vector<Interval>> work_by_rank(const Trace& trace, std::size_t ranks) {
  std::vector<std::vector<Interval>> work(ranks);
  for_each_span(trace, [&](std::size_t rank, const TraceSpan& span) {
    if (is_work(span)) {
      work[rank].push_back({span.begin, span.end});
    }
  });
  for (std::vector<Interval>& of_rank : work) {
    of_rank = unite(std::move(of_rank));
  }
  return work;
}

double length_of_calls(const Trace& trace) {
  std::map<std::int64_t, Interval> calls;
  for_each_span(trace, [&](std::size_t, const TraceSpan& span) { calls[span.call].cover(span); });
  double seconds = 0.0;
  for (const auto& [call, interval] : calls) {
    seconds += seconds_of(interval.end - interval.begin);
  }
  return seconds;
}

/// The other end of a span's messages that began last.
struct Late {
  TimePoint begin = TimePoint::min();
  std::size_t rank = 0;
};

void add_waits(const std::vector<runtime::TraceFlow>& flows,
               const std::vector<std::vector<Interval>>& work, TraceSummary& summary) {
  std::map<std::pair<std::size_t, const TraceSpan*>, Late> latest;  // by rank and span
  const auto note = [&](std::int64_t rank, const TraceSpan* own, std::int64_t peer,
                        const TraceSpan* others) {
    Late& late = latest[{static_cast<std::size_t>(rank), own}];
    if (others->begin > late.begin) {
      late = {others->begin, static_cast<std::size_t>(peer)};
    }
  };
  for (const runtime::TraceFlow& flow : flows) {
    const auto& [message, sender, receiver] = flow;
    note(message.to, receiver.span, message.from, sender.span);
    note(message.from, sender.span, message.to, receiver.span);
  }
  for (const auto& [place, late] : latest) {
    const auto& [rank, span] = place;
    const Interval wait{span->begin, std::min(span->end, late.begin)};
    if (wait.begin < wait.end) {
      summary.ranks[rank].waited_for[late.rank] += seconds_outside(wait, work[rank]);
    }
  }
}

void add_links(const std::vector<runtime::TraceFlow>& flows, TraceSummary& summary) {
  std::map<std::pair<std::int64_t, std::int64_t>, TraceSummary::Link> links;
  for (const runtime::TraceFlow& flow : flows) {
    const TraceMessage& message = flow.message;
    if (message.bytes > 0.0) {
      TraceSummary::Link& link = links[{message.from, message.to}];
      link.from = message.from;
      link.to = message.to;
      link.bytes += message.bytes;
      ++link.messages;
    }
  }
  for (const auto& [ends, link] : links) {
    summary.links.push_back(link);
  }
}

/// The smallest of the sorted values that is not below this share of them.
double percentile(const std::vector<double>& sorted, double share) {
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::max<std::size_t>(rank, 1) - 1];
}

std::optional<TraceSummary::Steps> steps_of(const Trace& trace) {
  std::map<std::pair<std::int64_t, std::int64_t>, Interval> steps;  // by call and turn
  for_each_span(trace, [&](std::size_t, const TraceSpan& span) {
    if (span.step >= 0) {
      steps[{span.call, span.turn}].cover(span);
    }
  });
  if (steps.empty()) {
    return std::nullopt;
  }
  std::vector<double> seconds;
  auto before = TimePoint::min();
  for (const auto& [turn, interval] : steps) {
    const TimePoint begin = std::max(before, interval.begin);
    seconds.push_back(std::max(0.0, seconds_of(interval.end - begin)));
    before = std::max(before, interval.end);
  }
  std::sort(seconds.begin(), seconds.end());
  return TraceSummary::Steps{static_cast<std::int64_t>(seconds.size()), percentile(seconds, 0.50),
                             percentile(seconds, 0.95), percentile(seconds, 0.99)};
}

std::optional<TraceSummary::Straggler> straggler_of(const std::vector<TraceSummary::Rank>& ranks) {
  TraceSummary::Straggler worst;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    double seconds = 0.0;
    for (const TraceSummary::Rank& other : ranks) {
      seconds += other.waited_for[rank];
    }
    if (seconds > worst.seconds) {
      worst = {static_cast<std::int64_t>(rank), seconds};
    }
  }
  return worst.seconds > 0.0 ? std::optional(worst) : std::nullopt;
}

}  // namespace

TraceSummary summarize(const Trace& trace) {
  std::size_t ranks = 0;
  for (const Trace::Lane& lane : trace.lanes()) {
    ranks = std::max(ranks, static_cast<std::size_t>(lane.rank) + 1);
  }
  TraceSummary summary;
  summary.seconds = length_of_calls(trace);
  summary.ranks.resize(ranks);
  const auto work = work_by_rank(trace, ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    double busy = 0.0;
    for (const Interval& interval : work[rank]) {
      busy += seconds_of(interval.end - interval.begin);
    }
    summary.ranks[rank].busy = summary.seconds > 0.0 ? busy / summary.seconds : 0.0;
    summary.ranks[rank].waited_for.resize(ranks);
  }
  // Of a process that is not rank 0's the trace has one rank, and no message with both ends.
  const std::vector<runtime::TraceFlow> flows = runtime::find_flows(trace);
  add_waits(flows, work, summary);
  add_links(flows, summary);
  for (TraceSummary::Rank& rank : summary.ranks) {
    for (const double seconds : rank.waited_for) {
      rank.waiting += seconds;
    }
  }
  summary.steps = steps_of(trace);
  summary.straggler = straggler_of(summary.ranks);
  return summary;
}

}  // namespace shardsolve
