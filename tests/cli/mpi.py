"""Several processes of the command, started by mpirun."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from command import TIMEOUT, Command, Result, default_signals

# Open MPI refuses more processes than cores, and root, unless it is told.
OPEN_MPI = {
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}


def missing(binary: Path) -> str:
    """What these tests lack here; empty if nothing."""
    if not (binary.parent / "libshardsolve_mpi.so").is_file():
        return "built without MPI (Debian: libopenmpi-dev)"
    if shutil.which("mpirun") is None:
        return "there is no mpirun (Debian: openmpi-bin)"
    return ""


class Processes:
    """The command in several processes, run in one directory."""

    def __init__(self, command: Command):
        self.command = command

    def __call__(
        self, count: int, *arguments: str | Path | int, env: dict[str, str] | None = None
    ) -> Result:
        """Runs to the end, with the same arguments for all."""
        return self.run(["-np", str(count), str(self.command.binary), *map(str, arguments)], env)

    def run(self, arguments: Sequence[str], env: dict[str, str] | None = None) -> Result:
        """Runs mpirun with these arguments of its own."""
        done = subprocess.run(
            ["mpirun", *arguments],
            cwd=self.command.directory,
            env={**os.environ, **OPEN_MPI, **(env or {})},
            capture_output=True,
            timeout=TIMEOUT,
            check=False,
        )
        out = done.stdout.decode(errors="replace")
        return Result(done.returncode, out, done.stderr.decode(errors="replace"))

    def start(
        self,
        count: int,
        *arguments: str | Path | int,
        at_work: Callable[[int], bool] | None = None,
    ) -> Running:
        """Starts it and waits until all its processes are at work, as that says of each."""
        return Running(
            subprocess.Popen(
                ["mpirun", "-np", str(count), str(self.command.binary), *map(str, arguments)],
                cwd=self.command.directory,
                env={**os.environ, **OPEN_MPI},
                preexec_fn=default_signals,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            ),
            count,
            at_work or _has_computed,
        )


class Running:
    """A job that mpirun is at, its processes at work."""

    def __init__(self, mpirun: subprocess.Popen, count: int, at_work: Callable[[int], bool]):
        self.mpirun = mpirun
        self.ranks: dict[int, int] = {}
        self.err = b""  # what was read so far
        deadline = time.monotonic() + TIMEOUT
        while len(self.ranks) < count or not all(map(at_work, self.ranks.values())):
            assert mpirun.poll() is None, mpirun.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
            self.ranks = self._find_ranks()

    def send(self, number: int, rank: int | None = None) -> None:
        """A signal to the process of a rank, or to mpirun."""
        os.kill(self.mpirun.pid if rank is None else self.ranks[rank], number)

    def wait_for(self, error: str) -> None:
        """Until this is on stderr."""
        while error.encode() not in self.err:
            assert select.select([self.mpirun.stderr], [], [], TIMEOUT)[0], self.err
            some = os.read(self.mpirun.stderr.fileno(), 1 << 16)
            assert some, self.err
            self.err += some

    def finish(self) -> Result:
        out, err = self.mpirun.communicate(timeout=TIMEOUT)
        return Result(self.mpirun.returncode, out.decode(), (self.err + err).decode())

    def _find_ranks(self) -> dict[int, int]:
        children = Path(f"/proc/{self.mpirun.pid}/task/{self.mpirun.pid}/children")
        ranks = {}
        for pid in children.read_text().split():
            for variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                if variable.startswith(b"OMPI_COMM_WORLD_RANK="):
                    ranks[int(variable.split(b"=")[1])] = int(pid)
        return ranks


def has_read(size: int) -> Callable[[int], bool]:
    """Whether a process has read more than so many bytes."""

    def at_work(pid: int) -> bool:
        return int(Path(f"/proc/{pid}/io").read_text().split()[1]) > size

    return at_work


def _has_computed(pid: int) -> bool:
    """Whether a process has been computing for some time."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    ticks = int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK") > 1.0
