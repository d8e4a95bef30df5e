#include "runtime/trace_messages.hpp"

#include <cstdint>
#include <map>
#include <tuple>

namespace shardsolve::runtime {
namespace {

/// Calls visit(place, message) for every end of a message.
template <class Visit>
void for_each_end(const Trace& trace, Visit visit) {
  for (std::size_t lane = 0; lane < trace.lanes().size(); ++lane) {
    for (const TraceSpan& span : trace.lanes()[lane].spans) {
      for (const TraceMessage& message : span.messages) {
        visit(TracePlace{lane, &span}, message);
      }
    }
  }
}

}  // namespace

std::vector<TraceFlow> find_flows(const Trace& trace) {
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::uint64_t>;
  const auto key = [](const TracePlace& place, const TraceMessage& message) {
    return Key(place.span->call, message.from, message.to, message.number);
  };
  std::map<Key, TracePlace> senders;
  for_each_end(trace, [&](const TracePlace& place, const TraceMessage& message) {
    if (message.from == trace.lanes()[place.lane].rank) {
      senders[key(place, message)] = place;
    }
  });
  std::vector<TraceFlow> flows;
  for_each_end(trace, [&](const TracePlace& place, const TraceMessage& message) {
    const auto sender = senders.find(key(place, message));
    if (message.to == trace.lanes()[place.lane].rank && sender != senders.end()) {
      flows.push_back({message, sender->second, place});
    }
  });
  return flows;
}

}  // namespace shardsolve::runtime
