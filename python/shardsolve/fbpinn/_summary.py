"""What a training by gradients has come to: its networks and its outcome."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from shardsolve import _spans
from shardsolve._records import SolverError, Status
from shardsolve.fbpinn._measured import links_of, percentiles
from shardsolve.fbpinn._options import LeastSquares
from shardsolve.fbpinn._outcome import TermLoss
from shardsolve.fbpinn._progress import GradientOutcome
from shardsolve.fbpinn._run import Networks, Run

_MANY, _LITTLE = 100, 1e-3  # steps, and the share of the loss that they are to take at least
_FAR_ABOVE = 5.0  # a held-out loss above so many losses at the points is told, as by least squares


class Course:
    """What was seen on the way; what a checkpoint keeps beside the state."""

    def __init__(self, begin: float):
        self.begin = begin
        self.losses: list[float] = []
        self.held_out_losses: list[tuple[int, float]] = []
        self.seconds: dict[str, float] = defaultdict(float)
        self.warnings: list[str] = []
        self.steps = 0  # taken by this process
        self.step_seconds: list[float] = []  # of each block's mean
        self.waits: dict[int, float] = {}  # by process, how long all others waited for it

    def took(self, part: str, since: float, number: int = -1) -> float:
        """Adds to the seconds of a part, and returns what it took. `number`: of a step."""
        seconds = time.perf_counter() - since
        self.seconds[part] += seconds
        _spans.record(part, since, number)
        return seconds

    def waited(self, seconds: Sequence[float], numbers: Sequence[int]) -> None:
        """All processes meet, after so many seconds of their own each: all wait for the last."""
        *_, second, last = np.sort(seconds)
        who = numbers[int(np.argmax(seconds))]
        self.waits[who] = self.waits.get(who, 0.0) + float(last - second)


def summary(training: Any, ended: str, saves: Any) -> Run:
    """A run, with warnings in its outcome."""
    problem, course, state = training.problem, training.course, training.state
    kept = state.parameters if ended != "not finite" else state.previous
    at_points, between = training.values(kept)
    loss, held = float(at_points.sum()), float(between.sum())
    if ended != "not finite" and not np.isfinite(loss):
        ended, kept = "not finite", state.previous
        course.warnings.append(
            f"the loss is not finite after step {int(state.step)}. The networks are those of the "
            "step before"
        )
        at_points, between = training.values(kept)
        loss, held = float(at_points.sum()), float(between.sum())
    first = training.without_networks()
    terms = [
        TermLoss(term.name, float(one), float(other), count)
        for term, one, other, count in zip(
            problem.prepared, at_points, between, training.moved, strict=True
        )
    ]
    course.warnings += [
        f"the loss of {term.name} is {term.loss:.1e} at its points and {term.held_out:.1e} "
        "between them: take more points, or points='latin'"
        for term in terms_far_above(terms, first)
    ]
    status = Status.OK
    if ended == "not finite":
        status = Status.OVERFLOW
    elif ended in ("interrupt", "signal"):
        status = Status.NOT_CONVERGED
        course.warnings.append(
            f"{'Ctrl-C' if ended == 'interrupt' else 'a signal'} ended it after {int(state.step)} "
            f"of {training.how.steps} steps; what was learned is kept"
        )
    elif course.losses and not loss < course.losses[0]:
        status = Status.NOT_CONVERGED
        course.warnings.append(
            "the loss was 0 at the beginning: squares of residuals are below the range of their "
            "dtype, or no equation asks for anything; multiply the equations by a power of ten"
            if course.losses[0] == 0
            else f"the loss is {loss:.3e} and was {course.losses[0]:.3e} at the beginning: take a "
            "smaller rate, or multiply the equations by a number that makes it of size 1"
        )
    elif len(course.losses) >= _MANY and loss > (1 - _LITTLE) * course.losses[0]:
        course.warnings.append(
            f"{len(course.losses)} steps have hardly made the loss smaller, from "
            f"{course.losses[0]:.4e} to {loss:.4e}: begin elsewhere, or multiply the equations by "
            "a number that makes the loss of size 1"
        )
    parts = training.setup.parts_of_networks(kept)
    determined = 0
    deviations: list[float] = []
    if len(problem.unknown.start):
        determined, deviations, words = _deviations(Networks.of(problem, *parts))
        course.warnings += words
    if saves is not None:
        course.warnings += saves.warnings()
    devices = training.loss.mesh.devices
    taken = course.seconds["steps"]
    outcome = GradientOutcome(
        status=status,
        loss=loss,
        losses=course.losses,
        loss_left=loss / first if first > 0 else np.nan,
        held_out_loss=held,
        held_out_losses=course.held_out_losses,
        terms=terms,
        steps=int(state.step),
        began_at=0 if saves is None else saves.began_at,
        ended=ended,
        coefficients_determined=determined,
        coefficient_deviations=deviations,
        steps_a_second=course.steps / taken if taken > 0 else np.nan,
        seconds=dict(course.seconds),
        devices=", ".join(map(str, devices.flat)),
        owner=training.loss.owner.tolist(),
        warnings=course.warnings,
        step_seconds=percentiles(course.step_seconds),
        links=[(one.source, one.target, one.bytes) for one in links_of(training.setup)],
        waits=sorted(course.waits.items()),
    )
    return Run._again(outcome, problem, *parts)


def terms_far_above(terms: list[TermLoss], first: float) -> list[TermLoss]:
    """Those with a loss far above that at their points; `first`: of networks that are 0."""
    return [term for term in terms if term.held_out > max(_FAR_ABOVE * term.loss, 1e-12 * first)]


def _deviations(networks: Networks) -> tuple[int, list[float], list[str]]:
    """By one Gauss-Newton step from here: how many are determined, deviations, warnings."""
    from shardsolve.fbpinn._train import train_on  # which calls this module

    problem = networks.problem
    try:
        found = train_on(problem, LeastSquares(max_iterations=1), None, networks).outcome
    except (ValueError, MemoryError, SolverError) as error:
        return 0, [], [f"standard deviations of coefficients are not known: {error}"]
    words = []
    undetermined = len(problem.unknown.start) - found.coefficients_determined
    if undetermined > 0:
        words.append(
            f"{undetermined} of {len(problem.unknown.start)} numbers of coefficients are not "
            "determined by equations and data: see coefficient_deviations"
        )
    return found.coefficients_determined, found.coefficient_deviations, words
