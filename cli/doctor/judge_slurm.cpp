// Which GPU a task of Slurm gets from jax.distributed.initialize(), which takes the one whose
// number is SLURM_LOCALID (jax/_src/clusters/cluster.py, slurm_cluster.py).

#include "findings.hpp"
#include "text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

namespace shardsolve::cli::doctor {
namespace {

/// By which JAX knows Slurm.
constexpr std::array slurm_of_jax{"SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_NTASKS",
                                  "SLURM_PROCID", "SLURM_LOCALID"};

/// Whether JAX finds that it runs under Slurm, and nobody has chosen GPUs for it.
bool jax_chooses(const Surroundings& s) {
  const bool is_found =
      std::all_of(slurm_of_jax.begin(), slurm_of_jax.end(),
                  [&](const char* variable) { return s.environment.count(variable) != 0; });
  return is_found && !s.python.version_of("jax").empty() &&
         value_of(s.environment, "JAX_LOCAL_DEVICE_IDS").empty();
}

/// Of "2(x3)" or "2,1" the first, that of the node where the first task is.
std::int64_t tasks_of_node(const Surroundings& s) {
  const std::string text = value_of(s.environment, "SLURM_STEP_TASKS_PER_NODE");
  return to_number<std::int64_t>(text.substr(0, text.find_first_of("(,"))).value_or(1);
}

}  // namespace

void judge_slurm(const Surroundings& s, Findings& findings) {
  const auto visible = static_cast<std::int64_t>(s.cuda.gpus.size());
  const auto number = to_number<std::int64_t>(value_of(s.environment, "SLURM_LOCALID"));
  if (visible == 0 || !number || !jax_chooses(s)) {
    return;
  }
  const std::int64_t tasks = std::max(tasks_of_node(s), *number + 1);
  if (*number >= visible) {
    findings.push_back(
        {Severity::warning, "slurm-gpu-of-task",
         fmt::format("task {} of this node (SLURM_LOCALID) sees {}, {}", *number,
                     plural(visible, "GPU"), s.cuda.gpus.front().bus_id),
         fmt::format(
             "jax.distributed.initialize() takes the GPU whose number is SLURM_LOCALID, and "
             "there is no number {}: --gpus-per-task=1 makes it number 0 in every task",
             *number),
         "srun with --gpus-per-node and without --gpus-per-task, or "
         "jax.distributed.initialize(local_device_ids=[0]) if each task sees another GPU"});
  } else if (tasks < visible) {
    findings.push_back(
        {Severity::warning, "slurm-gpus-left-out",
         fmt::format("this node has {} of the job (SLURM_STEP_TASKS_PER_NODE), which sees {}",
                     plural(tasks, "task"), plural(visible, "GPU")),
         "jax.distributed.initialize() takes one GPU for each task under Slurm, and leaves the "
         "others idle without a word",
         fmt::format("srun --ntasks-per-node={0}, or "
                     "jax.distributed.initialize(local_device_ids=range({0})) in one task",
                     visible)});
  }
}

}  // namespace shardsolve::cli::doctor
