/// Other clocks than ours: how far ahead they are, and how well that is known.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

namespace shardsolve::comm {

using ClockTime = std::chrono::steady_clock::time_point;
using ClockSpan = std::chrono::steady_clock::duration;

/// Somebody was asked for the time: when that was sent and answered by our clock, and the answer.
struct ClockProbe {
  ClockTime asked;
  ClockTime theirs;
  ClockTime answered;
};

/// Another clock at one time.
struct ClockReading {
  ClockTime theirs;          ///< the time that it showed
  ClockSpan ahead{0};        ///< of ours by so much,
  ClockSpan uncertainty{0};  ///< more or less
};

/// From the quickest of the probes, of which there is at least one: it was read in the middle
/// between question and answer, or by up to half of the time between them earlier or later
/// (Cristian, "Probabilistic clock synchronization", 1989).
ClockReading read_clock(const std::vector<ClockProbe>& probes);

/// Times of another clock by ours, between two readings of it: clocks drift, so what it is ahead
/// changes in proportion to time.
class ClockMap {
 public:
  /// `after` is not earlier than `before`.
  ClockMap(const ClockReading& before, const ClockReading& after)
      : before_(before), after_(after) {}

  ClockTime ours(ClockTime theirs) const;
  ClockSpan uncertainty() const { return std::max(before_.uncertainty, after_.uncertainty); }

 private:
  ClockReading before_;
  ClockReading after_;
};

}  // namespace shardsolve::comm
