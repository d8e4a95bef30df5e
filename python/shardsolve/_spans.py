"""What the host did while `shardsolve.trace` recorded, beside the queues of the devices."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

MOST = 100_000  # spans of a process; later ones are counted only
_FIRST_PID = 1_000_000  # in the file, behind all ranks
_MICRO, _NANO = 1e6, 1e9


@dataclass(frozen=True)
class Span:
    """Something that took time.

    Attributes:
        name: What it was.
        begin, end: As `time.perf_counter()` says it: steady seconds.
        number: Such as the step it began with; -1 without.
    """

    name: str
    begin: float
    end: float
    number: int = -1


class Recording:
    """Spans of this process and, of trainings over several, of the others."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.others: dict[int, list[Span]] = {}
        self.process = 0
        self.left_out = 0
        self.waits: dict[int, float] = {}

    def add(self, span: Span) -> None:
        """One more, if there is room."""
        if len(self.spans) < MOST:
            self.spans.append(span)
        else:
            self.left_out += 1

    def into(self, report: dict[str, Any]) -> None:
        """Adds all of it to a trace of the library, whose times begin at its first span."""
        of_each = {self.process: self.spans, **self.others}
        begins = [span.begin for spans in of_each.values() for span in spans]
        if not begins:
            return
        events, other = report["traceEvents"], report["otherData"]
        origin = min(begins)
        if other.get("origin_ns") is not None:
            theirs = other["origin_ns"] / _NANO
            later = _MICRO * (theirs - min(origin, theirs))
            origin = min(origin, theirs)
            for event in events:
                if "ts" in event:
                    event["ts"] += later
        for number, spans in sorted(of_each.items()):
            pid = _FIRST_PID + number
            mine = f"training in process {number}"
            name = f"{mine} (pid {os.getpid()})" if number == self.process else mine
            for what, text in (("process_name", name), ("thread_name", "host")):
                args = {"name": text}
                events.append({"ph": "M", "name": what, "pid": pid, "tid": 0, "args": args})
            events += [
                {
                    "ph": "X",
                    "name": span.name,
                    "pid": pid,
                    "tid": 0,
                    "ts": _MICRO * (span.begin - origin),
                    "dur": _MICRO * (span.end - span.begin),
                    "args": {} if span.number < 0 else {"step": span.number},
                }
                for span in spans
            ]
        other["training"] = self._summary(of_each)

    def _summary(self, of_each: dict[int, list[Span]]) -> dict[str, Any]:
        processes: list[dict[str, Any]] = []
        for number, spans in sorted(of_each.items()):
            seconds: dict[str, float] = {}
            for span in spans:
                seconds[span.name] = seconds.get(span.name, 0.0) + span.end - span.begin
            waited = self.waits.get(number, 0.0)
            processes.append({"process": number, "seconds": seconds, "waited_for": waited})
        straggler = max(processes, key=lambda one: one["waited_for"])
        is_one = len(processes) > 1 and straggler["waited_for"] > 0
        return {
            "processes": processes,
            "straggler": straggler["process"] if is_one else None,
            "left_out": self.left_out,
        }


_recording: Recording | None = None


def begin() -> None:
    """Spans are kept from here on."""
    global _recording
    _recording = Recording()


def end() -> Recording:
    """What was kept."""
    global _recording
    found, _recording = _recording, None
    return Recording() if found is None else found


def current() -> Recording | None:
    """That which is kept now."""
    return _recording


def record(name: str, since: float, number: int = -1) -> None:
    """A span that ends now, if somebody records."""
    if _recording is not None:
        _recording.add(Span(name, since, time.perf_counter(), number))


def packed(spans: list[Span], names: list[str], later: float) -> np.ndarray:
    """(4 * spans,) 32-bit words, in microseconds after `later`; to be sent to other processes."""
    found = np.zeros((len(spans), 4), np.int64)
    for row, span in zip(found, spans, strict=True):
        since = max(0, round(_MICRO * (span.begin - later)))
        row[:] = names.index(span.name), span.number, since, round(_MICRO * (span.end - span.begin))
    return np.minimum(found, 2**31 - 1).astype(np.int32).ravel()


def unpacked(words: np.ndarray, names: list[str], later: float) -> list[Span]:
    """The inverse, in this process's time."""
    return [
        Span(
            names[name],
            later + since / _MICRO,
            later + (since + duration) / _MICRO,
            int(number),
        )
        for name, number, since, duration in words.reshape(-1, 4).astype(np.int64)
    ]
