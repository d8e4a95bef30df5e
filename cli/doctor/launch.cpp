#include "launch.hpp"

#include "text.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>

namespace shardsolve::cli::doctor {
namespace {

/// The number that the first of these variables has that has one.
std::int64_t first_number(const Environment& environment,
                          std::initializer_list<const char*> variables, std::int64_t otherwise) {
  for (const char* variable : variables) {
    const std::string text = value_of(environment, variable);
    if (const auto number = to_number<std::int64_t>(text)) {
      return *number;
    }
  }
  return otherwise;
}

/// Hydra and srun --mpi=pmi2 set PMI_RANK, Open MPI's launcher and srun --mpi=pmix PMIX_RANK.
bool has_pmi(const Environment& environment) {
  for (const char* variable : {"PMIX_RANK", "PMI_RANK", "PMI_FD", "OMPI_COMM_WORLD_RANK"}) {
    if (environment.count(variable) != 0) {
      return true;
    }
  }
  return false;
}

}  // namespace

Launch launch_of(const Environment& environment, std::int64_t processes) {
  Launch launch;
  launch.processes = processes;
  if (processes < 2) {
    return launch;
  }
  launch.rank = first_number(
      environment,
      {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "MV2_COMM_WORLD_RANK", "SLURM_PROCID"}, 0);
  // Slurm's list, "2(x3)" or "2,1", begins with the tasks of the first node, where rank 0 is.
  launch.on_host = first_number(
      environment, {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE"},
      0);
  if (launch.on_host == 0) {
    const std::string tasks = value_of(environment, "SLURM_STEP_TASKS_PER_NODE");
    launch.on_host =
        to_number<std::int64_t>(tasks.substr(0, tasks.find_first_of("(,"))).value_or(1);
  }
  // Variables may be left over from another job.
  launch.on_host = std::clamp<std::int64_t>(launch.on_host, 1, processes);
  if (environment.count("OMPI_COMM_WORLD_SIZE") != 0) {
    launch.launcher = "Open MPI";
    launch.connects = environment.count("PMIX_NAMESPACE") != 0;  // which its mpirun sets, too
  } else if (environment.count("SLURM_STEP_NUM_TASKS") != 0) {
    launch.launcher = "Slurm";
    launch.connects = has_pmi(environment);
  } else if (environment.count("PMI_SIZE") != 0 || environment.count("MV2_COMM_WORLD_SIZE") != 0) {
    launch.launcher = "MPICH";
  }
  return launch;
}

}  // namespace shardsolve::cli::doctor
