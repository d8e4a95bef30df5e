// How fast these devices are, on a matrix that is made in memory.

#include "bench/bench_report.hpp"
#include "bench/cholesky.hpp"
#include "bench/eigh.hpp"
#include "bench/lu.hpp"
#include "core/each_dtype.hpp"
#include "exit_code.hpp"
#include "input.hpp"
#include "option_values.hpp"
#include "shared_options.hpp"
#include "terminal.hpp"
#include "verb.hpp"
#include "version.hpp"

#include <shardsolve/plan.hpp>

#include <fmt/format.h>

namespace shardsolve::cli {
namespace {

constexpr const char* cholesky_job = "cholesky";
constexpr const char* lu_job = "lu";
constexpr const char* eigh_job = "eigh";

/// What a job's tile is chosen for.
Routine routine_of(const Options& options) {
  return options.bench_job == lu_job ? Routine::lu : Routine::cholesky;
}

std::int64_t size_of(const Options& options) {
  if (!options.sizes.empty()) {
    return options.sizes.front();
  }
  const std::int64_t size = options.backend == Backend::cuda ? 16384 : 4096;
  return options.bench_job == eigh_job ? size / 2 : size;
}

/// The matrix twice, and whatever call needs most.
void require_memory(Workplace& workplace, const SlabLayout& layout, Dtype dtype) {
  const std::string job = fmt::format("bench with n = {} (--n), A twice,", layout.size());
  if (workplace.options().bench_job == eigh_job) {
    Plan plan = plan_eigh(layout, dtype, true);
    plan.matrix_bytes *= 2;
    workplace.require_memory({plan}, job);
    return;
  }
  if (workplace.options().bench_job == lu_job) {  // A and its factor are two already
    Plan solve = plan_lu_solve(layout, dtype, bench::many);
    solve.right_hand_side_bytes *= 2;
    workplace.require_memory({plan_lu_factor(layout, dtype), solve}, job);
    return;
  }
  Plan factor = plan_cholesky_factor(layout, dtype);
  factor.matrix_bytes *= 2;
  Plan solve = plan_cholesky_solve(layout, dtype, bench::many);
  solve.right_hand_side_bytes *= 2;
  workplace.require_memory({factor, solve, plan_cholesky_inverse(layout, dtype)}, job);
}

/// On CPU devices of one process, where its matrices fit and it takes no minutes.
bool has_lapack_row(const Workplace& workplace, std::int64_t n, Dtype dtype) {
  const Options& options = workplace.options();
  const bool is_eigh = options.bench_job == eigh_job;
  const std::int64_t largest = is_eigh ? 4096 : 16384;
  const std::int64_t matrices = is_eigh ? 7 : 3;
  return options.backend == Backend::cpu && !options.mpi && n <= largest &&
         matrices * n * n * element_size(dtype) < available_host_memory();
}

template <Scalar T>
bench::BenchResult measure(Workplace& workplace, std::int64_t n,
                           const std::optional<TileChoice>& tile,
                           const bench::BenchProgress& progress) {
  RunOptions run = workplace.run_options();
  run.progress = nullptr;  // of one call
  Mesh& mesh = workplace.mesh();
  const std::int64_t runs = workplace.options().runs;
  const bool with_lapack = has_lapack_row(workplace, n, dtype_of<T>);
  if (!tile) {
    bench::BenchResult all = bench::bench_eigh<T>(mesh, n, runs, run, progress);
    if (with_lapack) {
      all.timings.push_back(bench::time_lapack_eigh<T>(n, runs, run, progress));
    }
    return all;
  }
  if (workplace.options().bench_job == lu_job) {
    bench::BenchResult all = bench::bench_lu<T>(mesh, n, tile->tile, runs, run, progress);
    if (with_lapack) {
      all.timings.push_back(bench::time_lapack_lu<T>(n, runs, run, progress));
    }
    return all;
  }
  bench::BenchResult all = bench::bench_cholesky<T>(mesh, n, tile->tile, runs, run, progress);
  if (with_lapack) {
    all.timings.push_back(bench::time_lapack<T>(n, runs, run, progress));
  }
  return all;
}

/// Prints the report; the exit code.
int tell(Workplace& workplace, const bench::BenchSubject& subject,
         const bench::BenchResult& result) {
  const Options& options = workplace.options();
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
  return result.passed() ? exit_ok : exit_numerical;
}

const char* title_of(const std::string& job) {
  return job == cholesky_job ? "Cholesky" : job == lu_job ? "LU" : "Eigenpairs";
}

int bench_job(Workplace& workplace, ProgressDisplay& progress) {
  const Options& options = workplace.options();
  const bool has_tile = options.bench_job != eigh_job;
  if (has_tile) {
    workplace.take_tile_table();
  }
  const std::int64_t n = size_of(options);
  const Dtype dtype = options.dtypes.front();
  std::optional<TileChoice> tile;
  if (has_tile) {
    tile = workplace.tile_for(n, dtype, routine_of(options));
  }
  require_memory(workplace, workplace.layout(n, tile), dtype);

  RunsProgress runs(progress);
  const auto show = [&](const std::string& what, double fraction) {
    if (workplace.speaks()) {
      runs.show(what, fraction);
    }
  };
  const bench::BenchResult result =
      with_dtype(dtype, [&]<class T>() { return measure<T>(workplace, n, tile, show); });
  progress.finish();

  bench::BenchSubject subject{.job = options.bench_job,
                              .title = title_of(options.bench_job),
                              .n = n,
                              .dtype = dtype,
                              .backend = options.backend == Backend::cuda ? "cuda" : "cpu",
                              .devices = options.devices,
                              .processes = options.mpi,
                              .device = workplace.mesh().device_kind(),
                              .blas = blas};
  if (tile) {
    subject.tile = tile->tile;
    subject.tile_text = tile_text(*tile);
    subject.tile_origin = tile_origin(*tile);
    subject.tile_table = tile->entry ? tile->table : "";
  }
  return tell(workplace, subject, result);
}

void add_bench_options(CLI::App& command, TypedOptions& typed, Options& options) {
  command.add_option("JOB", typed.job, "what is timed: cholesky, lu or eigh")
      ->required()
      ->type_name("NAME")
      ->check(one_of({cholesky_job, lu_job, eigh_job}));
  command
      .add_option("--n", typed.sizes,
                  "rows of the matrix (default 4096, on GPUs 16384; half of it for eigh)")
      ->type_name("N")
      ->check(not_empty("a number of rows is accepted"));
  command.add_option("--dtype", typed.dtypes, "element type (default float64)")
      ->type_name("NAME")
      ->check(not_empty("float32, float64, complex64 or complex128 is accepted"));
  command
      .add_option(
          "--runs", options.runs,
          fmt::format("timed runs of each, after one that is not timed (default {})", options.runs))
      ->type_name("N")
      ->check(whole_number(1, 1000, "1 to 1000 runs are accepted, in digits"));
  add_tile(command, options);
  add_devices(command, options, typed.devices);
  add_timeout(command, options);
  add_json(command, options);
  add_quiet(command, options);
}

void take_bench_options(const TypedOptions& typed, Options& options) {
  options.bench_job = typed.job;
  if (options.bench_job == eigh_job && (options.tile || !options.tile_table.empty())) {
    throw CLI::ValidationError(options.tile ? "--tile" : "--tile-table",
                               "eigh goes by no tile: leave it out");
  }
  take_devices(typed.devices, options);
  take_lists(typed, options);
  constexpr const char* one = "bench takes one: run it once for each";
  if (options.sizes.size() > 1) {
    reject("--n", typed.sizes, one);
  }
  if (options.dtypes.size() > 1) {
    reject("--dtype", typed.dtypes, one);
  }
}

constexpr std::string_view bench_notes =
    R"(cholesky: on a random, well conditioned matrix that is made in memory, factor (the
log-determinant comes with it), solve with 1 and 64 right-hand sides, factor and solve in one
call, inverse with its factorisation. For comparison LAPACK's potrf.
lu: on a random matrix without symmetry, factor (the determinant comes with it), solve with 1 and
64 right-hand sides, factor and solve in one call. For comparison LAPACK's getrf.
eigh: on a random Hermitian matrix all eigenpairs, the smallest tenth of them, eigenvalues alone.
For comparison LAPACK's syevd or heevd, up to n = 4096.

Each answer is judged, on the matrix itself and in wider arithmetic, before its speed is shown:
one that misses its gate has no speed. Beside it the rate of plain matrix products on the same
devices. LAPACK is that of the same BLAS, on one core, and has no row on GPUs.

Exit codes: as of the other commands; 1 if an answer misses its gate.

Comparisons with other libraries are made by programs of the source tree: with ScaLAPACK by
'make bench-engines', with those for GPUs by bench/cuda/run.py; see docs/performance.md.)";

}  // namespace

constinit const Verb bench_verb =
    complete({.name = "bench",
              .about = "how fast these devices factor, solve, invert and find eigenpairs",
              .usage = "shardsolve bench JOB [options]",
              .notes = bench_notes,
              .examples = R"(shardsolve bench cholesky --n 8192
shardsolve bench lu --devices 2
shardsolve bench eigh --n 4096 --devices 4
shardsolve bench cholesky --backend cuda --devices 0,1 --n 32768 --dtype float32 --json)",
              .add_options = &add_bench_options,
              .take_options = &take_bench_options,
              .run = &bench_job});

}  // namespace shardsolve::cli
