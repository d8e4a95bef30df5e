// log(det(A)) of a file.

#include "input.hpp"
#include "jobs.hpp"
#include "output.hpp"

#include <shardsolve/cholesky.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numbers>

namespace shardsolve::cli {
namespace {

/// About the error of the log-determinant of a factored matrix: n u / rcond by the factorisation,
/// and by a compensated sum of n logarithms that are at most log ||A|| and log(||A|| rcond).
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

template <Scalar T>
void find_log_determinant(Workplace& workplace, const Input& a, const SlabLayout& layout,
                          Report& report) {
  const auto trace = open_trace(workplace);
  const auto matrix = load_matrix<T>(workplace, a, layout);
  report.read_seconds = matrix.seconds;

  const CholeskyFactor<T> factor =
      cholesky_factor(workplace.mesh(), matrix.data, workplace.run_options());
  report.outcome = factor.outcome;
  if (report.outcome.ok()) {
    report.log_determinant = log_determinant(factor);
    const double rcond = condition_estimate(workplace.mesh(), factor, workplace.run_options());
    report.outcome.rcond = rcond;
    report.log_determinant_error = error_of_log_determinant(factor, rcond);
    commit(workplace, nullptr, trace);
  } else {
    report.outcome.entry = place_in_file(report.outcome, a);
  }
}

}  // namespace

Report logdet_job(Workplace& workplace) {
  const Input a = workplace.everywhere([&options = workplace.options()] {
    const Input matrix = open_matrix(options.matrix);
    require_distinct_files(options);
    return matrix;
  });
  require_same_files(workplace, {a});
  const TileChoice tile = workplace.tile_for(a.columns, a.dtype());
  const SlabLayout layout = workplace.layout(a.columns, tile);
  workplace.require_memory(
      {plan_cholesky_factor(layout, a.dtype()), plan_cholesky_solve(layout, a.dtype(), 1)},
      fmt::format("factoring '{}'", a.path()));

  Report report{.n = a.columns, .dtype = a.dtype(), .tile = tile};
  with_dtype(a.dtype(), [&]<class T>(T) { find_log_determinant<T>(workplace, a, layout, report); });
  return report;
}

}  // namespace shardsolve::cli
