"""The terms of a problem: a function that is to vanish, and the points where it is to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np

from shardsolve.fbpinn._boxes import Boxes
from shardsolve.fbpinn._jet import Axes

Residual = Callable[..., Any]


@dataclass(frozen=True)
class Interior:
    """A differential equation: residual(x, u) or residual(x, u, c) is to vanish at points.

    Attributes:
        residual: From a point, jets and coefficients to a number, or to several in a tuple. Any
            JAX code; it sees one point at a time.
        points: (points, dimensions), or how many along each axis, in equal distances, the boundary
            of the domain among them; with more where boxes overlap by little
            (`Boxes.training_grid`).
        weight: What the residual is multiplied by.
    """

    residual: Residual
    points: Sequence[int] | np.ndarray
    weight: float = 1.0

    def place(self, boxes: Boxes, axes: Axes) -> np.ndarray:
        """(points, dimensions): where the residual is to vanish."""
        return _points(self.points, boxes)


@dataclass(frozen=True)
class Boundary:
    """A condition on part of the boundary, or an initial one.

    Attributes:
        residual: As of `Interior`: u.v - 1 is to vanish where u is to be 1.
        points: (points, dimensions), or how many along each axis but that of `where`.
        where: "t = 0": the axis that has one coordinate, and which. Not needed if `points` are
            points.
        weight: What the residual is multiplied by. Beside a differential equation, whose terms are
            large, conditions need large weights; `constrain` of a Problem needs none.
    """

    residual: Residual
    points: Sequence[int] | np.ndarray
    where: str | None = None
    weight: float = 1.0

    def place(self, boxes: Boxes, axes: Axes) -> np.ndarray:
        """(points, dimensions): where the residual is to vanish."""
        if self.where is None:
            if _are_counts(self.points):
                raise ValueError(
                    f"Boundary(points={self.points!r}) given without where=: pass for instance "
                    f"where='{axes.names[0]} = {boxes.domain[0, 0]:g}', or the points themselves"
                )
            return _points(self.points, boxes)
        name, _, value = self.where.partition("=")
        try:
            fixed = {axes.names.index(name.strip()): float(value)}
        except ValueError:
            raise ValueError(
                f"where={self.where!r} given: an axis and its coordinate are accepted, such as "
                f"'{axes.names[0]} = {boxes.domain[0, 0]:g}'"
            ) from None
        if not _are_counts(self.points):
            raise ValueError(
                f"where={self.where!r} given with points of shape {np.shape(self.points)}: with "
                "where= pass how many along each other axis, or leave where= away"
            )
        return boxes.training_grid(self.points, fixed)


@dataclass(frozen=True)
class Data:
    """Measured values: measured(x, u) or measured(x, u, c) is to be values[i] at points[i].

    Attributes:
        points: (points, dimensions).
        values: (points,), or (points, several) if `measured` gives several in a tuple.
        measured: As the residual of `Interior`, such as lambda x, u: u.v.
        weight: What the difference is multiplied by.
    """

    points: np.ndarray
    values: np.ndarray
    measured: Residual
    weight: float = 1.0

    @property
    def residual(self) -> Residual:
        """What is measured, without the values."""
        return self.measured

    def place(self, boxes: Boxes, axes: Axes) -> np.ndarray:
        """(points, dimensions): where was measured."""
        if _are_counts(self.points):
            raise ValueError(
                f"Data(points={self.points!r}) given: the points of the measurements are accepted"
            )
        return _points(self.points, boxes)


def _are_counts(points: Any) -> TypeGuard[Sequence[int]]:
    return isinstance(points, (tuple, list)) and all(
        isinstance(n, (int, np.integer)) for n in points
    )


def _points(points: Any, boxes: Boxes) -> np.ndarray:
    if _are_counts(points):
        return boxes.training_grid(points)
    array = np.asarray(points, np.float64)
    array = array[:, None] if array.ndim == 1 and boxes.dimensions == 1 else array
    if array.ndim != 2 or array.shape[1] != boxes.dimensions or len(array) == 0:
        raise ValueError(
            f"points of shape {np.shape(points)} given: (points, {boxes.dimensions}) is accepted, "
            f"or {boxes.dimensions} whole numbers"
        )
    if not np.isfinite(array).all():
        raise ValueError(f"point {np.argwhere(~np.isfinite(array))[0, 0]} is not finite")
    return array
