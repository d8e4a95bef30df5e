/// Whether the process is one of several that an MPI launcher has started together.
#pragma once

#include <cstdint>

namespace shardsolve::cli {

/// How many there are, by the environment that launchers set: mpirun and mpiexec of Open MPI, MPICH
/// and their relatives, srun of Slurm. 1 without one of them. Not asked is what a batch job was
/// given (SLURM_NTASKS): a command in a batch script is one process.
std::int64_t launched_processes();

}  // namespace shardsolve::cli
