#!/usr/bin/env bash
# A batch job for Slurm: trains networks on the GPUs of two nodes, a process a GPU, and goes on from its checkpoint when
# it is submitted again, or put back into the queue.
#   sbatch examples/slurm_networks.sh FOLDER [option of networks_job.py...]
# FOLDER lies where all nodes see it. One process for both GPUs of one node needs no more than
#   python examples/networks_job.py --checkpoint FOLDER/networks.checkpoint
# GPUs are asked for by node: with --gpus-per-task every task sees one, as number 0, and JAX looks for that of the task's
# own number. `shardsolve doctor` says if something of the kind is wrong.
#SBATCH --job-name=networks
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --gpus-per-node=2
#SBATCH --cpus-per-task=4
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
# Two minutes before the end all processes are told to write a checkpoint, and to end with it.
#SBATCH --signal=TERM@120
set -euo pipefail

if [ $# -lt 1 ]; then
  echo "usage: sbatch $0 FOLDER [option of networks_job.py...]" >&2
  exit 2
fi
folder=$1
shift
mkdir -p "$folder"

# Slurm runs a copy of this script, from elsewhere.
program=${SHARDSOLVE_EXAMPLES:-$SLURM_SUBMIT_DIR/examples}/networks_job.py

# As each task sees its surroundings; what is wrong with them is in the log, and ends nothing here.
if command -v shardsolve >/dev/null; then
  srun shardsolve doctor || true
fi

srun --cpus-per-task="${SLURM_CPUS_PER_TASK:-4}" \
  python "$program" --checkpoint "$folder/networks.checkpoint" --output "$folder/networks.run" "$@"
