// The command `shardsolve`: arguments in, exit code out.

#include "exit_code.hpp"
#include "jobs.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "report.hpp"
#include "signals.hpp"
#include "terminal.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <stop_token>
#include <string>
#include <string_view>
#include <variant>

namespace shardsolve::cli {
namespace {

Report run_job(const Context& context) {
  switch (context.options.command) {
    case Command::solve:
      return solve_job(context);
    case Command::inverse:
      return inverse_job(context);
    case Command::logdet:
      break;
  }
  return logdet_job(context);
}

std::string answer(const Options& options, const Report& report) {
  if (options.json) {
    return json_report(options, report);
  }
  if (!report.outcome.ok()) {
    return "";
  }
  if (!options.quiet) {
    return text_report(options, report);
  }
  return report.log_determinant ? fmt::format("{:.17g}\n", *report.log_determinant) : "";
}

/// Prints the answer, or the reason why there is none.
int conclude(const Options& options, const Report& report) {
  const bool printed = print(stdout, answer(options, report));
  if (!report.outcome.ok()) {
    print_error(numerical_failure(options, report));
    return exit_numerical;
  }
  if (!printed) {
    print_error(
        fmt::format("the report could not be written to standard output{}",
                    options.output.empty() ? "" : "; '" + options.output + "' is complete"));
    return exit_environment;
  }
  return exit_ok;
}

std::string_view name_of_signal(int signal) {
  switch (signal) {
    case SIGINT:
      return "SIGINT";
    case SIGTERM:
      return "SIGTERM";
    default:
      return "SIGHUP";
  }
}

/// Tells of a job that threw, and ends the process. Threads of a rank that never came back may
/// still run, so nothing is destroyed.
[[noreturn]] void fail(const Options& options, ErrorKind kind, std::string message) {
  const int signal = Signals::received();
  if (kind == ErrorKind::cancelled) {
    message = fmt::format("interrupted ({}): nothing was written", name_of_signal(signal));
  } else if (kind == ErrorKind::communication) {
    message += fmt::format(" (--timeout, now {:g} s)", options.timeout);
  }
  if (options.json) {
    print(stdout, json_failure(options, name(kind), message));
  }
  print_error(message);
  std::_Exit(exit_code(kind, signal));
}

int run(const Options& options, const std::shared_ptr<ProgressDisplay>& progress) {
  const Signals signals;
  const std::stop_callback announce(
      signals.token(), [&] { progress->say("stopping; a second signal ends at once"); });
  const Report report = run_job({options, signals.token(), progress});
  progress->finish();
  return conclude(options, report);
}

int run(const Options& options) {
  const auto progress = std::make_shared<ProgressDisplay>(
      options.quiet ? ProgressDisplay::Style::none : ProgressDisplay::style_of_standard_error());
  ErrorKind kind = ErrorKind::internal;
  std::string message;
  try {
    return run(options, progress);
  } catch (const Error& error) {
    kind = error.kind();
    message = error.what();
  } catch (const std::bad_alloc&) {
    kind = ErrorKind::out_of_memory;
    message = "the system has no memory left; use a machine with more";
  } catch (const std::exception& error) {
    message = fmt::format("{}: this is a bug of shardsolve, please report it", error.what());
  }
  progress->finish();
  fail(options, kind, message);
}

}  // namespace
}  // namespace shardsolve::cli

int main(int argc, char** argv) {
  using namespace shardsolve::cli;
  const auto parsed = parse_command_line(argc, argv);
  return std::holds_alternative<int>(parsed) ? std::get<int>(parsed)
                                             : run(std::get<Options>(parsed));
}
