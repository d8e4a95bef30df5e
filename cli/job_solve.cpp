// A x = b, from two files to one.

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
void solve_files(Workplace& workplace, const Input& a, const Input& b, const SlabLayout& layout,
                 Report& report) {
  // Claimed before the work, which may be long.
  const auto result = open_result(workplace, b.dtype(), b.shape(), b.fortran_order());
  const auto trace = open_trace(workplace);
  const auto matrix = load_matrix<T>(workplace, a, layout);
  const auto sides = load_right_hand_sides<T>(workplace, b, layout);
  report.read_seconds = matrix.seconds + sides.seconds;

  // x replaces b, the factor replaces A
  report.outcome = solve(workplace.mesh(), matrix.data, sides.data, workplace.run_options(),
                         workplace.options().rcond ? Rcond::estimated : Rcond::left_out);
  if (report.outcome.ok()) {
    report.write_seconds = write_solution(workplace, sides.data, result);
    report.write_seconds += commit(workplace, result, trace);
  } else {
    report.outcome.entry = place_in_file(report.outcome, a);
  }
}

}  // namespace

Report solve_job(Workplace& workplace) {
  const auto [a, b] = workplace.everywhere([&options = workplace.options()] {
    const Input matrix = open_matrix(options.matrix);
    const Input sides = open_right_hand_sides(options.right_hand_sides, matrix);
    require_distinct_files(options);
    return std::pair(matrix, sides);
  });
  require_same_files(workplace, {a, b});
  const TileChoice tile = workplace.tile_for(a.columns, a.dtype());
  const SlabLayout layout = workplace.layout(a.columns, tile);
  workplace.require_memory(
      {plan_cholesky_factor(layout, a.dtype()), plan_cholesky_solve(layout, a.dtype(), b.columns)},
      fmt::format("solving with '{}'", a.path()));

  Report report{.n = a.columns,
                .dtype = a.dtype(),
                .right_hand_sides = b.columns,
                .tile = tile,
                .output_shape = io::format_shape(b.shape())};
  with_dtype(a.dtype(),
             [&, &a = a, &b = b]<class T>(T) { solve_files<T>(workplace, a, b, layout, report); });
  return report;
}

}  // namespace shardsolve::cli
