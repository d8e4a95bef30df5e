#include "krylov_files/log_file.hpp"

#include "io/file_descriptor.hpp"
#include "io/output_file.hpp"
#include "krylov_files/json.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/version.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

namespace shardsolve::krylov {
namespace files {
namespace {

constexpr std::int64_t log_format = 1;
constexpr std::int64_t log_format_of_attempts = 2;  // records say of which attempt they are
constexpr std::string_view log_kind = "krylov log";
constexpr auto replace = Json::error_handler_t::replace;

std::string line_of(const Json& object) { return object.dump(-1, ' ', false, replace) + "\n"; }

/// A log's text, line by line.
class LogLines {
 public:
  LogLines(std::string_view text, std::string path) : rest_(text), path_(std::move(path)) {}

  bool at_end() const { return rest_.empty(); }
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(
        ErrorKind::invalid_argument,
        fmt::format("'{}', line {}: {}; give a log as --log writes it", path_, number_, what));
  }
  /// What `read` makes of the next line, an object.
  template <class Read>
  auto next(Read read) {
    ++number_;
    const std::size_t end = rest_.find('\n');
    if (end == std::string_view::npos) {
      refuse(rest_.empty() ? "the log is cut off: its last line, the verdict, is missing"
                           : "the log is cut off within a line");
    }
    const std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    const Json value = Json::parse(line, nullptr, false);
    if (value.is_discarded()) {
      refuse("the line is no JSON");
    }
    try {
      return read(JsonObject(value, "the line"));
    } catch (const io::JsonFault& fault) {
      refuse(fault.what());
    }
  }

 private:
  std::string_view rest_;
  std::string path_;
  std::int64_t number_ = 0;
};

/// Whether records say of which attempt they are.
bool read_opening(const JsonObject& line, Log& log) {
  if (line.text("kind") != log_kind) {
    line.reject("kind", fmt::format("\"{}\"", log_kind));
  }
  log.version = line.text("version");
  const std::int64_t format = line.integer("format", 1, 1'000'000);
  if (format > log_format_of_attempts) {
    throw Error(ErrorKind::unsupported,
                fmt::format("'{}' was written by shardsolve {} in format {}; this version, {}, "
                            "reads formats up to {}: read it with that one",
                            log.path, log.version, format, SHARDSOLVE_VERSION_STRING,
                            log_format_of_attempts));
  }
  log.request = request_of(line.object("request"));
  return format == log_format_of_attempts;
}

bool is_of_attempt(const LogRecord& record, const Result& result) {
  return record.attempt >= 1 && record.attempt <= std::ssize(result.attempts);
}

/// The record behind which one it is of.
std::string line_of_attempt(const LogRecord& record, const Result& result) {
  const Attempt& attempt = result.attempts[static_cast<std::size_t>(record.attempt - 1)];
  return fmt::format(R"({{"attempt": {}, "method": "{}", {})", record.attempt,
                     krylov::name(attempt.method), krylov::to_json(record).substr(1));
}

/// A record of a log, and the method that it names.
struct RecordLine {
  LogRecord record;
  std::string method;  // empty in a log of one method
};

RecordLine record_line_of(const JsonObject& line, bool has_attempts) {
  RecordLine read{record_of(line), {}};
  if (has_attempts) {
    constexpr std::int64_t most = 1'000'000;
    read.record.attempt = line.integer("attempt", 1, most);
    read.method = line.text("method");
  }
  return read;
}

bool is_before(const LogRecord& a, const LogRecord& b) {
  return a.attempt < b.attempt || (a.attempt == b.attempt && a.iteration < b.iteration);
}

/// Throws io::JsonFault unless the records are of the attempts that the verdict has.
void require_attempts(const std::vector<RecordLine>& lines, const Result& result) {
  for (const RecordLine& line : lines) {
    if (line.method.empty()) {
      continue;
    }
    const LogRecord& record = line.record;
    if (!is_of_attempt(record, result)) {
      throw io::JsonFault(fmt::format("a record is of attempt {}, and the verdict has {}",
                                      record.attempt, result.attempts.size()));
    }
    const auto method = result.attempts[static_cast<std::size_t>(record.attempt - 1)].method;
    if (line.method != krylov::name(method)) {
      throw io::JsonFault(fmt::format("a record of attempt {} is of {}, and the verdict says {}",
                                      record.attempt, line.method, krylov::name(method)));
    }
  }
}

}  // namespace

std::string log_text(const Request& request, const Result& result) {
  const bool has_attempts =
      std::all_of(result.log.begin(), result.log.end(),
                  [&](const LogRecord& record) { return is_of_attempt(record, result); }) &&
      !result.log.empty();
  std::string text = line_of({{"kind", log_kind},
                              {"format", has_attempts ? log_format_of_attempts : log_format},
                              {"version", SHARDSOLVE_VERSION_STRING},
                              {"request", to_json(request)}});
  for (const LogRecord& record : result.log) {
    text += (has_attempts ? line_of_attempt(record, result) : krylov::to_json(record)) + "\n";
  }
  return text + line_of({{"verdict", verdict_to_json(result)}});
}

Log read_log(const std::string& path) {
  const io::FileDescriptor file = io::open_for_reading(path);
  std::string text(static_cast<std::size_t>(io::file_size(file, path)), '\0');
  io::read_exactly(file, text.data(), static_cast<std::int64_t>(text.size()), 0, path);
  Log log;
  log.path = path;
  LogLines lines(text, path);
  bool has_attempts = false;
  lines.next([&](const JsonObject& line) { has_attempts = read_opening(line, log); });
  std::vector<RecordLine> records;
  bool is_over = false;
  while (!is_over) {
    lines.next([&](const JsonObject& line) {
      is_over = !line.unknown_key({"verdict"});
      if (is_over) {
        log.result = verdict_of(line.object("verdict"));
        require_attempts(records, log.result);
        return;
      }
      RecordLine read = record_line_of(line, has_attempts);
      if (!records.empty() && is_before(read.record, records.back().record)) {
        lines.refuse("its iteration is before that of the line above");
      }
      records.push_back(std::move(read));
    });
  }
  if (!lines.at_end()) {
    lines.refuse("something follows the verdict");
  }
  for (const RecordLine& line : records) {
    log.result.log.push_back(line.record);
    if (!has_attempts && !log.result.attempts.empty()) {
      log.result.log.back().attempt = std::ssize(log.result.attempts);  // format 1 has but the last
    }
  }
  return log;
}

}  // namespace files

void write_log(const std::string& path, const Request& request, const Result& result,
               bool overwrite) {
  io::OutputFile file(path, overwrite);
  const std::string text = files::log_text(request, result);
  file.pwrite_all(text.data(), static_cast<std::int64_t>(text.size()), 0);
  file.commit();
}

}  // namespace shardsolve::krylov
