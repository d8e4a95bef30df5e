"""What a benchmark ran on."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
# More than this many processes that want a core, for each core, and timings mean little.
BUSY_LOAD = 0.3


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))


def describe() -> dict[str, Any]:
    """The machine, its load, and the commit that is checked out."""
    load = os.getloadavg()[0]
    return {
        "cpu": _cpu_model(),
        "cores": cores(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "load": load,
        "busy": load > BUSY_LOAD * cores(),
        "commit": _commit(),
    }


def _cpu_model() -> str:
    fields = {"model name": "unknown CPU", "cpu family": "?", "model": "?"}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() in fields:
            fields[key.strip()] = value.strip()
    return "{model name} (family {cpu family}, model {model})".format_map(fields)


def _commit() -> str:
    try:
        return subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
