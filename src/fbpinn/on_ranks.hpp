/// Work that the ranks of a mesh share.
#pragma once

#include "sparse/workers.hpp"

#include <shardsolve/mesh.hpp>
#include <shardsolve/run_options.hpp>

namespace shardsolve::fbpinn {

/// Fronts that several GPUs factor together: below, one of them is as fast.
inline constexpr sparse::JointFronts joint_fronts_of_gpus{
    .least_flops = 3e11, .tile = 512, .round = 128};

/// In one process pieces go to whichever rank is free, and all see what came out. Of processes each
/// has its own, and they tell each other by the mesh's communicator. Of a GPU's work the pieces are
/// what the host does, by threads of its own. `mesh` and `run` must outlive what is returned.
/// Throws Error(unsupported) if there are GPUs of several processes.
sparse::Workers on_ranks(Mesh& mesh, const RunOptions& run);

}  // namespace shardsolve::fbpinn
