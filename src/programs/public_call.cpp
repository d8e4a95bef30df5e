#include "programs/public_call.hpp"

#include "mesh/require_ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

namespace shardsolve::programs {

std::int64_t memory_for(const Mesh& mesh, std::int64_t wanted) {
  // To ask how much a host has takes longer than a small solve.
  constexpr std::int64_t little = std::int64_t{4} << 20;
  const mesh::MeshState& state = mesh.state();
  if (state.backend().memory() == Memory::host && wanted * mesh.ranks() <= little) {
    return wanted;
  }
  return state.available_memory(wanted);
}

Outcome PublicCall::run(std::function<Outcome(mesh::Rank&)> program) const {
  mesh::require_ranks(mesh, layout);
  const std::int64_t tile = std::min(layout.tile(), layout.max_width());
  if (has_tiles && tile > mesh.state().backend().largest_tile()) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("tiles of {} columns given; these devices take at most {}. "
                            "Mesh::default_tile is a good choice",
                            tile, mesh.state().backend().largest_tile()));
  }
  const std::int64_t available = memory_for(mesh, plan.workspace_bytes);
  // Shared with the ranks: one that never comes back may still write to it.
  const auto outcome = std::make_shared<Outcome>();
  const mesh::CallCost cost = mesh.state().run(
      options, [plan = plan, available, outcome, job = fmt::format("the workspace of {}", name),
                program = std::move(program)](mesh::Rank& rank) {
        if (rank.leads()) {  // each process has memory of its own
          plan.require(plan.workspace_bytes, available, job);
        }
        rank.expect_workspace(plan.workspace_bytes);
        const Outcome mine = program(rank);
        if (rank.leads()) {
          *outcome = mine;
        }
      });
  outcome->seconds = cost.seconds;
  outcome->flops = std::accumulate(cost.flops.begin(), cost.flops.end(), 0.0);
  return *outcome;
}

}  // namespace shardsolve::programs
