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
sparse::Workers on_ranks(Mesh& mesh, const RunOptions& run);

/// For what a rank program of `workers.devices` leaves to the host, all ranks alike: `once` is done
/// by rank 0, which tells the others by the communicator; `share` by each rank for itself. The
/// arguments must outlive what is returned.
sparse::Workers in_program(const sparse::Workers& workers, mesh::Rank& rank);

/// The least of what the processes have: what they decide by is to be the same in all. Not for rank
/// programs.
double least_of_processes(const sparse::Workers& workers, double mine);

}  // namespace shardsolve::fbpinn
