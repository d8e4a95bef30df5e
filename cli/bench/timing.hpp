/// Calls that are timed, each answer judged.
#pragma once

#include "judge.hpp"
#include "samples.hpp"

#include <shardsolve/outcome.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace shardsolve::cli::bench {

/// One call.
struct Timing {
  std::string job;   ///< for scripts: "factor", "solve_1", ...
  std::string what;  ///< for people
  Samples samples;
  double flops = 0.0;                 ///< 0 if nobody has counted them
  std::optional<std::int64_t> bytes;  ///< on each device: matrix, right-hand sides, workspace
  std::vector<Gate> gates;

  /// Whether its answers are right: if not, its speed means nothing.
  bool passed() const;
  /// The gate that is passed by least, or missed by most.
  const Gate& worst() const;
};

/// What bench has found.
struct BenchResult {
  double gemm = 0.0;  ///< flops per second of products, of all devices together
  std::vector<Timing> timings;

  bool passed() const;
};

/// Told what is being timed, and which share of its runs is done.
using BenchProgress = std::function<void(const std::string& what, double fraction)>;

/// Wall-clock seconds of one call.
template <class Work>
double seconds_of(Work work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Takes samples of a call: run(), which returns its seconds, once without counting, as the first
/// time costs more, then `runs` times.
template <class Run>
void repeat(Timing& timing, std::int64_t runs, const BenchProgress& progress, Run run) {
  progress(timing.what, 0.0);
  run();
  for (std::int64_t i = 0; i < runs; ++i) {
    progress(timing.what, static_cast<double>(i + 1) / static_cast<double>(runs + 1));
    timing.samples.seconds.push_back(run());
  }
}

/// Throws Error(internal) if there is no answer, of a matrix that has one.
void require_ok(const Outcome& outcome);

}  // namespace shardsolve::cli::bench
