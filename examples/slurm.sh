#!/usr/bin/env bash
# A batch job for Slurm: solves A x = b on two nodes, one process a core complex.
#   sbatch examples/slurm.sh A.npy b.npy x.npy
# The files lie where all nodes see them. Slurm has to start processes in the way that the MPI of shardsolve knows: see
# `srun --mpi=list`; Open MPI takes pmix, or `mpirun shardsolve ...` in place of srun.
#SBATCH --job-name=shardsolve
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=2
#SBATCH --time=01:00:00
# So that a job that runs out of time ends in good order: shardsolve is told two minutes before, and writes nothing.
#SBATCH --signal=TERM@120
set -euo pipefail

if [ $# -ne 3 ]; then
  echo "usage: sbatch $0 A.npy b.npy x.npy" >&2
  exit 2
fi

# Each process is one rank. Two cores a process: one for the panels, one for the bulk of the work.
srun --mpi="${SHARDSOLVE_SRUN_MPI:-pmix}" --cpus-per-task="${SLURM_CPUS_PER_TASK:-2}" \
  shardsolve solve "$1" "$2" -o "$3" --timeout 300 --json
