#include "report.hpp"

#include "report_lines.hpp"
#include "trace_lines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace shardsolve::cli {
namespace {

constexpr double honest_backward_error = 10.0;  // in units of u: the gate of the project's tests

std::string_view kind_of_device(const Options& options) {
  if (options.mpi) {
    return "MPI rank";
  }
  return options.backend == Backend::cuda ? "GPU" : "CPU device";
}

std::string headline(const Options& options, const Report& report) {
  const std::string matrix =
      fmt::format("'{}': {} x {}, {}", options.matrix, report.n, report.n, name(report.dtype));
  switch (options.command) {
    case Command::solve:
      return fmt::format("Solved A x = b for {}\n  A {}\n  b '{}'\n",
                         plural(report.right_hand_sides.value_or(0), "right-hand side"), matrix,
                         options.right_hand_sides);
    case Command::inverse:
      return fmt::format("Inverted A\n  A {}\n", matrix);
    case Command::logdet:
      return fmt::format("log(det(A)) = {:.17g}\n  A {}; its determinant is positive\n",
                         report.log_determinant.value_or(0.0), matrix);
    case Command::doctor:  // have reports of their own
    case Command::tune:
    case Command::bench:
      break;
  }
  return "";
}

std::string backward_error_line(const Options& options, const Report& report) {
  if (!report.outcome.backward_error) {
    return "";
  }
  const double u = unit_roundoff_of(report.dtype);
  const double error = *report.outcome.backward_error;
  const double units = error / u;
  std::string meaning = fmt::format("= {:.2g} u; ", units);
  meaning += units < honest_backward_error
                 ? fmt::format("rounding alone gives a small multiple of u = {:.1e}", u)
                 : fmt::format("more than the small multiple of u = {:.1e} of rounding alone", u);
  if (options.command == Command::inverse) {
    meaning += ", on a random vector";
  }
  return line("backward error", fmt::format("{:.1e}", error), meaning);
}

std::string digits_to_trust(double relative_error) {
  if (!(relative_error < 0.1)) {
    return "no digit of it is certain";
  }
  const auto digits = static_cast<int>(std::floor(-std::log10(relative_error)));
  return fmt::format("about {} to trust", plural(digits, "digit"));
}

std::string rcond_line(const Options& options, const Report& report) {
  if (!report.outcome.rcond) {
    return "";
  }
  const double rcond = *report.outcome.rcond;
  std::string meaning = "1 / condition number";
  if (options.command == Command::logdet) {
    meaning +=
        fmt::format("; error of log(det(A)) about {:.1e} or less", report.log_determinant_error);
  } else if (const auto error = error_estimate(report)) {
    const char* what = options.command == Command::solve ? "x" : "the inverse";
    meaning += std::isfinite(*error)
                   ? fmt::format("; relative error of {} about {:.1e} or less: ", what, *error)
                   : fmt::format("; nothing bounds the relative error of {}: ", what);
    meaning += digits_to_trust(*error);
  }
  return line("rcond", fmt::format("{:.1e}", rcond), meaning);
}

std::string time_line(const Options& options, const Report& report) {
  const Outcome& outcome = report.outcome;
  constexpr double giga = 1e9;
  std::string meaning =
      fmt::format("{:.1f} GFLOP/s on {}, tile {}; reading {}",
                  outcome.seconds > 0.0 ? outcome.flops / outcome.seconds / giga : 0.0,
                  plural(options.devices, kind_of_device(options)), tile_text(report.tile),
                  precise_duration(report.read_seconds));
  if (!options.output.empty()) {
    meaning += fmt::format(", writing {}", precise_duration(report.write_seconds));
  }
  return line("time", precise_duration(outcome.seconds), meaning);
}

std::string file_lines(const Options& options, const Report& report) {
  std::string text;
  if (!options.output.empty()) {
    text += fmt::format("  {:<15} '{}', {} of shape {}\n",
                        options.command == Command::solve ? "x" : "inverse", options.output,
                        name(report.dtype), report.output_shape);
  }
  if (!options.trace.empty()) {
    text +=
        fmt::format("  {:<15} '{}', open it at https://ui.perfetto.dev\n", "trace", options.trace);
  }
  return report.trace ? text + trace_lines(*report.trace) : text;
}

}  // namespace

std::string text_report(const Options& options, const Report& report) {
  return headline(options, report) + backward_error_line(options, report) +
         rcond_line(options, report) + time_line(options, report) + file_lines(options, report);
}

std::string numerical_failure(const Options& options, const Report& report) {
  const Outcome& outcome = report.outcome;
  const std::string& path =
      outcome.entry_in_right_hand_side ? options.right_hand_sides : options.matrix;
  return fmt::format("'{}': {}", path, outcome.message());
}

std::optional<double> error_estimate(const Report& report) {
  const Outcome& outcome = report.outcome;
  if (report.log_determinant) {
    return report.log_determinant_error;
  }
  if (!outcome.backward_error || !outcome.rcond) {
    return std::nullopt;
  }
  // x solves (A + dA) x = b + db with |dA| <= eta |A| and |db| <= eta |b|, so its relative error is
  // at most 2 eta kappa / (1 - eta kappa); see Higham, Accuracy and Stability, theorem 7.2. The
  // residual that the backward error is made of is rounded itself: one roundoff more.
  const double eta = *outcome.backward_error + unit_roundoff_of(report.dtype);
  const double eta_kappa = eta / *outcome.rcond;
  return eta_kappa < 1.0 ? 2.0 * eta_kappa / (1.0 - eta_kappa)
                         : std::numeric_limits<double>::infinity();
}

double unit_roundoff_of(Dtype dtype) {
  const bool is_single = dtype == Dtype::float32 || dtype == Dtype::complex64;
  return is_single ? unit_roundoff<float> : unit_roundoff<double>;
}

}  // namespace shardsolve::cli
