// The inverse of A, from a file to a file.

#include "input.hpp"
#include "io/npy_literal.hpp"
#include "jobs.hpp"
#include "output.hpp"

#include <shardsolve/cholesky.hpp>

#include <fmt/format.h>

#include <complex>
#include <utility>

namespace shardsolve::cli {
namespace {

template <Scalar T>
Outcome invert(Workplace& workplace, const ShardedMatrix<T>& a) {
  CholeskyFactor<T> factor = cholesky_factor(workplace.mesh(), a, workplace.run_options());
  if (!factor.outcome.ok()) {
    return factor.outcome;
  }
  const Outcome factored = factor.outcome;
  Outcome outcome = cholesky_inverse(workplace.mesh(), std::move(factor), workplace.run_options());
  outcome.seconds += factored.seconds;
  outcome.flops += factored.flops;
  return outcome;
}

template <Scalar T>
void invert_file(Workplace& workplace, const Input& a, const SlabLayout& layout, Report& report) {
  const auto result = open_result(workplace, a.dtype(), a.shape(), a.fortran_order());
  const auto trace = open_trace(workplace);
  const auto matrix = load_matrix<T>(workplace, a, layout);
  report.read_seconds = matrix.seconds;

  // the inverse replaces A
  report.outcome = invert(workplace, matrix.data);
  if (report.outcome.ok()) {
    report.write_seconds = write_hermitian(workplace, matrix.data, result);
    report.write_seconds += commit(workplace, result, trace);
  } else {
    report.outcome.entry = place_in_file(report.outcome, a);
  }
}

}  // namespace

Report inverse_job(Workplace& workplace) {
  const Input a = workplace.everywhere([&options = workplace.options()] {
    const Input matrix = open_matrix(options.matrix);
    require_distinct_files(options);
    return matrix;
  });
  require_same_files(workplace, {a});
  const TileChoice tile = workplace.tile_for(a.columns, a.dtype());
  const SlabLayout layout = workplace.layout(a.columns, tile);
  workplace.require_memory(
      {plan_cholesky_factor(layout, a.dtype()), plan_cholesky_inverse(layout, a.dtype())},
      fmt::format("inverting '{}'", a.path()));

  Report report{.n = a.columns,
                .dtype = a.dtype(),
                .tile = tile,
                .output_shape = io::format_shape(a.shape())};
  with_dtype(a.dtype(), [&]<class T>(T) { invert_file<T>(workplace, a, layout, report); });
  return report;
}

}  // namespace shardsolve::cli
