/// What all programs of the GPU benchmark have in common: their command line, the jobs, the clock
/// and the gate. A program says how it solves, see Solver; the rest is the same for all.
///
/// Requests, besides those of bench/support/serve.hpp, each with an optional tile:
///   factor       A = L L^H
///   solve        one right-hand side, the factor given
///   solve_many   --columns right-hand sides, the factor given
///   one_call     factor and solve with one right-hand side
///   rcond        an estimate of the condition number, the factor given, which a solve judges
///   inverse      factor and invert
///   eigh         all eigenpairs of A
///   eigh_tenth   those of the smallest n / 10 eigenvalues
///   eigh_values  eigenvalues alone
///   release      gives back all memory; the next run of each job is a first one again
/// A timed run also answers {"first": ..., "bytes": ..., "certificate": ...}.
#pragma once

#include "bench/cuda/device_buffer.hpp"
#include "bench/cuda/gates.hpp"
#include "bench/cuda/matrices.hpp"
#include "bench/support/serve.hpp"
#include "core/each_dtype.hpp"

#include <shardsolve/error.hpp>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace shardsolve::bench {

struct GpuOptions : ProblemOptions {
  std::vector<int> devices = {0};
  Kind kind = Kind::well_conditioned;
  std::int64_t columns = 64;
  std::int64_t tile = 0;  // 0 asks for the default
};

/// --n --dtype --devices --matrix --columns --tile
void add_gpu_options(CLI::App& app, GpuOptions& options);

/// {"name": ..., "multiprocessors": ..., "memory": bytes} of each.
nlohmann::json describe_devices(const std::vector<int>& devices);
/// Of CUDA's driver and run time, as "13.0".
nlohmann::json describe_cuda();

/// Which eigenpairs.
struct Wanted {
  std::int64_t count = 0;  // the smallest so many
  bool vectors = true;
};

/// How one library solves A X = B, and finds eigenpairs of A. Every call has finished on all
/// devices when it returns, and throws if there is no answer.
template <Scalar T>
class Solver {
 public:
  virtual ~Solver() = default;

  /// Program, jobs and libraries, for the first line.
  virtual nlohmann::json hello() const = 0;
  /// What it takes if no tile is asked for; 0 if it has none.
  virtual std::int64_t default_tile() const = 0;

  /// Writes A, to be overwritten, into memory that is kept from run to run.
  virtual void fill_matrix(std::int64_t tile) = 0;
  /// Writes the right-hand sides likewise; the tile is that of the matrix.
  virtual void fill_right_hand_sides(std::int64_t columns) = 0;

  virtual void factor() = 0;
  virtual void solve() = 0;
  virtual void one_call() {
    factor();
    solve();
  }
  virtual void rcond() { throw Error(ErrorKind::unsupported, "no estimate of rcond here"); }
  /// What an inverse needs and is no part of it: not timed.
  virtual void prepare_inverse() {}
  virtual void factor_and_invert() = 0;

  /// n x columns, column-major.
  virtual std::vector<T> solution() = 0;
  virtual double inverse_residual() = 0;

  /// What eigenpairs of the smallest `wanted` eigenvalues need beside A, or these alone: not timed.
  virtual void prepare_eigenpairs(const Wanted&) {}
  virtual void eigenpairs(const Wanted&) {
    throw Error(ErrorKind::unsupported, "no eigenpairs here");
  }
  /// Of the last eigenpairs(), ascending, in every process.
  virtual std::vector<double> eigenvalues() { return {}; }
  virtual EigenpairRatios eigenpair_residuals() { return {}; }
  /// What the library says about its last answer itself.
  virtual nlohmann::json certificate() const { return nlohmann::json::object(); }

  virtual void release() = 0;

  /// Waits for the other processes that take part. Called when the clock starts and stops.
  virtual void barrier() {}
  /// Whether this process judges the answers and talks to bench/cuda/run.py.
  virtual bool leads() const { return true; }
};

/// Serves the requests with one solver.
template <Scalar T>
class Jobs {
 public:
  Jobs(Problem<T> problem, std::vector<int> gate_devices, std::int64_t columns, Solver<T>& solver,
       MemoryMeter& memory)
      : problem_(problem),
        devices_(std::move(gate_devices)),
        columns_(columns),
        solver_(solver),
        memory_(memory) {}

  nlohmann::json answer(const Request& request) {
    memory_.begin();
    if (request.job == "release") {
      solver_.release();
      factored_ = none;
      seen_.clear();
      memory_.end();
      return nlohmann::json::object();
    }
    const std::int64_t tile =
        request.argument.empty() ? solver_.default_tile() : std::stoll(request.argument);
    nlohmann::json answer = run(request, tile);
    answer["first"] = seen_.insert(request.job).second;
    answer["bytes"] = memory_.end();
    answer["certificate"] = solver_.certificate();
    return answer;
  }

 private:
  static constexpr std::int64_t none = -1;

  nlohmann::json run(const Request& request, std::int64_t tile) {
    if (request.job == "factor") {
      make_matrix(tile);
      const double seconds = clock([&] { solver_.factor(); });
      factored_ = tile;
      solver_.fill_right_hand_sides(1);
      solver_.solve();
      return timed(seconds, {judge_solution(1)});
    }
    if (request.job == "solve" || request.job == "solve_many") {
      make_factor(tile);
      const std::int64_t columns = request.job == "solve" ? 1 : columns_;
      solver_.fill_right_hand_sides(columns);
      const double seconds = clock([&] { solver_.solve(); });
      return timed(seconds, {judge_solution(columns)});
    }
    if (request.job == "one_call") {
      make_matrix(tile);
      solver_.fill_right_hand_sides(1);
      const double seconds = clock([&] { solver_.one_call(); });
      return timed(seconds, {judge_solution(1)});
    }
    if (request.job == "rcond") {
      make_factor(tile);
      solver_.fill_right_hand_sides(1);
      solver_.solve();
      const Residual residual = judge_solution(1);
      const double seconds = clock([&] { solver_.rcond(); });
      return timed(seconds, {residual});
    }
    if (request.job == "inverse") {
      make_matrix(tile);
      solver_.prepare_inverse();
      const double seconds = clock([&] { solver_.factor_and_invert(); });
      return timed(seconds, {{"inverse", solver_.inverse_residual(), inverse_limit}});
    }
    if (request.job == "eigh") {
      return find_eigenpairs(tile, {problem_.n, true});
    }
    if (request.job == "eigh_tenth" || request.job == "eigh_values") {
      if (all_values_.empty()) {
        find_eigenpairs(tile, {problem_.n, true});
      }
      const bool vectors = request.job == "eigh_tenth";
      return find_eigenpairs(
          tile, {vectors ? std::max<std::int64_t>(problem_.n / 10, 1) : problem_.n, vectors});
    }
    refuse(request);
  }

  void make_matrix(std::int64_t tile) {
    factored_ = none;
    solver_.fill_matrix(tile);
  }

  void make_factor(std::int64_t tile) {
    if (factored_ != tile) {
      make_matrix(tile);
      solver_.factor();
      factored_ = tile;
    }
  }

  double clock(const std::function<void()>& work) {
    solver_.barrier();
    return time([&] {
      work();
      solver_.barrier();
    });
  }

  /// Keeps all eigenvalues, once they have passed, for the others to be compared with.
  nlohmann::json find_eigenpairs(std::int64_t tile, const Wanted& wanted) {
    make_matrix(tile);
    solver_.prepare_eigenpairs(wanted);
    const double seconds = clock([&] { solver_.eigenpairs(wanted); });
    const std::vector<double> values = solver_.eigenvalues();
    std::vector<Residual> residuals;
    if (wanted.vectors) {
      const EigenpairRatios ratios = solver_.eigenpair_residuals();
      residuals = {{"eigenpairs", ratios.residual, eigenpair_limit},
                   {"orthogonality", ratios.orthogonality, orthogonality_limit(problem_.n)}};
    }
    if (wanted.vectors && wanted.count == problem_.n) {
      all_values_ = values;
    } else {
      residuals.push_back({"eigenvalues",
                           solver_.leads() ? eigenvalue_ratio<T>(values, all_values_) : 0.0,
                           eigenvalue_limit});
    }
    return timed(seconds, residuals);
  }

  Residual judge_solution(std::int64_t columns) {
    const std::vector<T> x = solver_.solution();
    const double ratio = solver_.leads() ? solution_ratio(problem_, devices_, x, columns) : 0.0;
    return {"solve", ratio, solve_limit};
  }

  Problem<T> problem_;
  std::vector<int> devices_;
  std::int64_t columns_;
  Solver<T>& solver_;
  MemoryMeter& memory_;
  std::int64_t factored_ = none;  // the tile of the factor that is there
  std::vector<double> all_values_;
  std::set<std::string> seen_;
};

/// Makes a solver of the type that `Library<T>` is and serves its requests until the input ends.
template <template <class> class Library>
void serve_library(const GpuOptions& options) {
  with_dtype(options.dtype, [&]<class T>() {
    const Problem<T> problem(options.kind, options.n);
    MemoryMeter memory(options.devices);
    std::unique_ptr<Solver<T>> solver;
    const double seconds = time([&] { solver = std::make_unique<Library<T>>(options, problem); });
    memory.end();
    Jobs<T> jobs(problem, options.devices, options.columns, *solver, memory);
    nlohmann::json hello = solver->hello();
    hello["devices"] = describe_devices(options.devices);
    hello["libraries"].update(describe_cuda());
    hello["tile"] = solver->default_tile();
    hello["setup_seconds"] = seconds;
    serve(hello, [&](const Request& request) { return jobs.answer(request); });
  });
}

/// main() of a program: parses, serves, and says on stderr why it ends early.
int run_program(int argc, char** argv, const std::string& about,
                const std::function<void(const GpuOptions&)>& serve_all);

}  // namespace shardsolve::bench
