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

/// What the job has to say about a figure.
std::string remark(const Report& report, std::string_view figure) {
  std::string text;
  for (const auto& [name, words] : report.words.remarks) {
    text += name == figure ? words : "";
  }
  return text;
}

std::string backward_error_line(const Report& report) {
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
  return line("backward error", fmt::format("{:.1e}", error),
              meaning + remark(report, "backward_error"));
}

std::string digits_to_trust(double relative_error) {
  if (!(relative_error < 0.1)) {
    return "no digit of it is certain";
  }
  const auto digits = static_cast<int>(std::floor(-std::log10(relative_error)));
  return fmt::format("about {} to trust", plural(digits, "digit"));
}

std::string rcond_line(const Report& report) {
  if (!report.outcome.rcond) {
    return "";
  }
  return line("rcond", fmt::format("{:.1e}", *report.outcome.rcond),
              "1 / condition number" + remark(report, "rcond"));
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
    text += fmt::format("  {:<15} '{}', {} of shape {}\n", report.words.result, options.output,
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
  return report.words.headline + backward_error_line(report) + rcond_line(report) +
         time_line(options, report) + file_lines(options, report);
}

std::string numerical_failure(const Options& options, const Report& report) {
  const Outcome& outcome = report.outcome;
  const std::string& path =
      outcome.entry_in_right_hand_side ? options.right_hand_sides : options.matrix;
  return fmt::format("'{}': {}", path, outcome.message());
}

std::string matrix_of(const Options& options, const Report& report) {
  return fmt::format("'{}': {} x {}, {}", options.matrix, report.n, report.n, name(report.dtype));
}

std::string remark_on_error(std::string_view what, std::optional<double> bound) {
  if (!bound) {
    return "";
  }
  return (std::isfinite(*bound)
              ? fmt::format("; relative error of {} about {:.1e} or less: ", what, *bound)
              : fmt::format("; nothing bounds the relative error of {}: ", what)) +
         digits_to_trust(*bound);
}

std::optional<double> bound_of_error(const Outcome& outcome, Dtype dtype) {
  if (!outcome.backward_error || !outcome.rcond) {
    return std::nullopt;
  }
  // x solves (A + dA) x = b + db with |dA| <= eta |A| and |db| <= eta |b|, so its relative error is
  // at most 2 eta kappa / (1 - eta kappa); see Higham, Accuracy and Stability, theorem 7.2. The
  // residual that the backward error is made of is rounded itself: one roundoff more.
  const double eta = *outcome.backward_error + unit_roundoff_of(dtype);
  const double eta_kappa = eta / *outcome.rcond;
  return eta_kappa < 1.0 ? 2.0 * eta_kappa / (1.0 - eta_kappa)
                         : std::numeric_limits<double>::infinity();
}

double unit_roundoff_of(Dtype dtype) {
  const bool is_single = dtype == Dtype::float32 || dtype == Dtype::complex64;
  return is_single ? unit_roundoff<float> : unit_roundoff<double>;
}

}  // namespace shardsolve::cli
