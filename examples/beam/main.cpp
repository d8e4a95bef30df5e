// A cantilever that is pushed sideways and then swings, by finite elements and Newton's method:
//   beam                       every case, each compared with what it has to give
//   beam linear --output out   one case, with its history and frames in out/linear
// Exit status: 0 all is as it has to be; 1 it is not, or Newton's method failed; 2 misuse; 3 a file
// could not be written.

#include "banded_lu.hpp"
#include "cases.hpp"
#include "checks.hpp"
#include "files.hpp"
#include "simulation.hpp"

#include <CLI/CLI.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace beam {
namespace {

struct Request {
  std::vector<std::string> cases;  // none: all
  Settings settings;
  std::filesystem::path output;  // empty: no files
};

std::vector<std::string> names_of_cases() {
  std::vector<std::string> names;
  for (const Case& one : cases())
    names.push_back(one.name);
  return names;
}

void declare(CLI::App& app, Request& request) {
  Settings& settings = request.settings;
  app.add_option("case", request.cases, "what to run; all if none is named")
      ->check(CLI::IsMember(names_of_cases()));
  app.add_option("--until", settings.until, "time at which to stop")
      ->capture_default_str()
      ->check(CLI::Range(0.0, whole_time));
  app.add_option("--steps", settings.steps, "time steps from t = 0 to t = 2")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000}));
  app.add_option("--divisions", settings.divisions, "elements along x, y and z")
      ->delimiter(',')
      ->default_str("8,2,2")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1000}));
  const std::map<std::string, Elimination> eliminations{
      {"rows", Elimination::rows}, {"rows-and-columns", Elimination::rows_and_columns}};
  app.add_option("--dirichlet", settings.elimination, "what becomes that of the identity")
      ->default_str("rows-and-columns")
      ->transform(CLI::CheckedTransformer(eliminations));
  app.add_option("--linear-rtol", settings.newton.linear_rtol,
                 "residual of each linear solve, relative to its right-hand side")
      ->capture_default_str()
      ->check(CLI::Range(1e-16, 0.5));
  app.add_option("--frame-every", settings.frame_every, "steps from a frame to the next")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000}));
  app.add_option("-o,--output", request.output, "folder for a folder of each case");
}

bool is_of_reference(const Settings& settings) {
  return settings.divisions == reference_divisions && settings.steps == reference_steps;
}

// Returns whether the case is as it has to be.
bool run(const Case& one, const Request& request) {
  std::printf("%s: %s\n", one.name.c_str(), one.title.c_str());
  std::fflush(stdout);
  const auto start = std::chrono::steady_clock::now();
  const History history = simulate(one, request.settings, BandedLu());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;

  std::int64_t newton_iterations = 0;
  for (const Record& record : history.records)
    newton_iterations += record.newton_iterations;
  std::printf("  %zu steps, %lld Newton iterations, %.1f s\n", history.records.size(),
              static_cast<long long>(newton_iterations), seconds.count());
  if (!request.output.empty()) {
    const std::filesystem::path folder = request.output / one.name;
    write_folder(folder, BoxMesh(cantilever, request.settings.divisions), history);
    std::printf("  written to %s\n", folder.c_str());
  }
  if (!history.failure.empty()) {
    std::printf("  failed: %s\n", history.failure.c_str());
    return false;
  }
  if (!is_of_reference(request.settings)) {
    std::printf("  not compared: the reference has 8 x 2 x 2 elements and 400 steps\n");
    return true;
  }
  bool passed = true;
  for (const Check& one_check : check(one, history)) {
    std::printf("  %s %s\n", one_check.passed ? "ok    " : "MISSED", one_check.text.c_str());
    passed = passed && one_check.passed;
  }
  return passed;
}

bool run_all(const Request& request) {
  bool passed = true;
  for (const std::string& name : request.cases.empty() ? names_of_cases() : request.cases) {
    passed = run(case_named(name), request) && passed;
  }
  return passed;
}

}  // namespace
}  // namespace beam

int main(int argc, char** argv) {
  CLI::App app("A cantilever that is pushed sideways and then swings, by finite elements.");
  beam::Request request;
  beam::declare(app, request);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    return beam::run_all(request) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "beam: %s\n", error.what());
    return 3;
  }
}
