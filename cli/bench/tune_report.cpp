#include "tune_report.hpp"

#include <shardsolve/version.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace shardsolve::cli::bench {
namespace {

using Json = nlohmann::ordered_json;

std::string verdict(const Tuned& tuned) {
  if (tuned.kept()) {
    return "kept";
  }
  if (!tuned.right()) {
    return fmt::format("not kept: its answer misses the gate ({:.2g} u)", tuned.backward_error);
  }
  return tuned.best.least() < tuned.shipped.least() ? "not kept: no more than noise" : "not kept";
}

std::string row(const Tuned& tuned) {
  constexpr double percent = 100.0;
  return fmt::format("  {:<10} {:>7}  {:>4} {:>8}  {:>4} {:>8}  {:>+6.1f} % {:>6.1f} %  {}\n",
                     name(tuned.dtype), tuned.n, tuned.shipped_tile,
                     seconds_text(tuned.shipped.least()), tuned.best_tile,
                     seconds_text(tuned.best.least()),
                     percent * (tuned.best.least() / tuned.shipped.least() - 1.0),
                     percent * tuned.noise(), verdict(tuned));
}

std::string ending(const TuneReport& report) {
  if (!report.written) {
    return fmt::format("Nothing was measured, and '{}' is as it was.\n", report.path);
  }
  return fmt::format("Written: '{}', {} {}\n", report.path, report.entries,
                     report.entries == 1 ? "entry" : "entries");
}

Json json_of_size(const Tuned& tuned) {
  Json object = {{"n", tuned.n},
                 {"dtype", name(tuned.dtype)},
                 {"shipped_tile", tuned.shipped_tile},
                 {"shipped_seconds", nullptr},
                 {"best_tile", nullptr},
                 {"best_seconds", nullptr},
                 {"noise", nullptr},
                 {"kept", tuned.kept()},
                 {"left_out", tuned.left_out.empty() ? Json(nullptr) : Json(tuned.left_out)}};
  if (tuned.left_out.empty()) {
    object["shipped_seconds"] = tuned.shipped.seconds;
    object["best_tile"] = tuned.best_tile;
    object["best_seconds"] = tuned.best.seconds;
    object["noise"] = tuned.noise();
    object["backward_error_in_u"] = tuned.backward_error;
  }
  return object;
}

}  // namespace

TileEntry entry_of(const Tuned& tuned, const TuneReport& report, const std::string& date) {
  return {.routine = tuned.routine,
          .device = report.device,
          .dtype = tuned.dtype,
          .ranks = report.ranks,
          .n = tuned.n,
          .tile = tuned.best_tile,
          .kept = tuned.kept(),
          .measured = {.seconds = tuned.best.least(),
                       .shipped_tile = tuned.shipped_tile,
                       .shipped_seconds = tuned.shipped.least(),
                       .noise = tuned.noise(),
                       .date = date,
                       .version = SHARDSOLVE_VERSION_STRING}};
}

std::string text_of(const TuneReport& report) {
  std::string text =
      fmt::format("Tiles of {} for {} x {}\n", name(report.routine), report.ranks, report.device);
  text += "  dtype            n  library's      fastest other     time    noise\n";
  for (const Tuned& tuned : report.sizes) {
    text += tuned.left_out.empty() ? row(tuned)
                                   : fmt::format("  {:<10} {:>7}  left out: {}\n",
                                                 name(tuned.dtype), tuned.n, tuned.left_out);
  }
  return text + ending(report);
}

std::string json_of(const TuneReport& report) {
  Json sizes = Json::array();
  for (const Tuned& tuned : report.sizes) {
    sizes.push_back(json_of_size(tuned));
  }
  const Json object = {{"command", "tune"},
                       {"status", "ok"},
                       {"routine", name(report.routine)},
                       {"device", report.device},
                       {"backend", report.backend},
                       {"devices", report.ranks},
                       {"sizes", sizes},
                       {"table", report.path},
                       {"written", report.written},
                       {"entries", report.entries},
                       {"version", SHARDSOLVE_VERSION_STRING}};
  constexpr int indent = 2;
  return object.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace shardsolve::cli::bench
