#include "comm/clocks.hpp"

namespace shardsolve::comm {

ClockReading read_clock(const std::vector<ClockProbe>& probes) {
  const ClockProbe& best =
      *std::min_element(probes.begin(), probes.end(), [](const ClockProbe& a, const ClockProbe& b) {
        return a.answered - a.asked < b.answered - b.asked;
      });
  const ClockSpan half = (best.answered - best.asked) / 2;
  return {best.theirs, best.theirs - (best.asked + half), half};
}

ClockTime ClockMap::ours(ClockTime theirs) const {
  const auto count = [](ClockSpan span) { return static_cast<double>(span.count()); };
  const ClockSpan between = after_.theirs - before_.theirs;
  const double share = between.count() > 0 ? count(theirs - before_.theirs) / count(between) : 0.0;
  const double change = share * count(after_.ahead - before_.ahead);
  return theirs - before_.ahead - ClockSpan(static_cast<ClockSpan::rep>(change));
}

}  // namespace shardsolve::comm
