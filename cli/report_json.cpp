#include "report.hpp"
#include "runtime/trace_json.hpp"
#include "verb.hpp"
#include "version.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace shardsolve::cli {
namespace {

using Json = nlohmann::ordered_json;

/// JSON has neither NaN nor Inf.
Json number(std::optional<double> value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

Json text(const std::string& value) { return value.empty() ? Json(nullptr) : Json(value); }

/// Paths need not be UTF-8, JSON does.
std::string serialise(const Json& object) {
  constexpr int indent = 2;
  return object.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// All keys, in order, with what is known before the work.
Json blank(const Options& options, std::string_view status, const std::string& message) {
  Json object = {{"command", options.verb != nullptr ? Json(options.verb->name) : Json(nullptr)},
                 {"status", status},
                 {"message", message},
                 {"n", nullptr},
                 {"rows", nullptr},
                 {"dtype", nullptr},
                 {"rhs", nullptr},
                 {"backend", options.backend == Backend::cuda ? "cuda" : "cpu"},
                 {"devices", options.devices},
                 {"processes", options.mpi ? options.devices : 1},
                 {"tile", nullptr},
                 {"tile_from", nullptr},
                 {"tile_table", nullptr},
                 {"tile_date", nullptr}};
  for (const Figure& figure : Outcome::figures()) {
    object[figure.name] = nullptr;
  }
  object.update(Json{{"unit_roundoff", nullptr},
                     {"error_estimate", nullptr},
                     {"rank", nullptr},
                     {"logdet", nullptr},
                     {"eigenvalues", nullptr},
                     {"singular_values", nullptr},
                     {"method", nullptr},
                     {"preconditioner", nullptr},
                     {"blocks", nullptr},
                     {"iterations", nullptr},
                     {"matvecs", nullptr},
                     {"restarts", nullptr},
                     {"tolerance", nullptr},
                     {"margin", nullptr},
                     {"is_marginal", nullptr},
                     {"condition", nullptr},
                     {"attempts", nullptr},
                     {"replay", nullptr},
                     {"seconds", nullptr},
                     {"read_seconds", nullptr},
                     {"write_seconds", nullptr},
                     {"flops", nullptr},
                     {"gflops", nullptr},
                     {"pivot", nullptr},
                     {"entry", nullptr},
                     {"matrix", text(options.matrix)},
                     {"right_hand_sides", text(options.right_hand_sides)},
                     {"second_matrix", text(options.second_matrix)},
                     {"guess", text(options.krylov.guess)},
                     {"output", nullptr},
                     {"values", nullptr},
                     {"vectors", nullptr},
                     {"u", nullptr},
                     {"vh", nullptr},
                     {"best", nullptr},
                     {"log", nullptr},
                     {"capture", nullptr},
                     {"trace", nullptr},
                     {"trace_summary", nullptr},
                     {"version", version},
                     {"blas", blas}});
  return object;
}

void fill_problem(Json& object, const Report& report) {
  object["n"] = report.n;
  object["rows"] = report.rows.value_or(report.n);
  object["dtype"] = name(report.dtype);
  if (report.right_hand_sides) {
    object["rhs"] = *report.right_hand_sides;
  }
  if (report.tile) {
    object["tile"] = report.tile->tile;
    object["tile_from"] = tile_origin(*report.tile);
    if (report.tile->entry) {
      object["tile_table"] = text(report.tile->table);
      object["tile_date"] = report.tile->entry->measured.date;
    }
  }
  object["unit_roundoff"] = unit_roundoff_of(report.dtype);
}

void fill_cost(Json& object, const Report& report) {
  constexpr double giga = 1e9;
  const Outcome& outcome = report.outcome;
  object["seconds"] = number(outcome.seconds);
  object["read_seconds"] = number(report.read_seconds);
  object["write_seconds"] = number(report.write_seconds);
  object["flops"] = number(outcome.flops);
  object["gflops"] = number(outcome.flops / outcome.seconds / giga);
}

/// How many, and the ends of the list, which may ascend or descend.
Json summary_of(const std::vector<double>& values) {
  const auto [smallest, largest] = std::minmax_element(values.begin(), values.end());
  const bool any = !values.empty();
  return {{"count", values.size()},
          {"smallest", any ? number(*smallest) : Json(nullptr)},
          {"largest", any ? number(*largest) : Json(nullptr)}};
}

void fill_certificate(Json& object, const Report& report) {
  for (const Figure& figure : Outcome::figures()) {
    object[figure.name] = number(report.outcome.*figure.value);
  }
  object["error_estimate"] = number(report.error_estimate);
  if (report.rank) {
    object["rank"] = *report.rank;
  }
  object["logdet"] = number(report.log_determinant);
  if (report.outcome.ok() && report.eigenvalues) {
    object["eigenvalues"] = summary_of(*report.eigenvalues);
  }
  if (report.outcome.ok() && report.singular_values) {
    object["singular_values"] = summary_of(*report.singular_values);
  }
  object["condition"] = number(report.condition);
}

/// Numbers of a verdict.
Json numbers_of(const krylov::Result& result) {
  return {{"iterations", result.iterations},
          {"matvecs", result.matvecs},
          {"restarts", result.restarts},
          {"residual", number(result.residual)},
          {"tolerance", number(result.tolerance)},
          {"margin", number(result.margin)},
          {"is_marginal", result.is_marginal},
          {"condition", result.condition > 0.0 ? number(result.condition) : Json(nullptr)},
          {"error_estimate", number(result.error_estimate)}};
}

/// What took the place of the outcome's status and message.
void fill_verdict(Json& object, const Options& options, const KrylovReport& verdict) {
  const krylov::Result& result = verdict.result;
  const std::size_t boundaries = verdict.request.preconditioner.blocks.size();
  object["status"] = krylov::name(result.status);
  object["message"] = result.outcome.ok() ? result.message : krylov_reason(options, verdict);
  object["method"] = method_of(verdict.request);
  object["preconditioner"] = krylov::name(verdict.request.preconditioner.kind);
  object["blocks"] = boundaries > 0 ? Json(boundaries - 1) : Json(nullptr);
  if (verdict.request.preconditioner.kind == krylov::Recipe::Kind::chebyshev) {
    object["degree"] = verdict.request.preconditioner.degree;
  }
  object.update(numbers_of(result));
  if (verdict.columns.size() > 1) {
    object["worst_column"] = verdict.worst;
    object["columns"] = Json::array();
    for (const krylov::Result& column : verdict.columns) {
      Json one = {{"status", krylov::name(column.status)}, {"message", column.message}};
      one.update(numbers_of(column));
      object["columns"].push_back(one);
    }
  }
  object["attempts"] = Json::array();
  for (const krylov::Attempt& attempt : result.attempts) {
    object["attempts"].push_back({{"method", krylov::name(attempt.method)},
                                  {"status", krylov::name(attempt.status)},
                                  {"iterations", attempt.iterations},
                                  {"matvecs", attempt.matvecs},
                                  {"restarts", attempt.restarts},
                                  {"residual", number(attempt.residual)},
                                  {"message", attempt.message}});
  }
  if (verdict.replay) {
    const Replay& replay = *verdict.replay;
    object["replay"] = {
        {"folder", replay.folder},
        {"version", replay.version},
        {"backend", replay.request.backend},
        {"devices", replay.request.ranks},
        {"method", method_of(replay.request)},
        {"preconditioner", krylov::name(replay.request.preconditioner.kind)},
        {"status", krylov::name(replay.result.status)},
        {"iterations", replay.result.iterations},
        {"reproduced", replay.reproduced ? Json(*replay.reproduced) : Json(nullptr)},
        {"differences", replay.differences}};
  }
  object["guess"] = verdict.request.options.use_guess ? text(options.krylov.guess) : Json(nullptr);
  object["best"] = text(verdict.best);
  object["log"] = text(verdict.log);
  object["capture"] = text(verdict.capture);
  object["trace"] = text(verdict.trace);
}

Json entry(std::string_view in, const Location& location) {
  return {{"in", in}, {"row", location.row.value()}, {"column", location.column.value()}};
}

void fill_location(Json& object, const Report& report, const Location& location) {
  switch (location.what) {
    case Located::pivot:
      object["pivot"] = {{"row", location.row.value()}, {"rows_before", location.rows_before}};
      return;
    case Located::matrix_entry:
      object["entry"] = entry(report.is_about_second_matrix ? "B" : "A", location);
      return;
    case Located::right_hand_side_entry:
      object["entry"] = entry(
          report.krylov && report.krylov->result.status == krylov::Status::nonfinite_guess ? "x0"
                                                                                           : "b",
          location);
      return;
  }
}

}  // namespace

std::string json_report(const Options& options, const Report& report) {
  const Outcome& outcome = report.outcome;
  Json object =
      blank(options, name(outcome.status), outcome.ok() ? "" : reason_of(options, report));
  fill_problem(object, report);
  fill_cost(object, report);
  fill_certificate(object, report);
  if (report.krylov) {
    fill_verdict(object, options, *report.krylov);
  }
  if (outcome.location) {
    fill_location(object, report, *outcome.location);
  }
  if (class_of(outcome.status) == StatusClass::answered) {
    for (const Result& result : report.results) {
      object[result.key] = result.path;
    }
    object["trace"] = text(options.trace);
  }
  if (report.trace) {
    object["trace_summary"] = runtime::to_json(*report.trace);
  }
  return serialise(object);
}

std::string json_failure(const Options& options, std::string_view status,
                         const std::string& message) {
  return serialise(blank(options, status, message));
}

}  // namespace shardsolve::cli
