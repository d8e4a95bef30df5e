#include "krylov_files/log_file.hpp"

#include "io/file_descriptor.hpp"
#include "io/output_file.hpp"
#include "krylov_files/json.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/version.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace shardsolve::krylov {
namespace files {
namespace {

constexpr std::int64_t log_format = 1;
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

void read_opening(const JsonObject& line, Log& log) {
  if (line.text("kind") != log_kind) {
    line.reject("kind", fmt::format("\"{}\"", log_kind));
  }
  log.version = line.text("version");
  const std::int64_t format = line.integer("format", 1, 1'000'000);
  if (format != log_format) {
    throw Error(ErrorKind::unsupported,
                fmt::format("'{}' was written by shardsolve {} in format {}; this version, {}, "
                            "reads format {}: read it with that one",
                            log.path, log.version, format, SHARDSOLVE_VERSION_STRING, log_format));
  }
  log.request = request_of(line.object("request"));
}

}  // namespace

std::string log_text(const Request& request, const Result& result) {
  std::string text = line_of({{"kind", log_kind},
                              {"format", log_format},
                              {"version", SHARDSOLVE_VERSION_STRING},
                              {"request", to_json(request)}});
  for (const LogRecord& record : result.log) {
    text += krylov::to_json(record) + "\n";
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
  lines.next([&](const JsonObject& line) { read_opening(line, log); });
  std::vector<LogRecord> records;
  bool is_over = false;
  while (!is_over) {
    lines.next([&](const JsonObject& line) {
      is_over = !line.unknown_key({"verdict"});
      if (is_over) {
        log.result = verdict_of(line.object("verdict"));
        return;
      }
      const LogRecord record = record_of(line);
      if (!records.empty() && record.iteration < records.back().iteration) {
        lines.refuse("its iteration is before that of the line above");
      }
      records.push_back(record);
    });
  }
  if (!lines.at_end()) {
    lines.refuse("something follows the verdict");
  }
  log.result.log = std::move(records);
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
