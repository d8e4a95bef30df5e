"""Who is timed on GPUs, how the runs take turns within a budget of time, and what is compared."""

from __future__ import annotations

import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gpus
from contest import Measurement
from protocol import BenchError, Contestant, Residual, Run

OURS, OURS_MPI, OURS_JAX = "shardsolve", "shardsolve_mpi", "shardsolve_jax"
DN, MG, MP, JAXMG = "cusolver", "cusolver_mg", "cusolver_mp", "jaxmg"
PEERS = (DN, MG, MP, JAXMG)
PROGRAMS = {
    OURS: "shardsolve_bench_cuda",
    OURS_MPI: "shardsolve_bench_cuda_mpi",
    OURS_JAX: "ours_jax.py",
    DN: "shardsolve_bench_cusolver",
    MG: "shardsolve_bench_cusolver_mg",
    MP: "shardsolve_bench_cusolver_mp",
    JAXMG: "peer_jaxmg.py",
}
# The packages without which a program in Python takes no part.
PACKAGES = {OURS_JAX: ("jax", "shardsolve"), JAXMG: ("jax", "jaxmg")}
CEILING = "shardsolve_bench_ceiling"
# One device's memory, by its share of the matrix: what is held between two runs.
MEMORY_FACTORS = {OURS: 1.3, OURS_MPI: 1.3, OURS_JAX: 2.2, DN: 1.2, MG: 1.4, MP: 1.4, JAXMG: 3.2}
# The same where eigenpairs are found.
EIGH_MEMORY_FACTORS = {OURS: 6.5, OURS_MPI: 6.5, DN: 4.5, MP: 6.0}
CONTEXT_BYTES = 2e9
USABLE = 0.92
# A process for each GPU. Open MPI would bind each to one core, and refuses root, unless it is told.
MPIRUN = ("mpirun", "--oversubscribe", "--allow-run-as-root", "--bind-to", "none")
# The peers' tiles; each runs with the one that is fastest here.
PEER_TILES = {DN: (), MG: (256, 512, 1024), MP: (512, 1024, 2048), JAXMG: (512, 1024)}
QUICK_TILES = {DN: (), MG: (512,), MP: (1024,), JAXMG: (512,)}
SYSTEM_JOBS = ("factor", "solve", "solve_many", "one_call", "rcond", "inverse")
EIGH_JOBS = ("eigh", "eigh_tenth", "eigh_values")
JOBS = SYSTEM_JOBS + EIGH_JOBS
ELEMENT_BYTES = {"float32": 4, "float64": 8, "complex64": 8, "complex128": 16}
# A turn that follows others of the same memory: its first run is not counted.
RUNS_OF_A_TURN = 2


@dataclass(frozen=True)
class GpuRun(Run):
    """One timed run.

    `first` is True for the first of its job in its process. `bytes` is what the program held after
    it on the device where it held most.
    """

    first: bool = False
    bytes: int = 0
    certificate: dict[str, Any] = field(default_factory=dict)


class GpuContestant(Contestant):
    """A program that is being timed; one that does not answer in time is ended.

    Args:
        name: What the tables call it.
        command: The program and its arguments.
        environment: All of its environment.
        timeout: Seconds for one answer.

    Raises:
        BenchError: The program cannot be started, or ends before it is ready.
    """

    def __init__(
        self, name: str, command: Sequence[str], environment: dict[str, str], timeout: float
    ) -> None:
        self._timeout = timeout
        self.alive = True
        super().__init__(name, command, environment)

    def run(self, job: str, tile: int | None = None) -> GpuRun:
        """Times one run of a job. Raises BenchError if it fails."""
        answer = self._ask(job if tile is None else f"{job} {tile}")
        residuals = tuple(Residual(**part) for part in answer["residuals"])
        return GpuRun(
            answer["seconds"],
            residuals,
            answer["first"],
            answer["bytes"],
            answer["certificate"] or {},
        )

    def release(self) -> None:
        """Has all its memory given back."""
        self._ask("release")

    def loaded_libraries(self) -> list[str]:
        """Files of the libraries that the process uses."""
        return gpus.loaded_libraries(self._process.pid)

    def close(self) -> None:
        """Ends the process."""
        self.alive = False
        try:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(timeout=20)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()

    def _read(self) -> dict[str, Any]:
        ready, _, _ = select.select([self._process.stdout], [], [], self._timeout)
        if not ready:
            self._process.kill()
            self._process.wait()
            self.alive = False
            raise BenchError(f"{self.name}: no answer within {self._timeout:.0f} s; it was ended")
        try:
            return super()._read()
        except BenchError:
            self.alive = False
            raise


@dataclass(frozen=True)
class Setting:
    """What is solved, and where."""

    n: int
    dtype: str
    matrix: str
    devices: tuple[int, ...]
    columns: int
    jobs: tuple[str, ...]

    @property
    def share(self) -> float:
        """Bytes of the matrix on each device."""
        return ELEMENT_BYTES[self.dtype] * float(self.n) ** 2 / len(self.devices)

    def held(self, name: str) -> float:
        """Bytes on each device that a contestant is expected to hold, its context included."""
        whole = len(self.devices) if name == DN else 1
        # cuSOLVERMp has no potri: the inverse is a second matrix.
        second = self.share if name == MP and "inverse" in self.jobs else 0.0
        factor = MEMORY_FACTORS[name]
        if any(job in EIGH_JOBS for job in self.jobs):
            factor = EIGH_MEMORY_FACTORS.get(name, factor)
        return factor * whole * self.share + second + CONTEXT_BYTES

    def arguments(self, name: str) -> list[str]:
        """Command line of a contestant."""
        devices = self.devices[:1] if name == DN else self.devices
        return [
            f"--n={self.n}",
            f"--dtype={self.dtype}",
            f"--matrix={self.matrix}",
            f"--columns={self.columns}",
            f"--devices={','.join(map(str, devices))}",
        ]


@dataclass
class GpuMeasurement(Measurement):
    """All runs of one job by one contestant, with the tile that was fastest."""

    columns: int = 1
    first: GpuRun | None = None
    trials: dict[int, float] = field(default_factory=dict)
    error: str | None = None

    @property
    def label(self) -> str:
        """What the tables call this row."""
        return str(self.contestant.hello["program"])

    @property
    def passed(self) -> bool:
        """Whether every answer was right; only then is there a speed."""
        return self.error is None and bool(self.runs) and not self.failures

    @property
    def tflops(self) -> float:
        """At the minimum, in real operations of the plain algorithm."""
        n = float(self.n)
        operations = {
            "factor": n**3 / 3,
            "solve": 2 * n**2,
            "solve_many": 2 * n**2 * self.columns,
            "one_call": n**3 / 3 + 2 * n**2,
            "rcond": 5 * 2 * n**2,
            "inverse": n**3,
            "eigh": 14 / 3 * n**3,  # to a tridiagonal, of it, and back
            "eigh_tenth": 5 / 3 * n**3,
            "eigh_values": 4 / 3 * n**3,
        }[self.job]
        factor = 4 if self.dtype.startswith("complex") else 1
        return factor * operations / self.minimum / 1e12

    @property
    def bytes(self) -> int:
        """The most that the program held on one device after a run."""
        return max((run.bytes for run in self.all_runs()), default=0)

    def all_runs(self) -> list[GpuRun]:
        """The first one too."""
        return [*([] if self.first is None else [self.first]), *self.runs]


def best_peer(rows: Iterable[GpuMeasurement]) -> GpuMeasurement | None:
    """The fastest right answer that is not ours."""
    peers = [row for row in rows if row.contestant.name in PEERS and row.passed]
    return min(peers, key=lambda row: row.minimum, default=None)


def command_of(name: str, build: Path, gpu_count: int) -> list[str]:
    """How a program is started."""
    if name == OURS_MPI:
        return [*MPIRUN, "-np", str(gpu_count), str(build / PROGRAMS[name])]
    if name in PACKAGES:
        return [sys.executable, str(Path(__file__).parent / PROGRAMS[name])]
    return [str(build / PROGRAMS[name])]


@contextmanager
def contestants(
    setting: Setting,
    names: Sequence[str],
    build: Path,
    timeout: float,
    mp_libraries: str,
    cusolver: str,
    say: Callable[[str], None],
) -> Iterator[list[GpuContestant]]:
    """Starts the programs; ends them afterwards. One that does not start is named and left out.

    Args:
        setting: What is solved.
        names: Some of PROGRAMS.
        build: Folder of the programs.
        timeout: Seconds for one answer.
        mp_libraries: Folders of cuSOLVERMp's libraries, separated by colons.
        cusolver: Folder of another cuSOLVER than CUDA's, for the program that times it; or none.
        say: Told of what does not start.
    """
    started: list[GpuContestant] = []
    try:
        for name in names:
            command = [*command_of(name, build, len(setting.devices)), *setting.arguments(name)]
            # Our backends are loaded at run time; they lie at the root of the build.
            root = str(build.parent.parent)
            folders = {OURS: root, OURS_MPI: root, DN: cusolver}
            folders |= {MP: mp_libraries, JAXMG: mp_libraries}
            environment = gpus.environment(folders.get(name, ""))
            if name == JAXMG:
                environment |= gpus.newest_nccl(mp_libraries)
            try:
                started.append(GpuContestant(name, command, environment, timeout))
            except BenchError as error:
                say(f"left out: {error}")
        yield started
    finally:
        for contestant in started:
            contestant.close()


@dataclass(frozen=True)
class Rules:
    """How a job is timed."""

    runs: int
    tiles: dict[str, Sequence[int]]
    memory: float  # of one device, in bytes
    sweep: Sequence[int] = ()  # tiles of ours, each a row of its own


def time_job(
    setting: Setting,
    job: str,
    everybody: Sequence[GpuContestant],
    rules: Rules,
    deadline: float,
    announce: Callable[[str], None],
) -> list[GpuMeasurement]:
    """One job by all who can do it, A B C A B C ..., until the runs are made or the time is over.

    Where all do not fit into the memory at once, each gives its memory back after its turn, which
    then begins with a run that does not count.

    Args:
        setting: What is solved.
        job: One of JOBS.
        everybody: All contestants.
        rules: How it is timed.
        deadline: Of time.monotonic(); each gets one timed run all the same.
        announce: Told what is being done.
    """
    able = [one for one in everybody if job in one.hello["jobs"]]
    rows = [row for one in able for row in _rows_of(one, setting, job, rules)]
    together = sum(setting.held(one.name) for one in everybody) < USABLE * rules.memory
    for row in rows:
        announce(f"{row.label}: first run")
        tiles = rules.tiles.get(row.contestant.name, ())
        _attempt(row, lambda row=row, tiles=tiles: _begin(row, tiles, deadline))
        _leave(row, together)
    for turn in range(rules.runs if together else -(-rules.runs // RUNS_OF_A_TURN)):
        if turn > 0 and time.monotonic() > deadline:
            break
        for row in rows:
            announce(f"{row.label}: turn {turn + 1}")
            _attempt(row, lambda row=row: _take_turn(row, together))
            _leave(row, together)
    return rows


def _rows_of(one: GpuContestant, setting: Setting, job: str, rules: Rules) -> list[GpuMeasurement]:
    columns = setting.columns if job == "solve_many" else 1
    tiles: Sequence[int | None] = rules.sweep if one.name == OURS and rules.sweep else (None,)
    return [
        GpuMeasurement(job, one, setting.n, setting.dtype, tile, columns=columns) for tile in tiles
    ]


def _attempt(row: GpuMeasurement, work: Callable[[], None]) -> None:
    """What fails is kept as the row's error; a program that has ended takes no more turns."""
    if row.error is not None:
        return
    if not isinstance(row.contestant, GpuContestant) or not row.contestant.alive:
        row.error = f"{row.contestant.name}: the program has ended before"
        return
    try:
        work()
    except BenchError as error:
        row.error = str(error)


def _begin(row: GpuMeasurement, tiles: Sequence[int], deadline: float) -> None:
    """The first run, and one with each tile to find the fastest, while there is time."""
    usable = [tile for tile in tiles if tile < row.n]
    row.tile = usable[0] if usable else row.tile
    row.first = row.contestant.run(row.job, row.tile)
    for tile in usable if len(usable) > 1 else ():
        if row.trials and time.monotonic() > deadline:
            break
        try:
            run = row.contestant.run(row.job, tile)
        except BenchError:
            # One that it cannot do, while it can do others.
            if not row.contestant.alive:
                raise
            continue
        if all(part.passed for part in run.residuals):
            row.trials[tile] = run.seconds
    row.tile = min(row.trials, key=row.trials.__getitem__, default=row.tile)


def _take_turn(row: GpuMeasurement, together: bool) -> None:
    if together:
        row.runs.append(row.contestant.run(row.job, row.tile))
        return
    row.contestant.run(row.job, row.tile)
    for _ in range(RUNS_OF_A_TURN):
        row.runs.append(row.contestant.run(row.job, row.tile))


def _leave(row: GpuMeasurement, together: bool) -> None:
    if not together and row.contestant.alive:
        _attempt(row, row.contestant.release)


def as_json(row: GpuMeasurement) -> dict[str, Any]:
    """A row for the file of results; without seconds where an answer was wrong."""
    result: dict[str, Any] = {
        "job": row.job,
        "program": row.contestant.name,
        "label": row.label,
        "tile": row.tile or row.contestant.hello["tile"] or None,
        "residuals_in_u": row.worst,
        "bytes_on_fullest_device": row.bytes,
        "certificate": row.runs[-1].certificate if row.runs else {},
    }
    if row.error is not None:
        result["error"] = row.error
    elif not row.passed:
        result["wrong"] = row.failures
    else:
        result["first_seconds"] = row.first.seconds if row.first else None
        result["seconds"] = row.seconds
        result["min"] = row.minimum
        result["median"] = row.median
        result["tflops"] = row.tflops
        result["seconds_of_tiles"] = row.trials
    return result
