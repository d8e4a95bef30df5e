/// How a benchmark program talks to bench/run.py: one JSON line when it is ready, then one for each
/// line that it reads, until its input ends. The process stays alive between the runs, so that the
/// runs of several programs can take turns.
///
///   <job> [tile]    times one run; answers {"seconds": ..., "residuals": [...]}
///   save <folder>   writes the problem to a.npy and b.npy; answers {}
///
/// A request that fails is answered by {"error": "..."}.
#pragma once

#include <shardsolve/dtype.hpp>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace shardsolve::bench {

/// What all programs are told on their command line.
struct ProblemOptions {
  std::int64_t n = 1024;
  Dtype dtype = Dtype::float64;
};

void add_problem_options(CLI::App& app, ProblemOptions& options);

struct Request {
  std::string job;
  std::string argument;  ///< empty if none was given
};

[[noreturn]] void refuse(const Request& request);

/// A figure that a run has to stay below, in units of the unit roundoff; NaN does not.
struct Residual {
  std::string name;
  double value = 0.0;
  double limit = 0.0;
};

/// The answer to a timed run.
nlohmann::json timed(double seconds, const std::vector<Residual>& residuals);

/// Seconds of wall-clock time that `work` takes.
double time(const std::function<void()>& work);

/// Says `hello`, then serves requests until the input ends. Of several processes that read the same
/// lines one `speaks`.
void serve(const nlohmann::json& hello, const std::function<nlohmann::json(const Request&)>& answer,
           bool speaks = true);

}  // namespace shardsolve::bench
