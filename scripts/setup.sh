#!/usr/bin/env bash
# Installs what a task needs and is missing; quick when nothing is.
#   scripts/setup.sh build | test | demo | bench | recipes | check ...
# Debian and its relatives: packages by apt-get, as root. Python packages go to .venv in the project, never elsewhere.
# SHARDSOLVE_SKIP_SYSTEM_SETUP=1 skips the system packages: for other systems, where they were installed by hand.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  echo "usage: scripts/setup.sh build|test|demo|bench|recipes|check ..." >&2
  exit 2
}

build_packages=(g++ make cmake ninja-build libopenblas-pthread-dev libcli11-dev nlohmann-json3-dev libfmt-dev
  zlib1g-dev libgtest-dev libgmock-dev)
peer_packages=(libopenblas0-pthread)
mpi_packages=(libopenmpi-dev openmpi-bin)
check_packages=(clang-format-19 clang-tidy-19 shellcheck)

python=
# A Python that can make virtual environments: the one on PATH, or else the system's.
find_python() {
  local candidate
  for candidate in python3 /usr/bin/python3; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
      python=$candidate
      return 0
    fi
  done
  return 1
}

system_packages() {
  [ "${SHARDSOLVE_SKIP_SYSTEM_SETUP:-}" = 1 ] && return 0
  local wanted=("$@") missing=() package
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    cat >&2 <<MESSAGE
shardsolve: packages are installed automatically on Debian and its relatives only. Please install what Debian calls
  ${wanted[*]}
(a C++20 compiler, CMake 3.25, Ninja, OpenBLAS or another BLAS with LAPACK, CLI11, nlohmann-json, fmt, GoogleTest, ...;
a BLAS other than Debian's is found by CMake, see BLA_VENDOR), then run again with SHARDSOLVE_SKIP_SYSTEM_SETUP=1.
MESSAGE
    exit 1
  fi
  for package in "${wanted[@]}"; do
    if [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" != installed ]; then
      missing+=("$package")
    fi
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  if [ "$(id -u)" -ne 0 ]; then
    cat >&2 <<MESSAGE
shardsolve: these packages are missing, and only root can install them. Please run
  sudo apt-get install ${missing[*]}
and then the same command again.
MESSAGE
    exit 1
  fi
  echo "== installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get -o DPkg::Lock::Timeout=300 -q update
  apt-get -o DPkg::Lock::Timeout=300 install -q -y --no-install-recommends "${missing[@]}"
}

# A requirement file is installed again only when it, or the Python below .venv, has changed.
python_packages() {
  local name file sum stale=() arguments=()
  if ! .venv/bin/python -c 'import pip' >/dev/null 2>&1; then
    echo "== making .venv with $("$python" --version)"
    rm -rf .venv
    "$python" -m venv .venv
  fi
  for name in "$@"; do
    file=requirements/$name.txt
    sum=$(sha256sum <"$file")
    if [ "$(cat ".venv/.installed-$name" 2>/dev/null)" != "$sum" ]; then
      stale+=("$name")
      arguments+=(-r "$file")
    fi
  done
  [ ${#stale[@]} -eq 0 ] && return 0
  echo "== installing Python packages for: ${stale[*]}"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check "${arguments[@]}"
  for name in "${stale[@]}"; do
    sha256sum <"requirements/$name.txt" >".venv/.installed-$name"
  done
}

[ $# -gt 0 ] || usage
packages=("${build_packages[@]}")
requirements=()
for what in "$@"; do
  case $what in
    build) ;;
    test) packages+=("${mpi_packages[@]}" iproute2) requirements+=(test) ;;
    demo) packages+=("${peer_packages[@]}") requirements+=(demo) ;;
    bench) packages+=("${peer_packages[@]}" "${mpi_packages[@]}" libscalapack-openmpi-dev) requirements+=(bench) ;;
    recipes) packages+=(shellcheck) requirements+=(recipes) ;;
    check) packages+=("${mpi_packages[@]}" "${check_packages[@]}") requirements+=(check docs recipes) ;;
    *) usage ;;
  esac
done
if [ ${#requirements[@]} -gt 0 ] && ! find_python; then
  packages+=(python3 python3-venv)
fi

# Two runs at once take turns.
mkdir -p build
exec 9>build/.setup.lock
command -v flock >/dev/null && flock 9

system_packages "${packages[@]}"
if [ ${#requirements[@]} -gt 0 ]; then
  if [ -z "$python" ] && ! find_python; then
    echo "shardsolve: no Python 3.11 or newer with the venv module was found as python3 on PATH or in /usr/bin." >&2
    exit 1
  fi
  python_packages "${requirements[@]}"
fi
