"""Checkpoints of a training by gradients: when they are written, and how it goes on from one."""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import jax
import numpy as np

from shardsolve.fbpinn import _archive
from shardsolve.fbpinn._block import State
from shardsolve.fbpinn._equations import Equations
from shardsolve.fbpinn._given import real, whole
from shardsolve.fbpinn._gradients import ByGradients
from shardsolve.fbpinn._identity import description, program, require_same
from shardsolve.fbpinn._portable import Portable

KIND = "checkpoint"
# What may be another one when a training goes on: none of these changes what a step computes.
_FREE = ("steps", "block", "batch", "exchange", "dtype")
_FUNCTION = "a function"
_STEP = jax.ShapeDtypeStruct((), np.int32)


@dataclass(frozen=True)
class Checkpoint:
    """A file that a training by gradients can go on from, as if it had never been killed.

    It holds all that a step depends on, so that on the same devices what comes out has the same
    bits. A training that finds the file goes on from it, on any number of devices (other than
    before: equal to rounding); to begin anew, delete it. It is written at the end of a block of
    steps, first beside and then in place of the last one; also at the end, on Ctrl-C, and on
    SIGUSR1 and SIGTERM, which SLURM sends before the time is over (`--signal=USR1@120`).

    Attributes:
        path: Of the file.
        steps: From one to the next; None: by time alone.
        minutes: From one to the next; None: by steps alone.
    """

    path: str | os.PathLike[str]
    steps: int | None = None
    minutes: float | None = 10.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", _archive.path_of(self.path))
        if self.steps is not None:
            words = "None is accepted, or a whole number from 1 on"
            object.__setattr__(self, "steps", whole("steps", self.steps, words))
        if self.minutes is not None:
            words = "None is accepted, or a number above 0"
            real("minutes", self.minutes, words, lambda value: 0 < value < np.inf)
        if self.steps is None and self.minutes is None:
            raise ValueError(
                "Checkpoint(steps=None, minutes=None) given: pass one of them, or both"
            )


class Checkpoints:
    """Writes and reads them for one training."""

    def __init__(
        self,
        wishes: Checkpoint,
        problem: Equations,
        how: ByGradients,
        training: Any,
    ):
        self._wishes, self._problem = wishes, problem
        self._portable: Portable = training.portable
        self._course, self._processes = training.course, training.processes
        self._how = settings(how)
        self._path = Path(wishes.path)
        self._problem_text = description(problem)
        self._step, self._tried, self._time = 0, 0, time.monotonic()
        self._failed: list[str] = []
        self.began_at = 0
        self.seconds = 0.0  # of the last one

    def resumed(self, state: State) -> State:
        """What the file has, if there is one; else as given."""
        self._require_same_file()
        if not self._path.exists():
            return state
        meta, arrays = _archive.read(self._path, (KIND,))
        mine = jax.tree.leaves(self._portable.gathered(state))
        kind = str(jax.tree.leaves(state.parameters)[0].dtype)
        if meta["dtype"] != kind:
            raise ValueError(
                f"{self._path} has {meta['dtype']} parameters, and this training has {kind}: pass "
                f"dtype='{meta['dtype']}', or another path"
            )
        require_same(self._path, self._problem, meta)
        other = _different(meta["how"], self._how, meta["jax"] == jax.__version__)
        if other:
            raise ValueError(
                f"{self._path} is of a training that went otherwise: {'; '.join(other)}. Pass what "
                "it was, or begin another one with start=load(path, problem) and another path"
            )
        leaves = [arrays[f"state{number}"] for number in range(meta["leaves"])]
        shapes = [(leaf.shape, leaf.dtype) for leaf in leaves]
        if shapes != [(leaf.shape, leaf.dtype) for leaf in mine]:
            raise ValueError(
                f"{self._path} has another state of the optimiser than this one keeps: take the "
                "same optimiser, of the same version of optax, or another path"
            )
        found = self._portable.spread(jax.tree.unflatten(jax.tree.structure(state), leaves))
        course = self._course
        course.losses = arrays["losses"].tolist()
        course.held_out_losses = [(int(a), float(b)) for a, b in arrays["held_out_losses"]]
        self._step = self._tried = self.began_at = int(found.step)
        if meta["devices"] != self._devices:
            course.warnings.append(
                f"it goes on from step {self._step} on {self._devices} and was on "
                f"{meta['devices']}: what comes out is equal to rounding, not to the bit"
            )
        return found

    def _require_same_file(self) -> None:
        """Throws if the processes do not find the same one."""
        if not self._processes.are_several:
            return
        mine = zlib.crc32(self._path.read_bytes()) if self._path.exists() else 0
        found = self._processes.gathered([self._path.exists(), mine])
        for number, one in zip(self._processes.numbers, found, strict=True):
            if (one != found[0]).any():
                first = self._processes.numbers[0]
                raise ValueError(
                    f"process {number} does not find the same at {self._path} as process {first}: "
                    "give a path in a folder that all processes share"
                )

    def is_due(self, step: int) -> bool:
        """Whether it is time for one."""
        wishes, is_due = self._wishes, False
        if wishes.steps is not None:
            is_due |= step // wishes.steps > self._tried // wishes.steps
        if wishes.minutes is not None:
            is_due |= time.monotonic() - self._time > 60 * wishes.minutes
        return is_due

    def write(self, state: State) -> None:
        """Writes one, in all processes together; what goes wrong is told at the end."""
        step = int(state.step)
        begin = time.perf_counter()
        self._tried, self._time = step, time.monotonic()
        try:
            self._write(state)
            self._step = step
        except OSError as error:
            self._failed.append(f"step {step} ({error.strerror or error})")
        self.seconds = self._course.took("checkpoints", begin, step)

    def warnings(self) -> list[str]:
        """Sentences."""
        if not self._failed:
            return []
        last = f"it has step {self._step}" if self._path.exists() else "there is none"
        return [
            f"{len(self._failed)} checkpoints could not be written to {self._path}, the first at "
            f"{self._failed[0]}; the training went on, and {last}"
        ]

    def _write(self, state: State) -> None:
        leaves = jax.tree.leaves(self._portable.gathered(state))
        if not self._processes.is_first:
            return
        held = np.array(self._course.held_out_losses, np.float64).reshape(-1, 2)
        arrays = {f"state{number}": leaf for number, leaf in enumerate(leaves)}
        arrays |= {"losses": np.array(self._course.losses), "held_out_losses": held}
        meta: Mapping[str, Any] = {
            "problem": self._problem_text,
            "how": self._how,
            "dtype": str(jax.tree.leaves(state.parameters)[0].dtype),
            "leaves": len(leaves),
            "devices": self._devices,
        }
        _archive.write(self._path, KIND, dict(meta), arrays)

    @property
    def _devices(self) -> str:
        mesh = self._portable.of_all.mesh
        count = mesh.devices.size
        kind = mesh.devices.flat[0].device_kind
        return f"{count} device{'' if count == 1 else 's'} ({kind})"


def settings(how: ByGradients) -> dict[str, str]:
    """What decides what a step does, as text."""
    found = {"optimiser": type(how).__name__}
    for field in fields(how):
        if field.name not in _FREE:
            value = getattr(how, field.name)
            if field.name == "transformation":  # functions of optax, whose state is compared
                found[field.name] = _FUNCTION
            elif callable(value):
                found[field.name] = f"{_FUNCTION}, {program(value, _STEP)}"
            else:
                found[field.name] = repr(value)
    return found


def _different(its: dict[str, str], mine: dict[str, str], same_jax: bool) -> list[str]:
    """Sentences. Functions are compared only if the same JAX traced both."""
    found = []
    for name in dict.fromkeys([*its, *mine]):
        one, other = its.get(name), mine.get(name)
        functions = [value is not None and value.startswith(_FUNCTION) for value in (one, other)]
        is_unknown = all(functions) and (not same_jax or _FUNCTION in (one, other))
        if one == other or is_unknown:
            continue
        found.append(
            f"the function {name} differs"
            if all(functions)
            else f"{name} was {one}, and is {other}"
        )
    return found
