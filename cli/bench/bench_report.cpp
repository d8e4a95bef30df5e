#include "bench_report.hpp"

#include "report_lines.hpp"

#include <shardsolve/version.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace shardsolve::cli::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr double giga = 1e9;

std::string rate_text(double rate) {
  return rate < 1000.0 ? fmt::format("{:.1f}", rate) : fmt::format("{:.0f}", rate);
}

std::string bytes_text(std::int64_t bytes) {
  constexpr double mega = 1e6;
  const auto count = static_cast<double>(bytes);
  return count < giga ? fmt::format("{:.3g} MB", count / mega)
                      : fmt::format("{:.3g} GB", count / giga);
}

std::string row(const Timing& timing, double gemm) {
  const Gate& gate = timing.worst();
  if (!timing.passed()) {
    return fmt::format("  {:<27} no speed: {} {:.3g} u, and the limit is {:g} u\n", timing.what,
                       gate.name, gate.value, gate.limit);
  }
  constexpr double percent = 100.0;
  const double rate = timing.flops / timing.samples.least();
  const bool counted = timing.flops > 0.0;
  return fmt::format("  {:<27} {:>8}  {:>8}  {:>7}  {:>7}  {:>11}  {:>8}\n", timing.what,
                     seconds_text(timing.samples.least()), seconds_text(timing.samples.median()),
                     counted ? rate_text(rate / giga) : "",
                     counted ? fmt::format("{:.0f} %", percent * rate / gemm) : "",
                     fmt::format("{} < {:.0f}", roundoffs(gate.value), gate.limit),
                     timing.bytes ? bytes_text(*timing.bytes) : "");
}

/// JSON has neither NaN nor Inf.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json json_of_timing(const Timing& timing) {
  Json gates = Json::array();
  for (const Gate& gate : timing.gates) {
    gates.push_back({{"name", gate.name},
                     {"value", number(gate.value)},
                     {"limit", gate.limit},
                     {"passed", gate.passed()}});
  }
  Json object = {{"job", timing.job},
                 {"passed", timing.passed()},
                 {"gates", gates},
                 {"seconds", nullptr},
                 {"median_seconds", nullptr},
                 {"gflops", nullptr},
                 {"all_seconds", nullptr},
                 {"flops", timing.flops > 0.0 ? Json(timing.flops) : Json(nullptr)},
                 {"bytes_per_device", timing.bytes ? Json(*timing.bytes) : Json(nullptr)}};
  if (timing.passed()) {
    object["seconds"] = timing.samples.least();
    object["median_seconds"] = timing.samples.median();
    if (timing.flops > 0.0) {
      object["gflops"] = number(timing.flops / timing.samples.least() / giga);
    }
    object["all_seconds"] = timing.samples.seconds;
  }
  return object;
}

std::string devices_text(const BenchSubject& subject) {
  const char* kind = subject.backend == "cuda" ? "GPU"
                     : subject.processes       ? "MPI rank"
                                               : "CPU device";
  return fmt::format("{} {}{}: {}", subject.devices, kind, subject.devices == 1 ? "" : "s",
                     subject.device);
}

}  // namespace

std::string text_of(const BenchSubject& subject, const BenchResult& result) {
  std::string text = fmt::format(
      "{}, a random {} x {} matrix of {}\n  {}\n{}  {:.5g} GFLOP/s in plain products (gemm) on all "
      "devices at once\n\n",
      subject.title, subject.n, subject.n, name(subject.dtype), devices_text(subject),
      subject.tile ? fmt::format("  tile {}\n", subject.tile_text) : "", result.gemm / giga);
  text += fmt::format("  {:<27} {:>8}  {:>8}  {:>7}  {:>7}  {:>11}  {:>8}\n", "", "least", "median",
                      "GFLOP/s", "of gemm", "residual", "a device");
  for (const Timing& timing : result.timings) {
    text += row(timing, result.gemm);
  }
  if (!result.passed()) {
    text +=
        "An answer that misses its gate is a bug of shardsolve, of the BLAS or of the machine: "
        "please report it.\n";
  }
  return text;
}

std::string json_of(const BenchSubject& subject, const BenchResult& result) {
  Json timings = Json::array();
  for (const Timing& timing : result.timings) {
    timings.push_back(json_of_timing(timing));
  }
  const auto text = [](const std::string& value) {
    return value.empty() ? Json(nullptr) : Json(value);
  };
  const Json object = {{"command", "bench"},
                       {"job", subject.job},
                       {"status", result.passed() ? "ok" : "gate_missed"},
                       {"n", subject.n},
                       {"dtype", name(subject.dtype)},
                       {"backend", subject.backend},
                       {"devices", subject.devices},
                       {"processes", subject.processes ? subject.devices : 1},
                       {"device", subject.device},
                       {"tile", subject.tile ? Json(*subject.tile) : Json(nullptr)},
                       {"tile_from", text(subject.tile_origin)},
                       {"tile_table", text(subject.tile_table)},
                       {"gemm_gflops", number(result.gemm / giga)},
                       {"timings", timings},
                       {"version", SHARDSOLVE_VERSION_STRING},
                       {"blas", subject.blas}};
  constexpr int indent = 2;
  return object.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace shardsolve::cli::bench
