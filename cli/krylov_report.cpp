#include "krylov_report.hpp"

#include "krylov_files/json.hpp"
#include "report_lines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace shardsolve::cli {
namespace {

/// The file that a status is about.
const std::string& subject_of(const Options& options, krylov::Status status) {
  switch (status) {
    case krylov::Status::nonfinite_rhs:
      return options.right_hand_sides;
    case krylov::Status::nonfinite_guess:
      return options.krylov.guess;
    default:
      return options.matrix;
  }
}

std::string error_line(const krylov::Result& result) {
  if (!std::isfinite(result.error_estimate)) {
    return "";
  }
  return line(
      "error estimate", fmt::format("{:.1e}", result.error_estimate),
      fmt::format("of ||x||, about, in the 2-norm{}",
                  result.condition > 0.0
                      ? fmt::format("; the condition of A is {:.1e} or more", result.condition)
                      : ""));
}

std::string margin_line(const krylov::Result& result) {
  if (!std::isfinite(result.margin)) {
    return "";
  }
  return line("margin", fmt::format("{:.2g}", result.margin),
              result.is_marginal
                  ? "marginal: by so small a factor was it not another verdict, and with other "
                    "rounding it may be"
                  : "the factor by which it was not another verdict; from 2 on it is safe");
}

/// That there are several columns of b, and which one the lines below are about.
std::string columns_line(const KrylovReport& report) {
  if (report.columns.size() < 2) {
    return "";
  }
  std::int64_t least = report.result.iterations;
  std::int64_t most = least;
  for (const krylov::Result& one : report.columns) {
    least = std::min(least, one.iterations);
    most = std::max(most, one.iterations);
  }
  return line("columns", fmt::format("{}", report.columns.size()),
              fmt::format("solved one by one, in {} to {} iterations; below: the worst, column {} "
                          "(0-based)",
                          least, most, report.worst));
}

}  // namespace

std::string method_of(const krylov::Request& request) {
  return krylov::files::method_text(request);
}

std::string krylov_headline(const Options& options, const KrylovReport& report) {
  const krylov::Request& request = report.request;
  const bool has_m = request.preconditioner.kind != krylov::Recipe::Kind::none;
  return fmt::format(
      "Solved A x = b by {}{}\n  A '{}': {} x {}, {} entries, {}\n  b '{}'\n", method_of(request),
      has_m ? " with " + krylov::files::recipe_text(request.preconditioner) : "", options.matrix,
      request.n, request.n, request.entries, name(request.dtype), options.right_hand_sides);
}

std::string krylov_lines(const KrylovReport& report) {
  const krylov::Result& result = report.result;
  std::string text = columns_line(report);
  for (const krylov::Attempt& attempt : result.attempts) {
    text += line("tried", krylov::name(attempt.method), attempt.message);
  }
  text += fmt::format("  {:<15} {}\n", "status", krylov::name(result.status));
  text += line("iterations", fmt::format("{}", result.iterations),
               fmt::format("of {} at most; {} with A, {}", report.request.options.max_iterations,
                           plural(result.matvecs, "product"), plural(result.restarts, "restart")));
  text += line(
      "residual", fmt::format("{:.1e}", result.residual),
      fmt::format("= ||b - A x|| / ||b||, recomputed; {:.1e} was asked for", result.tolerance));
  return text + error_line(result) + margin_line(result);
}

std::string krylov_file_lines(const KrylovReport& report) {
  return report.log.empty() ? ""
                            : fmt::format("  {:<15} '{}', {}\n", "log", report.log,
                                          plural(std::ssize(report.result.log), "record"));
}

std::string krylov_reason(const Options& options, const KrylovReport& report) {
  const std::string column =
      report.columns.size() < 2 ? "" : fmt::format("column {} of b (0-based): ", report.worst);
  std::string text = fmt::format("'{}': {}{}", subject_of(options, report.result.status), column,
                                 report.result.message);
  const auto add = [&](const std::string& sentence) { text += " " + sentence; };
  if (!report.best.empty()) {
    add(fmt::format("'{}' has the best iterate.", report.best));
  }
  if (!report.log.empty()) {
    add(fmt::format("'{}' has the log.", report.log));
  }
  if (!report.trace.empty()) {
    add(fmt::format("'{}' has the trace.", report.trace));
  }
  if (!report.capture.empty()) {
    add(fmt::format("To see it again: shardsolve replay '{}'.", report.capture));
  }
  for (const std::string& reason : report.lost) {
    add(fmt::format("Not written: {}.", reason));
  }
  return text;
}

}  // namespace shardsolve::cli
