"""Unknown coefficients: numbers and functions that an equation contains and training finds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shardsolve.fbpinn._boxes import Boxes
from shardsolve.fbpinn._given import array, choice, described, real, whole
from shardsolve.fbpinn._jet import Axes, NoNumber, Point

KINDS = ("linear", "cubic")
MOST_NODES = 4096  # as fbpinn::Problem::add_coefficient


@dataclass(frozen=True)
class Scalar:
    """An unknown number; a residual reads c.name.

    Attributes:
        init: What training begins with.
    """

    init: float = 1.0

    def __post_init__(self) -> None:
        real("init", self.init, "a finite number is accepted", np.isfinite)


@dataclass(frozen=True)
class Grid1D:
    """An unknown function of one variable; a residual calls c.name(x.z), or with anything else.

    Its values at evenly spaced nodes are found, ends included; beyond the ends it is what it is
    there.

    Attributes:
        nodes: How many, from 1 to 4096.
        init: What training begins with: one number, or (nodes,).
        domain: The first and the last node. By default that of the axis whose coordinate it is
            called with.
        kind: Between the nodes: "linear", or "cubic" with a continuous slope through the nodes'
            values.
    """

    nodes: int
    init: float | Sequence[float] | np.ndarray = 1.0
    domain: tuple[float, float] | None = None
    kind: str = "linear"

    def __post_init__(self) -> None:
        words = f"a whole number from 1 to {MOST_NODES} is accepted"
        object.__setattr__(self, "nodes", whole("nodes", self.nodes, words, most=MOST_NODES))
        choice("kind", self.kind, KINDS)
        words = f"a finite number is accepted, or one for each of {self.nodes} nodes"
        start = array("init", self.init, words)
        if start.shape not in ((), (self.nodes,)):
            raise ValueError(f"init of shape {start.shape} given: {words}")
        if not np.isfinite(start).all():
            raise ValueError(f"init={described(self.init)} given, which is not finite: {words}")
        if self.domain is not None:
            words = "two finite numbers are accepted, the lower first"
            limits = array("domain", self.domain, words)
            if limits.shape != (2,) or not np.isfinite(limits).all() or limits[0] >= limits[1]:
                raise ValueError(f"domain={described(self.domain)} given: {words}")
            object.__setattr__(self, "domain", (float(limits[0]), float(limits[1])))

    def interpolated(
        self, values: jax.Array, domain: tuple[float, float], at: jax.Array
    ) -> jax.Array:
        """The function with these values at the nodes, (nodes,), at a number."""
        if self.nodes == 1:
            return values[0] + 0 * at
        low, high = domain
        place = jnp.clip((at - low) * ((self.nodes - 1) / (high - low)), 0, self.nodes - 1)
        left = jnp.clip(jnp.floor(jax.lax.stop_gradient(place)), 0, self.nodes - 2).astype(int)
        t = place - left
        first, second = values[left], values[left + 1]
        step = second - first
        if self.kind == "linear":
            return first + step * t
        before = values[jnp.maximum(left - 1, 0)]
        behind = values[jnp.minimum(left + 2, self.nodes - 1)]
        slope = jnp.where(left > 0, (second - before) / 2, step)
        next_slope = jnp.where(left + 2 < self.nodes, (behind - first) / 2, step)
        return first + t * (
            slope + t * (3 * step - 2 * slope - next_slope + t * (slope + next_slope - 2 * step))
        )


class GridFunction(NoNumber):
    """An unknown function where a residual reads it: a number when it is called with one."""

    def __init__(self, name: str, function: Callable[[jax.Array], jax.Array]):
        self._name, self._function = name, function

    def _sentence(self) -> str:
        return f"c.{self._name} is a function: call it, such as c.{self._name}(x.z)"

    def __call__(self, at: Any) -> jax.Array:
        if jnp.shape(at) != ():
            raise ValueError(
                f"c.{self._name} is called with an array of shape {jnp.shape(at)}: a number is "
                "accepted, such as a coordinate, x[0] or x by the name of an axis"
            )
        return self._function(at)


class Coefficients(NoNumber):
    """What a residual gets as c: c.a is a number, c.speed(x.z) a function's value."""

    def __init__(self, unknown: Unknown, point: Point, values: jax.Array):
        self._unknown, self._point, self._values = unknown, point, values

    def _sentence(self) -> str:
        return (
            f"c holds the coefficients: read one by its name, c.{next(iter(self._unknown.given))}"
        )

    def __getattr__(self, name: str) -> jax.Array | GridFunction:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._unknown.given:
            raise AttributeError(
                f"c.{name} was read, and the coefficients are {' '.join(self._unknown.given)!r}"
            )
        self._unknown.read.add(name)
        given, values = self._unknown.given[name], self._values[self._unknown.places[name]]
        if isinstance(given, Scalar):
            return values[0]
        return GridFunction(
            name,
            lambda at: given.interpolated(
                values, self._unknown.domain(name, self._point, at), jnp.asarray(at)
            ),
        )


class Unknown:
    """All unknown coefficients of a problem, and where each one's numbers are among those of all.

    Attributes:
        given: By name.
        places: A slice by name.
        start: (numbers,), float64: what training begins with.
        read: The names that residuals have read so far.
    """

    def __init__(self, given: Mapping[str, Scalar | Grid1D] | None, boxes: Boxes, axes: Axes):
        if given is not None and not isinstance(given, Mapping):
            raise TypeError(
                f"coefficients={described(given)} given: Scalar and Grid1D by name are accepted, "
                "such as {'speed': Scalar(1.0)}"
            )
        self.given = dict(given or {})
        self.places: dict[str, slice] = {}
        self.read: set[str] = set()
        self._boxes, self._axes = boxes, axes
        self._domains: dict[str, tuple[float, float]] = {}
        start: list[np.ndarray] = []
        count = 0
        for name, one in self.given.items():
            if not isinstance(one, (Scalar, Grid1D)):
                raise TypeError(
                    f"coefficients[{name!r}] is {described(one)}: Scalar and Grid1D are "
                    "accepted, such as Scalar(1.0)"
                )
            if not isinstance(name, str) or not name.isidentifier() or name.startswith("_"):
                raise ValueError(
                    f"a coefficient is called {name!r}: names are accepted that can follow c. and "
                    "begin with a letter"
                )
            values = np.broadcast_to(
                np.asarray(one.init, np.float64), (one.nodes if isinstance(one, Grid1D) else 1,)
            )
            start.append(values)
            self.places[name] = slice(count, count + len(values))
            count += len(values)
            if isinstance(one, Grid1D) and one.domain is not None:
                self._domains[name] = one.domain
        self.start = np.concatenate([np.zeros(0), *start])

    def domain(
        self, name: str, point: Point | None = None, at: object = None
    ) -> tuple[float, float]:
        """Where the nodes of a function lie, seen from what it is called with the first time."""
        given = self.given[name]
        if isinstance(given, Grid1D) and given.domain is not None:
            return given.domain
        axis = None if point is None else point.axis_of(at)
        if axis is None:
            if point is None and name in self._domains:
                return self._domains[name]
            raise ValueError(
                f"c.{name} is called with something that is no coordinate of x, so that it is not "
                f"known where its nodes lie: pass Grid1D(..., domain=(least, greatest))"
            )
        low, high = map(float, self._boxes.domain[axis])
        if self._domains.setdefault(name, (low, high)) != (low, high):
            raise ValueError(
                f"c.{name} is called with coordinates of different domains: pass "
                "Grid1D(..., domain=(least, greatest))"
            )
        return low, high

    def require_all_read(self) -> None:
        """Throws unless some term reads each."""
        for name in self.given:
            if name not in self.read:
                raise ValueError(
                    f"no term reads the coefficient {name!r}: use c.{name} in a residual(x, u, c), "
                    "or leave it out"
                )

    def nodes(self, name: str) -> np.ndarray:
        """(nodes,): where those of a function lie."""
        one = self.given.get(name) if isinstance(name, str) else None
        if not isinstance(one, Grid1D):
            found = [each for each, given in self.given.items() if isinstance(given, Grid1D)]
            raise ValueError(
                f"{described(name)} is no Grid1D among the coefficients: the name of one is "
                f"accepted, and there {f'are {found}' if found else 'is none'}"
            )
        low, high = self.domain(name)
        return np.linspace(low, high, one.nodes) if one.nodes > 1 else np.array([(low + high) / 2])
