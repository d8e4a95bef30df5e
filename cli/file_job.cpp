#include "file_job.hpp"

#include "exit_code.hpp"
#include "terminal.hpp"

#include <shardsolve/trace_summary.hpp>

#include <string>

namespace shardsolve::cli {
namespace {

/// What goes to standard output.
std::string answer(const Options& options, const Report& report) {
  if (options.json) {
    return json_report(options, report);
  }
  if (!has_answer(report.outcome)) {
    return "";
  }
  if (!options.quiet) {
    return text_report(options, report);
  }
  return report.log_determinant ? fmt::format("{:.17g}\n", *report.log_determinant) : "";
}

}  // namespace

Inputs open_inputs(Workplace& workplace, bool has_right_hand_sides) {
  const Inputs inputs =
      workplace.everywhere([&options = workplace.options(), has_right_hand_sides] {
        Inputs all{open_matrix(options.matrix), std::nullopt, std::nullopt};
        if (has_right_hand_sides) {
          all.b = open_right_hand_sides(options.right_hand_sides, all.a);
        }
        if (!options.second_matrix.empty()) {
          all.second = open_second_matrix(options.second_matrix, all.a);
        }
        return all;
      });
  std::vector<Input> files = {inputs.a};
  if (inputs.b) {
    files.push_back(*inputs.b);
  }
  if (inputs.second) {
    files.push_back(*inputs.second);
  }
  require_same_files(workplace, files);
  return inputs;
}

Result only_result(std::string_view name, const Options& options, const Input& like) {
  return {.key = "output",
          .name = name,
          .path = options.output,
          .dtype = like.dtype(),
          .shape = like.shape(),
          .fortran_order = like.fortran_order()};
}

void add_trace(Workplace& workplace, Report& report) {
  const bool is_kept = report.krylov
                           ? !report.krylov->trace.empty()
                           : !workplace.options().trace.empty() && has_answer(report.outcome);
  if (is_kept && workplace.speaks()) {
    report.trace = summarize(workplace.trace());
  }
}

int conclude(Workplace& workplace, ProgressDisplay& progress, Report& report) {
  const Options& options = workplace.options();
  add_trace(workplace, report);
  progress.finish();
  const int code = exit_code(class_of(report.outcome.status));
  if (!workplace.speaks()) {
    return code;
  }
  const bool printed = print(stdout, answer(options, report));
  if (!has_answer(report.outcome)) {
    print_error(reason_of(options, report));
    return code;
  }
  if (!report.outcome.ok()) {
    print_warning(reason_of(options, report));
  }
  if (!printed) {
    std::vector<std::string> paths;
    for (const Result& result : report.results) {
      paths.push_back(result.path);
    }
    print_error(fmt::format("the report could not be written to standard output{}",
                            paths.empty() ? "" : "; " + are_complete(paths)));
    return exit_environment;
  }
  return code;
}

}  // namespace shardsolve::cli
