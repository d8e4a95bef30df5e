#!/usr/bin/env bash
# Runs a program in several processes:  tests/mpi/run.sh <mpiexec> <processes> <program> [argument...]
# Exit code 77, which ctest takes for "skipped", where there is no mpiexec.
set -euo pipefail

mpiexec=$1 processes=$2
shift 2
if ! command -v "$mpiexec" >/dev/null; then
  echo "skipped: there is no mpiexec (Debian: openmpi-bin)"
  exit 77
fi
options=(-n "$processes")
# Open MPI refuses more processes than cores, and root, unless it is told.
if "$mpiexec" --version 2>&1 | grep -q "Open MPI\|OpenRTE"; then
  options+=(--oversubscribe --allow-run-as-root)
fi
exec "$mpiexec" "${options[@]}" "$@"
