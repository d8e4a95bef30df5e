// The fastest tiles on these devices, into the table of tile sizes.

#include "bench/tune_report.hpp"
#include "bench/tuning.hpp"
#include "core/each_dtype.hpp"
#include "exit_code.hpp"
#include "input.hpp"
#include "io/output_file.hpp"
#include "io/tile_table_file.hpp"
#include "option_values.hpp"
#include "shared_options.hpp"
#include "terminal.hpp"
#include "verb.hpp"

#include <shardsolve/plan.hpp>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <utility>

namespace shardsolve::cli {
namespace {

using bench::Tuned;

/// The matrix twice, and the workspace of a factorisation with any tile that is tried.
Plan plan_for(const Mesh& mesh, std::int64_t n, Dtype dtype, Routine routine) {
  const auto tiles = bench::candidate_tiles(mesh, n, dtype, routine);
  const std::int64_t widest = *std::max_element(tiles.begin(), tiles.end());
  const SlabLayout layout = SlabLayout::even(n, mesh.ranks(), widest);
  if (routine == Routine::lu) {  // A and its factor are two already
    return plan_lu_factor(layout, dtype);
  }
  Plan plan = plan_cholesky_factor(layout, dtype);
  plan.matrix_bytes *= 2;
  return plan;
}

/// The sizes that were asked for, or powers of two of which both copies fit.
std::vector<std::int64_t> sizes_for(Workplace& workplace, Dtype dtype) {
  const Options& options = workplace.options();
  if (!options.sizes.empty()) {
    for (const std::int64_t n : options.sizes) {
      workplace.require_memory({plan_for(workplace.mesh(), n, dtype, options.routine)},
                               fmt::format("tuning for n = {} in {}", n, name(dtype)));
    }
    return options.sizes;
  }
  const bool on_gpus = options.backend == Backend::cuda;
  std::vector<std::int64_t> sizes;
  for (std::int64_t n = on_gpus ? 4096 : 1024; n <= (on_gpus ? 65536 : 8192); n *= 2) {
    if (plan_for(workplace.mesh(), n, dtype, options.routine).bytes() <
        workplace.mesh().available_memory()) {
      sizes.push_back(n);
    }
  }
  return sizes;
}

/// The table's file: read and claimed before the work, which may be long.
class TableFile {
 public:
  explicit TableFile(const std::string& option) : place_(io::tile_table_path(option)) {
    if (place_.path.empty()) {
      throw Error(ErrorKind::invalid_argument,
                  place_.named_by.empty()
                      ? "there is no directory for the table (neither XDG_CONFIG_HOME nor HOME is "
                        "set): say where it goes with --tile-table FILE"
                      : fmt::format("{} says 'none', and tune needs a file for the table: "
                                    "--tile-table FILE",
                                    place_.named_by));
    }
    read();  // throws: a table that cannot be used is not replaced
    // If the usual directories are missing, write() makes them, so that a job that fails before
    // leaves nothing behind. Until then the job claims the name of the topmost missing directory.
    std::filesystem::path place = place_.path;
    std::error_code error;
    while (!place_.required && place.has_parent_path() &&
           !std::filesystem::exists(place.parent_path(), error)) {
      place = place.parent_path();
    }
    try {
      file_.emplace(place.string(), true);
    } catch (const Error& cannot) {
      throw Error(cannot.kind(), fmt::format("{} (--tile-table FILE)", cannot.what()));
    }
  }

  const std::string& path() const { return place_.path; }
  /// What is there now.
  io::TileFile read() const {
    io::TilePath place = place_;
    place.required = false;  // it need not be there yet
    return io::read_tile_file(place);
  }
  void write(const io::TileFile& table) {
    const std::string text = io::to_json(table);
    if (!place_.required) {
      make_directory();
      file_.emplace(place_.path, true);
    }
    // The constructor has made the file.
    // NOLINTBEGIN(bugprone-unchecked-optional-access)
    file_->pwrite_all(text.data(), std::ssize(text), 0);
    file_->commit();
    // NOLINTEND(bugprone-unchecked-optional-access)
  }

 private:
  void make_directory() const {
    const std::filesystem::path directory = std::filesystem::path(place_.path).parent_path();
    std::error_code error;
    std::filesystem::create_directories(directory, error);
    if (error) {
      throw Error(ErrorKind::io,
                  fmt::format("cannot create '{}': {}; say where the table goes with "
                              "--tile-table FILE",
                              directory.string(), error.message()));
    }
  }

  io::TilePath place_;
  std::optional<io::OutputFile> file_;
};

void measure(Workplace& workplace, ProgressDisplay& progress, bench::TuneReport& report) {
  using Clock = std::chrono::steady_clock;
  const Options& options = workplace.options();
  const std::chrono::duration<double> budget(options.budget);
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(budget);
  RunOptions run = workplace.run_options();
  run.progress = nullptr;  // of one factorisation
  RunsProgress runs(progress);
  std::vector<std::vector<std::int64_t>> sizes;  // of all dtypes, so that none is refused half-way
  for (const Dtype dtype : options.dtypes) {
    sizes.push_back(sizes_for(workplace, dtype));
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const Dtype dtype = options.dtypes[i];
    for (const std::int64_t n : sizes[i]) {
      const bench::TuneLimits limits{
          .end = end, .progress = [&](std::int64_t tile, double fraction) {
            runs.show(fmt::format("{}, n = {}, tile {}", name(dtype), n, tile), fraction);
          }};
      report.sizes.push_back(with_dtype(dtype, [&]<class T>() {
        return bench::tune<T>(workplace.mesh(), options.routine, n, run, limits);
      }));
    }
  }
}

int tune_job(Workplace& workplace, ProgressDisplay& progress) {
  const Options& options = workplace.options();
  TableFile file(options.tile_table);
  bench::TuneReport report{.routine = options.routine,
                           .device = workplace.mesh().device_kind(),
                           .ranks = workplace.mesh().ranks(),
                           .backend = options.backend == Backend::cuda ? "cuda" : "cpu",
                           .path = file.path()};
  measure(workplace, progress, report);
  const std::string date = fmt::format("{:%F}", fmt::gmtime(std::time(nullptr)));
  io::TileFile table = file.read();  // another tune may have written meanwhile
  for (const Tuned& tuned : report.sizes) {
    if (tuned.left_out.empty()) {
      table.put(bench::entry_of(tuned, report, date));
      report.written = true;
    }
  }
  report.entries = table.entries.size();
  leave_if_stopped(workplace.run_options().cancel);
  if (report.written) {
    file.write(table);
  }
  progress.finish();
  if (!print(stdout, options.json    ? bench::json_of(report)
                     : options.quiet ? ""
                                     : bench::text_of(report))) {
    print_error("the report could not be written to standard output");
    return exit_environment;
  }
  return exit_ok;
}

void add_tune_options(CLI::App& command, TypedOptions& typed, Options& options) {
  command.add_option("ROUTINE", typed.job, "what is timed: cholesky (default) or lu")
      ->type_name("NAME")
      ->check(one_of({std::string(name(Routine::cholesky)), std::string(name(Routine::lu))}));
  command
      .add_option("--n", typed.sizes,
                  "rows of the matrices: 1024,2048 (default: sizes that fit these devices)")
      ->type_name("LIST")
      ->check(not_empty("numbers of rows are accepted: 1024 or 1024,2048"));
  command.add_option("--dtype", typed.dtypes, "element types (default float64)")
      ->type_name("LIST")
      ->check(not_empty("float32, float64, complex64 and complex128 are accepted"));
  command
      .add_option("--budget", options.budget,
                  fmt::format("begin no size that would take longer than what is left of this "
                              "(default {:g})",
                              options.budget))
      ->type_name("SECONDS")
      ->check(positive_seconds());
  command
      .add_option("--tile-table", options.tile_table,
                  "table to write, or to add to (default: this user's)")
      ->type_name("FILE")
      ->check(file_name());
  add_devices(command, options, typed.devices);
  add_timeout(command, options);
  add_json(command, options);
  add_quiet(command, options);
}

void take_tune_options(const TypedOptions& typed, Options& options) {
  options.routine = typed.job == name(Routine::lu) ? Routine::lu : Routine::cholesky;
  if (wants_mpi(typed.devices)) {
    throw CLI::ValidationError(
        "tune",
        "one process measures the devices of its machine: leave out mpirun or srun. What it "
        "finds for --devices 4 also holds for 4 processes on such a machine");
  }
  take_devices(typed.devices, options);
  take_lists(typed, options);
}

constexpr std::string_view tune_notes =
    R"(Factors random matrices (of lu: without symmetry) with several tile sizes in turn. A tile is kept if it is
faster than the library's own choice by more than the times differ among themselves, and if its answer
passes the gate of every solve. It then holds for sizes near the one that was measured, for
this dtype, on as many devices of this kind: solve, inverse, logdet, bench and JAX take it, and
the commands say so. Results can differ in their last bits with and without it.

The table is the file of --tile-table, else of SHARDSOLVE_TILE_TABLE, else
$XDG_CONFIG_HOME/shardsolve/tiles.json (~/.config). What it holds of other devices and sizes
stays. It is written at the end, whole; an interrupted run leaves it as it was.

Run it on a machine that does nothing else.)";

}  // namespace

constinit const Verb tune_verb =
    complete({.name = "tune",
              .about = "find the fastest tile sizes on these devices, and keep them",
              .usage = "shardsolve tune [ROUTINE] [options]",
              .notes = tune_notes,
              .examples = R"(shardsolve tune
shardsolve tune lu
shardsolve tune --devices 4 --dtype float32,float64 --n 2000,8000 --budget 600
shardsolve tune --backend cuda --devices 0,1,2,3)",
              .add_options = &add_tune_options,
              .take_options = &take_tune_options,
              .run = &tune_job});

}  // namespace shardsolve::cli
