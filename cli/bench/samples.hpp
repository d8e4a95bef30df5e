/// Times of repeated runs.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

namespace shardsolve::cli::bench {

/// Seconds, at least one.
struct Samples {
  std::vector<double> seconds;

  double least() const { return *std::min_element(seconds.begin(), seconds.end()); }
  double median() const {
    std::vector<double> sorted = seconds;
    std::sort(sorted.begin(), sorted.end());
    const std::size_t half = sorted.size() / 2;
    return sorted.size() % 2 == 1 ? sorted[half] : 0.5 * (sorted[half - 1] + sorted[half]);
  }
  /// By which share of the least the runs differ from it, in the median.
  double noise() const { return least() > 0.0 ? median() / least() - 1.0 : 0.0; }
};

/// As reports have them.
inline std::string seconds_text(double seconds) {
  constexpr double milli = 1e3;
  return seconds < 1.0 ? fmt::format("{:.3g} ms", milli * seconds)
                       : fmt::format("{:.3g} s", seconds);
}

}  // namespace shardsolve::cli::bench
