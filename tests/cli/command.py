"""Running the command and looking at what it left behind."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

TIMEOUT = 120


@dataclass
class Result:
    """What a run of the command answered."""

    code: int
    out: str
    err: str

    def json(self) -> dict:
        """The one JSON object on standard output."""
        return json.loads(self.out, parse_constant=_reject_constant)

    def says(self, *words: str) -> bool:
        """Whether the error message holds all of these."""
        missing = [word for word in words if word not in self.err]
        assert not missing, f"{missing} not in: {self.err}"
        return True


def _reject_constant(name: str):
    raise ValueError(f"{name} is not JSON")


class Command:
    """The command line tool, run in one directory."""

    def __init__(self, binary: Path, directory: Path):
        self.binary = binary
        self.directory = directory

    def __call__(
        self,
        *arguments: str | Path | int,
        env: dict[str, str] | None = None,
        before: Callable[[], None] | None = None,
        prefix: Sequence[str] = (),
    ) -> Result:
        """Runs to the end. `before` is called in the child, `prefix` wraps the command."""
        done = subprocess.run(
            [*prefix, str(self.binary), *map(str, arguments)],
            cwd=self.directory,
            env={**os.environ, **(env or {})},
            preexec_fn=before,
            capture_output=True,
            timeout=TIMEOUT,
            check=False,
        )
        out = done.stdout.decode(errors="replace")
        return Result(done.returncode, out, done.stderr.decode(errors="replace"))

    def start(self, *arguments: str | Path | int, **options) -> subprocess.Popen:
        """Starts it with pipes, all signals at their defaults, and waits until it catches them."""
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
        process = subprocess.Popen(
            [str(self.binary), *map(str, arguments)],
            cwd=self.directory,
            **({"preexec_fn": default_signals} | options),
        )
        deadline = time.monotonic() + TIMEOUT
        # The last of them that it catches.
        while process.poll() is None and not catches(process.pid, signal.SIGHUP):
            assert time.monotonic() < deadline
            time.sleep(0.002)
        return process


def default_signals() -> None:
    """The shell of a CI system may have started us with some of them ignored."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


def finish(process: subprocess.Popen) -> Result:
    """Waits for a process that `Command.start` made."""
    out, err = process.communicate(timeout=TIMEOUT)
    return Result(process.returncode, (out or b"").decode(), (err or b"").decode())


def contents(directory: Path) -> dict[str, str]:
    """Every file below a directory, hidden ones too, by a checksum of its bytes."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def has_unnamed_files(directory: Path) -> bool:
    """Whether a file that is being written there has no name yet."""
    try:
        os.close(os.open(directory, os.O_TMPFILE | os.O_WRONLY))
    except OSError:
        return False
    return True
