/// The fastest tile for one size, found by measuring.
#pragma once

#include "samples.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/mesh.hpp>
#include <shardsolve/routine.hpp>
#include <shardsolve/run_options.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace shardsolve::cli::bench {

/// Tiles worth a try, the library's own choice first, each a different layout of n x n.
std::vector<std::int64_t> candidate_tiles(const Mesh& mesh, std::int64_t n, Dtype dtype,
                                          Routine routine);

/// What came out for one size.
struct Tuned {
  Routine routine = Routine::cholesky;
  std::int64_t n = 0;
  Dtype dtype = Dtype::float64;
  std::int64_t shipped_tile = 0;
  std::int64_t best_tile = 0;  ///< the fastest other one; 0 if none was tried
  Samples shipped;
  Samples best;                 ///< taken in turn with `shipped`
  double backward_error = 0.0;  ///< of a solve with best_tile, in units of u
  std::string left_out;         ///< why nothing was measured; empty if it was

  /// By which share of the time the runs of one tile differ, in the median, and no less than what
  /// nobody would notice.
  double noise() const;
  /// Whether the answer with the best tile passes its gate.
  bool right() const;
  /// Whether the best tile is faster by more than the noise, and its answers are right.
  bool kept() const;
};

/// How a measurement is watched and limited.
struct TuneLimits {
  std::chrono::steady_clock::time_point end;  ///< nothing is begun that would last longer
  /// Told which tile is timed, and which share of the runs is done.
  std::function<void(std::int64_t tile, double fraction)> progress;
};

/// Factors a random matrix three times with each candidate, in turn, then five times with the best
/// of them and the library's choice, in turn: only these runs decide, so that a lucky one among
/// many does not. Throws Error(out_of_memory, cancelled, ...).
template <Scalar T>
Tuned tune(Mesh& mesh, Routine routine, std::int64_t n, const RunOptions& options,
           const TuneLimits& limits);

}  // namespace shardsolve::cli::bench
