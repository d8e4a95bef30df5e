"""What a wheel of ours carries of others, as a software bill of materials (CycloneDX, JSON).

python scripts/sbom.py WHEEL > SBOM  where the wheel was built: versions are those that the build
pins (pyproject.toml, requirements/cuda12.txt) or finds (headers of fmt and JSON, nvcc). Each file
of licences in the wheel has to belong to a part, and each part has to have its file.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = Path("/usr/include")
LIBRARY = {13: "shardsolve/lib/libshardsolve_cuda.so", 12: "shardsolve/lib/libshardsolve_cuda12.so"}


NVIDIA = "NVIDIA CUDA Toolkit EULA"  # which SPDX has no word for


@dataclass(frozen=True)
class Part:
    """What is in the wheel and another's."""

    name: str
    version: str
    license: str  # SPDX's expression; of others a name
    file: str  # in the wheel's folder of licences
    purl: str

    def component(self) -> dict:
        """As CycloneDX has it."""
        return {
            "type": "library",
            "bom-ref": self.purl,
            "name": self.name,
            "version": self.version,
            "licenses": [
                {"license": {"name": self.license}}
                if self.license == NVIDIA
                else {"expression": self.license}
            ],
            "purl": self.purl,
            "properties": [{"name": "shardsolve:license-file", "value": self.file}],
        }


def pin(package: str, file: str = "pyproject.toml") -> str:
    found = re.search(rf"\b{package}==([\w.]+)", (ROOT / file).read_text())
    if not found:
        raise SystemExit(f"{file} pins no {package}: scripts/sbom.py has to learn its version anew")
    return found[1]


def fmt_version() -> str:
    number = int(re.search(r"define FMT_VERSION (\d+)", (INCLUDE / "fmt/core.h").read_text())[1])
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def json_version() -> str:
    text = (INCLUDE / "nlohmann/detail/abi_macros.hpp").read_text()
    words = ("MAJOR", "MINOR", "PATCH")
    return ".".join(re.search(rf"define NLOHMANN_JSON_VERSION_{w} (\d+)", text)[1] for w in words)


def nvcc_version() -> str:
    home = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "bin"
    path = f"{os.environ['PATH']}:{home}"
    text = subprocess.run(
        ["nvcc", "--version"], env={"PATH": path}, capture_output=True, text=True, check=True
    ).stdout
    return re.search(r", V([\d.]+)", text)[1]


def parts(files: set[str]) -> list[Part]:
    openblas, zig, xla = pin("scipy-openblas32"), pin("ziglang"), pin("jaxlib")
    fmt, nlohmann = fmt_version(), json_version()
    with_llvm = "Apache-2.0 WITH LLVM-exception"
    bsd = "BSD-3-Clause AND GPL-3.0-or-later WITH GCC-exception-3.1"
    found = [
        Part("OpenBLAS", openblas, bsd, "OpenBLAS.txt", f"pkg:pypi/scipy-openblas32@{openblas}"),
        Part("libc++", zig, with_llvm, "libcxx.txt", f"pkg:pypi/ziglang@{zig}#lib/libcxx"),
        Part("zig's runtime", zig, "MIT", "zig.txt", f"pkg:pypi/ziglang@{zig}"),
        Part("fmt", fmt, "MIT", "fmt.txt", f"pkg:github/fmtlib/fmt@{fmt}"),
        Part(
            "JSON for Modern C++",
            nlohmann,
            "MIT",
            "nlohmann_json.txt",
            f"pkg:github/nlohmann/json@v{nlohmann}",
        ),
        Part("XLA's headers", xla, "Apache-2.0", "xla.txt", f"pkg:pypi/jaxlib@{xla}"),
    ]
    runtimes = {
        13: nvcc_version,
        12: lambda: pin("nvidia-cuda-runtime-cu12", "requirements/cuda12.txt"),
    }
    for cuda, library in LIBRARY.items():
        if library in files:
            version = runtimes[cuda]()
            found.append(
                Part(
                    "CUDA Runtime (static)",
                    version,
                    NVIDIA,
                    "CUDA.txt",
                    f"pkg:generic/cuda-runtime@{version}",
                )
            )
    return found


def bill(wheel: Path) -> dict:
    """The bill; SystemExit where licences and parts do not fit."""
    with zipfile.ZipFile(wheel) as archive:
        files = {name for name in archive.namelist() if not name.endswith("/")}
    inside = {Path(name).name for name in files if ".dist-info/licenses/" in name} - {"LICENSE"}
    found = parts(files)
    if inside != {part.file for part in found}:
        raise SystemExit(
            f"{wheel.name} has the licences {sorted(inside)}, and its parts have "
            f"{sorted({part.file for part in found})}: mend scripts/sbom.py or licenses/"
        )
    version = wheel.name.split("-")[1]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": "shardsolve",
                "name": "shardsolve",
                "version": version,
                "licenses": [{"expression": "Apache-2.0"}],
                "purl": f"pkg:pypi/shardsolve@{version}?file_name={wheel.name}",
                "hashes": [
                    {"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}
                ],
            }
        },
        "components": [part.component() for part in found],
        "dependencies": [{"ref": "shardsolve", "dependsOn": [part.purl for part in found]}],
    }


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: sbom.py WHEEL")
    print(json.dumps(bill(Path(sys.argv[1])), indent=2))
