"""Runs the command line tool and reads the certificate that it prints."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from report import Report

# Largest backward error that a right answer may have, in units of the unit roundoff u. Not divided
# by n, so that a computation in lower precision cannot hide behind a large matrix.
SOLVE_BOUND = 10.0
INVERSE_BOUND = 30.0
# The same for eigenpairs: of ||A z - w z|| / ||A||, and of a row of Z^H Z - I.
RESIDUAL_BOUND = 100.0
ORTHOGONALITY_BOUND = 1000.0

EIGEN_FIGURES = ("residual", "orthogonality", "error_estimate")

ENVIRONMENT_ERROR = 3

T = TypeVar("T")


class DemoError(Exception):
    """Ends the demonstration with a message for the reader and an exit status."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Certificate:
    """What the tool says about an answer."""

    title: str
    n: int
    devices: int
    backward_error: float
    unit_roundoff: float
    rcond: float
    seconds: float
    gflops: float
    bound: float

    @property
    def error_in_u(self) -> float:
        """The backward error in units of the unit roundoff."""
        return self.backward_error / self.unit_roundoff

    @property
    def forward_bound(self) -> float:
        """First-order bound of max|x - exact| / max|exact|; input rounded once counts as one u."""
        return 2 * max(self.backward_error, self.unit_roundoff) / self.rcond

    @property
    def digits(self) -> int:
        """Decimal digits of the largest entries of x that this certificate vouches for."""
        return max(0, math.floor(-math.log10(self.forward_bound)))

    @property
    def holds(self) -> bool:
        """Whether it vouches for anything; False for NaN."""
        return self.error_in_u < self.bound and self.rcond > self.unit_roundoff

    def __str__(self) -> str:
        return (
            f"backward error {self.error_in_u:.2g} u, rcond {self.rcond:.1e}, "
            f"{self.seconds:.2f} s, {self.gflops:.0f} GFLOP/s"
        )


@dataclass(frozen=True)
class EigenCertificate:
    """What the tool says about eigenpairs; of eigenvalues alone it says nothing."""

    title: str
    n: int
    count: int
    residual: float
    orthogonality: float
    error_estimate: float  # of the eigenvalues, over ||A||_1
    unit_roundoff: float
    seconds: float
    gflops: float

    @property
    def residual_in_u(self) -> float:
        """The residual in units of the unit roundoff."""
        return self.residual / self.unit_roundoff

    @property
    def orthogonality_in_u(self) -> float:
        """The orthogonality in units of the unit roundoff."""
        return self.orthogonality / self.unit_roundoff

    @property
    def holds(self) -> bool:
        """Whether both are what rounding alone leaves; False for NaN."""
        return self.residual_in_u < RESIDUAL_BOUND and self.orthogonality_in_u < ORTHOGONALITY_BOUND

    def __str__(self) -> str:
        figures = (
            ""
            if math.isnan(self.residual)
            else f"residual {self.residual_in_u:.2g} u, orthogonality "
            f"{self.orthogonality_in_u:.2g} u, "
        )
        return f"{self.count} of {self.n}: {figures}{self.seconds:.2f} s, {self.gflops:.0f} GFLOP/s"


class Tool:
    """The command line tool, on a fixed number of devices."""

    def __init__(self, report: Report, devices: int) -> None:
        self._report = report
        self._devices = devices
        self._path = _find_tool()

    def solve(self, a: Path, b: Path, x: Path, title: str, progress: bool = False) -> Certificate:
        """Solves A X = B between `.npy` files; with `progress` the tool's own bar is seen."""
        return self._certify(["solve", a, b], x, title, SOLVE_BOUND, progress)

    def inverse(self, a: Path, x: Path, title: str) -> Certificate:
        """Inverts A between `.npy` files."""
        return self._certify(["inverse", a], x, title, INVERSE_BOUND)

    def eigh(
        self, a: Path, prefix: Path, title: str, *options: str, shown: bool = True
    ) -> EigenCertificate:
        """Writes eigenvalues, and eigenvectors, of A to `prefix`.values.npy and .vectors.npy."""
        said = self._run(["eigh", a], prefix, [*options], shown=shown)
        certificate = _read(
            said,
            lambda: EigenCertificate(
                title=title,
                n=int(said["n"]),
                count=int(said["eigenvalues"]["count"]),
                unit_roundoff=float(said["unit_roundoff"]),
                seconds=float(said["seconds"]),
                gflops=float(said["gflops"]),
                **{name: _number(said[name]) for name in EIGEN_FIGURES},
            ),
        )
        if shown:
            self._report.answer(str(certificate))
        return certificate

    def _certify(
        self,
        job: list[str | Path],
        output: Path,
        title: str,
        bound: float,
        progress: bool = False,
    ) -> Certificate:
        said = self._run(job, output, progress=progress)
        certificate = _read(
            said,
            lambda: Certificate(
                title=title,
                n=int(said["n"]),
                devices=int(said["devices"]),
                backward_error=float(said["backward_error"]),
                unit_roundoff=float(said["unit_roundoff"]),
                rcond=float(said["rcond"]),
                seconds=float(said["seconds"]),
                gflops=float(said["gflops"]),
                bound=bound,
            ),
        )
        self._report.answer(str(certificate))
        return certificate

    def _run(
        self,
        job: list[str | Path],
        output: Path,
        options: Sequence[str] = (),
        progress: bool = False,
        shown: bool = True,
    ) -> dict[str, Any]:
        """Runs the tool, and returns what it says in JSON."""
        # --force: the files of an earlier run of this script may be there.
        options = ["-o", _short(output), *options]
        options += ["--devices", str(self._devices), "--json", "--force"]
        files = [_short(part) for part in job]
        if shown:
            self._report.command(" ".join(["shardsolve", *files]), " ".join(options))
        process = subprocess.run(
            [self._path, *files, *options],
            stdout=subprocess.PIPE,
            stderr=None if progress else subprocess.PIPE,
            text=True,
            check=False,
        )
        if process.returncode != 0:
            raise DemoError(
                f"the tool ended with exit status {process.returncode}. {_reason(process)}"
            )
        try:
            return dict(json.loads(process.stdout))
        except (ValueError, TypeError) as error:
            raise DemoError(f"the tool's answer is no JSON: {process.stdout!r}") from error


def backward_error(a: np.ndarray, x: np.ndarray, b: np.ndarray, rows: int = 1024) -> float:
    """The backward error, recomputed with NumPy from the files' contents alone.

    Args:
        a: float64 (n, n); may be a memory map, a block of rows is read at a time.
        x: float64 (n, k).
        b: float64 (n, k).
        rows: Rows of a block.

    Returns:
        The largest ||b - A x|| / (||A|| ||x|| + ||b||) of the k columns, in the infinity norm.
    """
    blocks = [slice(start, start + rows) for start in range(0, len(a), rows)]
    norm = max(np.abs(a[block]).sum(axis=1).max() for block in blocks)
    residual = np.max([np.abs(b[block] - a[block] @ x).max(axis=0) for block in blocks], axis=0)
    return float(np.max(residual / (norm * np.abs(x).max(axis=0) + np.abs(b).max(axis=0))))


def _find_tool() -> str:
    wanted = os.environ.get("SHARDSOLVE_CLI", "build/release/shardsolve")
    found = shutil.which(wanted)
    if found is None:
        raise DemoError(
            f"no command line tool at '{wanted}' (from SHARDSOLVE_CLI, or its default). "
            "Build it with 'make build', or run all with 'make demo'.",
            ENVIRONMENT_ERROR,
        )
    return str(Path(found).absolute())


def _short(part: str | Path) -> str:
    """Paths below the working directory as a user would type them."""
    if isinstance(part, Path) and part.is_relative_to(Path.cwd()):
        return str(part.relative_to(Path.cwd()))
    return str(part)


def _reason(process: subprocess.CompletedProcess[str]) -> str:
    """What the tool says went wrong: in its JSON, or else in words."""
    try:
        return str(json.loads(process.stdout)["message"])
    except (ValueError, KeyError, TypeError):
        return (process.stderr or process.stdout).strip()


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _read(said: dict[str, Any], certificate: Callable[[], T]) -> T:
    try:
        return certificate()
    except (ValueError, KeyError, TypeError) as error:
        raise DemoError(f"the tool's answer has no certificate ({error!r}): {said!r}") from error
