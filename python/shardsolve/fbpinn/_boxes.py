"""Overlapping boxes, the subdomains of a domain, one small network in each."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from shardsolve.fbpinn._given import array, described, real, whole, wholes

MOST_DIMENSIONS = 4
MOST_BOXES = 2**20  # as fbpinn::Boxes
MOST_POINTS = 2**31 - 1  # whose numbers the library can tell


class Boxes:
    """Overlapping subdomains: boxes, given by counts along each axis or one by one.

    In each the solution is a network times a window; the windows sum to 1 at every point. The
    window of a box is the product over the axes of ((1 + cos(pi (x - centre) / half width)) / 2)^2,
    zero outside, divided by the sum of those of all boxes there.

    Example:
        >>> Boxes([(0, 1), (0, 1)], counts=(15, 5)).count
        75

    Attributes:
        centers: (count, dimensions), float64.
        half_widths: (count, dimensions), float64, positive.
        domain: (dimensions, 2), float64: the least and the greatest coordinate of each axis.
        counts: Boxes along each axis; None if they are not regular.
        levels: The boxes that are added level by level, these first.
        has_domain: Whether the domain was given; otherwise networks may be evaluated wherever there
            is a box.
    """

    centers: np.ndarray
    half_widths: np.ndarray
    domain: np.ndarray
    counts: tuple[int, ...] | None
    levels: tuple[Boxes, ...]
    has_domain: bool

    def __init__(
        self,
        domain: Sequence[tuple[float, float]] | tuple[float, float],
        counts: Sequence[int] | int,
        overlap: float | Sequence[float] = 2.9,
    ):
        """Centres in equal distances, the first and the last on the boundary of the domain.

        Args:
            domain: The least and the greatest coordinate of each of 1 to 4 axes; of one axis
                (least, greatest) does, too.
            counts: Boxes along each axis, 2^20 in all at most. The centre of a single one is in
                the middle.
            overlap: How wide a box is, in distances of centres; above 1. 2.9 lets a point lie in
                two or three boxes an axis. Of a single box: in widths of the domain.
        """
        limits = _domain(domain)
        number = np.array(
            wholes(
                "counts",
                counts,
                len(limits),
                f"{len(limits)} whole numbers from 1 on are accepted, one for each axis of the "
                "domain",
                most=MOST_BOXES,
            )
        )
        if math.prod(number.tolist()) > MOST_BOXES:
            raise ValueError(
                f"counts={counts!r} given: at most {MOST_BOXES} boxes in all are accepted"
            )
        words = (
            f"a number above 1 is accepted, or {len(limits)}, one for each axis: above it boxes "
            "overlap, and usually it is between 2 and 3"
        )
        wide = array("overlap", overlap, words)
        if wide.shape not in ((), number.shape) or not (np.isfinite(wide) & (wide > 1)).all():
            raise ValueError(f"overlap={described(overlap)} given: {words}")
        size = limits[:, 1] - limits[:, 0]
        distance = size / np.maximum(number - 1, 1)
        along = [
            np.linspace(low, high, n) if n > 1 else np.array([(low + high) / 2])
            for (low, high), n in zip(limits, number, strict=True)
        ]
        self._set(_grid(along), np.tile(wide / 2 * distance, (int(number.prod()), 1)), limits)
        self.counts = tuple(int(n) for n in number)

    @classmethod
    def from_arrays(
        cls,
        centers: np.ndarray,
        half_widths: np.ndarray,
        domain: Sequence[tuple[float, float]] | None = None,
    ) -> Boxes:
        """Boxes anywhere, of any size.

        Args:
            centers: (count, dimensions), or (count,) along one axis.
            half_widths: The same shape, or one row for all.
            domain: As for counts; by default from the least to the greatest of the centres.
        """
        words = f"(count, dimensions) with 1 to {MOST_DIMENSIONS} dimensions is accepted"
        middle = array("centers", centers, words)
        middle = middle[:, None] if middle.ndim == 1 else middle
        half = array("half_widths", half_widths, "an array of the shape that the centers have")
        half = half[:, None] if half.ndim == 1 and middle.shape[1:] == (1,) else half
        if middle.ndim != 2 or len(middle) == 0 or not 1 <= middle.shape[1] <= MOST_DIMENSIONS:
            raise ValueError(f"centers of shape {np.shape(centers)} given: {words}")
        try:
            half = np.broadcast_to(half, middle.shape).copy()
        except ValueError:
            raise ValueError(
                f"half_widths of shape {np.shape(half_widths)} given: {middle.shape} is accepted, "
                "as the centers have, or one row for all"
            ) from None
        for name, values, good in (
            ("centers", middle, np.isfinite(middle)),
            ("half_widths", half, np.isfinite(half) & (half > 0)),
        ):
            if not good.all():
                box, axis = np.argwhere(~good)[0]
                raise ValueError(
                    f"{name}[{box}, {axis}] = {values[box, axis]} given: finite numbers"
                    f"{' above 0' if name == 'half_widths' else ''} are accepted"
                )
        around = np.stack([middle.min(0), middle.max(0)], 1)
        limits = around if domain is None else _domain(domain, middle.shape[1])
        boxes = cls.__new__(cls)
        boxes._set(middle, half, limits)
        boxes.has_domain = domain is not None
        return boxes

    def _set(self, centers: np.ndarray, half_widths: np.ndarray, domain: np.ndarray) -> None:
        self.centers, self.half_widths, self.domain = centers, half_widths, domain
        self.counts, self.levels, self.has_domain = None, (self,), True
        for fixed in (centers, half_widths, domain):
            fixed.flags.writeable = False

    def with_level(self, level: Boxes) -> Boxes:
        """These boxes and others over the same domain, such as a few large ones.

        The windows of each level sum to 1 by themselves, and the solution is the sum of all.
        """
        if not isinstance(level, Boxes):
            raise TypeError(f"level={described(level)} given: other Boxes are accepted")
        if level.dimensions != self.dimensions:
            raise ValueError(
                f"a level with {level.dimensions} axes given; {self.dimensions} are accepted"
            )
        both = type(self).__new__(type(self))
        both._set(self.centers, self.half_widths, self.domain)
        both.counts, both.levels = self.counts, (*self.levels, *level.levels)
        both.has_domain = self.has_domain
        return both

    def moved(self, shift: Sequence[float] | np.ndarray) -> Boxes:
        """The same elsewhere; `shift` is (dimensions,)."""
        words = f"{self.dimensions} finite numbers are accepted, one for each axis"
        by = array("shift", shift, words)
        if by.shape != (self.dimensions,) or not np.isfinite(by).all():
            raise ValueError(f"shift={described(shift)} given: {words}")
        levels = []
        for level in self.levels:
            one = type(self).__new__(type(self))
            one._set(level.centers + by, level.half_widths, level.domain + by[:, None])
            one.counts, one.has_domain = level.counts, level.has_domain
            levels.append(one)
        first = levels[0]
        for level in levels[1:]:
            first = first.with_level(level)
        return first

    @property
    def count(self) -> int:
        """How many boxes there are, of all levels."""
        return sum(len(level.centers) for level in self.levels)

    @property
    def dimensions(self) -> int:
        """How many axes there are."""
        return self.centers.shape[1]

    def grid(
        self, counts: Sequence[int] | int, fixed: dict[int, float] | None = None
    ) -> np.ndarray:
        """Points in equal distances over the domain, its boundary among them.

        Args:
            counts: Points along each axis that is not fixed; one alone lies in the middle.
            fixed: Axes along which there is one coordinate only, such as {0: 1.0}.

        Returns:
            (points, dimensions), the last axis running fastest.
        """
        fixed = self._fixed(fixed)
        free = self.dimensions - len(fixed)
        words = (
            f"{free} whole number{'' if free == 1 else 's'} from 1 on "
            f"{'is' if free == 1 else 'are'} accepted, one for each axis that has more than one "
            "coordinate"
        )
        given = wholes("points", counts, free, words)
        if math.prod(given) > MOST_POINTS:
            raise ValueError(f"points={counts!r} given: at most {MOST_POINTS} are accepted")
        numbers = iter(given)
        along = []
        for axis, (low, high) in enumerate(self.domain):
            if axis in fixed:
                along.append(np.array([fixed[axis]]))
                continue
            n = next(numbers)
            along.append(np.linspace(low, high, n) if n > 1 else np.array([(low + high) / 2]))
        return _grid(along)

    def training_grid(
        self, counts: Sequence[int] | int, fixed: dict[int, float] | None = None
    ) -> np.ndarray:
        """As `grid`, with further coordinates where it has few in a strip.

        Boxes that overlap by less than half of their width take over from each other in narrow
        strips. Networks need not fit each other there unless some points see it, so that each strip
        gets coordinates of its own if it has fewer than three.
        """
        points = self.grid(counts, fixed)
        along = []
        for axis in range(self.dimensions):
            coordinates = np.unique(points[:, axis])
            if axis not in (fixed or {}):
                coordinates = _with_strips(coordinates, self.levels, axis)
            along.append(coordinates)
        return _grid(along)

    def _fixed(self, fixed: object) -> dict[int, float]:
        words = (
            f"numbers of axes from 0 to {self.dimensions - 1} with a coordinate each are accepted, "
            "such as {0: 1.0}"
        )
        given = {} if fixed is None else fixed
        if not isinstance(given, dict):
            raise TypeError(f"fixed={described(fixed)} given: {words}")
        return {
            whole("fixed", axis, words, least=0, most=self.dimensions - 1): real(
                f"fixed[{axis}]", value, "a finite coordinate is accepted", np.isfinite
            )
            for axis, value in given.items()
        }

    def __repr__(self) -> str:
        limits = ", ".join(f"({low:g}, {high:g})" for low, high in self.domain)
        return f"<{self.count} boxes over [{limits}]>"


def _domain(given: object, dimensions: int | None = None) -> np.ndarray:
    """(dimensions, 2): the limits of each axis."""
    many = f"1 to {MOST_DIMENSIONS}" if dimensions is None else str(dimensions)
    words = f"a pair (least, greatest) for each of {many} axes is accepted"
    limits = array("domain", given, words)
    limits = limits[None] if limits.shape == (2,) else limits
    if limits.ndim != 2 or limits.shape[1] != 2 or not 1 <= len(limits) <= MOST_DIMENSIONS:
        raise ValueError(f"domain={described(given)} given: {words}")
    if dimensions not in (None, len(limits)):
        raise ValueError(f"domain={described(given)} given: {words}")
    if not np.isfinite(limits).all() or (limits[:, 0] >= limits[:, 1]).any():
        raise ValueError(
            f"domain={described(given)} given: of each axis two finite numbers are accepted, and "
            "the least coordinate comes first"
        )
    return limits


def _with_strips(coordinates: np.ndarray, levels: Sequence[Boxes], axis: int) -> np.ndarray:
    """Coordinates, and three more in each strip between neighbours if some strip has fewer."""
    few = 3
    further = [np.zeros(0)]
    for level in levels:
        if level.counts is None or level.counts[axis] == 1:
            continue
        centers = np.unique(level.centers[:, axis])
        half = level.half_widths[0, axis]
        if half >= centers[1] - centers[0]:  # boxes take over from each other everywhere
            continue
        lows, highs = centers[1:] - half, centers[:-1] + half
        inside = np.searchsorted(coordinates, highs) - np.searchsorted(coordinates, lows)
        if inside.min() < few:
            further.append(np.linspace(lows, highs, few + 2)[1:-1].ravel())
    return np.unique(np.concatenate([coordinates, *further]))


def _grid(along: Sequence[np.ndarray]) -> np.ndarray:
    return np.stack([axis.ravel() for axis in np.meshgrid(*along, indexing="ij")], 1)
