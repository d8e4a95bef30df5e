#include "runtime/trace_bytes.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>
#include <utility>

namespace shardsolve::runtime {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

Clock::rep count_of(Clock::time_point time) { return time.time_since_epoch().count(); }
Clock::time_point time_of(const json& count) {
  return Clock::time_point(Clock::duration(count.get<Clock::rep>()));
}

}  // namespace

std::vector<std::uint8_t> to_bytes(const Trace::Lane& lane) {
  json spans = json::array();
  for (const TraceSpan& span : lane.spans) {
    json messages = json::array();
    for (const TraceMessage& message : span.messages) {
      messages.push_back(json::array({message.from, message.to, message.number, message.bytes}));
    }
    spans.push_back(
        json::array({span.name, count_of(span.begin), count_of(span.end), span.flops, span.bytes,
                     span.step, span.turn, std::move(messages), span.link}));
  }
  return json::to_cbor(json::array({lane.rank, lane.queue, std::move(spans)}));
}

Trace::Lane lane_from_bytes(const std::vector<std::uint8_t>& bytes) {
  const auto* const begin = reinterpret_cast<const char*>(bytes.data());
  const json document = json::from_cbor(begin, begin + bytes.size());
  Trace::Lane lane{document[0], document[1], {}};
  for (const json& from : document[2]) {
    TraceSpan span{from[0], time_of(from[1]), time_of(from[2]), from[3], from[4], from[5], from[6]};
    for (const json& message : from[7]) {
      span.messages.push_back({message[0], message[1], message[2], message[3]});
    }
    span.link = from[8];
    lane.spans.push_back(std::move(span));
  }
  return lane;
}

std::vector<Trace::Lane> in_pieces(std::vector<Trace::Lane> lanes, std::int64_t count) {
  std::vector<Trace::Lane> pieces;
  for (Trace::Lane& lane : lanes) {
    const auto end = std::make_move_iterator(lane.spans.end());
    for (auto first = std::make_move_iterator(lane.spans.begin()); first != end;) {
      const auto last = first + std::min<std::int64_t>(count, end - first);
      pieces.push_back({lane.rank, lane.queue, std::vector<TraceSpan>(first, last)});
      first = last;
    }
  }
  return pieces;
}

}  // namespace shardsolve::runtime
