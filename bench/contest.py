"""Who is timed, how the runs take turns, and what may be compared."""

from __future__ import annotations

import math
import os
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from protocol import Contestant, Run

HERE = Path(__file__).resolve().parent
TARGET = 0.92
# What the target is about; other runs are not judged by it.
TARGET_SIZES = (4096, 8192)
TARGET_RANKS = 4
TARGET_RUNS = 5
ENGINE_RANKS = 2  # of the goals of bench/engines.py, at the same sizes

OURS, LAPACK, SCIPY, JAX = "shardsolve", "lapack", "scipy", "jax"
PEERS = (LAPACK, SCIPY, JAX)
OURS_MPI, SCALAPACK = "shardsolve-mpi", "scalapack"  # of bench/engines.py
OURS_JAX = "shardsolve-jax"  # of bench/front.py
LABELS = {
    "factor": {
        OURS: "shardsolve cholesky_factor",
        OURS_MPI: "shardsolve cholesky_factor, MPI",
        SCALAPACK: "ScaLAPACK potrf",
        LAPACK: "LAPACK potrf",
    },
    "solve": {
        OURS: "shardsolve solve",
        OURS_JAX: "shardsolve.solve in JAX",
        LAPACK: "LAPACK potrf, potrs",
        SCIPY: "scipy.linalg.solve pos",
        JAX: "jax cho_factor, cho_solve",
    },
    "inverse": {
        OURS: "shardsolve cholesky_inverse",
        LAPACK: "LAPACK potrf, potri (half)",
    },
    "eigh": {
        OURS: "shardsolve eigh",
        OURS_MPI: "shardsolve eigh, MPI",
        SCALAPACK: "ScaLAPACK syevd",
        LAPACK: "LAPACK syevd",
    },
}
JOBS = ("factor", "solve", "inverse")
ENGINE_JOBS = ("factor", "eigh")
# The meaning of a row is not the same for all: ours checks its input and certifies its answer.
TITLES = {
    "factor": "A = L L^H",
    "solve": "A x = b (ours: with backward error and rcond)",
    "inverse": "A^-1 (ours: both triangles, with residual and rcond)",
    "eigh": "all eigenpairs of A (ours: certified)",
}


@dataclass(frozen=True)
class Setting:
    """What is solved, and how."""

    n: int
    dtype: str
    ranks: int
    tile: int | None
    runs: int

    @property
    def is_target(self) -> bool:
        """Whether the target speaks of this setting."""
        agreed = self.n in TARGET_SIZES and self.dtype == "float64" and self.ranks == TARGET_RANKS
        return agreed and self.runs >= TARGET_RUNS


@dataclass
class Measurement:
    """All timed runs of one job by one contestant, the warm-up not among them."""

    job: str
    contestant: Contestant
    n: int
    dtype: str
    tile: int | None = None
    runs: list[Run] = field(default_factory=list)

    @property
    def label(self) -> str:
        """What the tables call this job of this contestant."""
        return LABELS[self.job][self.contestant.name]

    @property
    def failures(self) -> list[str]:
        """The gates that a run missed, each once."""
        parts = (residual for run in self.runs for residual in run.residuals)
        return list(dict.fromkeys(str(part) for part in parts if not part.passed))

    @property
    def passed(self) -> bool:
        """Whether every answer was right; only then is there a speed."""
        return bool(self.runs) and not self.failures

    @property
    def seconds(self) -> list[float]:
        """Of every run, in the order in which they were made."""
        return [run.seconds for run in self.runs]

    @property
    def minimum(self) -> float:
        """Of the seconds."""
        return min(self.seconds)

    @property
    def median(self) -> float:
        """Of the seconds."""
        return statistics.median(self.seconds)

    @property
    def gflops(self) -> float:
        """At the minimum, in operations of the plain algorithm, real ones."""
        n = float(self.n)
        operations = {
            "factor": n**3 / 3,
            "solve": n**3 / 3 + 2 * n**2,
            "inverse": n**3,
            "eigh": 14 / 3 * n**3,  # to a tridiagonal, of it, and back
        }[self.job]
        return operations * (4 if self.dtype.startswith("complex") else 1) / self.minimum / 1e9

    @property
    def worst(self) -> dict[str, float | None]:
        """The largest residual of each kind, in units of u; None if one was NaN."""
        worst: dict[str, float | None] = {}
        for run in self.runs:
            for part in run.residuals:
                so_far = worst.get(part.name, part.value)
                one_is_nan = so_far is None or part.value is None
                worst[part.name] = None if one_is_nan else max(so_far, part.value)
        return worst


@dataclass(frozen=True)
class Comparison:
    """Our speed relative to a peer's, or the reason why there is none."""

    ours: Measurement
    peer: Measurement
    setting: Setting

    @property
    def refused(self) -> str | None:
        """Why no ratio is given; None if it is."""
        for side in (self.ours, self.peer):
            if not side.passed:
                return "a gate was missed"
        mine, its = self.ours.contestant.hello, self.peer.contestant.hello
        if blas_version(mine) is None or blas_version(mine) != blas_version(its):
            return "not the same BLAS"
        if mine["matrix"] != its.get("matrix"):
            return "not the same matrix"
        return None

    @property
    def ratio(self) -> float | None:
        """Speed at the minimum, ours by the peer's; None if refused."""
        return None if self.refused else self.peer.minimum / self.ours.minimum

    @property
    def reached(self) -> bool | None:
        """Whether the target is reached, which it is not where the ratio is refused.

        None if the target does not speak of this.
        """
        if self.ours.job != "factor" or not self.setting.is_target:
            return None
        return self.ratio is not None and self.ratio >= TARGET


@dataclass(frozen=True)
class Goal:
    """What one of our engines is to reach beside another one."""

    comparison: Comparison
    above: float
    below: float = math.inf

    @property
    def text(self) -> str:
        """The range of the ratio."""
        below = "" if math.isinf(self.below) else f" and below {self.below:g}"
        return f"above {self.above:g}{below}"

    @property
    def reached(self) -> bool | None:
        """Likewise; None if the goal does not speak of this setting."""
        setting = self.comparison.setting
        if (
            setting.n not in TARGET_SIZES
            or setting.ranks != ENGINE_RANKS
            or setting.runs < TARGET_RUNS
        ):
            return None
        ratio = self.comparison.ratio
        return ratio is not None and self.above < ratio < self.below


def blas_version(hello: dict) -> tuple[str, str] | None:
    """Version and kernel of a BLAS, e.g. ("OpenBLAS 0.3.21", "SkylakeX"); None if not known."""
    blas = hello["blas"]
    words = blas.get("config", "").split()
    return (" ".join(words[:2]), blas["core"]) if len(words) >= 2 else None


def take_turns(
    measurements: Sequence[Measurement], runs: int, announce: Callable[[int, Measurement], None]
) -> None:
    """Times every measurement `runs` times in turn, A B C A B C ..., after one warm-up of each.

    Args:
        measurements: Get their runs.
        runs: Timed runs of each.
        announce: Called before each run with the number of the turn, 0 for the warm-up.
    """
    for turn in range(runs + 1):
        for measurement in measurements:
            announce(turn, measurement)
            run = measurement.contestant.run(measurement.job, measurement.tile)
            if turn > 0:
                measurement.runs.append(run)


@contextmanager
def contestants(
    setting: Setting, peers: Sequence[str], build: Path, folder: Path, cores: int
) -> Iterator[list[Contestant]]:
    """Starts ours and the peers, each in a process that has all cores; ends them afterwards.

    Args:
        setting: What is solved.
        peers: Some of PEERS.
        build: Where the programs were built.
        folder: Gets a.npy and b.npy, for the peers that cannot make the matrix themselves.
        cores: How many threads a threaded peer takes.
    """
    problem = ["--n", str(setting.n), "--dtype", setting.dtype]
    ours = ["--ranks", str(setting.ranks)]
    ours += [] if setting.tile is None else ["--tile", str(setting.tile)]
    commands = {
        OURS: [str(build / "bench/shardsolve_bench"), *problem, *ours],
        LAPACK: [str(build / "bench/shardsolve_bench_peer"), *problem],
        SCIPY: [sys.executable, str(HERE / "peer_scipy.py"), str(folder)],
        JAX: [sys.executable, str(HERE / "peer_jax.py"), str(folder)],
    }
    wanted = (OURS, *(peer for peer in PEERS if peer in peers))
    with started({name: commands[name] for name in wanted}, lambda _: cores, folder) as all_of:
        yield all_of


@contextmanager
def started(
    commands: Mapping[str, Sequence[str]], threads: Callable[[str], int], folder: Path | None = None
) -> Iterator[list[Contestant]]:
    """Starts contestants, each in processes of its own; ends them afterwards.

    Args:
        commands: By name; the first is one of ours.
        threads: How many the BLAS of each takes.
        folder: The first one writes a.npy and b.npy to it before the others start.
    """
    all_of: list[Contestant] = []
    try:
        for name, command in commands.items():
            all_of.append(Contestant(name, command, environment(threads(name), all_of)))
            if folder is not None and len(all_of) == 1:
                all_of[0].save(str(folder))
        yield all_of
    finally:
        for contestant in all_of:
            contestant.close()


def environment(threads: int, started: Sequence[Contestant]) -> dict[str, str]:
    """Of the next contestant: `threads` for its BLAS, and the kernels of the first's.

    Debian's OpenBLAS takes its slowest kernels on a CPU that is newer than itself. Ours chooses
    again (src/runtime/host/openblas_kernels.cpp); peers have to be told, or the ratio is luck.
    """
    blas = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")
    chosen = {**os.environ, **dict.fromkeys(blas, str(threads)), "JAX_PLATFORMS": "cpu"}
    if started:
        chosen["OPENBLAS_CORETYPE"] = started[0].hello["blas"]["core"]
    return chosen
