// log(det(A)) of a file.

#include "file_job.hpp"
#include "shared_options.hpp"
#include "verb.hpp"

#include <shardsolve/cholesky.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace shardsolve::cli {
namespace {

/// An estimate of the error of the log-determinant of a factored matrix. The factorisation adds
/// n u / rcond; the compensated sum adds the rounding of n logarithms, whose magnitudes are at most
/// that of log ||A|| or of log(||A|| rcond).
template <Scalar T>
double error_of_log_determinant(const CholeskyFactor<T>& factor, double rcond) {
  const auto n = static_cast<double>(factor.layout().size());
  // Subnormal numbers have fewer digits.
  const double spacing = std::numeric_limits<RealOf<T>>::denorm_min();
  const double u = std::max(unit_roundoff<T>, ratio(Scaled{spacing, 0}, factor.norm));
  const Scaled norm = factor.norm.normalised();
  const double log_norm = std::log(norm.fraction) + norm.exponent * std::numbers::ln2;
  const double largest = std::max(std::abs(log_norm), std::abs(log_norm + std::log(rcond)));
  return n > 0 ? n * (u / rcond + 2.0 * unit_roundoff<double> * largest) : 0.0;
}

struct LogdetJob {
  static constexpr bool has_right_hand_sides = false;
  static constexpr bool has_tile = true;
  static constexpr std::string_view doing = "factoring";

  static std::vector<Result> results(const Options&, const Inputs&) { return {}; }

  static std::vector<Plan> plans(const Workplace&, const SlabLayout& layout, const Inputs& inputs) {
    const Dtype dtype = inputs.a.dtype();
    return {plan_cholesky_factor(layout, dtype), plan_cholesky_solve(layout, dtype, 1)};
  }

  template <Scalar T>
  static void compute(Workplace& workplace, const Operands<T>& operands, Report& report) {
    const CholeskyFactor<T> factor =
        cholesky_factor(workplace.mesh(), operands.a, workplace.run_options());
    report.outcome = factor.outcome;
    if (factor.outcome.ok()) {
      const double rcond = condition_estimate(workplace.mesh(), factor, workplace.run_options());
      report.outcome.rcond = rcond;
      report.log_determinant = log_determinant(factor);
      report.error_estimate = error_of_log_determinant(factor, rcond);
    }
  }

  template <Scalar T>
  static double write(Workplace&, const Operands<T>&, const Report&, const ArrayFiles&) {
    return 0.0;  // the report has it
  }

  static std::string remark_on_log_determinant(const Report& report) {
    const double error = report.error_estimate.value_or(0.0);
    if (report.outcome.rcond < unit_roundoff_of(report.dtype)) {
      return "; nothing bounds the error of log(det(A)): A is singular to working precision, "
             "unless "
             "its units make it seem so";
    }
    return fmt::format("; error of log(det(A)) about {:.1e} or less", error);
  }

  static Words words(const Options& options, const Report& report) {
    return {
        .headline = fmt::format("log(det(A)) = {:.17g}\n  A {}; its determinant is positive\n",
                                report.log_determinant.value_or(0.0), matrix_of(options, report)),
        .remarks = {{&Outcome::rcond, remark_on_log_determinant(report)}}};
  }
};

void add_logdet_options(CLI::App& command, TypedOptions& typed, Options& options) {
  add_input(command, "A", options.matrix, "the matrix, an .npy file");
  command.add_flag("--force", options.force, "replace a trace file that exists");
  add_job_options(command, options, typed);
}

void take_logdet_options(const TypedOptions& typed, Options& options) {
  take_job_options(typed, options, {Assume::positive_definite});
}

constexpr std::string_view logdet_notes =
    R"(A: Hermitian positive definite (--assume pos, the default), shape (n, n), both triangles given.
The determinant itself is positive, and often beyond the range of floating-point numbers.)";

}  // namespace

constinit const Verb logdet_verb = complete({.name = "logdet",
                                             .about = "print log(det(A))",
                                             .usage = "shardsolve logdet A.npy [options]",
                                             .notes = logdet_notes,
                                             .examples = R"(shardsolve logdet A.npy --json
ld=$(shardsolve logdet A.npy --quiet)   # the number alone)",
                                             .add_options = &add_logdet_options,
                                             .take_options = &take_logdet_options,
                                             .run = &run_file_job<LogdetJob>});

}  // namespace shardsolve::cli
