"""A training in `shardsolve.trace`: what the hosts of all its processes did."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from shardsolve import _spans
from shardsolve._processes import Processes

# What `Course.took` is told of.
_PARTS = ["setup", "compile", "steps", "held_out", "callbacks", "waiting", "checkpoints"]


class Traced:
    """Context of a training. At its end each process that records has the spans of all.

    If one process records, all of them keep their spans meanwhile. Nothing if nobody does.
    """

    def __init__(self, processes: Processes):
        self._processes = processes
        self._is_mine_alone = False
        self._begin = 0.0

    def __enter__(self) -> Self:
        records = _spans.current() is not None
        if self._processes.are_several:
            anybody = bool(self._processes.gathered([records]).any())
            self._is_mine_alone = anybody and not records
            self._processes.gathered([0])  # compiled above: all leave this one at the same time
        if self._is_mine_alone:
            _spans.begin()
        self._begin = time.perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_mine_alone:
            _spans.end()

    def end(self, waits: dict[int, float]) -> None:
        """Tells the others. `waits`: how long was waited for each process, the same in all."""
        recording, processes = _spans.current(), self._processes
        if recording is None:
            return
        recording.process = processes.mine
        for number, seconds in waits.items():
            recording.waits[number] = recording.waits.get(number, 0.0) + seconds
        if not processes.are_several:
            return
        mine = [span for span in recording.spans if span.begin >= self._begin]
        of_each = processes.gathered_all(_spans.packed(mine, _PARTS, self._begin))
        for number, words in zip(processes.numbers, of_each, strict=True):
            if number != processes.mine:
                found = _spans.unpacked(words, _PARTS, self._begin)
                recording.others.setdefault(number, []).extend(found)
