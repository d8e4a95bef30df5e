#include "options.hpp"

#include "exit_code.hpp"
#include "shared_options.hpp"
#include "verb.hpp"
#include "version.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsolve::cli {
namespace {

constexpr const char* about =
    "Solves dense systems over many devices, finds eigenvalues and eigenvectors of Hermitian\n"
    "matrices and singular values and vectors of any, and solves sparse systems by Krylov "
    "methods.\n"
    "Dense matrices come from .npy files (numpy.save), sparse ones from .npz files\n"
    "(scipy.sparse.save_npz) or Matrix Market, of float32, float64, complex64 or complex128. "
    "Every\n"
    "answer comes with a certificate, every refusal with a reason.";

constexpr const char* exit_codes =
    "Exit codes: 0 solved; 1 no answer for numerical reasons (not positive definite, ...);\n"
    "2 misuse (arguments, contents of a file); 3 environment (disk, memory, device); 128 + number "
    "of\n"
    "the signal after SIGINT, SIGTERM or SIGHUP (130, 143, 129); 70 a bug of shardsolve.\n"
    "Output files are there, complete, if the exit code is 0, and not if it is another one, "
    "unless\n"
    "the message says that they are: when the answer was written and could not be printed.";

/// Lines of a help text, each behind a line break and two columns further in.
std::string indented(std::string_view lines) {
  std::string text;
  for (std::size_t begin = 0; begin < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', begin), lines.size());
    text += fmt::format("\n  {}", lines.substr(begin, end - begin));
    begin = end + 1;
  }
  return text;
}

/// What stands below the options in the help of a command.
std::string footer_of(const Verb& verb) {
  return fmt::format("{}\n\nExamples:{}", verb.notes, indented(verb.examples));
}

/// What stands below the commands in the help of all.
std::string footer() {
  std::string text = "Examples:";
  for (const Verb* verb : verbs()) {
    text += indented(verb->examples.substr(0, verb->examples.find('\n')));
  }
  return fmt::format(
      "{}\n  mpirun -np 4 shardsolve solve A.npy b.npy -o x.npy\n\n"
      "'shardsolve solve --help' and so on say more about each command.\n\n{}",
      text, exit_codes);
}

/// "solve, inverse and logdet".
std::string names_of_verbs() {
  std::vector<std::string_view> names;
  for (const Verb* verb : verbs()) {
    names.push_back(verb->name);
  }
  const std::string_view last = names.back();
  names.pop_back();
  return fmt::format("{} and {}", fmt::join(names, ", "), last);
}

/// Letters to change, leave out or put in for one word to become the other.
std::size_t distance(std::string_view one, std::string_view other) {
  std::vector<std::size_t> row(other.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < one.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < other.size(); ++j) {
      const std::size_t changed = diagonal + (one[i] == other[j] ? 0 : 1);
      diagonal = std::exchange(row[j + 1], std::min({changed, row[j] + 1, row[j + 1] + 1}));
    }
  }
  return row.back();
}

/// The option of this command that is spelled nearly like that; empty if there is none.
std::string option_like(const CLI::App& command, const std::string& given) {
  constexpr std::size_t most_letters = 2;
  std::string nearest;
  std::size_t least = most_letters + 1;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      const std::size_t letters = distance("--" + name, given);
      if (letters < least) {
        least = letters;
        nearest = "--" + name;
      }
    }
  }
  return nearest;
}

/// Of a command line with arguments that belong nowhere: options first, as what stands behind one
/// may have been its value.
std::string not_expected(const CLI::App& command, const CLI::ParseError& error) {
  for (const std::string& argument : command.remaining()) {
    if (argument.starts_with("--")) {
      const std::string given = argument.substr(0, argument.find('='));
      const std::string nearest = option_like(command, given);
      return fmt::format("the option '{}' was not expected{}", given,
                         nearest.empty() ? "" : ": did you mean '" + nearest + "'?");
    }
  }
  return error.what();
}

/// What was wrong, or the help or version that was asked for. `verb`: null if none was given.
Answer answer(const CLI::App& app, const CLI::ParseError& error, const Verb* verb,
              const std::string& first_argument) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
    return {exit_ok, error.get_name() == "CallForVersion" ? version_text() : app.help()};
  }
  if (verb == nullptr) {
    return {exit_misuse,
            fmt::format("{}; the commands are {}\nTry 'shardsolve --help'.",
                        first_argument.empty() ? "no command given"
                                               : "'" + first_argument + "' is not a command",
                        names_of_verbs())};
  }
  const std::string what = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)
                               ? not_expected(*app.get_subcommands().front(), error)
                               : error.what();
  return {exit_misuse,
          fmt::format("{}\nUsage: {}\nTry 'shardsolve {} --help'.", what, verb->usage, verb->name)};
}

/// The command that was given; null if none was.
const Verb* chosen(const CLI::App& app) {
  const auto commands = app.get_subcommands();
  for (const Verb* verb : verbs()) {
    if (!commands.empty() && commands.front()->get_name() == verb->name) {
      return verb;
    }
  }
  return nullptr;
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

CommandLine parse_command_line(int argc, const char* const* argv) {
  CommandLine line;
  line.summary = summary_of(argc, argv);
  Options& options = line.options;
  options.devices = default_devices();
  CLI::App app(about, "shardsolve");
  app.footer(footer());
  app.require_subcommand(1);
  app.set_version_flag("--version", version_text(), "version, and the BLAS that is used");
  TypedOptions typed;
  for (const Verb* verb : verbs()) {
    CLI::App* command = app.add_subcommand(std::string(verb->name), std::string(verb->about));
    command->footer(footer_of(*verb));
    verb->add_options(*command, typed, options);
  }
  try {
    app.parse(argc, argv);
    options.verb = chosen(app);  // there is one, as it is required
    options.verb->take_options(typed, options);
  } catch (const CLI::ParseError& error) {
    options.mpi = wants_mpi(typed.devices);
    options.verb = chosen(app);
    line.answer = answer(app, error, options.verb, argc > 1 ? argv[1] : "");
    options.json = std::find(argv, argv + argc, std::string_view("--json")) != argv + argc;
  }
  return line;
}

}  // namespace shardsolve::cli
