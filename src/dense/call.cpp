#include "dense/call.hpp"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <numeric>
#include <utility>

namespace shardsolve::dense {

Outcome run_call(Mesh& mesh, const SlabLayout& layout, const Plan& plan, std::string_view job,
                 const RunOptions& options, std::function<Outcome(mesh::Rank&)> program) {
  if (layout.ranks() != mesh.ranks()) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("the layout has {} slabs and the mesh {} ranks; they must be as many",
                            layout.ranks(), mesh.ranks()));
  }
  plan.require(plan.workspace_bytes, available_host_memory() / mesh.ranks(),
               fmt::format("the workspace of {}", job));
  const auto begin = std::chrono::steady_clock::now();
  // Shared with the ranks: one that never comes back may still write to it.
  const auto outcome = std::make_shared<Outcome>();
  const std::vector<double> flops =
      mesh.state().run(options, [outcome, program = std::move(program)](mesh::Rank& rank) {
        const Outcome mine = program(rank);
        if (rank.index() == 0) {
          *outcome = mine;
        }
      });
  outcome->seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  outcome->flops = std::accumulate(flops.begin(), flops.end(), 0.0);
  return *outcome;
}

}  // namespace shardsolve::dense
