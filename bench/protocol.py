"""One process for each contestant, which stays alive and times a run whenever it is asked to.

The lines that go back and forth are described in bench/support/serve.hpp.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

# The threads of a BLAS spin for some 30 ms after its last call: the next contestant waits for that.
PAUSE_SECONDS = 0.1


ENVIRONMENT_ERROR = 3


class BenchError(Exception):
    """Ends the benchmark with a message for the reader."""


def end_with(main: Callable[[], int]) -> NoReturn:
    """Runs a benchmark and ends the process with its exit status; 3 after a BenchError."""
    try:
        sys.exit(main())
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        sys.exit(ENVIRONMENT_ERROR)
    except KeyboardInterrupt:
        sys.exit(130)


@dataclass(frozen=True)
class Residual:
    """A figure that a right answer stays below, in units of the unit roundoff.

    `value` is None where it was not a number.
    """

    name: str
    value: float | None
    limit: float

    @property
    def passed(self) -> bool:
        """Whether the answer is right."""
        return self.value is not None and self.value < self.limit

    def __str__(self) -> str:
        value = "NaN" if self.value is None else f"{self.value:.2g}"
        return f"{self.name} residual {value} u, limit {self.limit:g} u"


@dataclass(frozen=True)
class Run:
    """One timed run."""

    seconds: float
    residuals: tuple[Residual, ...]


class Contestant:
    """A program that is being timed, in a process of its own.

    Args:
        name: What the tables call it.
        command: The program and its arguments.
        environment: All of its environment.

    Raises:
        BenchError: The program cannot be started, or ends before it is ready.
    """

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.name = name
        try:
            self._process = subprocess.Popen(
                command,
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        except OSError as error:
            raise BenchError(
                f"{name}: '{command[0]}' does not start: {error.strerror}. 'make bench' builds it"
            ) from error
        self.hello: dict[str, Any] = self._read()

    def run(self, job: str, tile: int | None = None) -> Run:
        """Times one run of a job. Raises BenchError if it fails."""
        time.sleep(PAUSE_SECONDS)
        answer = self._ask(job if tile is None else f"{job} {tile}")
        return Run(answer["seconds"], tuple(Residual(**part) for part in answer["residuals"]))

    def save(self, folder: str) -> None:
        """Has the problem written to a.npy and b.npy."""
        self._ask(f"save {folder}")

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _ask(self, request: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(request + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self._gone() from error
        answer = self._read()
        if "error" in answer:
            raise BenchError(f"{self.name}, asked for '{request}': {answer['error']}")
        return answer

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._gone()
        return json.loads(line)

    def _gone(self) -> BenchError:
        return BenchError(f"{self.name}: the process ended with exit status {self._process.wait()}")


def serve(hello: Mapping[str, Any], jobs: Mapping[str, Callable[[], Run]]) -> None:
    """The other side, for contestants written in Python.

    Args:
        hello: What the program is.
        jobs: Makes one timed run of each job.
    """
    print(json.dumps({**hello, "jobs": list(jobs)}), flush=True)
    for line in sys.stdin:
        run = jobs[line.split()[0]]()
        residuals = [vars(residual) for residual in run.residuals]
        print(json.dumps({"seconds": run.seconds, "residuals": residuals}), flush=True)
