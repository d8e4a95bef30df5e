/// Which span sends what another one receives.
#pragma once

#include <shardsolve/trace.hpp>

#include <cstddef>
#include <vector>

namespace shardsolve::runtime {

/// A span of a trace, and the lane that it is in.
struct TracePlace {
  std::size_t lane = 0;
  const TraceSpan* span = nullptr;
};

/// A message of which the trace has both ends.
struct TraceFlow {
  TraceMessage message;
  TracePlace sender;
  TracePlace receiver;
};

/// In the order of the receiving spans. Ends without another one, as after a failure, are left out.
std::vector<TraceFlow> find_flows(const Trace& trace);

}  // namespace shardsolve::runtime
