"""The terms of a problem: a function that is to vanish, and the points where it is to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import numpy as np

from shardsolve.fbpinn._boxes import Boxes
from shardsolve.fbpinn._given import array as array_of
from shardsolve.fbpinn._given import described
from shardsolve.fbpinn._jet import Axes

Residual = Callable[..., Any]
_ROUNDING = 1e-9  # of the domain, by which a measurement may lie outside of it


@dataclass(frozen=True)
class Interior:
    """A differential equation: residual(x, u) or residual(x, u, c) is to vanish at points.

    Attributes:
        residual: From a point, jets and coefficients to a number, or to several in a tuple. Any
            JAX code; it sees one point at a time.
        points: Collocation points, (points, dimensions), or how many along each axis, in equal
            distances, the boundary of the domain among them; with more where boxes overlap by
            little (`Boxes.training_grid`). Along one axis a number does.
        weight: What the residual is multiplied by.
    """

    residual: Residual
    points: Sequence[int] | np.ndarray | int
    weight: float = 1.0

    def place(self, boxes: Boxes, axes: Axes) -> np.ndarray:
        """(points, dimensions): where the residual is to vanish."""
        return _points(self.points, boxes)

    def moved(self, points: Any, boxes: Boxes) -> Interior:
        """The same at other points."""
        return replace(self, points=points)


@dataclass(frozen=True)
class Boundary:
    """A condition on part of the boundary, or an initial one.

    Attributes:
        residual: As of `Interior`: u.v - 1 is to vanish where u is to be 1.
        points: (points, dimensions), or how many along each axis but that of `where`; nothing if
            there is no other axis.
        where: "t = 0": the axis that has one coordinate, and which. Not needed if `points` are
            points.
        weight: What the residual is multiplied by. Beside a differential equation, whose terms are
            large, conditions need large weights; `constrain` of a Problem needs none.
    """

    residual: Residual
    points: Sequence[int] | np.ndarray | int = ()
    where: str | None = None
    weight: float = 1.0

    def place(self, boxes: Boxes, axes: Axes) -> np.ndarray:
        """(points, dimensions): where the residual is to vanish."""
        if self.where is None:
            if _are_counts(self.points, boxes):
                raise ValueError(
                    f"Boundary(points={self.points!r}) given without where=: pass for instance "
                    f"where='{axes.names[0]} = {boxes.domain[0, 0]:g}', or the points themselves"
                )
            return _points(self.points, boxes)
        try:
            if not isinstance(self.where, str):
                raise ValueError
            name, _, value = self.where.partition("=")
            fixed = {axes.names.index(name.strip()): float(value)}
            if not np.isfinite([*fixed.values()]).all():
                raise ValueError
        except ValueError:
            raise ValueError(
                f"where={described(self.where)} given: an axis and its coordinate are accepted, "
                f"such as '{axes.names[0]} = {boxes.domain[0, 0]:g}'"
            ) from None
        if not _are_counts(self.points, boxes):
            raise ValueError(
                f"where={self.where!r} given with points={described(self.points)}: with "
                "where= pass how many along each other axis, or leave where= away"
            )
        return boxes.training_grid(self.points, fixed)

    def moved(self, points: Any, boxes: Boxes) -> Boundary:
        """The same at other points."""
        where = self.where if _are_counts(points, boxes) else None
        return replace(self, points=points, where=where)


@dataclass(frozen=True)
class Data:
    """Measured values: measured(x, u) or measured(x, u, c) is to be values[i] at points[i].

    Attributes:
        points: (points, dimensions), in the domain.
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

    def measured_values(self, points: int, equations: int) -> np.ndarray:
        """(points, equations), finite."""
        words = f"finite numbers are accepted, ({points}, {equations})"
        given = array_of("values", self.values, words)
        given = given[:, None] if given.ndim == 1 else given
        if given.shape != (points, equations):
            raise ValueError(
                f"values of shape {np.shape(self.values)} for {points} points and {equations} "
                f"numbers at each; {(points, equations)} is accepted"
            )
        if not np.isfinite(given).all():
            bad = np.argwhere(~np.isfinite(given))[0, 0]
            raise ValueError(
                f"values[{bad}] is not finite: finite values are accepted; leave the point out"
            )
        return given

    def place(self, boxes: Boxes, axes: Axes) -> np.ndarray:
        """(points, dimensions): where was measured."""
        if boxes.dimensions > 1 and _are_counts(self.points, boxes):
            raise ValueError(
                f"Data(points={self.points!r}) given: the points of the measurements are accepted, "
                f"(points, {boxes.dimensions})"
            )
        points = points_of("points", self.points, boxes)
        if boxes.has_domain:
            low, high = np.asarray(boxes.domain, np.float64).T
            margin = _ROUNDING * (high - low)
            outside = ((points < low - margin) | (points > high + margin)).any(1)
            if outside.any():
                first = int(outside.argmax())
                at = ", ".join(f"{x:g}" for x in points[first])
                whole = " x ".join(f"[{a:g}, {b:g}]" for a, b in zip(low, high, strict=True))
                more = int(outside.sum()) - 1
                others = f", as do {more} others of {len(points)}" if more else ""
                raise ValueError(
                    f"point {first} at ({at}) lies outside of the domain {whole}{others}: no "
                    "equation says what u is there. Leave it out, or take Boxes on a larger domain"
                )
        return points

    def moved(self, points: Any, boxes: Boxes) -> Data:
        """The same with other measurements."""
        if not isinstance(points, (tuple, list)) or len(points) != 2:
            raise TypeError(
                f"points={described(points)} given for a Data: a pair (points, values) is accepted"
            )
        return replace(self, points=points[0], values=points[1])


def _are_counts(points: Any, boxes: Boxes) -> TypeGuard[Sequence[int]]:
    """Whole numbers, and not coordinates."""
    if isinstance(points, np.ndarray):  # along one axis it is of coordinates
        return points.dtype.kind in "iu" and points.ndim == 1 and boxes.dimensions > 1
    given = points if isinstance(points, (tuple, list)) else [points]
    return all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) for n in given)


def _points(points: Any, boxes: Boxes) -> np.ndarray:
    if _are_counts(points, boxes):
        return boxes.training_grid(points)
    return points_of("points", points, boxes, f", or {boxes.dimensions} whole numbers")


def points_of(
    name: str, given: Any, boxes: Boxes, otherwise: str = "", least: int = 1
) -> np.ndarray:
    """(points, dimensions), finite, at least so many; along one axis (points,) does.

    What a shorter float has for an end of the domain, which may lie outside, is that end.
    """
    words = f"(points, {boxes.dimensions}) is accepted{otherwise}"
    found = array_of(name, given, words)
    found = found[:, None] if found.ndim == 1 and boxes.dimensions == 1 else found
    if found.ndim != 2 or found.shape[1] != boxes.dimensions or len(found) < least:
        raise ValueError(f"{name} of shape {np.shape(given)} given: {words}")
    if not np.isfinite(found).all():
        raise ValueError(
            f"{name}: point {np.argwhere(~np.isfinite(found))[0, 0]} is not finite: give finite "
            "coordinates"
        )
    kind = np.asarray(given).dtype
    if kind.itemsize < found.itemsize and kind.kind in "fV":
        for end in boxes.domain.T:
            found = np.where(found == end.astype(kind).astype(np.float64), end, found)
    return found
