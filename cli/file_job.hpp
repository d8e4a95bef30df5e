/// The jobs on files, as one skeleton: open, lay out, see that it fits, read, compute, write, tell.
#pragma once

#include "core/each_dtype.hpp"
#include "input.hpp"
#include "output.hpp"
#include "report.hpp"
#include "workplace.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/plan.hpp>
#include <shardsolve/sharded.hpp>
#include <shardsolve/slab_layout.hpp>

#include <fmt/format.h>

#include <concepts>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace shardsolve::cli {

/// The input files of a job, open.
struct Inputs {
  Input a;
  std::optional<Input> b;       ///< right-hand sides, if the job has any
  std::optional<Input> second;  ///< B of a generalised problem
};

/// What the devices hold of them.
template <Scalar T>
struct Operands {
  ShardedMatrix<T> a;
  std::optional<RightHandSides<T>> b;
  std::optional<ShardedMatrix<T>> second;  ///< to be factored, and with a tile for it
  /// Whether `a` is A^H: files in C order are read so.
  bool is_adjoint = false;
};

/// A job is a class of static members:
/// - has_right_hand_sides: whether it reads b;
/// - has_tile: whether its calls go by the tile of the layout;
/// - doing: what it does, in front of the name of A ("solving with");
/// - results(): what it writes. Throws Error(invalid_argument) if the options ask for what A has
///   not;
/// - plans(): the memory of the calls that it makes, one after the other;
/// - compute(): the work; sets `outcome` and the numbers of the report, and shapes of results that
///   were not known;
/// - write(): each rank writes its part of the result; returns the seconds;
/// - words(): what the text report says of this job alone, when there is an answer.
template <class Job>
concept FileJob = requires(Workplace& workplace, const Inputs& inputs, const SlabLayout& layout,
                           const Operands<double>& operands, const ArrayFiles& files,
                           const Options& options, Report& report) {
  { Job::has_right_hand_sides } -> std::convertible_to<bool>;
  { Job::has_tile } -> std::convertible_to<bool>;
  { Job::doing } -> std::convertible_to<std::string_view>;
  { Job::results(options, inputs) } -> std::same_as<std::vector<Result>>;
  { Job::plans(workplace, layout, inputs) } -> std::same_as<std::vector<Plan>>;
  { Job::compute(workplace, operands, report) } -> std::same_as<void>;
  { Job::write(workplace, operands, report, files) } -> std::same_as<double>;
  { Job::words(options, report) } -> std::same_as<Words>;
};

/// Opens A, b if there is to be one, and the second matrix that the options name; the same in all
/// processes. Throws Error if they cannot be
/// read or do not fit each other.
Inputs open_inputs(Workplace& workplace, bool has_right_hand_sides);

/// The one result of a job, which -o names; shape, dtype and order are those of `like`.
Result only_result(std::string_view name, const Options& options, const Input& like);

/// Whether there is something to write: also of a matrix that is nearly singular.
inline bool has_answer(const Outcome& outcome) {
  return class_of(outcome.status) == StatusClass::answered;
}

/// Sums up the trace, if one is kept, in the process that tells the user.
void add_trace(Workplace& workplace, Report& report);

/// Prints the report, or the reason why there is no answer; the exit code.
int conclude(Workplace& workplace, ProgressDisplay& progress, Report& report);

template <Scalar T, FileJob Job>
void run_on_files(Workplace& workplace, const Inputs& inputs, const SlabLayout& layout,
                  Report& report) {
  // Claimed before the work, which may be long.
  const ArrayFiles files = open_results(workplace, report.results);
  const auto trace = open_trace(workplace);

  const auto matrix = load_matrix<T>(workplace, inputs.a, layout);
  Operands<T> operands{matrix.data, std::nullopt, std::nullopt, inputs.a.is_adjoint()};
  report.read_seconds = matrix.seconds;
  if (inputs.b) {
    const auto sides = load_right_hand_sides<T>(workplace, *inputs.b, layout);
    operands.b = sides.data;
    report.read_seconds += sides.seconds;
  }

  if (inputs.second) {
    const auto second = load_matrix<T>(workplace, *inputs.second,
                                       workplace.layout_to_factor(report.n, report.dtype));
    operands.second = second.data;
    report.read_seconds += second.seconds;
  }

  Job::compute(workplace, operands, report);
  if (!has_answer(report.outcome)) {
    report.outcome.location = location_in_file(
        report.outcome, report.is_about_second_matrix ? inputs.second.value() : inputs.a);
    return;
  }
  begin_results(workplace, files, report.results);
  const double written = Job::write(workplace, operands, report, files);
  const double committed = commit(workplace, files, trace);
  report.write_seconds = files.empty() ? 0.0 : written + committed;
}

/// Runs a job: what Verb::run is of it.
template <FileJob Job>
int run_file_job(Workplace& workplace, ProgressDisplay& progress) {
  if (Job::has_tile) {
    workplace.take_tile_table();
  }
  const Options& options = workplace.options();
  const Inputs inputs = open_inputs(workplace, Job::has_right_hand_sides);
  Report report{.n = inputs.a.columns, .dtype = inputs.a.dtype()};
  if (inputs.b) {
    report.right_hand_sides = inputs.b->columns;
  }
  report.results = Job::results(options, inputs);
  require_distinct_files(workplace, report.results);
  if (Job::has_tile) {
    report.tile =
        workplace.tile_for(report.n, report.dtype,
                           options.assume == Assume::general ? Routine::lu : Routine::cholesky);
  }
  const SlabLayout layout = workplace.layout(report.n, report.tile);
  workplace.require_memory(Job::plans(workplace, layout, inputs),
                           fmt::format("{} '{}'", Job::doing, inputs.a.path()));

  with_dtype(report.dtype,
             [&]<class T>() { run_on_files<T, Job>(workplace, inputs, layout, report); });
  if (has_answer(report.outcome)) {
    report.words = Job::words(options, report);
  }
  return conclude(workplace, progress, report);
}

}  // namespace shardsolve::cli
