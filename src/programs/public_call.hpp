/// What the public calls share: from the caller's arguments to rank programs and back.
#pragma once

#include "mesh/mesh_state.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/mesh.hpp>
#include <shardsolve/outcome.hpp>
#include <shardsolve/plan.hpp>
#include <shardsolve/run_options.hpp>

#include <cstdint>
#include <functional>

namespace shardsolve::programs {

/// Bytes that each rank of this process can take as workspace, or `wanted` if that is little.
std::int64_t memory_for(const Mesh& mesh, std::int64_t wanted);

/// A public call, whose steps are rank programs that run one after the other.
struct PublicCall {
  const char* name;  ///< in messages
  Mesh& mesh;
  const SlabLayout& layout;
  Plan plan;  ///< of the step that needs most
  const RunOptions& options;
  bool has_tiles = true;  ///< the layout's tiles are steps; if not, they may have any size

  /// Checks that the layout is the mesh's, that its tiles suit the devices and that the plan's
  /// workspace fits, runs `program` on all ranks, and returns their outcome (all have the same one)
  /// with the seconds and flops of this step. If that throws, a rank that never came back may still
  /// be using what `program` holds: it owns all that it writes to.
  Outcome run(std::function<Outcome(mesh::Rank&)> program) const;
};

/// Adds what another step of the same call took.
inline void add_cost(Outcome& outcome, const Outcome& other) {
  outcome.seconds += other.seconds;
  outcome.flops += other.flops;
}

}  // namespace shardsolve::programs
