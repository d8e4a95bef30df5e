#!/usr/bin/env bash
# Format, lint and types:  scripts/check.sh [--fix | recipes]
#   --fix    formats the files in place first
#   recipes  only what a release is made with: recipe/, containers/, scripts
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

roots=()
for root in include src cli jax tests bench examples; do
  [ -d "$root" ] && roots+=("$root")
done
mapfile -t cpp_files < <(find "${roots[@]}" -name '*.cpp' -o -name '*.hpp' -o -name '*.cu' -o -name '*.cuh' | sort)
ruff=.venv/bin/ruff

if [ "${1:-}" = --fix ]; then
  clang-format-19 -i "${cpp_files[@]}"
  "$ruff" format --quiet .
  "$ruff" check --fix --quiet . || true
fi

failed=()
step() {
  local name=$1
  shift
  echo "== $name"
  "$@" || failed+=("$name")
}

tidy() {
  mkdir -p build
  # Generated headers and compile_commands.json; nothing has to be compiled.
  { cmake --preset dev && cmake --build build/dev --target shardsolve_interface; } >build/dev-configure.log 2>&1 ||
    { cat build/dev-configure.log; return 1; }
  find src cli -name '*.cpp' -not -path '*/cuda/*' -print0 2>/dev/null |
    xargs -0 -r -n 1 -P "$(nproc)" clang-tidy-19 -p build/dev --quiet 2> >(grep -v 'warnings generated\.$' >&2)
}

# Rows of tables cannot be broken.
design_lines() {
  awk 'length > 120 && !/^ *\|/ { print FILENAME ":" FNR ": longer than 120 columns"; found = 1 } END { exit found }' \
    docs/design/*.md
}

# The recipe is rendered, Dockerfile and Apptainer's definition are read; nothing is built.
recipes() {
  step "shellcheck" shellcheck examples/*.sh tests/mpi/run.sh scripts/{cuda12,pythons,release,wheel}.sh
  step "hadolint" .venv/bin/hadolint containers/Dockerfile
  step "apptainer" .venv/bin/python scripts/check_apptainer.py
  step "recipe" .venv/bin/python scripts/check_recipe.py
}

finish() {
  if [ ${#failed[@]} -gt 0 ]; then
    printf 'FAILED: %s\n' "${failed[@]}" >&2
    [ "${1:-}" = recipes ] || echo "scripts/check.sh --fix repairs the format" >&2
    exit 1
  fi
  echo "all checks passed"
  exit
}

if [ "${1:-}" = recipes ]; then
  recipes
  finish recipes
fi

step "clang-format on ${#cpp_files[@]} files" clang-format-19 --dry-run -Werror "${cpp_files[@]}"
step "layers" .venv/bin/python scripts/layers.py
step "ruff check" "$ruff" check .
step "ruff format" "$ruff" format --check .
step "lines of docs/design" design_lines
step "documentation" .venv/bin/mkdocs build --strict --quiet
step "mypy" .venv/bin/mypy python/shardsolve
recipes
step "clang-tidy" tidy
finish
