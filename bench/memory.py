"""How much memory a solve takes that overwrites A."""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from protocol import BenchError

SAMPLE_SECONDS = 0.002
ALLOWANCE_BYTES = 100e6
PANELS = 3


@dataclass(frozen=True)
class MemoryUse:
    """Peak memory of one `shardsolve solve`, in bytes.

    `anonymous` is the largest of many samples. `resident` is the system's own maximum, which misses
    nothing but has the pages of program files in it.
    """

    n: int
    ranks: int
    tile: int
    matrix: int
    panels: int
    anonymous: int
    resident: int

    @property
    def bound(self) -> float:
        """A, three panels a rank and 100 MB."""
        return self.matrix + self.panels + ALLOWANCE_BYTES

    @property
    def kept(self) -> bool:
        """Whether the bound holds, even with the pages of program files."""
        return max(self.anonymous, self.resident) <= self.bound


def measure(program: Path, folder: Path, ranks: int, tile: int | None) -> MemoryUse:
    """Runs the command line tool on the problem in `folder`, and watches it.

    Args:
        program: The tool.
        folder: Holds a.npy and b.npy.
        ranks: CPU devices.
        tile: Columns of a block; None for the tool's choice.

    Raises:
        BenchError: The tool does not start, or fails.
    """
    command = [program, "solve", folder / "a.npy", folder / "b.npy", "-o", folder / "x.npy"]
    command += ["--force", "--json", "--devices", str(ranks)]
    command += [] if tile is None else ["--tile", str(tile)]
    try:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    except OSError as error:
        raise BenchError(f"'{program}' does not start: {error.strerror}") from error
    anonymous, resident, status = _watch(process)
    out, err = process.communicate()
    if status != 0:
        raise BenchError(f"'{program}' ended with exit status {status}: {err.strip()}")
    report = json.loads(out)
    element = (folder / "a.npy").stat().st_size // report["n"] ** 2
    return MemoryUse(
        n=report["n"],
        ranks=ranks,
        tile=report["tile"],
        matrix=element * report["n"] ** 2,
        panels=PANELS * ranks * element * report["n"] * report["tile"],
        anonymous=anonymous,
        resident=resident,
    )


def _watch(process: subprocess.Popen[str]) -> tuple[int, int, int]:
    """Waits for the end. Returns anonymous and resident peak in bytes, and the exit status."""
    anonymous = 0
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid != 0:
            process.returncode = os.waitstatus_to_exitcode(status)
            return anonymous, 1024 * usage.ru_maxrss, process.returncode
        anonymous = max(anonymous, _anonymous_bytes(process.pid))
        time.sleep(SAMPLE_SECONDS)


def _anonymous_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return 1024 * int(line.split()[1])
    return 0  # it has ended, and nobody has asked for its status yet
