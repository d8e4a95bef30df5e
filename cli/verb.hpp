/// The commands of `shardsolve`: one Verb each, all of them in the table of verbs.cpp.
#pragma once

#include <span>
#include <string_view>
#include <variant>

namespace CLI {  // NOLINT(readability-identifier-naming)
class App;
}  // namespace CLI

namespace shardsolve::cli {

class ProgressDisplay;
class Workplace;
struct Options;
struct TypedOptions;

/// Does the work on the devices of a workplace, prints what it found and returns the exit code.
/// Finishes `progress` before it prints. Throws Error; then no output file is there.
using RunAtWorkplace = int (*)(Workplace& workplace, ProgressDisplay& progress);

/// The same for a command that has to work where there are no devices.
using RunAlone = int (*)(const Options& options);

/// A command. What is left out stops the build: see complete().
struct Verb {
  std::string_view name;      ///< what is typed: "solve"
  std::string_view about;     ///< a line of `shardsolve --help`
  std::string_view usage;     ///< shown after an error in the arguments
  std::string_view notes;     ///< behind the options in the command's own help
  std::string_view examples;  ///< lines, each a call of the command; the first is the simplest
  /// Adds the options to the command's parser. Values go to `options`, or to `typed` where they
  /// cannot be read without other options.
  void (*add_options)(CLI::App& command, TypedOptions& typed, Options& options) = nullptr;
  /// Reads what was typed. Throws CLI::ValidationError.
  void (*take_options)(const TypedOptions& typed, Options& options) = nullptr;
  std::variant<std::monostate, RunAtWorkplace, RunAlone> run;
};

/// The verb itself. Does not compile if anything of it is missing.
consteval Verb complete(const Verb& verb) {
  for (const std::string_view text :
       {verb.name, verb.about, verb.usage, verb.notes, verb.examples}) {
    if (text.empty()) {
      throw "a text of the verb is missing";
    }
  }
  if (verb.add_options == nullptr || verb.take_options == nullptr ||
      std::holds_alternative<std::monostate>(verb.run)) {
    throw "a function of the verb is missing";
  }
  return verb;
}

extern const Verb solve_verb;
extern const Verb lstsq_verb;
extern const Verb inverse_verb;
extern const Verb logdet_verb;
extern const Verb eigh_verb;
extern const Verb svd_verb;
extern const Verb diagnose_verb;
extern const Verb compare_logs_verb;
extern const Verb replay_verb;
extern const Verb doctor_verb;
extern const Verb tune_verb;
extern const Verb bench_verb;

/// All of them, in the order of the help.
std::span<const Verb* const> verbs();

}  // namespace shardsolve::cli
