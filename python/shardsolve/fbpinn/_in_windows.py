"""A long time in windows: each begins with what the one before ends with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from shardsolve.fbpinn._equations import Equations
from shardsolve.fbpinn._given import choice, described, whole
from shardsolve.fbpinn._net import Net
from shardsolve.fbpinn._prepared import on_cpu
from shardsolve.fbpinn._run import Run
from shardsolve.fbpinn._terms import Data, points_of


class Windows:
    """Solutions of one window of time after the other.

    Attributes:
        runs: Of each window.
        axis: The number of the axis of time.
        edges: (windows + 1,): where windows begin and end.
    """

    def __init__(self, runs: Sequence[Run], axis: int, edges: np.ndarray):
        self.runs, self.axis, self.edges = list(runs), axis, edges

    @property
    def ok(self) -> bool:
        """Whether all are."""
        return all(run.outcome.ok for run in self.runs)

    def evaluate(self, points: np.ndarray, derivative: str = "v") -> np.ndarray:
        """As `Run.evaluate`, each point by its window; on an edge by the one that ends there."""
        boxes = self.runs[0].problem.boxes
        given = points_of("points", points, boxes, least=0)
        number = np.searchsorted(self.edges, given[:, self.axis] - 1e-12 * np.ptp(self.edges)) - 1
        number = np.clip(number, 0, len(self.runs) - 1)
        several = len(self.runs[0].problem.fields) > 1
        found = np.empty((len(given), len(self.runs[0].problem.fields))[: 1 + several])
        for place, run in enumerate(self.runs):
            mine = number == place
            if mine.any():
                found[mine] = run.evaluate(given[mine], derivative)
        return found


def in_windows(
    problem: Equations,
    count: int,
    *,
    axis: str = "t",
    train: Callable[[Any, Run | None], Run] | None = None,
) -> Windows:
    """Solves a problem of one window of time for many windows; nothing is compiled twice.

    Boxes, points and networks are moved from window to window, as they are in the problem, which is
    that of the first: its equations and conditions hold in each, and data at later times keep their
    values. What it begins with must be `Data`
    at the beginning of the window, such as
    `Data([[0.0]], [[1.0, 2.0]], lambda x, u: (u.p.v, u.q.v), weight=100)`, all of it, the speed of
    what swings too: their values in each further window are what the window before has at its end.
    Errors of a window are those of all that follow, as they are of any method that goes through
    time.

    Args:
        problem: Of the first window, without unknown coefficients. `constrain` must not hold the
            beginning.
        count: How many windows.
        axis: That of time.
        train: From the problem of a window and the run of the one before, None of the first, to a
            run; by default `problem.train()`, by least squares.

    Raises:
        ValueError: If no term is `Data` at the beginning, or one that is none is there alone: each
            window would have it again.
    """
    if not isinstance(problem, Equations):
        raise TypeError(f"problem={described(problem)} given: a Problem is accepted")
    count = whole("count", count, "a whole number of windows from 1 on is accepted")
    along = problem.axes.names.index(choice("axis", axis, problem.axes.names))
    if train is not None and not callable(train):
        raise TypeError(
            f"train={described(train)} given: a function of a problem and of the run before is "
            "accepted, such as lambda problem, before: problem.train(Adam(), start=before)"
        )
    if problem.unknown.given:
        raise ValueError(
            "a problem with unknown coefficients given: each window would find its own; without "
            "any is accepted"
        )
    low, high = map(float, problem.boxes.domain[along])
    begins, alone = [], ""
    for number, (term, given) in enumerate(
        zip(problem.prepared, problem._given["terms"], strict=True)
    ):
        first, last = term.points[:, along].min(), term.points[:, along].max()
        at_beginning = max(first - low, last - low) <= 1e-9 * (high - low)
        if at_beginning and isinstance(given, Data):
            begins.append(number)
        elif at_beginning:
            alone = term.name
    if not begins:
        raise ValueError(
            f"no term is Data at {axis} = {low:g}, where the window begins: say there what it "
            "begins with, as further windows get their values there from the one before"
        )
    if alone:
        raise ValueError(
            f"{alone} says something of {axis} = {low:g} alone, where the window begins, and would "
            "say it again where each further one does: give it as Data, whose values there are "
            "those of the window before"
        )
    runs: list[Run] = []
    for number in range(count):
        here = problem
        if number > 0:
            values = {term: _at_the_end(runs[-1], term, along, high - low) for term in begins}
            here = moved(problem, along, number * (high - low), values)
        before = runs[-1] if runs else None
        run = here.train() if train is None else train(here, before)  # type: ignore[attr-defined]
        if not isinstance(run, Run):
            raise TypeError(
                f"train returned {described(run)}: the run of the problem that it is given is "
                "accepted, such as of lambda problem, before: problem.train(Adam(), start=before)"
            )
        runs.append(run)
    return Windows(runs, along, low + (high - low) * np.arange(count + 1))


def _at_the_end(run: Run, term: int, axis: int, length: float) -> np.ndarray:
    """What is measured by a term, at its points moved to the end of the window."""
    prepared = run.problem.prepared[term]
    points = prepared.points + length * (np.arange(run.problem.boxes.dimensions) == axis)
    jets = run._jets(points, run.problem.orders)
    with on_cpu():
        return np.asarray(prepared.residuals(points, jets, run.coefficient_numbers))


def moved(problem: Equations, axis: int, by: float, values: dict[int, np.ndarray]) -> Equations:
    """The same equations elsewhere, with other values of some measurements."""
    shift = by * (np.arange(problem.boxes.dimensions) == axis)
    boxes = problem.boxes.moved(shift)
    prepared, terms = [], []
    for number, (term, given) in enumerate(
        zip(problem.prepared, problem._given["terms"], strict=True)
    ):
        points, found = term.points + shift, values.get(number, term.values)
        prepared.append(replace(term, points=points, values=found))
        there = (points, found) if isinstance(given, Data) else points
        terms.append(given.moved(there, boxes))
    other = object.__new__(type(problem))
    other.__dict__.update(problem.__dict__)
    other.boxes, other.prepared = boxes, prepared
    other._given = {**problem._given, "boxes": boxes, "terms": terms}
    if isinstance(problem.net, Net):
        other._compiled = {}  # what is compiled of a network of one's own knows its boxes
    return other
