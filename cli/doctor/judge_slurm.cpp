// Which GPU a task of Slurm gets from jax.distributed.initialize(), which takes the one whose
// number is SLURM_LOCALID (jax/_src/clusters/cluster.py, slurm_cluster.py).

#include "findings.hpp"
#include "slurm.hpp"
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

/// Whether JAX finds that it runs under Slurm.
bool is_task(const Surroundings& s) {
  const bool is_found =
      std::all_of(slurm_of_jax.begin(), slurm_of_jax.end(),
                  [&](const char* variable) { return s.environment.count(variable) != 0; });
  return is_found && !s.python.version_of("jax").empty();
}

/// Of "2(x3)" or "2,1" the first, that of the node where the first task is.
std::int64_t tasks_of_node(const Surroundings& s) {
  const std::string text = value_of(s.environment, "SLURM_STEP_TASKS_PER_NODE");
  return to_number<std::int64_t>(text.substr(0, text.find_first_of("(,"))).value_or(1);
}

/// Whether Slurm shows each task GPUs of its own.
bool has_gpus_by_task(const Surroundings& s) {
  constexpr std::array variables{"SLURM_GPUS_PER_TASK", "SLURM_TRES_PER_TASK", "SLURM_GPU_BIND",
                                 "SLURM_NTASKS_PER_GPU"};
  return std::any_of(variables.begin(), variables.end(),
                     [&](const char* name) { return s.environment.count(name) != 0; });
}

/// Two tasks that take one GPU, as far as one of them can see. Whether there is something to say.
bool judge_shared_gpu(const Surroundings& s, Findings& findings) {
  const std::int64_t tasks = tasks_of_node(s);
  const std::string gpus = value_of(s.environment, "SLURM_GPUS_ON_NODE");
  const auto of_node = to_number<std::int64_t>(gpus);
  if (of_node && *of_node > 0 && *of_node < tasks) {
    findings.push_back(
        {Severity::warning, "slurm-gpu-shared",
         fmt::format("{} of the job on this node (SLURM_STEP_TASKS_PER_NODE), and {} "
                     "(SLURM_GPUS_ON_NODE)",
                     plural(tasks, "task"), plural(*of_node, "GPU")),
         "two processes take one card: each reserves three quarters of its memory, and NCCL "
         "refuses "
         "to work between them",
         fmt::format("srun --ntasks-per-node={}, or --gpus-per-node={}", *of_node, tasks)});
    return true;
  }
  const std::string chosen = value_of(s.environment, "JAX_LOCAL_DEVICE_IDS");
  if (!chosen.empty() && tasks > 1 && s.cuda.gpus.size() > 1 && !has_gpus_by_task(s)) {
    findings.push_back(
        {Severity::warning, "slurm-gpu-shared",
         fmt::format("JAX_LOCAL_DEVICE_IDS={} in a job of {} on this node, which all see {}",
                     chosen, plural(tasks, "task"), plural(s.cuda.gpus.size(), "GPU")),
         "if it is the same in all of them, they take the same card: each reserves three quarters "
         "of its memory, and NCCL refuses to work between them",
         "unset JAX_LOCAL_DEVICE_IDS: each task then takes the GPU of its number (SLURM_LOCALID)"});
    return true;
  }
  return false;
}

}  // namespace

std::optional<SlurmTask> slurm_task(const Surroundings& s) {
  const auto visible = static_cast<std::int64_t>(s.cuda.gpus.size());
  const auto number = to_number<std::int64_t>(value_of(s.environment, "SLURM_LOCALID"));
  if (visible == 0 || !number || !is_task(s) ||
      !value_of(s.environment, "JAX_LOCAL_DEVICE_IDS").empty()) {
    return std::nullopt;
  }
  SlurmTask task{.number = *number, .of_node = std::max(tasks_of_node(s), *number + 1), .gpu = {}};
  if (*number < visible) {
    task.gpu = number;
  }
  return task;
}

void judge_slurm(const Surroundings& s, Findings& findings) {
  if (!is_task(s) || s.cuda.gpus.empty() || judge_shared_gpu(s, findings)) {
    return;
  }
  const std::optional<SlurmTask> task = slurm_task(s);
  if (!task) {
    return;
  }
  const auto visible = static_cast<std::int64_t>(s.cuda.gpus.size());
  const std::int64_t tasks = task->of_node;
  if (!task->gpu) {
    findings.push_back(
        {Severity::warning, "slurm-gpu-of-task",
         fmt::format("task {} of this node (SLURM_LOCALID) sees {}, {}", task->number,
                     plural(visible, "GPU"), s.cuda.gpus.front().bus_id),
         fmt::format(
             "jax.distributed.initialize() takes the GPU whose number is SLURM_LOCALID, and "
             "there is no number {}: --gpus-per-task=1 makes it number 0 in every task",
             task->number),
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
