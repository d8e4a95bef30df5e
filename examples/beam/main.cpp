// A cantilever that is pushed sideways and then swings, by finite elements and Newton's method:
//   beam                                       every case, compared with what it has to give
//   beam linear --output out                   one case; its history and frames go to out/linear
//   beam stvk-alpha --solver cg --until 0.2    its linear systems by a Krylov method
// Exit status: 0 all is as it has to be; 1 it is not, or Newton's method failed; 2 misuse; 3 a file
// could not be written, or there is too little memory.

#include "banded_lu.hpp"
#include "cases.hpp"
#include "checks.hpp"
#include "files.hpp"
#include "krylov_solver.hpp"
#include "simulation.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace beam {
namespace {

using shardsolve::krylov::Method;

struct Request {
  std::vector<std::string> cases;  // none: all
  Settings settings;
  std::string dirichlet = "rows-and-columns";
  std::string solver = "lu";
  std::string preconditioner = "jacobi";
  KrylovSettings krylov;         // unless the solver is "lu"
  std::filesystem::path output;  // empty: no files
};

const std::map<std::string, Method> methods{{"cg", Method::cg},
                                            {"minres", Method::minres},
                                            {"bicgstab", Method::bicgstab},
                                            {"fgmres", Method::fgmres}};
const std::map<std::string, Preconditioner> preconditioners{{"none", Preconditioner::none},
                                                            {"jacobi", Preconditioner::jacobi},
                                                            {"blocks", Preconditioner::blocks}};
const std::map<std::string, Elimination> eliminations{
    {"rows", Elimination::rows}, {"rows-and-columns", Elimination::rows_and_columns}};

template <class Value>
std::vector<std::string> names_of(const std::map<std::string, Value>& values) {
  std::vector<std::string> names;
  for (const auto& [name, value] : values) {
    names.push_back(name);
  }
  return names;
}

std::vector<std::string> names_of_cases() {
  std::vector<std::string> names;
  for (const Case& one : cases()) {
    names.push_back(one.name);
  }
  return names;
}

CLI::Range between(std::int64_t least, std::int64_t most) { return CLI::Range(least, most); }

void declare_simulation(CLI::App& app, Request& request) {
  Settings& settings = request.settings;
  app.add_option("case", request.cases, "what to run; all if none is named")
      ->check(CLI::IsMember(names_of_cases()));
  app.add_option("--until", settings.until, "time at which to stop")
      ->capture_default_str()
      ->check(CLI::Range(0.0, whole_time));
  app.add_option("--steps", settings.steps, "time steps from t = 0 to t = 2")
      ->capture_default_str()
      ->check(between(1, 1'000'000));
  app.add_option("--divisions", settings.divisions, "elements along x, y and z")
      ->delimiter(',')
      ->default_str("8,2,2")
      ->check(between(1, 1000));
  app.add_option("--dirichlet", request.dirichlet, "what becomes that of the identity")
      ->capture_default_str()
      ->check(CLI::IsMember(names_of(eliminations)));
  app.add_option("-o,--output", request.output, "folder for a folder of each case");
  app.add_option("--frame-every", settings.frame_every, "steps from a frame to the next")
      ->capture_default_str()
      ->check(between(1, 1'000'000));
}

void declare_solver(CLI::App& app, Request& request) {
  KrylovSettings& krylov = request.krylov;
  app.add_option("--solver", request.solver, "of the linear systems: banded LU, or a method")
      ->capture_default_str()
      ->check(CLI::IsMember({"lu", "cg", "minres", "bicgstab", "fgmres"}));
  app.add_option("--linear-rtol", request.settings.newton.linear_rtol,
                 "residual of each linear solve, relative to its right-hand side")
      ->capture_default_str()
      ->check(CLI::Range(1e-16, 0.5));
  auto* preconditioner =
      app.add_option("--preconditioner", request.preconditioner, "of a Krylov method")
          ->capture_default_str()
          ->check(CLI::IsMember(names_of(preconditioners)));
  auto* block_rows = app.add_option("--block-rows", krylov.block_rows, "of --preconditioner blocks")
                         ->capture_default_str()
                         ->check(between(1, 1'000'000));
  auto* restart = app.add_option("--restart", krylov.restart, "vectors of a basis of fgmres")
                      ->capture_default_str()
                      ->check(between(1, 10'000));
  auto* limit = app.add_option("--max-iterations", krylov.max_iterations, "of a linear solve")
                    ->capture_default_str()
                    ->check(between(1, 1'000'000'000));
  auto* ranks = app.add_option("--ranks", krylov.ranks, "CPU devices of a Krylov method")
                    ->capture_default_str()
                    ->check(between(1, shardsolve::Mesh::max_host_ranks));
  app.callback([=, &request] {
    for (const CLI::Option* option : {preconditioner, block_rows, restart, limit, ranks}) {
      if (request.solver == "lu" && option->count() > 0) {
        throw CLI::ValidationError(option->get_name(),
                                   "is for Krylov methods; add --solver cg, for example");
      }
    }
    if (block_rows->count() > 0 && request.preconditioner != "blocks") {
      throw CLI::ValidationError("--block-rows", "is for --preconditioner blocks");
    }
    if (restart->count() > 0 && request.solver != "fgmres") {
      throw CLI::ValidationError("--restart", "is for --solver fgmres");
    }
    if (request.solver != "lu") request.krylov.method = methods.at(request.solver);
    request.krylov.preconditioner = preconditioners.at(request.preconditioner);
    request.settings.elimination = eliminations.at(request.dirichlet);
  });
}

bool is_of_reference(const Settings& settings) {
  return settings.divisions == reference_divisions && settings.steps == reference_steps;
}

void print_totals(const History& history, double seconds) {
  Record sum;
  for (const Record& record : history.records) {
    sum.newton_iterations += record.newton_iterations;
    sum.linear_iterations += record.linear_iterations;
    sum.max_linear_iterations = std::max(sum.max_linear_iterations, record.max_linear_iterations);
  }
  std::printf("  %zu steps, %lld Newton iterations", history.records.size(),
              static_cast<long long>(sum.newton_iterations));
  if (sum.linear_iterations > 0) {
    std::printf(", %lld of the method, at most %lld a solve",
                static_cast<long long>(sum.linear_iterations),
                static_cast<long long>(sum.max_linear_iterations));
  }
  std::printf(", %.1f s\n", seconds);
}

// Returns whether the history is as it has to be.
bool print_checks(const Case& one, const Settings& settings, const History& history) {
  if (!history.failure.empty()) {
    std::printf("  failed: %s\n", history.failure.c_str());
    return false;
  }
  if (!is_of_reference(settings)) {
    std::printf("  not compared: the reference has 8 x 2 x 2 elements and 400 steps\n");
    return true;
  }
  bool all_passed = true;
  for (const Check& found : check(one, history)) {
    std::printf("  %s %s\n", found.passed ? "ok    " : "MISSED", found.text.c_str());
    all_passed = all_passed && found.passed;
  }
  return all_passed;
}

// Returns whether the case is as it has to be.
bool run(const Case& one, const Request& request) {
  std::printf("%s: %s\n", one.name.c_str(), one.title.c_str());
  std::fflush(stdout);
  BandedLu lu;
  std::optional<KrylovSolver> krylov;
  if (request.solver != "lu") krylov.emplace(request.krylov);
  const auto start = std::chrono::steady_clock::now();
  const History history = krylov ? simulate(one, request.settings, std::ref(*krylov))
                                 : simulate(one, request.settings, std::ref(lu));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  print_totals(history, seconds.count());

  if (!request.output.empty()) {
    const std::filesystem::path folder = request.output / one.name;
    write_folder(folder, BoxMesh(cantilever, request.settings.divisions), history);
    if (one.reference) write_reference(folder / "reference.csv", *one.reference);
    if (krylov) write_log(folder / "first_solve.csv", krylov->log());
    std::printf("  written to %s\n", folder.c_str());
  }
  return print_checks(one, request.settings, history);
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
  beam::declare_simulation(app, request);
  beam::declare_solver(app, request);
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
