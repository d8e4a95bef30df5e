"""The processes of a mesh that work together: what they agree on, and who of them is lost."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from shardsolve import _library
from shardsolve._records import SolverError, Status
from shardsolve._watch import Watch

_WORDS = 16  # 32-bit numbers of each process at a time, always as many: one compiled program
_MANY = 512  # times as many, where there are many
_LONGEST_NAP = 0.02  # seconds
_BETWEEN = 0.1  # seconds from one look at who is lost to the next
# Seconds after a process was lost in which what it has taken part in ends, and after a collective
# has failed in which it is known who was lost.
_PATIENCE = 2.0


class Processes:
    """Context in which the processes of a mesh watch each other; nothing if there is one.

    Attributes:
        mesh: Theirs.
        numbers: JAX's, in the order of the mesh.
        are_several: Whether there is more than one.
        is_first: Whether this one is the first of them.
        warnings: Sentences.
    """

    def __init__(self, mesh: Mesh | None):
        of_each = [] if mesh is None else [device.process_index for device in mesh.devices.flat]
        self.numbers = list(dict.fromkeys(of_each)) or [jax.process_index()]
        self.mine = jax.process_index()
        if self.mine not in self.numbers:
            raise ValueError(
                f"a mesh without devices of this process ({self.mine}) given: each process that "
                "takes part has devices in it; pass a mesh of jax.devices(), or one of "
                "jax.local_devices() to work alone"
            )
        self._first_devices = [of_each.index(number) for number in self.numbers if of_each]
        self.mesh = mesh
        self.are_several = len(self.numbers) > 1
        self.is_first = self.mine == self.numbers[0]
        self.warnings: list[str] = []
        self._watch: Watch | None = None
        self._over = threading.Event()
        self._calling_since: float | None = None  # of a function that has not returned yet

    def __enter__(self) -> Self:
        if self.are_several:
            watch = Watch(self.numbers, self.mine)
            everybody = self.gathered(watch.address())
            watch.begin(everybody)
            unseen = self.gathered([watch.is_alone]).any()
            if unseen:
                watch.end(True)
                self.warnings.append(
                    "a process that is lost will not be named: not all processes reach process "
                    f"{self.numbers[0]} by TCP; open the ports between their hosts"
                )
            else:
                self._watch = watch
                name = "shardsolve watch"
                threading.Thread(target=self._end_when_stuck, name=name, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        if self._watch is not None:
            self._watch.end(kind is None)

    def _end_when_stuck(self) -> None:
        """Ends this process where a call of XLA waits for one that is lost: nobody can leave it.

        On GPUs a program with a loop is such a call: it returns when the loop is done.
        """
        assert self._watch is not None
        while not self._watch.lost:
            if self._over.wait(_BETWEEN):
                return
        lost_at = time.monotonic()
        while not self._over.wait(_BETWEEN):
            since = self._calling_since
            if since is not None and time.monotonic() - max(since, lost_at) > 2 * _PATIENCE:
                print(
                    f"shardsolve: {self._watch.lost}. XLA waits for it in a call that does not "
                    "end, so this process ends, too",
                    file=sys.stderr,
                )
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(1)

    def gathered(self, given: Any) -> np.ndarray:
        """(processes, numbers): up to 16 32-bit numbers of each process, known to all."""
        numbers = np.zeros((1, _WORDS), np.int32)
        words = np.asarray(given, np.int64).astype(np.uint32).view(np.int32)
        numbers[0, : len(words)] = words
        return self._of_each(numbers)[:, : len(words)]

    def gathered_all(self, words: np.ndarray) -> list[np.ndarray]:
        """Of each process its 32-bit numbers, any number of them, in the order of `numbers`."""
        lengths = self.gathered([len(words)])[:, 0]
        most, parts = int(lengths.max()), []
        for first in range(0, most, _WORDS * _MANY):
            piece = np.zeros(_WORDS * _MANY, np.int32)
            mine = words[first : first + len(piece)]
            piece[: len(mine)] = mine
            parts.append(self._of_each(piece[None]))
        whole = np.concatenate([np.zeros((len(lengths), 0), np.int32), *parts], 1)
        return [row[:length] for row, length in zip(whole, lengths, strict=True)]

    def _of_each(self, numbers: np.ndarray) -> np.ndarray:
        """(processes, words) of (1, words), one compiled program for each number of words."""
        if not self.are_several:
            return numbers
        assert self.mesh is not None
        cut = NamedSharding(self.mesh, PartitionSpec(tuple(self.mesh.axis_names)))
        shape = (self.mesh.devices.size, numbers.shape[1])
        array = jax.make_array_from_callback(shape, cut, lambda _: numbers)
        program = jax.jit(
            _same, out_shardings=NamedSharding(self.mesh, PartitionSpec()), inline=True
        )
        return np.asarray(self.run(program, array))[self._first_devices]

    def run(self, function: Callable[..., Any], *given: Any) -> Any:
        """Calls a function of arrays on the mesh, and waits for what it returns.

        Raises:
            SolverError: Naming the process that was lost meanwhile.
        """
        if not self.are_several:
            return jax.block_until_ready(function(*given))
        try:
            self._calling_since = time.monotonic()
            try:
                found = function(*given)
            finally:
                self._calling_since = None
            if self._watch is not None:
                self._wait(self._watch, found)
            return jax.block_until_ready(found)
        except jax.errors.JaxRuntimeError as error:
            failed = time.monotonic()
            while self._watch is not None and time.monotonic() - failed < _PATIENCE:
                if self._watch.lost:
                    raise _loss(self._watch) from error
                time.sleep(_LONGEST_NAP)
            raise

    def _wait(self, watch: Watch, found: Any) -> None:
        """Throws if a process is lost that a result waits for."""
        leaves: list[Any] = [leaf for leaf in jax.tree.leaves(found) if isinstance(leaf, jax.Array)]
        begin, lost_at = time.monotonic(), np.inf
        while not all(leaf.is_ready() for leaf in leaves):
            now = time.monotonic()
            if watch.lost:
                lost_at = min(lost_at, now)
            if now - lost_at > _PATIENCE:
                raise _loss(watch)
            time.sleep(min(_LONGEST_NAP, max(1e-4, (now - begin) / 200)))

    def require_same(self, parts: dict[str, str]) -> None:
        """Throws unless these texts are the same in all processes."""
        if not self.are_several:
            return
        found = self.gathered([zlib.crc32(text.encode()) for text in parts.values()])
        for name, of_each in zip(parts, found.T, strict=True):
            for process, one in zip(self.numbers, of_each, strict=True):
                if one != of_each[0]:
                    raise ValueError(
                        f"the processes do not train the same: process {process} has another "
                        f"{name} than process {self.numbers[0]}. Every process makes the same call"
                    )


def _loss(watch: Watch) -> SolverError:
    """The error; JAX would wait for the process that is lost when this one ends."""
    _library.end_without_waiting(at_once=True)
    return SolverError(watch.lost, Status.COMMUNICATION)


def _same(array: jax.Array) -> jax.Array:
    return array


class Watched:
    """What `watch` gives: calls functions, and names a process that is lost meanwhile."""

    def __init__(self, processes: Processes):
        self._processes = processes

    def run(self, function: Callable[..., Any], *given: Any) -> Any:
        """Calls `function(*given)`, waits for the arrays that it returns, and returns them.

        Raises:
            SolverError: If a process is lost that they wait for: it is named (`COMMUNICATION`).
                See `watch` for calls that nobody can leave.
        """
        return self._processes.run(function, *given)


@contextlib.contextmanager
def watch(mesh: Mesh) -> Iterator[Watched]:
    """The processes of a mesh watch each other, so that one that is lost is named.

    For programs of several processes (`jax.distributed`) that wait where only XLA waits: for
    Krylov solves in `jit`, for losses of networks, for collectives of their own. On GPUs XLA waits
    for a lost process without end. Each process connects to the first one by TCP and sends a sign
    of life twice a second. Nothing if the mesh has one process.

        with shardsolve.watch(mesh) as watched:
            for _ in range(1000):
                state = watched.run(step, state)

    Every process of the mesh enters and leaves with the others. After an error nothing more can be
    computed together, and the program ends with exit code 1 where XLA would wait for ever. On GPUs
    XLA may wait inside of the call, which nobody can leave (loops, Krylov solves): the process then
    says on standard error who is lost, and ends with exit code 1.

    Args:
        mesh: With devices of this process among others.

    Raises:
        SolverError: If not all processes reach the first one by TCP (`COMMUNICATION`).
        TypeError, ValueError: If it is no mesh, or has no device of this process.
    """
    if not isinstance(mesh, Mesh):
        raise TypeError(f"a {type(mesh).__name__} was given; pass a jax.sharding.Mesh")
    with Processes(mesh) as processes:
        if processes.warnings:
            raise SolverError(" ".join(processes.warnings), Status.COMMUNICATION)
        yield Watched(processes)


_of_lists: dict[tuple[int, ...], Processes] = {}


def wait_together(x: jax.Array, waited_for: Callable[[], Any]) -> Any:
    """What a function of XLA's work returns; names a process of x's devices that is lost meanwhile.

    All processes of x come here in the same order. They watch each other from the first time on,
    until they end.
    """
    cut = x.sharding
    if x.is_fully_addressable or not isinstance(cut, NamedSharding):
        return waited_for()
    mesh = Mesh(cut.mesh.devices, cut.mesh.axis_names)
    numbers = tuple(dict.fromkeys(device.process_index for device in mesh.devices.flat))
    if numbers not in _of_lists:
        _of_lists[numbers] = Processes(mesh).__enter__()
    return _of_lists[numbers].run(waited_for)
