#!/usr/bin/env bash
# Starts a program in several processes that all read the lines which come in:
#   bench/engines/processes.sh <processes> <program> [argument...]
# (Open MPI 4.1 hands the input on to rank 0 alone, whatever --stdin says, and who waits for a message wants the core.)
set -euo pipefail

processes=$1
shift
pipes=$(mktemp -d)
trap 'rm -rf "$pipes"' EXIT
for ((rank = 0; rank < processes; ++rank)); do
  mkfifo "$pipes/$rank"
done
exec 3<&0
tee "$pipes"/* >/dev/null <&3 &
# shellcheck disable=SC2016 # is for the shell of each process
mpirun --oversubscribe --allow-run-as-root --bind-to none -np "$processes" \
  sh -c 'exec "$@" <"$0/$OMPI_COMM_WORLD_RANK"' "$pipes" "$@" </dev/null
