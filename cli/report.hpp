/// The answer as the user sees it: text or JSON.
#pragma once

#include "krylov_report.hpp"
#include "options.hpp"
#include "output.hpp"
#include "tile_choice.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/outcome.hpp>
#include <shardsolve/trace_summary.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsolve::cli {

/// What the text report says of one job only.
struct Words {
  std::string headline;  ///< the answer, and what it was made from: whole lines
  /// What the job has to add to the line of a figure.
  std::vector<std::pair<std::optional<double> Outcome::*, std::string>> remarks;
};

/// What a job found. Only `outcome` and what describes the problem are set unless it is ok.
struct Report {
  std::int64_t n = 0;                ///< columns of A
  std::optional<std::int64_t> rows;  ///< of A, if it need not be square
  std::optional<std::int64_t> rank;  ///< of A, if it was found
  Dtype dtype = Dtype::float64;
  std::optional<std::int64_t> right_hand_sides;
  std::optional<TileChoice> tile;  ///< of routines that have one
  std::vector<Result> results;     ///< what goes to files; of each at the end the shape is known
  Outcome outcome;
  bool is_about_second_matrix = false;  ///< the outcome, not about A
  std::optional<double> log_determinant;
  std::optional<std::vector<double>> eigenvalues;      ///< ascending
  std::optional<std::vector<double>> singular_values;  ///< descending
  /// The largest singular value over the smallest: infinite or NaN if that is 0 beside it.
  std::optional<double> condition;
  /// A bound of the relative error of the solution, in the infinity norm, of the error of the
  /// log-determinant, of that of the eigenvalues over ||A||_1, or of that of the singular values
  /// over ||A||_F; infinite if nothing bounds it.
  std::optional<double> error_estimate;
  std::optional<KrylovReport> krylov;  ///< of a sparse system
  double read_seconds = 0.0;
  double write_seconds = 0.0;
  std::optional<TraceSummary> trace;
  Words words;
};

/// For people. The certificate says what its numbers mean.
std::string text_report(const Options& options, const Report& report);

/// One JSON object; what does not apply is null.
std::string json_report(const Options& options, const Report& report);

/// The same keys for a job that ended with an Error; `status` is its kind.
std::string json_failure(const Options& options, std::string_view status,
                         const std::string& message);

/// The one-line reason why there is no answer; the file that it is about is named.
std::string reason_of(const Options& options, const Report& report);

/// The matrix, as a headline names it: "'A.npy': 1797 x 1797, float64".
std::string matrix_of(const Options& options, const Report& report);

/// The rank that was found: "4 (full)" or "2 (of 3)".
std::string rank_of(const Report& report);

/// A bound of the relative error of what an outcome is about, in the infinity norm, by the backward
/// error (and one rounding) and rcond; about, as the condition number is estimated from below.
/// Nothing if either is not known; infinite if nothing bounds it.
std::optional<double> bound_of_error(const Outcome& outcome, Dtype dtype);

/// The bound in words, and the digits of `what` to trust; empty if it is not known.
std::string remark_on_error(std::string_view what, std::optional<double> bound);

/// The dtype of |x|: of eigenvalues and singular values.
Dtype real_dtype(Dtype dtype);

/// Unit roundoff of a dtype.
double unit_roundoff_of(Dtype dtype);

}  // namespace shardsolve::cli
