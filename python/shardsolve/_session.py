"""Watching calls: a record of what the devices did, a progress display, the time limit."""

from __future__ import annotations

import contextlib
import ctypes
import json
import numbers
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from shardsolve import _library, _spans

_tracing = threading.Lock()  # held by the block that records
_limit = [300.0]  # seconds
_LONGEST = 365.0 * 86400
_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_double, ctypes.c_double)


def set_timeout(seconds: float) -> None:
    """How long a call waits for a device that does nothing, or does not come; 300 s unless set.

    A year at most: what is more, infinity too, counts as a year. A call that has failed returns
    when this process's own devices have come back: what they work on is JAX's memory.

    Raises:
        TypeError: If it is not a number.
        ValueError: If it is not positive.
    """
    if not isinstance(seconds, numbers.Real):
        raise TypeError(f"the time limit is {seconds!r}; pass a number of seconds")
    if not seconds > 0:
        raise ValueError(f"the time limit is {seconds!r}; pass a positive number of seconds")
    _library.library().shardsolve_set_time_limit(seconds)
    _limit[0] = min(float(seconds), _LONGEST)


def time_limit() -> float:
    """What `set_timeout` has set, in seconds."""
    return _limit[0]


@contextlib.contextmanager
def trace(path: str | os.PathLike[str]) -> Iterator[None]:
    """Records what every queue of every device does, for Perfetto or chrome://tracing.

    Wait for the results (`jax.block_until_ready`) before the block ends: what is under way then
    is recorded to its end, what has not begun is not. Calls run one at a time meanwhile.

    Under `otherData`, `summary` the file also holds, times in seconds: of each rank the share of
    time in which it worked and how long it waited for each other one, bytes and messages by link,
    the time of a step (p50, p95, p99), and the rank that was waited for most.

    A training of networks by gradients adds what its host did: setup, compiling, each block of
    steps, and what is between them; of several processes that of all of them, their clocks set to
    the first one's at its beginning (to a message's time). `otherData`, `training` sums it up, and
    says how long the others waited for each process between blocks, and for which the longest.

    Args:
        path: JSON file; replaced if it exists.

    Raises:
        RuntimeError: If another block of this process is recording.
    """
    if not _tracing.acquire(blocking=False):
        raise RuntimeError(
            "another shardsolve.trace is recording, and there is one record for all calls: leave "
            "this one out, or begin it when the other block has ended"
        )
    try:
        target = Path(path)
        target.open("ab").close()  # better now than after a long calculation
        _library.library().shardsolve_begin_trace()
        _spans.begin()
        try:
            yield
        finally:
            host, text = _spans.end(), _library.end_trace()
            if host.spans or host.others:
                report = json.loads(text)
                host.into(report)
                text = json.dumps(report)
            target.write_text(text, encoding="utf-8")
    finally:
        _tracing.release()


@contextlib.contextmanager
def progress() -> Iterator[None]:
    """Shows how far long calls are: phase, share and time that remains, on standard error.

    On a terminal as a line that changes, elsewhere as one line for each phase. Wait for the
    results (`jax.block_until_ready`) inside of the block.
    """
    display = _Display(sys.stderr)
    library = _library.library()
    _open_displays.append(display)
    library.shardsolve_set_progress(ctypes.cast(_show, ctypes.c_void_p))
    try:
        yield
    finally:
        _open_displays.remove(display)
        if not _open_displays:
            library.shardsolve_set_progress(None)
        display.close()


class _Display:
    def __init__(self, stream) -> None:
        self._stream = stream
        self._terminal = stream.isatty()
        self._lock = threading.Lock()
        self._phase = ""
        self._closed = False

    def __call__(self, phase: bytes, fraction: float, remaining: float) -> None:
        name = phase.decode()
        with self._lock:
            if self._closed:
                return
            if self._terminal:
                bar = "#" * round(30 * fraction)
                self._stream.write(
                    f"\r{name:8} [{bar:30}] {fraction:4.0%}, {remaining:.0f} s left   "
                )
            elif name != self._phase:
                self._stream.write(f"shardsolve: {name}\n")
            self._phase = name
            self._stream.flush()

    def close(self) -> None:
        with self._lock:
            if self._terminal and self._phase:
                self._stream.write("\n")
            self._closed = True


_open_displays: list[_Display] = []


# The only callback there is, and it stays: a call under way may use it after its block has ended.
@_CALLBACK
def _show(phase: bytes, fraction: float, remaining: float) -> None:
    for display in _open_displays[-1:]:
        display(phase, fraction, remaining)
