// `shardsolve compare-logs`: where two Krylov solves part.

#include "alone.hpp"
#include "exit_code.hpp"
#include "json_values.hpp"
#include "krylov_files/log_comparison.hpp"
#include "krylov_files/log_file.hpp"
#include "shared_options.hpp"
#include "terminal.hpp"
#include "verb.hpp"
#include "version.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace shardsolve::cli {
namespace {

using krylov::files::Log;
using krylov::files::LogComparison;
using Json = nlohmann::ordered_json;

Json json_of(const Log& log) {
  const krylov::Result& result = log.result;
  return {{"path", log.path},
          {"version", log.version},
          {"method", krylov::name(log.request.options.method)},
          {"backend", log.request.backend},
          {"devices", log.request.ranks},
          {"records", result.log.size()},
          {"status", krylov::name(result.status)},
          {"message", result.message},
          {"iterations", result.iterations},
          {"restarts", result.restarts},
          {"residual", finite(result.residual)},
          {"margin", finite(result.margin)},
          {"is_marginal", result.is_marginal}};
}

/// With the attempt it is of, if a log has several.
template <class Place>
Json with_attempt(const LogComparison& found, const Place& place, Json object) {
  if (found.has_attempts) {
    object["attempt"] = place.attempt;
  }
  return object;
}

Json json_of(const LogComparison& found, const LogComparison::Difference& difference) {
  return with_attempt(
      found, difference,
      {{"iteration", difference.iteration},
       {"scalar", difference.scalar},
       {"a", difference.a},
       {"b", difference.b},
       {"relative", difference.relative ? Json(*difference.relative) : Json(nullptr)}});
}

Json json_of(const LogComparison& found, const LogComparison::Divergence& divergence) {
  return with_attempt(found, divergence,
                      {{"iteration", divergence.iteration},
                       {"a", finite(divergence.a)},
                       {"b", finite(divergence.b)}});
}

std::string json_text(const Log& a, const Log& b, const LogComparison& found,
                      const std::vector<std::string>& lines) {
  const bool any = found.records > 0;
  const Json object = {
      {"command", "compare-logs"},
      {"status", "ok"},
      {"message", fmt::format("{}", fmt::join(lines, " "))},
      {"same_bits", found.same_bits},
      {"same_verdict", found.same_verdict},
      {"requests_differ_in", found.requests_differ_in},
      {"first_iteration", any ? Json(found.first) : Json(nullptr)},
      {"last_iteration", any ? Json(found.last) : Json(nullptr)},
      {"records", found.records},
      {"missing", found.missing},
      {"difference", found.difference ? json_of(found, *found.difference) : Json(nullptr)},
      {"divergence", found.divergence ? json_of(found, *found.divergence) : Json(nullptr)},
      {"a", json_of(a)},
      {"b", json_of(b)},
      {"version", version}};
  constexpr int indent = 2;
  return object.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}

int compare_logs(const Options& options) {
  return run_alone(options, [&options] {
    const Log a = krylov::files::read_log(options.logs[0]);
    const Log b = krylov::files::read_log(options.logs[1]);
    const LogComparison found = krylov::files::compare(a, b);
    const auto lines = krylov::files::sentences(a, b, found);
    const std::string text =
        options.json ? json_text(a, b, found, lines) : fmt::format("{}\n", fmt::join(lines, "\n"));
    if (!print(stdout, text)) {
      print_error("the report could not be written to standard output");
      return exit_environment;
    }
    return found.same_verdict ? exit_ok : exit_numerical;
  });
}

void add_compare_options(CLI::App& command, TypedOptions&, Options& options) {
  add_input(command, "a", options.logs[0], "a log that --log has written");
  add_input(command, "b", options.logs[1], "another one");
  add_json(command, options);
}

void take_compare_options(const TypedOptions&, Options&) {}

constexpr std::string_view compare_notes =
    R"(Two logs of 'shardsolve solve --log': what the solves were asked for, if that differs; the first
number that has another bit; the first iteration whose residuals differ by more than 10 %; both
verdicts, with their margins; and whether rounding explains it. Records are matched by iteration:
a log keeps the newest 65536. Of --method auto it has those of every attempt, which are matched one
by one.

Exit codes: 0 both have the same verdict; 1 they have not; 2 a file is no log; 3 it cannot be read.)";

}  // namespace

constinit const Verb compare_logs_verb =
    complete({.name = "compare-logs",
              .about = "say where two logs of Krylov solves part",
              .usage = "shardsolve compare-logs a.jsonl b.jsonl [options]",
              .notes = compare_notes,
              .examples = R"(shardsolve compare-logs cpu.jsonl gpu.jsonl
shardsolve compare-logs cpu.jsonl gpu.jsonl --json)",
              .add_options = &add_compare_options,
              .take_options = &take_compare_options,
              .run = &compare_logs});

}  // namespace shardsolve::cli
