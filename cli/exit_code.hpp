/// What the exit code says. Output files are there, complete, if and only if it is 0.
#pragma once

#include <shardsolve/error.hpp>
#include <shardsolve/outcome.hpp>

namespace shardsolve::cli {

inline constexpr int exit_ok = 0;
inline constexpr int exit_numerical = 1;    ///< no answer, with a numerical reason
inline constexpr int exit_misuse = 2;       ///< arguments, or contents of a file
inline constexpr int exit_environment = 3;  ///< disk, memory, device, communication
inline constexpr int exit_bug = 70;         ///< sysexits.h: EX_SOFTWARE
inline constexpr int exit_signal = 128;     ///< plus the number of the signal, as shells have it

/// Of a job that threw. `signal`: the one that asked for the stop, if kind is `cancelled`.
constexpr int exit_code(ErrorKind kind, int signal) {
  switch (kind) {
    case ErrorKind::invalid_argument:
    case ErrorKind::unsupported:
      return exit_misuse;
    case ErrorKind::out_of_memory:
    case ErrorKind::device:
    case ErrorKind::communication:
    case ErrorKind::io:
      return exit_environment;
    case ErrorKind::cancelled:
      return exit_signal + signal;
    case ErrorKind::internal:
      return exit_bug;
  }
  return exit_bug;
}

/// Of a job that came to an end without an Error.
constexpr int exit_code(StatusClass end) {
  switch (end) {
    case StatusClass::answered:
      return exit_ok;
    case StatusClass::numerical:
    case StatusClass::input:
      return exit_numerical;
    case StatusClass::resources:
      return exit_environment;
  }
  return exit_bug;
}

}  // namespace shardsolve::cli
