#include "trace_lines.hpp"

#include "report_lines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace shardsolve::cli {
namespace {

using Rank = TraceSummary::Rank;
using Link = TraceSummary::Link;

std::string percent(double share) { return fmt::format("{:.0f} %", 100.0 * share); }

std::string amount(double bytes) {
  constexpr double kilo = 1e3;
  constexpr std::array units = {"B", "kB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  for (; bytes >= kilo && unit + 1 < units.size(); ++unit) {
    bytes /= kilo;
  }
  return fmt::format("{:.3g} {}", bytes, units[unit]);
}

std::string busy_line(const TraceSummary& summary) {
  if (summary.ranks.empty()) {
    return "";
  }
  const auto [least, most] =
      std::minmax_element(summary.ranks.begin(), summary.ranks.end(),
                          [](const Rank& a, const Rank& b) { return a.busy < b.busy; });
  double sum = 0.0;
  for (const Rank& rank : summary.ranks) {
    sum += rank.busy;
  }
  return line(
      "busy", percent(sum / static_cast<double>(summary.ranks.size())),
      fmt::format("of {}; from {} (rank {}) to {} (rank {})", precise_duration(summary.seconds),
                  percent(least->busy), least - summary.ranks.begin(), percent(most->busy),
                  most - summary.ranks.begin()));
}

std::string straggler_line(const TraceSummary& summary) {
  if (!summary.straggler) {
    return "";
  }
  const auto waiter =
      std::max_element(summary.ranks.begin(), summary.ranks.end(),
                       [](const Rank& a, const Rank& b) { return a.waiting < b.waiting; });
  const auto for_whom = std::max_element(waiter->waited_for.begin(), waiter->waited_for.end());
  return line("straggler", fmt::format("rank {}", summary.straggler->rank),
              fmt::format("waited for most, {} by all others; rank {} waited most, {}, of this {} "
                          "for rank {}",
                          precise_duration(summary.straggler->seconds),
                          waiter - summary.ranks.begin(), precise_duration(waiter->waiting),
                          precise_duration(*for_whom), for_whom - waiter->waited_for.begin()));
}

std::string links_line(const TraceSummary& summary) {
  if (summary.links.empty()) {
    return "";
  }
  double bytes = 0.0;
  for (const Link& link : summary.links) {
    bytes += link.bytes;
  }
  const Link& most =
      *std::max_element(summary.links.begin(), summary.links.end(),
                        [](const Link& a, const Link& b) { return a.bytes < b.bytes; });
  return line(
      "moved", amount(bytes),
      fmt::format("over {}; most from rank {} to {}, {} in {}",
                  plural(static_cast<std::int64_t>(summary.links.size()), "link"), most.from,
                  most.to, amount(most.bytes), plural(most.messages, "message")));
}

std::string steps_line(const TraceSummary& summary) {
  if (!summary.steps) {
    return "";
  }
  const TraceSummary::Steps& steps = *summary.steps;
  return line("step", precise_duration(steps.p50),
              fmt::format("in the median of {}; p95 {}, p99 {}", plural(steps.count, "step"),
                          precise_duration(steps.p95), precise_duration(steps.p99)));
}

}  // namespace

std::string trace_lines(const TraceSummary& summary) {
  return busy_line(summary) + straggler_line(summary) + links_line(summary) + steps_line(summary);
}

}  // namespace shardsolve::cli
