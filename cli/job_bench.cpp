// How fast these devices are, on a matrix that is made in memory.

#include "bench/cholesky.hpp"
#include "bench/cholesky_report.hpp"
#include "exit_code.hpp"
#include "input.hpp"
#include "jobs.hpp"
#include "terminal.hpp"
#include "version.hpp"

#include <shardsolve/plan.hpp>

#include <fmt/format.h>

namespace shardsolve::cli {
namespace {

std::int64_t size_of(const Options& options) {
  if (!options.sizes.empty()) {
    return options.sizes.front();
  }
  return options.backend == Backend::cuda ? 16384 : 4096;
}

/// The matrix twice, and whatever call needs most.
void require_memory(Workplace& workplace, const SlabLayout& layout, Dtype dtype) {
  Plan factor = plan_cholesky_factor(layout, dtype);
  factor.matrix_bytes *= 2;
  Plan solve = plan_cholesky_solve(layout, dtype, bench::many);
  solve.right_hand_side_bytes *= 2;
  workplace.require_memory({factor, solve, plan_cholesky_inverse(layout, dtype)},
                           fmt::format("bench with n = {} (--n), A twice,", layout.size()));
}

/// On CPU devices of one process, where its matrices fit and it takes no minutes.
bool has_lapack_row(const Workplace& workplace, std::int64_t n, Dtype dtype) {
  constexpr std::int64_t largest = 16384;
  const Options& options = workplace.options();
  return options.backend == Backend::cpu && !options.mpi && n <= largest &&
         3 * n * n * element_size(dtype) < available_host_memory();
}

}  // namespace

int bench_job(Workplace& workplace, ProgressDisplay& progress) {
  const Options& options = workplace.options();
  const std::int64_t n = size_of(options);
  const Dtype dtype = options.dtypes.front();
  const TileChoice tile = workplace.tile_for(n, dtype);
  require_memory(workplace, workplace.layout(n, tile), dtype);

  RunOptions run = workplace.run_options();
  run.progress = nullptr;  // of one call
  RunsProgress runs(progress);
  const auto show = [&](const std::string& what, double fraction) {
    if (workplace.speaks()) {
      runs.show(what, fraction);
    }
  };
  const bench::CholeskyBench result = with_dtype(dtype, [&]<class T>(T) {
    auto all = bench::bench_cholesky<T>(workplace.mesh(), n, tile.tile, options.runs, run, show);
    if (has_lapack_row(workplace, n, dtype)) {
      all.timings.push_back(bench::time_lapack<T>(n, options.runs, run, show));
    }
    return all;
  });
  progress.finish();

  const bench::BenchSubject subject{.n = n,
                                    .dtype = dtype,
                                    .backend = options.backend == Backend::cuda ? "cuda" : "cpu",
                                    .devices = options.devices,
                                    .processes = options.mpi,
                                    .device = workplace.mesh().device_kind(),
                                    .tile = tile.tile,
                                    .tile_text = tile_text(tile),
                                    .tile_origin = tile_origin(tile),
                                    .tile_table = tile.entry ? tile.table : "",
                                    .blas = blas};
  const int code = result.passed() ? exit_ok : exit_numerical;
  const std::string report = options.json    ? bench::json_of(subject, result)
                             : options.quiet ? ""
                                             : bench::text_of(subject, result);
  if (workplace.speaks() && !print(stdout, report)) {
    print_error("the report could not be written to standard output");
    return exit_environment;
  }
  for (const bench::Timing& timing : result.timings) {
    if (!timing.passed() && workplace.speaks()) {
      print_error(fmt::format("{}: {} {:.3g} u, and the limit is {:g} u: no speed", timing.what,
                              timing.worst().name, timing.worst().value, timing.worst().limit));
    }
  }
  return code;
}

}  // namespace shardsolve::cli
