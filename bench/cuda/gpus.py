"""The GPUs of this machine, and the libraries that the programs find on it."""

from __future__ import annotations

import csv
import os
import subprocess
import sysconfig
from collections.abc import Mapping
from pathlib import Path

FIELDS = (
    "index",
    "name",
    "driver_version",
    "memory.total",
    "power.limit",
    "clocks.max.sm",
    "temperature.gpu",
)
# They change what is computed: no peer is asked for less precision than the dtype has.
PRECISION_VARIABLES = (
    "NVIDIA_TF32_OVERRIDE",
    "CUBLAS_EMULATE_DOUBLE_PRECISION",
    "CUBLAS_EMULATE_SINGLE_PRECISION",
    "CUBLAS_EMULATION_STRATEGY",
)
# NVLink multicast can put the GPUs of a shared host out of service.
NO_MULTICAST = {
    "NCCL_NVLS_ENABLE": "0",
    "NVSHMEM_DISABLE_NVLS": "1",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
}
LIBRARIES = ("libcublas", "libcusolver", "libnccl", "libcudart", "libshardsolve")


def describe() -> list[dict[str, str]]:
    """What nvidia-smi says of each GPU; nothing if there is none."""
    command = ["nvidia-smi", f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return []
    rows = csv.reader(answer.stdout.splitlines(), skipinitialspace=True)
    return [dict(zip(FIELDS, row, strict=False)) for row in rows]


def memory_bytes(gpu: Mapping[str, str]) -> float:
    """Memory of one GPU, e.g. of "81559 MiB"."""
    return float(gpu["memory.total"].split()[0]) * 2**20


def environment(first: str = "") -> dict[str, str]:
    """Of the programs.

    Args:
        first: Folders that are searched for libraries before CUDA's own, separated by colons.
    """
    kept = {name: value for name, value in os.environ.items() if name not in PRECISION_VARIABLES}
    folders = [first, *_library_folders(), os.environ.get("LD_LIBRARY_PATH", "")]
    return {**kept, **NO_MULTICAST, "LD_LIBRARY_PATH": ":".join(filter(None, folders))}


def newest_nccl(folders: str) -> dict[str, str]:
    """Has a program take the NCCL in one of `folders` instead of its own, if one is there."""
    candidates = [Path(folder) / "libnccl.so.2" for folder in folders.split(":") if folder]
    found = next((library for library in candidates if library.is_file()), None)
    return {"LD_PRELOAD": str(found)} if found else {}


def _library_folders() -> list[str]:
    """CUDA's toolkit, then Python's wheels."""
    toolkit = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
    site = Path(sysconfig.get_paths()["purelib"])
    candidates = [toolkit / "lib64", toolkit / "lib", site / "nvidia/cu13/lib"]
    return [str(folder) for folder in candidates if folder.is_dir()]


def loaded_libraries(process: int) -> list[str]:
    """The files of CUDA's libraries, and ours, that a process has loaded, each with its folder."""
    try:
        maps = Path(f"/proc/{process}/maps").read_text()
    except OSError:
        return []
    files = {line.split(maxsplit=5)[5] for line in maps.splitlines() if line.count("/")}
    loaded = {Path(file) for file in files if Path(file).name.startswith(LIBRARIES)}
    return sorted(f"{file.parent.name}/{file.name}" for file in loaded)
