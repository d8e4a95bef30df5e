/// What the public calls share: from the caller's arguments to a rank program and back.
#pragma once

#include "mesh/mesh_state.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/mesh.hpp>
#include <shardsolve/outcome.hpp>
#include <shardsolve/plan.hpp>
#include <shardsolve/run_options.hpp>

#include <functional>
#include <string_view>

namespace shardsolve::dense {

/// Checks that the layout is the mesh's and that the plan's workspace fits, runs `program` on all
/// ranks, and returns their outcome (all have the same one) with seconds and flops.
Outcome run_call(Mesh& mesh, const SlabLayout& layout, const Plan& plan, std::string_view job,
                 const RunOptions& options, std::function<Outcome(mesh::Rank&)> program);

/// Adds what a later call of the same job took.
inline void add_cost(Outcome& outcome, const Outcome& later) {
  outcome.seconds += later.seconds;
  outcome.flops += later.flops;
}

}  // namespace shardsolve::dense
