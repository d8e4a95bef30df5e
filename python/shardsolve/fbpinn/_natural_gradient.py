"""Training by natural gradients: all weights of networks that least squares cannot train."""

from __future__ import annotations

import functools
import time
import warnings
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from shardsolve import natural
from shardsolve._records import Status
from shardsolve.fbpinn._cells import cells_of
from shardsolve.fbpinn._descend import as_callbacks, held_out, terms_of_loss
from shardsolve.fbpinn._devices import default_device, require_mesh
from shardsolve.fbpinn._equations import Equations
from shardsolve.fbpinn._given import described, real, whole
from shardsolve.fbpinn._loss import Loss
from shardsolve.fbpinn._options import LeastSquares, PlacementCosts
from shardsolve.fbpinn._outcome import TermLoss
from shardsolve.fbpinn._parameters import Parameters
from shardsolve.fbpinn._pointwise import Pointwise
from shardsolve.fbpinn._progress import Progress, is_true
from shardsolve.fbpinn._run import Networks, Run
from shardsolve.fbpinn._summary import terms_far_above
from shardsolve.fbpinn._train import TrainingWarning, train_on

_SHORT = 1e-3  # a median length below this is told
_PATIENCE = 8  # steps in a row that lead nowhere, each with a larger shift


@dataclass(frozen=True, kw_only=True)
class NaturalGradient:
    """All weights make the loss smaller, by natural gradients: for deep networks in few boxes.

    Each step solves (J J^T / N + shift I) z = r / N with the derivatives J of all N residuals by
    all P weights, or the same with J^T J if that is smaller, and goes as far along J^T z as makes
    the loss least (ENGD-W; with momentum SPRING: `shardsolve.natural.natural_gradient`). A step
    takes some 2 N^2 P flops, thousands of times those of a gradient, and there are thousands of
    times fewer of them.

    Attributes:
        steps: How many at most.
        shift: Positive; where rounding eats it, it is multiplied by ten. A small one makes the loss
            smaller in the end; where all lengths are small from the beginning (`lengths`, and a
            warning), begin with a larger one, and go on from there (`train(start=run)`).
        adapt: `shift` is that of the first step, and each step has a smaller one than the last, or
            a larger one where that was short (`shardsolve.natural.natural_gradient`): where lengths
            are small at first. Begin with a large one then, such as 1e-3. Where a shift is known to
            be good, to keep it leads to smaller losses.
        momentum: From 0 to less than 1: how much of the last step the next one is drawn to.
        trials: Lengths that are tried of each step: 1, 1/2, 1/4, ...
        chunk: Of each equation so many points whose derivatives are held at a time. By default all
            are, which takes 8 N P bytes.
        block: Callbacks are called after so many steps.
    """

    steps: int = 200
    shift: float = 1e-12
    adapt: bool = False
    momentum: float = 0.0
    trials: int = 20
    chunk: int | None = None
    block: int = 10

    def __post_init__(self) -> None:
        words = "a whole number from 1 on is accepted"
        for name in ("steps", "trials", "chunk", "block"):
            if name != "chunk" or self.chunk is not None:
                object.__setattr__(self, name, whole(name, getattr(self, name), words))
        words = "a number above 0 is accepted"
        if not isinstance(self.adapt, (bool, np.bool_)):
            raise TypeError(f"adapt={described(self.adapt)} given: True or False is accepted")
        real("shift", self.shift, words, lambda value: np.isfinite(value) and value > 0)
        words = "a number from 0 to less than 1 is accepted"
        real("momentum", self.momentum, words, lambda value: 0 <= value < 1)


@dataclass(frozen=True)
class NaturalGradientOutcome:
    """How a training by natural gradients ended.

    Attributes:
        status: OK (all steps were taken, or no length made the loss smaller; that says nothing of
            the error), NOT_CONVERGED (Ctrl-C ended it, or the loss is that of the beginning), or
            why the last solve had no answer.
        loss: At the end: the sum over the terms of weight^2 times the mean squared residual.
        losses: Before each step, and at the end.
        held_out_loss: The loss at points between those of the training, of all `terms`. Far above
            `loss`, the equation is fulfilled at the points only, and a warning says so.
        terms: Each with its part of both.
        lengths: Of each step: 1, 1/2, 1/4, ..., or 0.
        shifts: That the solves took: larger ones than was asked for where rounding ate that.
        steps: How many made the loss smaller.
        ended: By "steps", "callback", "length" (none made it smaller), "solve" or "interrupt".
        rows, columns: N and P.
        coefficients_determined, coefficient_deviations: As of `Outcome`: by one Gauss-Newton step
            from the end, as if hidden layers were what they are.
        seconds: By part: "setup", "compile", with the first step, "steps", all others,
            "held_out".
        devices: Where it ran.
        warnings: Sentences with figures.
    """

    status: Status
    loss: float
    losses: list[float]
    held_out_loss: float
    terms: list[TermLoss]
    lengths: list[float]
    shifts: list[float]
    steps: int
    ended: str
    rows: int
    columns: int
    coefficients_determined: int
    coefficient_deviations: list[float]
    seconds: dict[str, float]
    devices: str
    warnings: list[str]

    @property
    def ok(self) -> bool:
        """Whether it ended as it was to."""
        return self.status == Status.OK

    def __str__(self) -> str:
        return (
            f"{self.status.name.lower()}: loss {self.loss:.3e}, from {self.losses[0]:.3e} "
            f"({self.held_out_loss:.3e} between the points), after "
            f"{self.steps} steps of {self.rows} x {self.columns}, ended by {self.ended}, "
            f"{sum(self.seconds.values()):.2f} s on {self.devices}"
            + "".join(f"\n  {warning}" for warning in self.warnings)
        )


def train_by_natural_gradients(
    problem: Equations,
    how: NaturalGradient,
    mesh: Mesh | None = None,
    start: Networks | None = None,
    callbacks: Any = (),
) -> Run:
    """Trains all weights and unknown coefficients, in double precision; for `Problem.train`.

    Args:
        problem: At whose points the residuals are to vanish.
        how: With which limits.
        mesh: Devices that share the points and the solves; by default JAX's default device.
        start: Networks to begin with; by default random ones, as of `Problem.loss`.
        callbacks: As of `Problem.train`.

    Returns:
        The networks, with a `NaturalGradientOutcome`.

    Raises:
        ValueError: If a residual is not finite at the beginning, naming the point; others as of
            `Problem.train`.
        TypeError: If 64-bit numbers are off.
    """
    if not isinstance(how, NaturalGradient):
        raise TypeError(f"how={described(how)} given: NaturalGradient() is accepted")
    if jax.dtypes.canonicalize_dtype(np.float64) != np.float64:
        raise TypeError(
            "natural gradients need 64-bit numbers, and they are off: set "
            "jax.config.update('jax_enable_x64', True) first"
        )
    if mesh is not None:
        require_mesh(mesh)
        # Types of axes are of the caller's functions; equations and weights know none.
        mesh = Mesh(mesh.devices, mesh.axis_names)
    called = as_callbacks(callbacks)
    training = _Training(problem, how, mesh, start)
    ended = "steps"
    try:
        for number in range(1, how.steps + 1):
            reason = training.step()
            if called and (reason or number == how.steps or number % how.block == 0):
                progress = training.progress()
                answers = [callback(progress) for callback in called]
                reason = reason or ("callback" if any(map(is_true, answers)) else "")
            if reason:
                ended = reason
                break
    except KeyboardInterrupt:
        ended = "interrupt"
    run = training.run(ended)
    if run.outcome.warnings:
        text = "; ".join(run.outcome.warnings)
        warnings.warn(text, TrainingWarning, stacklevel=3)  # at the line that called Problem.train
    return run


class _Training:
    """The steps, and what was seen on the way."""

    def __init__(
        self, problem: Equations, how: NaturalGradient, mesh: Mesh | None, start: Networks | None
    ):
        begin = time.perf_counter()
        self.problem, self.how = problem, how
        # The loss knows where parameters begin, and how they become networks.
        self.loss = Loss(problem, None, "halo", None, PlacementCosts(), np.float64, None)
        begun = self.loss.parameters(start)
        self.pointwise = Pointwise(problem, self.loss._setup.placed)
        self.devices = (default_device(),) if mesh is None else tuple(mesh.devices.flat)
        leaves, self._tree = jax.tree.flatten(self.loss.gather(begun))
        self._fixed = [None if leaf.dtype.kind == "f" else leaf for leaf in leaves]
        self.trained = [jnp.asarray(leaf) for leaf in leaves if leaf.dtype.kind == "f"]
        self._batches = [_placed(batch, mesh) for batch in self.pointwise.batches]
        functions = [self._of_trained(function) for function in self.pointwise.functions]
        self._optimiser = natural.natural_gradient(
            functions,
            how.shift,
            how.momentum,
            chunk=how.chunk,
            trials=how.trials,
            adapt=bool(how.adapt),
            mesh=mesh,
        )
        self._state = self._optimiser.init(self.trained)
        self.losses: list[float] = []
        self.lengths: list[float] = []
        self.shifts: list[float] = []
        self.seconds = {"setup": time.perf_counter() - begin, "compile": 0.0, "steps": 0.0}
        self.seconds["held_out"] = 0.0
        self._begin, self._told = begin, (0, 0.0)

    def _parameters(self, trained: list) -> Parameters:
        """All of them, those that cannot be trained too."""
        given = iter(trained)
        leaves = [next(given) if leaf is None else leaf for leaf in self._fixed]
        return jax.tree.unflatten(self._tree, leaves)

    def _of_trained(self, function: Any) -> Any:
        return lambda trained, batch: function(self._parameters(trained), batch)

    def step(self) -> str:
        """Takes one. Returns why it was the last one, or nothing."""
        begin = time.perf_counter()
        if not self.losses:
            self._require_finite()
        had_momentum = self.how.momentum > 0 and bool(jnp.any(self._state.direction != 0))
        changes, state = self._optimiser.update(self._batches, self._state, self.trained)
        self.trained = [one + change for one, change in zip(self.trained, changes, strict=True)]
        self._state = jax.block_until_ready(state)
        self.losses.append(2 * float(state.loss))
        self.lengths.append(float(state.length))
        self.shifts.append(float(state.info.shift))
        part = "compile" if len(self.losses) == 1 else "steps"
        self.seconds[part] += time.perf_counter() - begin
        if self.lengths[-1] > 0 or had_momentum:  # without momentum the next one may succeed
            return ""
        if state.info.status != Status.OK:
            return "solve"
        is_patient = len(self.lengths) < _PATIENCE or any(self.lengths[-_PATIENCE:])
        return "" if self.how.adapt and is_patient else "length"

    def _require_finite(self) -> None:
        parameters = self._spread()
        if not np.isfinite(self.loss(parameters)):
            self.loss.require_finite(parameters)

    def _spread(self) -> Parameters:
        return self.loss._setup.layout.spread(self._parameters(self.trained))

    def progress(self) -> Progress:
        """Where it is, for callbacks; steps a second are those since the last one."""
        step, seconds = len(self.losses), self.seconds["steps"]
        first, before = self._told
        # The first step of all compiles, and is no measure.
        timed = step - max(first, 1), seconds - before
        if timed[0] == 0:
            timed = 1, self.seconds["compile"]
        rate = timed[0] / max(timed[1], 1e-9)
        self._told = step, seconds
        parameters = self._spread()
        return Progress(
            step,
            self.how.steps,
            self.losses[-1],
            float(self._between(parameters).sum()),
            rate,
            time.perf_counter() - self._begin,
            (self.how.steps - step) / rate,
            functools.partial(self.loss.networks, parameters),
        )

    @functools.cached_property
    def _held_out(self) -> tuple[Loss | None, list[int]]:
        return held_out(self.loss, cells_of(self.problem))

    def _between(self, parameters: Parameters) -> np.ndarray:
        """(terms,) parts of the loss between the points."""
        begin = time.perf_counter()
        loss = self._held_out[0] or self.loss
        found = np.asarray(terms_of_loss(loss._setup, parameters, loss._tables))
        self.seconds["held_out"] += time.perf_counter() - begin
        return found

    def _terms(self, parameters: Parameters) -> list[TermLoss]:
        """Losses of the terms, at their points and between them."""
        at_points = terms_of_loss(self.loss._setup, parameters, self.loss._tables)
        found = np.asarray(at_points), self._between(parameters)
        moved = self._held_out[1]
        return [
            TermLoss(term.name, float(one), float(other), count)
            for term, one, other, count in zip(self.problem.prepared, *found, moved, strict=True)
        ]

    def run(self, ended: str) -> Run:
        """The networks as they are."""
        parameters = self._spread()
        loss = float(self.loss(parameters))
        losses = [*self.losses, loss]
        words = []
        status = Status.OK
        if ended == "solve":
            status = Status(int(self._state.info.status))
            words.append(f"the last solve had no answer: {self._state.info.message}")
        elif ended == "interrupt":
            status = Status.NOT_CONVERGED
            words.append(
                f"Ctrl-C ended it after {len(self.lengths)} of {self.how.steps} steps; what was "
                "learned is kept"
            )
        elif not any(self.lengths) or not loss < losses[0]:
            status = Status.NOT_CONVERGED
            words.append(
                f"the loss is {loss:.3e} as at the beginning: no length of a step made it smaller; "
                "take a larger shift"
            )
        if self.lengths and ended != "interrupt" and 0 < np.median(self.lengths) < _SHORT:
            words.append(
                f"half of the steps were shorter than {np.median(self.lengths):.1e} of what was "
                f"solved for, as that led out of where the residuals are nearly linear: begin with "
                f"a larger shift than {self.how.shift:.1e}, and go on from there with start="
            )
        terms = self._terms(parameters)
        first = float(self.loss(parameters._replace(last=jnp.zeros_like(parameters.last))))
        words += [
            f"the loss of {term.name} is {term.loss:.1e} at its points and {term.held_out:.1e} "
            "between them: the error is larger than the loss says. Take more points, or smaller "
            "networks"
            for term in terms_far_above(terms, first)
        ]
        networks = self.loss.networks(parameters)
        determined, deviations = 0, []
        if len(self.problem.unknown.start):
            found = train_on(self.problem, LeastSquares(max_iterations=1), None, networks).outcome
            determined = found.coefficients_determined
            deviations = found.coefficient_deviations
        outcome: Any = NaturalGradientOutcome(
            status=status,
            loss=loss,
            losses=losses,
            held_out_loss=sum(term.held_out for term in terms),
            terms=terms,
            lengths=self.lengths,
            shifts=self.shifts,
            steps=sum(length > 0 for length in self.lengths),
            ended=ended,
            rows=self.pointwise.count,
            columns=sum(leaf.size for leaf in self.trained),
            coefficients_determined=determined,
            coefficient_deviations=deviations,
            seconds=self.seconds,
            devices=", ".join(map(str, self.devices)),
            warnings=[*words, *self.problem.warnings()],
        )
        return Run._again(outcome, *networks._parts())


def _placed(batch: dict[str, np.ndarray], mesh: Mesh | None) -> dict[str, jax.Array]:
    """Points cut over the devices, or whole on each if they do not divide."""
    if mesh is None:
        return {name: jnp.asarray(array) for name, array in batch.items()}
    spec = PartitionSpec(mesh.axis_names)
    if len(batch["points"]) % mesh.devices.size:
        spec = PartitionSpec()
    return {name: jax.device_put(array, NamedSharding(mesh, spec)) for name, array in batch.items()}
