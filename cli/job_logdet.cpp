// log(det(A)) of a file.

#include "input.hpp"
#include "jobs.hpp"
#include "output.hpp"

#include <shardsolve/cholesky.hpp>

#include <fmt/format.h>

#include <complex>

namespace shardsolve::cli {
namespace {

template <Scalar T>
void find_log_determinant(const Context& context, Workplace& workplace, const Input& a,
                          const SlabLayout& layout, Report& report) {
  const auto trace = open_trace(context.options);
  const auto matrix = load_matrix<T>(workplace, a, layout);
  report.read_seconds = matrix.seconds;

  const CholeskyFactor<T> factor =
      cholesky_factor(workplace.mesh(), matrix.data, workplace.run_options());
  report.outcome = factor.outcome;
  if (report.outcome.ok()) {
    report.log_determinant = log_determinant(factor);
    report.outcome.rcond = condition_estimate(workplace.mesh(), factor, workplace.run_options());
    commit(workplace, nullptr, trace.get());
  } else {
    report.outcome.entry = place_in_file(report.outcome, a);
  }
}

}  // namespace

Report logdet_job(const Context& context) {
  const Input a = open_matrix(context.options.matrix);
  require_distinct_files(context.options);
  Workplace workplace(context);
  const SlabLayout layout = workplace.layout_for(context.options, a.columns, a.dtype());
  workplace.require_memory(
      {plan_cholesky_factor(layout, a.dtype()), plan_cholesky_solve(layout, a.dtype(), 1)},
      fmt::format("factoring '{}'", a.path()));

  Report report{.n = a.columns, .dtype = a.dtype(), .tile = layout.tile()};
  with_dtype(a.dtype(),
             [&]<class T>(T) { find_log_determinant<T>(context, workplace, a, layout, report); });
  return report;
}

}  // namespace shardsolve::cli
