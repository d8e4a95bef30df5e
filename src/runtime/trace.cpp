#include <shardsolve/trace.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace shardsolve {
namespace {

double microseconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

nlohmann::json metadata(const char* what, std::int64_t pid, std::size_t tid,
                        const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", pid}, {"tid", tid}, {"args", {{"name", name}}}};
}

}  // namespace

void Trace::add(std::int64_t rank, const std::string& queue, std::vector<TraceSpan> spans) {
  const auto lane = std::find_if(lanes_.begin(), lanes_.end(), [&](const Lane& candidate) {
    return candidate.rank == rank && candidate.queue == queue;
  });
  if (lane == lanes_.end()) {
    lanes_.push_back({rank, queue, std::move(spans)});
  } else {
    lane->spans.insert(lane->spans.end(), spans.begin(), spans.end());
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
  auto origin = std::chrono::steady_clock::time_point::max();
  for (const Lane& lane : lanes_) {
    for (const TraceSpan& span : lane.spans) {
      origin = std::min(origin, span.begin);
    }
  }
  nlohmann::json events = nlohmann::json::array();
  for (std::size_t tid = 0; tid < lanes_.size(); ++tid) {
    const Lane& lane = lanes_[tid];
    events.push_back(metadata("process_name", lane.rank, tid, "rank " + std::to_string(lane.rank)));
    events.push_back(metadata("thread_name", lane.rank, tid, lane.queue));
    for (const TraceSpan& span : lane.spans) {
      nlohmann::json args{{"step", span.step}, {"flops", span.flops}, {"bytes", span.bytes}};
      if (*span.link != '\0') {
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
  return nlohmann::json{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}}.dump();
}

}  // namespace shardsolve
