/// What is told of a Krylov solve.
#pragma once

#include "options.hpp"

#include <shardsolve/krylov_files.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardsolve::cli {

/// What a replay was held against.
struct Replay {
  std::string folder;
  std::string version;  ///< of shardsolve that wrote it
  krylov::Request request;
  krylov::Result result;
  /// Whether all bits are those of the capture; nothing if something else was tried.
  std::optional<bool> reproduced;
  std::vector<std::string> differences;  ///< sentences, if they are not
};

/// The verdict, and the files beside x that there are now; paths of others are empty.
struct KrylovReport {
  krylov::Request request;
  krylov::Result result;                ///< of the worst column of b, that of the log
  std::vector<krylov::Result> columns;  ///< of each, without logs
  std::int64_t worst = 0;               ///< which of them `result` is
  std::string best;
  std::string log;
  std::string capture;
  std::string trace;
  std::vector<std::string> lost;  ///< why others that were asked for are not there
  std::optional<Replay> replay;
};

/// "auto", or the name of the method.
std::string method_of(const krylov::Request& request);

/// Lines for people: what was solved, how the verdict came about, and the log.
std::string krylov_headline(const Options& options, const KrylovReport& report);
std::string krylov_lines(const KrylovReport& report);
std::string krylov_file_lines(const KrylovReport& report);

/// Why there is no answer, in one line: the file that it is about, the verdict's sentence, and
/// which files there are.
std::string krylov_reason(const Options& options, const KrylovReport& report);

}  // namespace shardsolve::cli
