#!/usr/bin/env bash
# Makes what a release consists of, in build/dist: wheel for CPUs and GPUs of CUDA 12 and 13, sdist, bill of materials of
# the wheel (CycloneDX), checksums, and the recipe for conda-forge with version and checksum of the sdist.
#   scripts/release.sh [--no-cuda12]   without the library for CUDA 12, which takes clang 20 and longest
# PYTHON, PYTHONS (default: all that are found), JAXES: see scripts/wheel.sh. It publishes nothing, and tests only that the
# wheel works: see scripts/test.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

dist=build/dist
cuda12=ON
case ${1:-} in
  "") ;;
  --no-cuda12) cuda12=OFF ;;
  *)
    echo "usage: scripts/release.sh [--no-cuda12]" >&2
    exit 2
    ;;
esac

CUDA12=$cuda12 PYTHONS=${PYTHONS:-$(scripts/pythons.sh)} scripts/wheel.sh

rm -rf "$dist"
mkdir -p "$dist"
cp build/wheel/dist/* "$dist"
wheel=$(echo "$dist"/*.whl)
sdist=$(echo "$dist"/*.tar.gz)

echo "== bill of materials"
tools=build/wheel/venv/bin
"$tools/python" -m pip install --quiet --disable-pip-version-check -r requirements/release.txt
sbom=${wheel%-py3-*}.cdx.json
"$tools/python" scripts/sbom.py "$wheel" >"$sbom"
"$tools/python" - "$sbom" <<'PYTHON'
import sys
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(Path(sys.argv[1]).read_text())
if error:
    sys.exit(f"{sys.argv[1]} is no CycloneDX 1.6: {error}")
PYTHON

echo "== recipe"
version=$(basename "$sdist" .tar.gz)
version=${version#shardsolve-}
sum=$(sha256sum "$sdist" | cut -d ' ' -f 1)
mkdir "$dist/recipe"
sed -e "s/^  version: \".*/  version: \"$version\"/" -e "s/^  sha256: .*/  sha256: $sum/" recipe/recipe.yaml \
  >"$dist/recipe/recipe.yaml"

echo "== checksums"
(cd "$dist" && sha256sum -- *.whl *.tar.gz *.cdx.json >SHA256SUMS && sha256sum --check --quiet SHA256SUMS)
ls -l "$dist"
