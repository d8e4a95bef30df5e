#include "report.hpp"

#include "io/npy_literal.hpp"
#include "report_lines.hpp"
#include "trace_lines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace shardsolve::cli {
namespace {

std::string_view kind_of_device(const Options& options) {
  if (options.mpi) {
    return "MPI rank";
  }
  return options.backend == Backend::cuda ? "GPU" : "CPU device";
}

/// What an error of this size comes to beside that of rounding.
std::string in_units_of_rounding(const Figure& figure, double value, Dtype dtype) {
  const double u = unit_roundoff_of(dtype);
  const std::string units = fmt::format("= {}; ", roundoffs(value / u));
  return units +
         (value / u < figure.rounding
              ? fmt::format("rounding alone gives a small multiple of u = {:.1e}", u)
              : fmt::format("more than the small multiple of u = {:.1e} of rounding alone", u));
}

std::string figure_line(const Figure& figure, const Report& report) {
  const std::optional<double> value = report.outcome.*figure.value;
  if (!value) {
    return "";
  }
  std::string meaning = figure.rounding > 0.0 ? in_units_of_rounding(figure, *value, report.dtype)
                                              : std::string(figure.meaning);
  for (const auto& [of, remark] : report.words.remarks) {
    meaning += of == figure.value ? remark : "";
  }
  return line(figure.label, fmt::format(fmt::runtime(figure.format), *value), meaning);
}

std::string figure_lines(const Report& report) {
  std::string text;
  for (const Figure& figure : Outcome::figures()) {
    text += figure_line(figure, report);
  }
  return text;
}

std::string digits_to_trust(double relative_error) {
  if (!(relative_error < 0.1)) {
    return "no digit of it is certain";
  }
  const auto digits = static_cast<int>(std::floor(-std::log10(relative_error)));
  return fmt::format("about {} to trust", plural(digits, "digit"));
}

std::string time_line(const Options& options, const Report& report) {
  const Outcome& outcome = report.outcome;
  constexpr double giga = 1e9;
  std::string meaning =
      fmt::format("{:.1f} GFLOP/s on {}{}; reading {}",
                  outcome.seconds > 0.0 ? outcome.flops / outcome.seconds / giga : 0.0,
                  plural(options.devices, kind_of_device(options)),
                  report.tile ? ", tile " + tile_text(*report.tile) : "",
                  precise_duration(report.read_seconds));
  if (!report.results.empty()) {
    meaning += fmt::format(", writing {}", precise_duration(report.write_seconds));
  }
  return line("time", precise_duration(outcome.seconds), meaning);
}

std::string file_lines(const Options& options, const Report& report) {
  std::string text;
  for (const Result& result : report.results) {
    text += fmt::format("  {:<15} '{}', {} of shape {}\n", result.name, result.path,
                        name(result.dtype), io::format_shape(result.shape.value()));
  }
  if (report.krylov) {
    text += krylov_file_lines(*report.krylov);
  }
  if (!options.trace.empty() && (!report.krylov || !report.krylov->trace.empty())) {
    text +=
        fmt::format("  {:<15} '{}', open it at https://ui.perfetto.dev\n", "trace", options.trace);
  }
  return report.trace ? text + trace_lines(*report.trace) : text;
}

}  // namespace

std::string text_report(const Options& options, const Report& report) {
  return report.words.headline + (report.krylov ? krylov_lines(*report.krylov) : "") +
         figure_lines(report) + time_line(options, report) + file_lines(options, report);
}

std::string reason_of(const Options& options, const Report& report) {
  if (report.krylov) {
    return krylov_reason(options, *report.krylov);
  }
  const std::optional<Location>& location = report.outcome.location;
  const bool of_b = location && location->what == Located::right_hand_side_entry;
  return fmt::format("'{}': {}",
                     of_b                            ? options.right_hand_sides
                     : report.is_about_second_matrix ? options.second_matrix
                                                     : options.matrix,
                     report.outcome.message());
}

std::string matrix_of(const Options& options, const Report& report) {
  return fmt::format("'{}': {} x {}, {}", options.matrix, report.rows.value_or(report.n), report.n,
                     name(report.dtype));
}

std::string rank_of(const Report& report) {
  const std::int64_t rank = report.rank.value();
  const std::int64_t most = std::min(report.n, report.rows.value_or(report.n));
  return fmt::format("{} ({})", rank, rank == most ? "full" : fmt::format("of {}", most));
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
  if (outcome.forward_error) {
    return outcome.forward_error;
  }
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

Dtype real_dtype(Dtype dtype) {
  const bool is_single = dtype == Dtype::float32 || dtype == Dtype::complex64;
  return is_single ? Dtype::float32 : Dtype::float64;
}

double unit_roundoff_of(Dtype dtype) {
  return real_dtype(dtype) == Dtype::float32 ? unit_roundoff<float> : unit_roundoff<double>;
}

}  // namespace shardsolve::cli
