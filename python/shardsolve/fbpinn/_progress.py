"""What callbacks get between blocks of steps, and what a training by gradients ends with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from shardsolve._records import Status
from shardsolve.fbpinn._measured import json_of
from shardsolve.fbpinn._outcome import TermLoss

if TYPE_CHECKING:
    from shardsolve.fbpinn._run import Networks


def is_true(answer: Any) -> bool:
    """Whether a callback has said True, in Python's, NumPy's or JAX's words."""
    is_array = isinstance(answer, np.generic | np.ndarray | jax.Array)
    if is_array and answer.dtype == bool and answer.size == 1:
        return bool(answer)
    return answer is True


@dataclass(frozen=True)
class Progress:
    """Where a training is; str() of it is one line, so that `print` is a callback.

    Attributes:
        step, steps: Taken so far, and wanted.
        loss: Before the last step, at its points.
        held_out_loss: Now, at points between those of the terms, always the same.
        steps_a_second: In the last block.
        seconds: Since the training began, compiling included.
        seconds_left: Until all steps are taken, if they go on like this.
    """

    step: int
    steps: int
    loss: float
    held_out_loss: float
    steps_a_second: float
    seconds: float
    seconds_left: float
    _networks: Callable[[], Networks] | None = field(default=None, repr=False, compare=False)

    def networks(self) -> Networks:
        """What was learned so far, to be evaluated. Of several processes each has to ask for it."""
        if self._networks is None:
            raise ValueError("this Progress is not of a training: pass what a callback was given")
        return self._networks()

    def __str__(self) -> str:
        return (
            f"step {self.step:{len(str(self.steps))}} of {self.steps}: loss {self.loss:.3e}, "
            f"{self.held_out_loss:.3e} between the points, {self.steps_a_second:.4g} steps/s, "
            f"{_duration(self.seconds_left)} left"
        )


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


@dataclass(frozen=True)
class GradientOutcome:
    """How a training by gradients ended.

    Attributes:
        status: OK (all steps were taken, or a callback or the optimiser said that it is enough;
            that says nothing of the error), NOT_CONVERGED (Ctrl-C or a signal ended it, or the loss
            is not below the first), OVERFLOW (the loss was not finite: the networks are those of
            the last step at which it was).
        loss: At the end, at the points of the terms.
        losses: Before each step, at the points of that step; of L-BFGS the least so far.
        loss_left: What share `loss` is of the loss of networks that are 0.
        held_out_loss: At points between those of the terms. Far above `loss`, the solution fulfils
            the equations at the points only.
        held_out_losses: (step, held-out loss) after each block.
        terms: The parts of the terms, in their order.
        steps: How many were taken, and `began_at` how many a checkpoint had that it went on from.
        ended: By "steps", "callback", "optimiser", "interrupt", "signal" or "not finite".
        coefficients_determined, coefficient_deviations: As of `Outcome`: by one Gauss-Newton step
            from where it ended, as if hidden layers were what they are.
        steps_a_second: Without compiling and what is done between blocks.
        seconds: By part: "setup", "compile", "steps", "held_out", "callbacks", "checkpoints", and
            "waiting" for the other processes between blocks.
        devices: Where it ran.
        owner: The device of each box.
        warnings: Sentences with figures; each training also gives them as one `TrainingWarning`.
        step_seconds: Of a step p50, p95, p99 of the blocks' means; blocks are what the host sees.
        links: Who tells whom how much in a gradient: (from, to, bytes).
        waits: Of several processes (process, seconds) in which all others waited for its callbacks
            and checkpoints between blocks. Waits inside of blocks: `Loss.measure`.
    """

    status: Status
    loss: float
    losses: list[float]
    loss_left: float
    held_out_loss: float
    held_out_losses: list[tuple[int, float]]
    terms: list[TermLoss]
    steps: int
    began_at: int
    ended: str
    coefficients_determined: int
    coefficient_deviations: list[float]
    steps_a_second: float
    seconds: dict[str, float]
    devices: str
    owner: list[int]
    warnings: list[str]
    step_seconds: dict[str, float] = field(default_factory=dict)
    links: list[tuple[int, int, int]] = field(default_factory=list)
    waits: list[tuple[int, float]] = field(default_factory=list)

    def json(self) -> str:
        """One object with the attributes as keys, where null stands for what is not finite."""
        return json_of(replace(self, status=self.status.name))  # type: ignore[arg-type]

    @property
    def ok(self) -> bool:
        """Whether it ended as it was to."""
        return self.status == Status.OK

    def __str__(self) -> str:
        return (
            f"{self.status.name.lower()}: loss {self.loss:.3e} ({self.loss_left:.1e} of that of "
            f"networks that are 0, {self.held_out_loss:.3e} between the points) after {self.steps} "
            f"steps, ended by {self.ended}, {self.steps_a_second:.4g} steps/s, "
            f"{sum(self.seconds.values()):.2f} s on {self.devices}"
            + "".join(f"\n  {warning}" for warning in self.warnings)
        )
