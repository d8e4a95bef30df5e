/// Logs of Krylov solves: an opening line, a line a record, a closing line.
#pragma once

#include <shardsolve/krylov_files.hpp>

#include <string>

namespace shardsolve::krylov::files {

/// What a log says. The verdict has the records.
struct Log {
  std::string path;
  std::string version;  ///< of shardsolve that wrote it
  Request request;
  Result result;
};

/// The whole text of a log.
std::string log_text(const Request& request, const Result& result);

/// Reads a log back. Throws Error: io if the file cannot be read; invalid_argument, naming file and
/// line, if it is none, cut off, or damaged; unsupported if another version has written it in
/// another format.
Log read_log(const std::string& path);

}  // namespace shardsolve::krylov::files
