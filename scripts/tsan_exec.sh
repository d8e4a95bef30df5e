#!/usr/bin/env bash
# Runs a command of the tsan build with the options the project wants:  scripts/tsan_exec.sh <command> [argument...]
# A report ends the program with code 66, which no test expects.
set -euo pipefail

export TSAN_OPTIONS="halt_on_error=1 second_deadlock_stack=1 exitcode=66${TSAN_OPTIONS:+ $TSAN_OPTIONS}"

# The TSan of gcc 12 stops ("unexpected memory mapping") where the kernel randomises addresses by more than 28 bits.
bits=$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 28)
if [ "$bits" -gt 28 ]; then
  if setarch -R true 2>/dev/null; then
    exec setarch -R "$@"
  fi
  echo "shardsolve: ThreadSanitizer may stop with 'unexpected memory mapping' here, as address randomisation cannot be" \
    "switched off for one program. If it does, run as root: sysctl vm.mmap_rnd_bits=28" >&2
fi
exec "$@"
