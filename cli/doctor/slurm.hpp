/// Which GPU a task of Slurm gets from jax.distributed.initialize().
#pragma once

#include "surroundings.hpp"

#include <cstdint>
#include <optional>

namespace shardsolve::cli::doctor {

/// A task of a node.
struct SlurmTask {
  std::int64_t number = 0;          ///< SLURM_LOCALID
  std::int64_t of_node = 1;         ///< how many there are
  std::optional<std::int64_t> gpu;  ///< CUDA's number of the one that JAX takes; nothing if none
};

/// This process as JAX sees it; nothing if it is no task, sees no GPU, there is no JAX, or somebody
/// has chosen GPUs for it (JAX_LOCAL_DEVICE_IDS).
std::optional<SlurmTask> slurm_task(const Surroundings& s);

}  // namespace shardsolve::cli::doctor
