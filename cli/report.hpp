/// The answer as the user sees it: text or JSON.
#pragma once

#include "options.hpp"
#include "tile_choice.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/outcome.hpp>
#include <shardsolve/trace_summary.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shardsolve::cli {

/// What a job found. Only `outcome` and what describes the problem are set unless it is ok.
struct Report {
  std::int64_t n = 0;
  Dtype dtype = Dtype::float64;
  std::optional<std::int64_t> right_hand_sides;
  TileChoice tile;
  Outcome outcome;
  std::optional<double> log_determinant;
  double log_determinant_error = 0.0;  ///< about, or less
  std::string output_shape;            ///< "(1797, 10)"
  double read_seconds = 0.0;
  double write_seconds = 0.0;
  std::optional<TraceSummary> trace;
};

/// For people. The certificate says what its numbers mean.
std::string text_report(const Options& options, const Report& report);

/// One JSON object; what does not apply is null.
std::string json_report(const Options& options, const Report& report);

/// The same keys for a job that ended with an Error; `status` is its kind.
std::string json_failure(const Options& options, std::string_view status,
                         const std::string& message);

/// The one-line reason why there is no answer; the file that it is about is named.
std::string numerical_failure(const Options& options, const Report& report);

/// A bound of the relative error of the solution, in the infinity norm, by the backward error
/// (and one rounding) and rcond; about, as the condition number is estimated from below. Of a
/// log-determinant the error itself. Nothing if that is not known; infinite if nothing bounds it.
std::optional<double> error_estimate(const Report& report);

/// Unit roundoff of a dtype.
double unit_roundoff_of(Dtype dtype);

}  // namespace shardsolve::cli
