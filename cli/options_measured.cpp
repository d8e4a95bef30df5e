#include "options_measured.hpp"

#include "option_values.hpp"

#include <shardsolve/slab_layout.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace shardsolve::cli {
namespace {

constexpr const char* tune_about = "find the fastest tile sizes on these devices, and keep them";

constexpr const char* tune_footer =
    "Factors random matrices with several tile sizes in turn. A tile is kept if it is faster than\n"
    "the library's own choice by more than the times differ among themselves, and if its answer\n"
    "passes the gate of every solve. It then holds for sizes near the one that was measured, for\n"
    "this dtype, on as many devices of this kind: solve, inverse, logdet, bench and JAX take it, "
    "and\n"
    "the commands say so. Results can differ in their last bits with and without it.\n"
    "\n"
    "The table is the file of --tile-table, else of SHARDSOLVE_TILE_TABLE, else\n"
    "$XDG_CONFIG_HOME/shardsolve/tiles.json (~/.config). What it holds of other devices and sizes\n"
    "stays. It is written at the end, whole; an interrupted run leaves it as it was.\n"
    "\n"
    "Examples:\n"
    "  shardsolve tune\n"
    "  shardsolve tune --devices 4 --dtype float32,float64 --n 2000,8000 --budget 600\n"
    "  shardsolve tune --backend cuda --devices 0,1,2,3\n"
    "\n"
    "Run it on a machine that does nothing else.";

constexpr const char* bench_about = "how fast these devices factor, solve and invert";

constexpr const char* bench_footer =
    "On a random, well conditioned matrix that is made in memory: factor (the log-determinant "
    "comes\n"
    "with it), solve with 1 and 64 right-hand sides, factor and solve in one call, inverse with "
    "its\n"
    "factorisation. Each answer is judged, on the matrix itself and in wider arithmetic, before "
    "its\n"
    "speed is shown: one that misses its gate has no speed. For comparison the rate of plain "
    "matrix\n"
    "products on the same devices, and on the CPU LAPACK's potrf of the same BLAS on one core.\n"
    "\n"
    "Exit codes: as of the other commands; 1 if an answer misses its gate.\n"
    "\n"
    "Comparisons with other libraries are made by programs of the source tree: with ScaLAPACK by\n"
    "'make bench-engines', with those for GPUs by bench/cuda/run.py; see docs/performance.md.\n"
    "\n"
    "Examples:\n"
    "  shardsolve bench cholesky --n 8192 --devices 4\n"
    "  shardsolve bench cholesky --backend cuda --devices 0,1 --n 32768 --dtype float32 --json";

[[noreturn]] void reject(const char* option, const std::string& text, const char* accepted) {
  throw CLI::ValidationError(option, fmt::format("'{}' given; {}", text, accepted));
}

Dtype dtype_of_text(const std::string& text) {
  for (const Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::complex64, Dtype::complex128}) {
    if (name(dtype) == text) {
      return dtype;
    }
  }
  reject("--dtype", text, "float32, float64, complex64 and complex128 are accepted");
}

}  // namespace

CLI::App* add_tune(CLI::App& app, Options& options, MeasuredLists& lists) {
  CLI::App* command = app.add_subcommand("tune", tune_about)->footer(tune_footer);
  command
      ->add_option("--n", lists.sizes,
                   "rows of the matrices: 1024,2048 (default: sizes that fit these devices)")
      ->type_name("LIST")
      ->check(not_empty("numbers of rows are accepted: 1024 or 1024,2048"));
  command->add_option("--dtype", lists.dtypes, "element types (default float64)")
      ->type_name("LIST")
      ->check(not_empty("float32, float64, complex64 and complex128 are accepted"));
  command
      ->add_option("--budget", options.budget,
                   fmt::format("begin no size that would take longer than what is left of this "
                               "(default {:g})",
                               options.budget))
      ->type_name("SECONDS")
      ->check(positive_seconds());
  return command;
}

CLI::App* add_bench(CLI::App& app, Options& options, MeasuredLists& lists) {
  CLI::App* command = app.add_subcommand("bench", bench_about)->footer(bench_footer);
  command->add_option("JOB", lists.job, "what is timed: cholesky")
      ->required()
      ->type_name("NAME")
      ->check(one_of({"cholesky"}));
  command->add_option("--n", lists.sizes, "rows of the matrix (default 4096, on GPUs 16384)")
      ->type_name("N")
      ->check(not_empty("a number of rows is accepted"));
  command->add_option("--dtype", lists.dtypes, "element type (default float64)")
      ->type_name("NAME")
      ->check(not_empty("float32, float64, complex64 or complex128 is accepted"));
  command
      ->add_option(
          "--runs", options.runs,
          fmt::format("timed runs of each, after one that is not timed (default {})", options.runs))
      ->type_name("N")
      ->check(whole_number(1, 1000, "1 to 1000 runs are accepted, in digits"));
  return command;
}

void take_measured(const MeasuredLists& lists, Options& options) {
  for (const std::string& text : parts_of(lists.dtypes.empty() ? "float64" : lists.dtypes)) {
    options.dtypes.push_back(dtype_of_text(text));
  }
  if (!lists.sizes.empty()) {
    for (const std::string& text : parts_of(lists.sizes)) {
      const auto n = to_whole_number(text, 1, SlabLayout::largest_size);
      if (!n) {
        reject("--n", text,
               fmt::format("numbers of rows from 1 to {} are accepted: 1024 or 1024,2048",
                           SlabLayout::largest_size)
                   .c_str());
      }
      options.sizes.push_back(*n);
    }
  }
  std::sort(options.sizes.begin(), options.sizes.end());
  options.sizes.erase(std::unique(options.sizes.begin(), options.sizes.end()), options.sizes.end());
  std::sort(options.dtypes.begin(), options.dtypes.end());
  options.dtypes.erase(std::unique(options.dtypes.begin(), options.dtypes.end()),
                       options.dtypes.end());
  if (options.command == Command::bench && (options.sizes.size() > 1 || options.dtypes.size() > 1)) {
    reject(options.sizes.size() > 1 ? "--n" : "--dtype",
           options.sizes.size() > 1 ? lists.sizes : lists.dtypes,
           "bench takes one: run it once for each");
  }
}

}  // namespace shardsolve::cli
