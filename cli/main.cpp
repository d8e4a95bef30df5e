// The command `shardsolve`: arguments in, exit code out.

#include "deadline.hpp"
#include "doctor/collect.hpp"
#include "doctor/launch.hpp"
#include "exit_code.hpp"
#include "krylov/spelling.hpp"
#include "launch.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "report.hpp"
#include "signals.hpp"
#include "terminal.hpp"
#include "verb.hpp"
#include "workplace.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <variant>

namespace shardsolve::cli {
namespace {

/// Help, version, or what was wrong with the arguments.
int tell(const Answer& answer, const Options& options) {
  if (answer.code == exit_ok) {
    return print(stdout, answer.text) ? exit_ok : exit_environment;
  }
  if (options.json) {
    print(stdout, json_failure(options, name(ErrorKind::invalid_argument), answer.text));
  }
  print_error(answer.text);
  return answer.code;
}

/// Opens /dev/null for each standard descriptor that the caller has closed, so that no file that is
/// opened later gets its number. Writing to it fails as before: it is opened for the other
/// direction.
void occupy_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) == -1 && errno == EBADF) {
      const int mode = descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY;
      [[maybe_unused]] const int lowest = ::open("/dev/null", mode);
    }
  }
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

/// Exit code of a job that threw. If this process received no signal, another process of the job
/// did: the code is then that of SIGTERM.
int exit_code_of(ErrorKind kind) {
  return exit_code(kind, Signals::received() != 0 ? Signals::received() : SIGTERM);
}

/// What the user is told of a job that threw.
std::string message_of(const Options& options, const Workplace* workplace, ErrorKind kind,
                       const std::string& what) {
  if (kind == ErrorKind::cancelled) {
    return Signals::received() != 0 ? fmt::format("interrupted ({}): nothing was written",
                                                  name_of_signal(Signals::received()))
                                    : "interrupted in another process: nothing was written";
  }
  if (kind == ErrorKind::communication) {
    return what + fmt::format(" (--timeout, now {:g} s)", options.timeout);
  }
  const bool in_one_place = exit_code_of(kind) == exit_environment;
  if (in_one_place && workplace != nullptr && workplace->has_processes()) {
    return fmt::format("{} ({})", what, workplace->whereabouts());
  }
  return what;
}

void tell_failure(const Options& options, ErrorKind kind, const std::string& message) {
  if (options.json) {
    print(stdout, json_failure(options, name(kind), message));
  }
  print_error(message);
}

/// How long MPI may take to connect the processes, and to end in them; nothing can interrupt these
/// calls. With GPUs they take some seconds, so the limit is 10 s at least, whatever --timeout says.
std::chrono::duration<double> patience_with_mpi(const Options& options) {
  return std::chrono::duration<double>(std::max(options.timeout, 10.0));
}

/// Waits until it is this process's turn to report an error that many processes may have met, while
/// they cannot ask each other. The lowest rank reports and ends, and the launcher then ends the
/// others; a process that is still there when its turn comes reports, too.
void await_turn() {
  constexpr std::int64_t last_turn = 2;
  constexpr std::chrono::seconds turn(3);  // Open MPI takes one or two to end the others
  const std::int64_t launched = launched_processes();
  const std::int64_t rank = doctor::launch_of(doctor::own_environment(), launched).rank;
  std::this_thread::sleep_for(std::min(rank, last_turn) * turn);
}

/// The processes have not connected in time.
[[noreturn]] void give_up_start(const Options& options) {
  await_turn();
  if (Signals::received() == 0) {
    constexpr ErrorKind kind = ErrorKind::communication;
    tell_failure(options, kind,
                 message_of(options, nullptr, kind,
                            fmt::format("MPI has not connected the processes ({}) within {:g} s: "
                                        "one is stopped, has not started, or runs another command",
                                        launched_processes(), patience_with_mpi(options).count())));
  }
  std::_Exit(exit_environment);
}

/// Ends this process, whose work is done, if MPI does not end in time: MPI ends in all processes
/// together, when they exit, and a process that is stopped would keep the others for ever.
void limit_end(const Options& options, int code) {
  const auto end = [code] {
    print(stderr, "shardsolve: another process does not end; this one ends without it\n");
    std::_Exit(code);
  };
  try {
    [[maybe_unused]] static auto& deadline =
        *new Deadline(patience_with_mpi(options), end);  // used until the very end of the process
  } catch (const Error&) {
    return;  // no thread to spare: MPI may take as long as it will
  }
}

/// Reports a job that threw, and ends the process. Nothing is destroyed, as threads of a rank that
/// never came back may still run, unless the processes have to end in good order.
[[noreturn]] void fail(const Options& options, std::optional<Workplace>& workplace, ErrorKind kind,
                       const std::string& what) {
  if (!workplace && options.mpi) {
    await_turn();
  }
  if (!workplace || workplace->speaks()) {
    tell_failure(options, kind, message_of(options, workplace ? &*workplace : nullptr, kind, what));
  }
  const int code = exit_code_of(kind);
  if (workplace && workplace->has_processes() && !workplace->broken()) {
    limit_end(options, code);
    workplace.reset();
    std::exit(code);
  }
  std::_Exit(code);
}

int run(const CommandLine& line, std::optional<Workplace>& workplace,
        const std::shared_ptr<ProgressDisplay>& progress) {
  const Signals signals;
  const std::stop_callback announce(
      signals.token(), [&] { progress->say("stopping; a second signal ends at once"); });
  {
    std::optional<Deadline> deadline;
    if (line.options.mpi) {
      deadline.emplace(patience_with_mpi(line.options),
                       [&options = line.options] { give_up_start(options); });
    }
    workplace.emplace(line.options, signals.token(), progress);
  }
  workplace->require_same(line.summary);
  if (line.answer) {
    return workplace->speaks() ? tell(*line.answer, line.options) : line.answer->code;
  }
  return std::get<RunAtWorkplace>(line.options.verb->run)(*workplace, *progress);
}

int run(const CommandLine& line) {
  const auto progress = std::make_shared<ProgressDisplay>(
      line.options.quiet ? ProgressDisplay::Style::none
                         : ProgressDisplay::style_of_standard_error());
  std::optional<Workplace> workplace;
  ErrorKind kind = ErrorKind::internal;
  std::string message;
  try {
    const int code = run(line, workplace, progress);
    if (line.options.mpi) {
      limit_end(line.options, code);
    }
    return code;
  } catch (const Error& error) {
    kind = error.kind();
    message = error.what();
  } catch (const std::bad_alloc&) {
    kind = ErrorKind::out_of_memory;
    message =
        "the system has no memory left, or a limit on addresses (ulimit -v) is reached; use a "
        "machine with more";
  } catch (const std::exception& error) {
    message = fmt::format("{}: this is a bug of shardsolve, please report it", error.what());
  }
  progress->finish();
  fail(line.options, workplace, kind, message);
}

}  // namespace
}  // namespace shardsolve::cli

int main(int argc, char** argv) {
  using namespace shardsolve::cli;
  occupy_standard_descriptors();
  shardsolve::krylov::speak_to(shardsolve::krylov::Reader::command);
  const CommandLine line = parse_command_line(argc, argv);
  if (line.answer) {
    return line.options.mpi ? run(line) : tell(*line.answer, line.options);
  }
  const auto* alone = std::get_if<RunAlone>(&line.options.verb->run);
  return alone != nullptr ? (*alone)(line.options) : run(line);
}
