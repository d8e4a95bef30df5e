#!/usr/bin/env bash
# Prints a Python of each version that we support and that is found here, with venv and pip, the oldest first.
#   scripts/pythons.sh [minor...]   of these alone, in this order: 13 for Python 3.13
set -euo pipefail

[ $# -gt 0 ] || set -- 11 12 13 14
for minor in "$@"; do
  # A shim of pyenv on PATH works only for versions that were chosen, so those that are installed are looked at, too.
  for candidate in "python3.$minor" "${PYENV_ROOT:-$HOME/.pyenv}/versions/3.$minor."*/bin/python; do
    if "$candidate" -c 'import ensurepip, venv' >/dev/null 2>&1; then
      echo "$candidate"
      break
    fi
  done
done
