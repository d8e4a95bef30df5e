/// Trainings of small networks in boxes, and steps of them.
#pragma once

#include <shardsolve/mesh.hpp>
#include <shardsolve/run_options.hpp>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace shardsolve::testing {

/// What it gives is the same on all ranks of a mesh and in all its processes. Throws what the
/// public call throws.
struct NetworkJob {
  std::string name;
  std::function<std::vector<double>(Mesh&, const RunOptions&)> run;

  friend std::ostream& operator<<(std::ostream& out, const NetworkJob& job) {
    return out << job.name;
  }
};

/// Each way that goes through other code: linear and not, with coefficients, without a factor, with
/// units of the caller's own, with fronts of all ranks together, and all weights.
std::vector<NetworkJob> network_jobs();

/// A line: its name, how many numbers it gives and a hash of their bits, or the error.
std::string answer_of(Mesh& mesh, const NetworkJob& job);

/// A training whose function throws Error(io, "planted") if it `fails` here.
std::vector<double> train_failing_networks(Mesh& mesh, const RunOptions& options, bool fails);

/// The least of them: a linear equation on a line.
std::vector<double> train_few_networks(Mesh& mesh, const RunOptions& options);

}  // namespace shardsolve::testing
