// `shardsolve diagnose`: what is to be known of a sparse matrix before it is solved with.

#include "exit_code.hpp"
#include "json_values.hpp"
#include "krylov_options.hpp"
#include "option_values.hpp"
#include "progress.hpp"
#include "shared_options.hpp"
#include "sparse_input.hpp"
#include "terminal.hpp"
#include "verb.hpp"
#include "version.hpp"
#include "workplace.hpp"

#include <shardsolve/diagnose.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <variant>

namespace shardsolve::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Figures that are 0 where they are not known.
Json known(double value) { return value != 0.0 ? finite(value) : Json(nullptr); }

Json json_of(const krylov::Places& places) {
  return {{"count", places.count},
          {"first", places.count > 0 ? Json(places.first) : Json(nullptr)}};
}

Json json_of(const krylov::MatrixFigures& figures) {
  return {{"entries", figures.entries},
          {"nonfinite", figures.nonfinite ? Json{{"row", figures.nonfinite->row},
                                                 {"column", figures.nonfinite->column}}
                                          : Json(nullptr)},
          {"empty_rows", json_of(figures.empty_rows)},
          {"empty_columns", json_of(figures.empty_columns)},
          {"zero_diagonal", json_of(figures.zero_diagonal)},
          {"negative_diagonal", json_of(figures.negative_diagonal)},
          {"least_diagonal", finite(figures.least_diagonal)},
          {"largest_diagonal", finite(figures.largest_diagonal)},
          {"least_row", finite(figures.least_row)},
          {"largest_row", finite(figures.largest_row)},
          {"bandwidth", figures.bandwidth},
          {"unmatched_entries", figures.unmatched_entries},
          {"asymmetry", finite(figures.asymmetry)},
          {"identity_rows", json_of(figures.identity_rows)},
          {"null_parts", json_of(figures.null_parts)},
          {"asymmetry_without_identity_rows", finite(figures.asymmetry_without_identity_rows)}};
}

Json json_of(const krylov::Trial& trial) {
  return {{"name", trial.name},
          {"method", krylov::name(trial.method)},
          {"status", krylov::name(trial.status)},
          {"iterations", trial.iterations},
          {"residual", finite(trial.residual)},
          {"condition", known(trial.condition)},
          {"predicted_iterations",
           trial.condition > 0.0 ? Json(trial.predicted_iterations) : Json(nullptr)},
          {"message", trial.message}};
}

/// Options of `shardsolve solve` for the preconditioner of a trial, whose name begins with that
/// option's value.
std::string options_for(const krylov::Trial& trial) {
  if (trial.name == "no preconditioner") {
    return "";
  }
  const std::string option =
      " --preconditioner " +
      trial.name.substr(0, std::min(trial.name.find(' '), trial.name.size()));
  return trial.blocks.empty() ? option
                              : option + fmt::format(" --blocks {}", trial.blocks.size() - 1);
}

/// The command that does what the best trial did; empty if none converged, or if the trials were
/// about A with further columns cleared.
std::string suggestion(const Options& options, const krylov::Diagnosis& diagnosis) {
  if (diagnosis.best < 0 || diagnosis.is_about_another()) {
    return "";
  }
  const krylov::Trial& best = diagnosis.trials.at(static_cast<std::size_t>(diagnosis.best));
  return fmt::format("shardsolve solve '{}' b.npy -o x.npy --method {}{} --rtol {:g}",
                     options.matrix, krylov::name(best.method), options_for(best), diagnosis.rtol);
}

std::string json_text(const Options& options, Dtype dtype, const krylov::Diagnosis& diagnosis) {
  const bool is_known = diagnosis.best >= 0;
  const std::string command = suggestion(options, diagnosis);
  Json trials = Json::array();
  for (const krylov::Trial& trial : diagnosis.trials) {
    trials.push_back(json_of(trial));
  }
  const bool has_values = diagnosis.least_eigenvalue != 0.0 || diagnosis.largest_eigenvalue != 0.0;
  const Json object = {
      {"command", "diagnose"},
      {"status", "ok"},
      {"message", diagnosis.answer},
      {"n", diagnosis.rows},
      {"dtype", name(dtype)},
      {"matrix", options.matrix},
      {"rtol", diagnosis.rtol},
      {"figures", diagnosis.figures ? json_of(*diagnosis.figures) : Json(nullptr)},
      {"is_hermitian", diagnosis.is_hermitian},
      {"is_singular", diagnosis.is_singular},
      {"definiteness", krylov::name(diagnosis.definiteness)},
      {"least_eigenvalue", has_values ? finite(diagnosis.least_eigenvalue) : Json(nullptr)},
      {"largest_eigenvalue", has_values ? finite(diagnosis.largest_eigenvalue) : Json(nullptr)},
      {"condition", known(diagnosis.condition)},
      {"attainable", known(diagnosis.attainable)},
      {"method", krylov::name(diagnosis.method)},
      {"trials", trials},
      {"best", is_known ? Json(diagnosis.best) : Json(nullptr)},
      {"gain", is_known ? finite(diagnosis.gain) : Json(nullptr)},
      {"findings", diagnosis.findings},
      {"answer", diagnosis.answer},
      {"suggestion", command.empty() ? Json(nullptr) : Json(command)},
      {"version", version}};
  constexpr int indent = 2;
  return object.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string text_of(const Options& options, Dtype dtype, const krylov::Diagnosis& diagnosis) {
  const std::string command = suggestion(options, diagnosis);
  return fmt::format("'{}': {}\n{}{}", options.matrix, name(dtype), krylov::to_text(diagnosis),
                     command.empty() ? "" : "  " + command + "\n");
}

int run_diagnose(Workplace& workplace, ProgressDisplay& progress) {
  const Options& options = workplace.options();
  if (!is_sparse(workplace, options.matrix)) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("'{}' is a dense matrix: diagnose looks at sparse ones (.npz of "
                            "scipy.sparse.save_npz, or Matrix Market); 'shardsolve solve' tells "
                            "rcond of a dense one",
                            options.matrix));
  }
  const SparseInput input = read_sparse_matrix(workplace, options.matrix);
  Dtype dtype = Dtype::float64;
  krylov::DiagnoseOptions how;
  how.rtol = options.krylov.rtol;
  const krylov::Diagnosis diagnosis = std::visit(
      [&]<Scalar T>(const SparseSystem<T>& system) {
        dtype = dtype_of<T>;
        return krylov::diagnose(workplace.mesh(), system.a, how, workplace.run_options());
      },
      input.system);
  leave_if_stopped(workplace.run_options().cancel);
  progress.finish();
  if (!workplace.speaks()) {
    return exit_ok;
  }
  const bool printed = print(stdout, options.json    ? json_text(options, dtype, diagnosis)
                                     : options.quiet ? diagnosis.answer + "\n"
                                                     : text_of(options, dtype, diagnosis));
  if (!printed) {
    print_error("the report could not be written to standard output");
    return exit_environment;
  }
  return exit_ok;
}

void add_diagnose_options(CLI::App& command, TypedOptions& typed, Options& options) {
  add_input(command, "A", options.matrix,
            "a sparse matrix: an .npz of SciPy's save_npz or Matrix Market");
  command
      .add_option("--rtol", options.krylov.rtol, "of the trials (default: " + rtol_defaults() + ")")
      ->type_name("X")
      ->check(tolerance());
  add_devices(command, options, typed.devices);
  add_timeout(command, options);
  add_json(command, options);
  add_quiet(command, options);
}

void take_diagnose_options(const TypedOptions& typed, Options& options) {
  if (typed.devices.backend == "cuda") {
    throw CLI::ValidationError("--backend",
                               "'cuda' given; preconditioners are tried on CPUs: leave it out");
  }
  take_devices(typed.devices, options);
}

constexpr std::string_view diagnose_notes =
    R"(Figures of A's entries, whether it is Hermitian and definite, its condition, short trials of the
preconditioners that --preconditioner names, what is wrong, and an answer: is it worth while to
look for a better preconditioner? The last line is the command that does what the best trial did.
The right-hand side of the trials is of random numbers, the same every time, and the diagnosis is
the same on any number of devices. With --quiet the answer alone.)";

}  // namespace

constinit const Verb diagnose_verb =
    complete({.name = "diagnose",
              .about = "look at a sparse A, and say which method and preconditioner suit it",
              .usage = "shardsolve diagnose A.npz [options]",
              .notes = diagnose_notes,
              .examples = R"(shardsolve diagnose A.npz
shardsolve diagnose A.mtx --rtol 1e-10 --json)",
              .add_options = &add_diagnose_options,
              .take_options = &take_diagnose_options,
              .run = &run_diagnose});

}  // namespace shardsolve::cli
