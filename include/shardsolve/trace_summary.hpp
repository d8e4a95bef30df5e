/// What a trace says in a few numbers: who worked, who waited for whom, what went where.
#pragma once

#include <shardsolve/export.hpp>
#include <shardsolve/trace.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace shardsolve {

/// Times are in seconds; a vector "by rank" has an element for each rank of the trace.
///
/// A rank *works* while a span of any of its queues computes or copies: neither "wait" nor a
/// message. It *waits* for another one while it has begun a span with messages, that one has not
/// yet begun the other end of one of them, and nothing works ("late sender" and "late receiver" of
/// the literature on message passing); if several are late, for the last. What is waited for while
/// another queue works costs nothing and does not count.
struct TraceSummary {
  struct Rank {
    double busy = 0.0;               ///< share of `seconds` that it worked, 0 to 1
    double waiting = 0.0;            ///< for all others
    std::vector<double> waited_for;  ///< by rank
  };
  /// What one rank has received from another.
  struct Link {
    std::int64_t from = 0;
    std::int64_t to = 0;
    double bytes = 0.0;
    std::int64_t messages = 0;
  };
  /// A step takes from the end of the one before, or from its own beginning if that is later, to
  /// its own end; both over all queues of all ranks. Percentiles are times of actual steps.
  struct Steps {
    std::int64_t count = 0;
    double p50 = 0.0;
    double p95 = 0.0;
    double p99 = 0.0;
  };
  struct Straggler {
    std::int64_t rank = 0;
    double seconds = 0.0;  ///< of all other ranks together
  };

  double seconds = 0.0;     ///< length of all calls, without the time between them
  std::vector<Rank> ranks;  ///< by rank
  std::vector<Link> links;  ///< those that carried bytes, by sender and receiver
  std::optional<Steps> steps;
  /// The rank that the others waited for most; nothing if nobody waited.
  std::optional<Straggler> straggler;
};

/// Costs time and memory in proportion to the spans.
SHARDSOLVE_EXPORT TraceSummary summarize(const Trace& trace);

}  // namespace shardsolve
