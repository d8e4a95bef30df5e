#include "options.hpp"

#include "exit_code.hpp"
#include "launch.hpp"
#include "option_values.hpp"
#include "options_measured.hpp"
#include "version.hpp"

#include <shardsolve/mesh.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <sched.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

namespace shardsolve::cli {
namespace {

constexpr const char* about =
    "Solves dense Hermitian positive definite systems over many devices. Matrices come from .npy\n"
    "files (numpy.save) of float32, float64, complex64 or complex128; each device reads its own\n"
    "share. Every answer comes with a certificate, every refusal with a reason.";

constexpr const char* footer =
    "Examples:\n"
    "  shardsolve solve A.npy b.npy -o x.npy\n"
    "  shardsolve solve A.npy b.npy -o x.npy --devices 4 --trace trace.json\n"
    "  shardsolve inverse A.npy -o Ainv.npy --force\n"
    "  shardsolve logdet A.npy --json\n"
    "  mpirun -np 4 shardsolve solve A.npy b.npy -o x.npy --backend cuda\n"
    "  shardsolve doctor\n"
    "  shardsolve bench cholesky --n 8192\n"
    "\n"
    "'shardsolve solve --help' and so on say more about each command.\n"
    "\n"
    "Exit codes: 0 solved; 1 no answer for numerical reasons (not positive definite, ...);\n"
    "2 misuse (arguments, contents of a file); 3 environment (disk, memory, device); 128 + number "
    "of\n"
    "the signal after SIGINT, SIGTERM or SIGHUP (130, 143, 129); 70 a bug of shardsolve.\n"
    "Output files are there, complete, if the exit code is 0, and not if it is another one, "
    "unless\n"
    "the message says that they are: when the answer was written and could not be printed.";

constexpr const char* solve_about = "solve A x = b";

constexpr const char* solve_usage = "shardsolve solve A.npy b.npy -o x.npy [options]";

constexpr const char* solve_footer =
    "A: Hermitian positive definite, shape (n, n), both triangles given. b: shape (n,) or (n, k), "
    "of\n"
    "A's dtype. x gets the shape, dtype and order of b.\n"
    "\n"
    "From Python to Python:\n"
    "  numpy.save(\"A.npy\", A); numpy.save(\"b.npy\", b)\n"
    "  $ shardsolve solve A.npy b.npy -o x.npy\n"
    "  x = numpy.load(\"x.npy\")\n"
    "\n"
    "The certificate: the backward error says how well x solves the system, in units of rounding;\n"
    "rcond says how much A amplifies errors. The first over the second is about the relative "
    "error\n"
    "of x. With --no-rcond the backward error is all.";

constexpr const char* inverse_about = "write the inverse of A";

constexpr const char* inverse_usage = "shardsolve inverse A.npy -o X.npy [options]";

constexpr const char* inverse_footer =
    "A: Hermitian positive definite, shape (n, n), both triangles given. The full inverse is "
    "written\n"
    "in A's dtype and order. To solve systems use 'solve': it is faster and more accurate.\n"
    "\n"
    "Example: shardsolve inverse A.npy -o X.npy --devices 4";

constexpr const char* logdet_about = "print log(det(A))";

constexpr const char* logdet_usage = "shardsolve logdet A.npy [options]";

constexpr const char* logdet_footer =
    "A: Hermitian positive definite, shape (n, n), both triangles given. The determinant itself "
    "is\n"
    "positive, and often beyond the range of floating-point numbers.\n"
    "With --quiet the number alone is printed: ld=$(shardsolve logdet A.npy --quiet)";

constexpr const char* doctor_about =
    "show what there is to compute with, and what is wrong with it";

constexpr const char* doctor_usage = "shardsolve doctor [options]";

constexpr const char* doctor_footer =
    "Devices, libraries and their versions, what 'shardsolve solve' would use with the same\n"
    "--backend and --devices and why, and the usual misconfigurations: each with why it matters "
    "and\n"
    "what to do. JAX is that of the python3 on PATH; it is not imported.\n"
    "\n"
    "Exit codes: 0 no errors among the findings; 3 errors; 2 misuse.\n"
    "\n"
    "Examples:\n"
    "  shardsolve doctor --backend cuda --devices 0,1\n"
    "  shardsolve doctor --measure --json";

/// How --devices is meant: a number of CPU devices, a list of GPUs, of which each process takes one
/// if there are several, or nothing where each process is a CPU device.
struct DeviceList {
  std::string backend = "cpu";
  std::string text;
  std::string mpi = "auto";
  std::string communicator = "auto";
};

std::int64_t default_devices() {
  constexpr std::int64_t most = 8;  // more on one CPU gain little
  // Cores that this process may run on: the standard library counts those of the machine.
  cpu_set_t cores;
  const bool known = ::sched_getaffinity(0, sizeof(cores), &cores) == 0;
  return std::clamp<std::int64_t>(known ? CPU_COUNT(&cores) : std::thread::hardware_concurrency(),
                                  1, most);
}

/// Throws what CLI11 shows as misuse.
[[noreturn]] void reject_devices(const std::string& text, const std::string& accepted) {
  throw CLI::ValidationError("--devices", fmt::format("'{}' given; {}", text, accepted));
}

void take_cpu_devices(const std::string& text, Options& options) {
  const auto count = to_whole_number(text, 1, Mesh::max_host_ranks);
  if (!count) {
    reject_devices(text,
                   fmt::format("1 to {} CPU devices are accepted, in digits; more than the machine "
                               "has cores gain no speed",
                               Mesh::max_host_ranks));
  }
  options.devices = *count;
}

void take_gpus(const std::string& text, Options& options) {
  for (const std::string& part : parts_of(text)) {
    const auto number = to_whole_number(part, 0, 1023);
    if (!number) {
      reject_devices(text, "with --backend cuda the numbers of GPUs are accepted: 0 or 0,1,2,3");
    }
    if (std::find(options.gpus.begin(), options.gpus.end(), *number) != options.gpus.end()) {
      reject_devices(text, fmt::format("GPU {} is there twice: each one is one device", *number));
    }
    options.gpus.push_back(static_cast<int>(*number));
  }
  options.devices = static_cast<std::int64_t>(options.gpus.size());
}

bool wants_mpi(const DeviceList& list) {
  return list.mpi == "on" || (list.mpi == "auto" && launched_processes() > 1);
}

void take_processes(const DeviceList& list, Options& options) {
  constexpr const char* advice = "; --mpi off makes each process work on its own";
  if (options.command == Command::tune) {
    throw CLI::ValidationError(
        "tune",
        "one process measures the devices of its machine: leave out mpirun or srun. What "
        "it finds for --devices 4 also holds for 4 processes on such a machine");
  }
  if (options.measure) {
    throw CLI::ValidationError(
        "--measure",
        fmt::format("rates are measured by one process: leave out mpirun or srun{}", advice));
  }
  if (list.backend == "cuda") {
    if (!list.text.empty()) {
      take_gpus(list.text, options);
    }
    options.backend = Backend::cuda;
    return;
  }
  if (!list.text.empty()) {
    reject_devices(list.text,
                   fmt::format("each of the processes is one device: leave it out{}", advice));
  }
}

void take_communicator(const DeviceList& list, Options& options) {
  if (list.communicator == "auto") {
    return;
  }
  if (!options.mpi || options.backend != Backend::cuda) {
    throw CLI::ValidationError(
        "--communicator",
        fmt::format("'{}' given; it is for GPUs of several processes (--backend cuda, mpirun or "
                    "srun): leave it out",
                    list.communicator));
  }
  options.communicator = list.communicator == "ipc" ? GpuCommunicator::ipc : GpuCommunicator::nccl;
}

void take_devices(const DeviceList& list, Options& options) {
  options.mpi = wants_mpi(list);
  options.devices_chosen = !list.text.empty();
  if (options.mpi) {
    take_processes(list, options);
  } else if (list.backend == "cuda") {
    options.backend = Backend::cuda;
    take_gpus(list.text.empty() ? "0" : list.text, options);
  } else if (!list.text.empty()) {
    take_cpu_devices(list.text, options);
  }
  take_communicator(list, options);
}

void add_matrix(CLI::App& command, Options& options) {
  command.add_option("A", options.matrix, "the matrix, an .npy file")
      ->required()
      ->type_name("FILE");
}

void add_output(CLI::App& command, Options& options, const char* what) {
  command.add_option("-o,--output", options.output, what)
      ->required()
      ->type_name("FILE")
      ->check(file_name());
  command.add_flag("--force", options.force,
                   "replace output files that exist (never an input file)");
}

void add_devices(CLI::App& command, const Options& options, DeviceList& devices) {
  command.add_option("--backend", devices.backend, "what the devices are: cpu (default) or cuda")
      ->type_name("NAME")
      ->check(one_of({"cpu", "cuda"}));
  command
      .add_option(
          "--devices", devices.text,
          fmt::format("CPU devices, 1 to {} (default {}: the cores, at most 8), or GPUs: 0,1 "
                      "(default 0)",
                      Mesh::max_host_ranks, options.devices))
      ->type_name("N")
      ->check(not_empty("a number of CPU devices is accepted, or numbers of GPUs: 0,1"));
  command
      .add_option(
          "--mpi", devices.mpi,
          "each process is one device of the job: on, off or auto (several of mpirun, srun)")
      ->type_name("WHEN")
      ->check(one_of({"auto", "on", "off"}));
  command
      .add_option("--communicator", devices.communicator,
                  "between GPUs of several processes: auto (default), ipc or nccl")
      ->type_name("NAME")
      ->check(one_of({"auto", "ipc", "nccl"}));
}

void add_json(CLI::App& command, Options& options) {
  command.add_flag("--json", options.json, "print one JSON object in place of text");
}

void add_tile_table(CLI::App& command, Options& options) {
  command
      .add_option("--tile-table", options.tile_table,
                  "table of 'shardsolve tune' (default: this user's; none: the library's choice)")
      ->type_name("FILE")
      ->check(file_name("the name of a file is accepted, or none"));
}

void add_tile(CLI::App& command, Options& options) {
  constexpr std::int64_t widest = std::int64_t{1} << 40;
  command
      .add_option("--tile", options.tile,
                  "columns eliminated in one step (default: chosen from n and the devices)")
      ->type_name("N")
      ->check(whole_number(1, widest,
                           fmt::format("a number of columns, at least 1 and at most {}, is "
                                       "accepted, in digits; leave it out for a good choice",
                                       widest)));
  add_tile_table(command, options);
}

void add_timeout(CLI::App& command, Options& options) {
  command
      .add_option("--timeout", options.timeout,
                  fmt::format("give up when a device has shown no sign of life for this long "
                              "(default {:g})",
                              options.timeout))
      ->type_name("SECONDS")
      ->check(positive_seconds());
}

void add_common(CLI::App& command, Options& options, DeviceList& devices) {
  add_devices(command, options, devices);
  add_tile(command, options);
  command
      .add_option("--trace", options.trace,
                  "write what every queue did, for ui.perfetto.dev, and print a summary of it")
      ->type_name("FILE")
      ->check(file_name());
  add_timeout(command, options);
  add_json(command, options);
  command.add_flag("-q,--quiet", options.quiet, "no progress and no report; errors are shown");
}

CLI::App* add_solve(CLI::App& app, Options& options, DeviceList& devices) {
  CLI::App* command = app.add_subcommand("solve", solve_about)->footer(solve_footer);
  add_matrix(*command, options);
  command->add_option("b", options.right_hand_sides, "the right-hand sides, an .npy file")
      ->required()
      ->type_name("FILE");
  add_output(*command, options, "where x goes");
  command->add_flag_callback(
      "--no-rcond", [&options] { options.rcond = false; },
      "leave out rcond, which takes about as long as five solves");
  add_common(*command, options, devices);
  return command;
}

CLI::App* add_inverse(CLI::App& app, Options& options, DeviceList& devices) {
  CLI::App* command = app.add_subcommand("inverse", inverse_about)->footer(inverse_footer);
  add_matrix(*command, options);
  add_output(*command, options, "where the inverse goes");
  add_common(*command, options, devices);
  return command;
}

CLI::App* add_logdet(CLI::App& app, Options& options, DeviceList& devices) {
  CLI::App* command = app.add_subcommand("logdet", logdet_about)->footer(logdet_footer);
  add_matrix(*command, options);
  command->add_flag("--force", options.force, "replace a trace file that exists");
  add_common(*command, options, devices);
  return command;
}

CLI::App* add_doctor(CLI::App& app, Options& options, DeviceList& devices) {
  CLI::App* command = app.add_subcommand("doctor", doctor_about)->footer(doctor_footer);
  add_devices(*command, options, devices);
  command->add_flag("--measure", options.measure,
                    "measure rates of the devices now: copy, gemm, broadcast");
  add_tile_table(*command, options);
  add_json(*command, options);
  return command;
}

/// tune and bench, with what they share with the other commands.
void add_measured(CLI::App& app, Options& options, DeviceList& devices, MeasuredLists& lists) {
  CLI::App* tune = add_tune(app, options, lists);
  CLI::App* bench = add_bench(app, options, lists);
  tune->add_option("--tile-table", options.tile_table,
                   "table to write, or to add to (default: this user's)")
      ->type_name("FILE")
      ->check(file_name());
  add_tile(*bench, options);
  for (CLI::App* command : {tune, bench}) {
    add_devices(*command, options, devices);
    add_timeout(*command, options);
    add_json(*command, options);
    command->add_flag("-q,--quiet", options.quiet, "no progress and no report; errors are shown");
  }
}

const char* usage_of(std::string_view command) {
  if (command == "solve") {
    return solve_usage;
  }
  if (command == "doctor") {
    return doctor_usage;
  }
  if (command == "tune" || command == "bench") {
    return command == "tune" ? tune_usage : bench_usage;
  }
  return command == "inverse" ? inverse_usage : logdet_usage;
}

/// What was wrong, or the help or version that was asked for.
Answer answer(const CLI::App& app, const CLI::ParseError& error,
              const std::string& first_argument) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
    return {exit_ok, error.get_name() == "CallForVersion" ? version_text() : app.help()};
  }
  const auto chosen = app.get_subcommands();
  if (chosen.empty()) {
    return {exit_misuse,
            fmt::format("{}; the commands are solve, inverse, logdet, doctor, tune and bench\n"
                        "Try 'shardsolve --help'.",
                        first_argument.empty() ? "no command given"
                                               : "'" + first_argument + "' is not a command")};
  }
  const std::string command = chosen.front()->get_name();
  return {exit_misuse, fmt::format("{}\nUsage: {}\nTry 'shardsolve {} --help'.", error.what(),
                                   usage_of(command), command)};
}

/// The command that was given; solve if none was.
Command chosen(const CLI::App& app) {
  const auto commands = app.get_subcommands();
  for (const Command command :
       {Command::inverse, Command::logdet, Command::doctor, Command::tune, Command::bench}) {
    if (!commands.empty() && commands.front()->get_name() == name(command)) {
      return command;
    }
  }
  return Command::solve;
}

/// The version, then the arguments as they were given.
std::string summary_of(int argc, const char* const* argv) {
  std::string summary = fmt::format("shardsolve {} with the BLAS {}", version, blas);
  for (int i = 1; i < argc; ++i) {
    summary += fmt::format("\nthe argument '{}'", argv[i]);
  }
  return summary;
}

}  // namespace

std::string_view name(Command command) {
  switch (command) {
    case Command::solve:
      return "solve";
    case Command::inverse:
      return "inverse";
    case Command::logdet:
      return "logdet";
    case Command::doctor:
      return "doctor";
    case Command::tune:
      return "tune";
    case Command::bench:
      return "bench";
  }
  return "unknown";
}

CommandLine parse_command_line(int argc, const char* const* argv) {
  CommandLine line;
  line.summary = summary_of(argc, argv);
  Options& options = line.options;
  options.devices = default_devices();
  CLI::App app(about, "shardsolve");
  app.footer(footer);
  app.require_subcommand(1);
  app.set_version_flag("--version", version_text(), "version, and the BLAS that is used");
  DeviceList devices;
  MeasuredLists lists;
  add_solve(app, options, devices);
  add_inverse(app, options, devices);
  add_logdet(app, options, devices);
  add_doctor(app, options, devices);
  add_measured(app, options, devices, lists);
  try {
    app.parse(argc, argv);
    options.command = chosen(app);
    take_devices(devices, options);
    take_measured(lists, options);
  } catch (const CLI::ParseError& error) {
    options.mpi = wants_mpi(devices);
    options.command = chosen(app);
    line.answer = answer(app, error, argc > 1 ? argv[1] : "");
    options.json = std::find(argv, argv + argc, std::string_view("--json")) != argv + argc;
  }
  return line;
}

}  // namespace shardsolve::cli
