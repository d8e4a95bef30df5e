/// How a long call is watched, stopped and recorded.
#pragma once

#include <chrono>
#include <functional>
#include <stop_token>
#include <string_view>

namespace shardsolve {

class Trace;

/// Where a long call is.
struct Progress {
  std::string_view phase;  ///< "check", "factor", "solve", "invert", ...
  double fraction = 0.0;   ///< share of the phase's work that is done, 0 to 1
  double seconds = 0.0;    ///< since the phase began
  double remaining = 0.0;  ///< estimated seconds to the end of the phase
};

/// Options of every call that runs on a mesh.
struct RunOptions {
  /// Request a stop on its source and the call leaves with Error(cancelled), all ranks at the same
  /// step; what it was overwriting is then undefined.
  std::stop_token cancel;
  /// Called about ten times a second from a thread of the mesh; must not throw or call the mesh.
  std::function<void(const Progress&)> progress;
  /// A rank that others wait for and that has done nothing for this long is reported as silent with
  /// its number, step and operation: Error(communication). More than 0, or the call fails with
  /// Error(invalid_argument); more than a year counts as one.
  std::chrono::duration<double> silence_limit = std::chrono::seconds(300);
  /// If set, receives what every queue did, also in a call that fails, unless a rank is lost. On a
  /// mesh of processes all give one, or the call fails with Error(invalid_argument); rank 0's
  /// receives that of all ranks, and where it cannot be brought there the call has failed.
  Trace* trace = nullptr;
};

}  // namespace shardsolve
