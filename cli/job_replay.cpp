// `shardsolve replay`: a captured solve once more, or with other options.

#include "exit_code.hpp"
#include "file_job.hpp"
#include "krylov_files/capture_index.hpp"
#include "krylov_files/json.hpp"
#include "krylov_files/log_comparison.hpp"
#include "krylov_files/log_file.hpp"
#include "krylov_job.hpp"
#include "krylov_options.hpp"
#include "option_values.hpp"
#include "progress.hpp"
#include "shared_options.hpp"
#include "terminal.hpp"
#include "verb.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace shardsolve::cli {
namespace {

using krylov::files::CaptureIndex;
using krylov::files::Log;

struct Capture {
  CaptureIndex index;
  Log log;
};

Capture read_capture(const std::string& folder) {
  return {krylov::files::read_capture_index(folder),
          krylov::files::read_log(folder + "/" + krylov::files::log_name)};
}

std::string solver_text(const krylov::Request& request) {
  const bool has_m = request.preconditioner.kind != krylov::Recipe::Kind::none;
  return method_of(request) +
         (has_m ? " with " + krylov::files::recipe_text(request.preconditioner) : "");
}

/// What was recorded cannot be solved in another way.
void require_replayable(const Capture& capture, const Options& options) {
  const bool is_a = capture.index.is_of_products();
  const bool is_m = capture.index.request.preconditioner.kind == krylov::Recipe::Kind::recorded;
  const std::vector<std::string> given = options_of_solve(options);
  if (given.empty() || (!is_a && (!is_m || options.krylov.preconditioner))) {
    return;
  }
  throw Error(
      ErrorKind::invalid_argument,
      fmt::format("{} given, and '{}' has the products with {} that one solve asked for, not {}: "
                  "another solve asks for others. Leave the option out, {}",
                  given.front(), options.captured, is_a ? "A" : "the preconditioner",
                  is_a ? "the matrix" : "the preconditioner itself",
                  is_a ? "or try it where the operator is, or capture a matrix"
                       : "or name another preconditioner with --preconditioner"));
}

SparsePaths paths_of(const Capture& capture, const Options& options) {
  const auto products = [&](bool is_there, const krylov::files::ProductNames& names) {
    const std::string folder = options.captured + "/";
    return is_there ? std::optional(ProductPaths{folder + names.x, folder + names.y})
                    : std::nullopt;
  };
  return {options.matrix,
          options.right_hand_sides,
          capture.index.request.options.use_guess ? options.krylov.guess : "",
          products(capture.index.is_of_products(), krylov::files::operator_products),
          products(capture.index.has(krylov::files::preconditioner_products.x),
                   krylov::files::preconditioner_products),
          capture.index.has(krylov::files::level_matrix_name(1)) ? options.captured : ""};
}

/// Whether nothing was asked for but another place.
bool asks_for_the_same(const krylov::Request& a, const krylov::Request& b) {
  return a.options.method == b.options.method && a.is_automatic == b.is_automatic &&
         a.options.rtol == b.options.rtol && a.options.atol == b.options.atol &&
         a.options.max_iterations == b.options.max_iterations &&
         a.options.restart == b.options.restart && a.preconditioner == b.preconditioner;
}

Replay held_against(const Capture& capture, const Options& options, const KrylovReport& now) {
  Replay replay{.folder = options.captured,
                .version = capture.index.version,
                .request = capture.index.request,
                .result = capture.log.result};
  if (!asks_for_the_same(capture.index.request, now.request)) {
    return replay;
  }
  Log run{"this run", "", now.request, now.result};
  if (capture.log.result.log.empty()) {
    run.result.log.clear();  // the captured solve had no log
  }
  const auto comparison = krylov::files::compare(capture.log, run);
  replay.reproduced = comparison.same_bits;
  if (!comparison.same_bits) {
    replay.differences = krylov::files::sentences(capture.log, run, comparison);
  }
  return replay;
}

std::string verdict_text(const krylov::Result& result) {
  return fmt::format("{} after {} iterations", krylov::name(result.status), result.iterations);
}

std::string place_text(const krylov::Request& request) {
  return fmt::format("{} on {} {} device{}", solver_text(request), request.ranks, request.backend,
                     request.ranks == 1 ? "" : "s");
}

/// The first lines of the report.
std::string headline(const Options& options, const KrylovReport& now, const Replay& replay) {
  if (!replay.reproduced) {
    return fmt::format(
        "Tried '{}' in another way: {}\n  captured        {}: {}\n  now             {}: {}\n",
        replay.folder, verdict_text(now.result), place_text(replay.request),
        verdict_text(replay.result), place_text(now.request), verdict_text(now.result));
  }
  std::string text =
      *replay.reproduced
          ? fmt::format("Reproduced '{}' to the bit: {}, {} records\n", replay.folder,
                        verdict_text(now.result), replay.result.log.size())
          : fmt::format("Did not reproduce '{}'\n", replay.folder);
  text += fmt::format("  captured        {}, shardsolve {}\n  now             {}\n",
                      place_text(replay.request), replay.version, place_text(now.request));
  for (const std::string& sentence : replay.differences) {
    text += fmt::format("  {}\n", sentence);
  }
  text += fmt::format("  {}\n", now.result.message);
  const std::string& output = options.output;
  return output.empty() || krylov::is_converged(now.result.status)
             ? text
             : text + fmt::format("  '{}' was not written, as there is no x\n", output);
}

/// Of what was found, not of the solve: a failure that is seen again is what was asked for.
int code_of(const Replay& replay, const Report& report) {
  const bool good = replay.reproduced ? *replay.reproduced : report.outcome.ok();
  return good ? exit_ok : exit_numerical;
}

int tell_replay(Workplace& workplace, ProgressDisplay& progress, Report& report) {
  const Options& options = workplace.options();
  const KrylovReport& now = report.krylov.value();
  const Replay& replay = now.replay.value();
  progress.finish();
  const int code = code_of(replay, report);
  add_trace(workplace, report);
  if (!workplace.speaks()) {
    return code;
  }
  report.words.headline = headline(options, now, replay);
  if (!report.outcome.ok()) {
    report.results.clear();  // there is no x
  }
  const std::string text = options.json    ? json_report(options, report)
                           : options.quiet ? ""
                                           : text_report(options, report);
  const bool printed = print(stdout, text);
  if (code != exit_ok) {
    print_error(replay.reproduced ? fmt::format("'{}' was not reproduced: {}", replay.folder,
                                                fmt::join(replay.differences, " "))
                                  : krylov_reason(options, now));
    return code;
  }
  if (!printed) {
    print_error("the report could not be written to standard output");
    return exit_environment;
  }
  return code;
}

int run_replay(Workplace& workplace, ProgressDisplay& progress) {
  const Options& options = workplace.options();
  const Capture capture =
      workplace.everywhere([folder = options.captured] { return read_capture(folder); });
  const krylov::Request& captured = capture.index.request;
  require_replayable(capture, options);
  const auto input = std::make_shared<const SparseInput>(
      read_sparse_system(workplace, paths_of(capture, options)));
  Report report;
  std::visit(
      [&]<Scalar T>(const SparseSystem<T>& system) {
        krylov::Request request = request_for(workplace, system);
        request.options = captured.options;
        request.is_automatic = captured.is_automatic;
        request.preconditioner = captured.preconditioner;
        take_request(options, cut_of(system), request);
        request.options.log = true;
        report = report_for(options, *input, request);
        solve_and_keep(workplace, SharedSystem<T>(input, &system), request, report);
      },
      input->system);
  KrylovReport& verdict = report.krylov.value();
  verdict.replay = held_against(capture, options, verdict);
  return tell_replay(workplace, progress, report);
}

void add_replay_options(CLI::App& command, TypedOptions& typed, Options& options) {
  command.add_option("folder", options.captured, "what 'shardsolve solve --capture' has written")
      ->required()
      ->type_name("DIR");
  command.add_option("-o,--output", options.output, "where x goes if the solve converges")
      ->type_name("FILE")
      ->check(file_name());
  command.add_option("--log", options.krylov.log, "write the log of this run")
      ->type_name("FILE")
      ->check(file_name());
  command.add_flag("--force", options.force,
                   "replace output files that exist (never an input file)");
  add_krylov_options(command, options);
  add_run_options(command, options, typed);
}

void take_replay_options(const TypedOptions& typed, Options& options) {
  const std::string folder = options.captured + "/";
  options.matrix = folder + krylov::files::matrix_name;
  options.right_hand_sides = folder + krylov::files::rhs_name;
  options.krylov.guess = folder + krylov::files::guess_name;
  take_devices(typed.devices, options);
}

constexpr std::string_view replay_notes =
    R"(Without options of 'Sparse A' the same solve is done again, here: status, numbers and every
record of the log are compared with those of the capture, bit by bit. Devices and backend may be
others, the bits have to be the same all the same. With such options another solve of the same
system is tried, beginning with the options of the capture; not of one that has products of an
operator instead of A, as C++ writes it, which knows its own solve alone.

Exit codes: 0 reproduced, or what was tried converged; 1 not; 2 the folder is no capture, is
damaged, or of another version; 3 it cannot be read.)";

}  // namespace

constinit const Verb replay_verb =
    complete({.name = "replay",
              .about = "repeat a solve that --capture has kept, or try it in another way",
              .usage = "shardsolve replay DIR [options]",
              .notes = replay_notes,
              .examples = R"(shardsolve replay failure
shardsolve replay failure --devices 4
shardsolve replay failure --method minres --preconditioner block-jacobi --blocks 4)",
              .add_options = &add_replay_options,
              .take_options = &take_replay_options,
              .run = &run_replay});

}  // namespace shardsolve::cli
