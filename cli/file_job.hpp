/// The jobs on files, as one skeleton: open, lay out, see that it fits, read, compute, write, tell.
#pragma once

#include "core/each_dtype.hpp"
#include "input.hpp"
#include "io/npy_literal.hpp"
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
  std::optional<Input> b;  ///< right-hand sides, if the job has any
};

/// What the devices hold of them.
template <Scalar T>
struct Operands {
  ShardedMatrix<T> a;
  std::optional<RightHandSides<T>> b;
};

using OutputArray = std::shared_ptr<ArrayFile>;

/// A job is a class of static members:
/// - has_right_hand_sides: whether it reads b;
/// - doing: what it does, in front of the name of A ("solving with");
/// - plans(): the memory of the calls that it makes, one after the other;
/// - result_like(): the input whose shape, dtype and order the result has; null if it writes none;
/// - compute(): the work; sets `outcome` and the numbers of the report;
/// - write(): each rank writes its part of the result; returns the seconds;
/// - words(): what the text report says of this job alone, when there is an answer.
template <class Job>
concept FileJob = requires(Workplace& workplace, const Inputs& inputs, const SlabLayout& layout,
                           const Operands<double>& operands, const OutputArray& result,
                           const Options& options, Report& report) {
  { Job::has_right_hand_sides } -> std::convertible_to<bool>;
  { Job::doing } -> std::convertible_to<std::string_view>;
  { Job::plans(layout, inputs) } -> std::same_as<std::vector<Plan>>;
  { Job::result_like(inputs) } -> std::same_as<const Input*>;
  { Job::compute(workplace, operands, report) } -> std::same_as<void>;
  { Job::write(workplace, operands, result) } -> std::same_as<double>;
  { Job::words(options, report) } -> std::same_as<Words>;
};

/// Opens A, and b if there is to be one; the same in all processes. Throws Error if they cannot be
/// read, do not fit each other, or are the files that outputs go to.
Inputs open_inputs(Workplace& workplace, bool has_right_hand_sides);

/// Prints the report, or the reason why there is no answer; the exit code.
int conclude(Workplace& workplace, ProgressDisplay& progress, Report& report);

template <Scalar T, FileJob Job>
void run_on_files(Workplace& workplace, const Inputs& inputs, const SlabLayout& layout,
                  Report& report) {
  // Claimed before the work, which may be long.
  OutputArray result;
  if (const Input* like = Job::result_like(inputs)) {
    result = open_result(workplace, like->dtype(), like->shape(), like->fortran_order());
  }
  const auto trace = open_trace(workplace);

  const auto matrix = load_matrix<T>(workplace, inputs.a, layout);
  Operands<T> operands{matrix.data, std::nullopt};
  report.read_seconds = matrix.seconds;
  if (inputs.b) {
    const auto sides = load_right_hand_sides<T>(workplace, *inputs.b, layout);
    operands.b = sides.data;
    report.read_seconds += sides.seconds;
  }

  Job::compute(workplace, operands, report);
  if (!report.outcome.ok()) {
    report.outcome.location = location_in_file(report.outcome, inputs.a);
    return;
  }
  const double written = Job::write(workplace, operands, result);
  const double committed = commit(workplace, result, trace);
  report.write_seconds = result != nullptr ? written + committed : 0.0;
}

/// Runs a job: what Verb::run is of it.
template <FileJob Job>
int run_file_job(Workplace& workplace, ProgressDisplay& progress) {
  workplace.take_tile_table();
  const Inputs inputs = open_inputs(workplace, Job::has_right_hand_sides);
  const Dtype dtype = inputs.a.dtype();
  const TileChoice tile = workplace.tile_for(inputs.a.columns, dtype);
  const SlabLayout layout = workplace.layout(inputs.a.columns, tile);
  workplace.require_memory(Job::plans(layout, inputs),
                           fmt::format("{} '{}'", Job::doing, inputs.a.path()));

  Report report{.n = inputs.a.columns, .dtype = dtype, .tile = tile};
  if (inputs.b) {
    report.right_hand_sides = inputs.b->columns;
  }
  if (const Input* like = Job::result_like(inputs)) {
    report.output_shape = io::format_shape(like->shape());
  }
  with_dtype(dtype, [&]<class T>() { run_on_files<T, Job>(workplace, inputs, layout, report); });
  if (report.outcome.ok()) {
    report.words = Job::words(workplace.options(), report);
  }
  return conclude(workplace, progress, report);
}

}  // namespace shardsolve::cli
