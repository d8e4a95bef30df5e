"""Unknown coefficients: numbers and functions that an equation contains and training finds."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shardsolve.fbpinn._boxes import Boxes
from shardsolve.fbpinn._given import array, choice, described, real, whole
from shardsolve.fbpinn._jet import Axes, NoNumber, Point
from shardsolve.fbpinn._net import Mlp

KINDS = ("linear", "cubic")
MOST_NODES = 4096  # as fbpinn::Problem::add_coefficient


@dataclass(frozen=True)
class Scalar:
    """An unknown number; a residual reads c.name.

    Attributes:
        init: What training begins with.
        positive: It stays above 0: training changes its logarithm.
    """

    init: float = 1.0
    positive: bool = False

    def __post_init__(self) -> None:
        real("init", self.init, "a finite number is accepted", np.isfinite)
        _require_positive(self.positive, self.init)

    @property
    def numbers(self) -> int:
        """How many are trained."""
        return 1

    def function(self, numbers: Any) -> Any:
        """What a residual reads: the number."""
        return values_of(self, numbers)[0]


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
        positive: Values at the nodes stay above 0: training changes their logarithms.
    """

    nodes: int
    init: float | Sequence[float] | np.ndarray = 1.0
    domain: tuple[float, float] | None = None
    kind: str = "linear"
    positive: bool = False

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
        _require_positive(self.positive, start)
        if self.domain is not None:
            words = "two finite numbers are accepted, the lower first"
            limits = array("domain", self.domain, words)
            if limits.shape != (2,) or not np.isfinite(limits).all() or limits[0] >= limits[1]:
                raise ValueError(f"domain={described(self.domain)} given: {words}")
            object.__setattr__(self, "domain", (float(limits[0]), float(limits[1])))

    @property
    def numbers(self) -> int:
        """How many are trained."""
        return self.nodes

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


@dataclass(frozen=True)
class NetFunction:
    """An unknown function of some variables, a small network; a residual calls c.name(x.x, x.t).

    It begins as the constant `init`. Its numbers are weights, which say little by themselves, and
    so do their deviations: look at values, `run.coefficient("name", points)`.

    Attributes:
        inputs: How many variables.
        widths: Units of each hidden layer, of tanh.
        init: What training begins with.
        domain: The least and the greatest of each variable, scaled to [-1, 1]. By default those of
            the axes whose coordinates it is called with.
        positive: Values stay above 0: the network is their logarithm.
        seed: Of the hidden weights.
    """

    inputs: int = 1
    widths: Sequence[int] = (8,)
    init: float = 1.0
    domain: Sequence[tuple[float, float]] | None = None
    positive: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        words = "a whole number from 1 on is accepted"
        object.__setattr__(self, "inputs", whole("inputs", self.inputs, words))
        object.__setattr__(self, "widths", Mlp(self.widths).widths)
        real("init", self.init, "a finite number is accepted", np.isfinite)
        _require_positive(self.positive, self.init)
        words = "a whole number from 0 on is accepted"
        object.__setattr__(self, "seed", whole("seed", self.seed, words, 0, 2**32 - 1))
        if self.domain is not None:
            words = f"a pair (least, greatest) for each of {self.inputs} variables is accepted"
            limits = array("domain", self.domain, words)
            limits = limits[None] if limits.shape == (2,) else limits
            is_good = limits.shape == (self.inputs, 2) and np.isfinite(limits).all()
            if not is_good or (limits[:, 0] >= limits[:, 1]).any():
                raise ValueError(f"domain={described(self.domain)} given: {words}")
            object.__setattr__(self, "domain", tuple(map(tuple, limits.tolist())))
        if self.numbers > MOST_NODES:
            raise ValueError(
                f"widths={self.widths} given: {self.numbers} weights; up to {MOST_NODES} are "
                "accepted"
            )

    @property
    def numbers(self) -> int:
        """How many are trained."""
        return Mlp(self.widths).weights(self.inputs) + self.widths[-1] + 1

    def begin(self) -> np.ndarray:
        """(numbers,): random hidden layers, and a last one that is 0."""
        luck = np.random.default_rng(self.seed)
        parts, inputs = [], self.inputs
        for units in self.widths:
            parts.append(luck.uniform(-1, 1, units * (inputs + 1)) / np.sqrt(inputs))
            inputs = units
        return np.concatenate([*parts, np.zeros(inputs + 1)])

    def at(self, numbers: Any, domain: Sequence[tuple[float, float]], *variables: Any) -> jax.Array:
        """The function at some variables."""
        scaled = [
            2 * (jnp.asarray(one) - low) / (high - low) - 1
            for one, (low, high) in zip(variables, domain, strict=True)
        ]
        h, first = jnp.stack(scaled), 0
        for units in (*self.widths, 1):
            size = units * len(h)
            weights = numbers[first : first + size].reshape(units, len(h))
            z = weights @ h + numbers[first + size : first + size + units]
            h, first = jnp.tanh(z), first + size + units
        return self.init * jnp.exp(z[0]) if self.positive else self.init + z[0]


Coefficient = Scalar | Grid1D | NetFunction


def _require_positive(positive: Any, init: Any) -> None:
    if not isinstance(positive, bool):
        raise TypeError(f"positive={described(positive)} given: True or False is accepted")
    if positive and not np.all(np.asarray(init) > 0):
        raise ValueError(
            f"init={described(init)} given with positive=True: numbers above 0 are accepted"
        )


def values_of(given: Coefficient, numbers: Any) -> Any:
    """The values of a Scalar or at the nodes of a Grid1D from what is trained.

    Of positive ones that is 1 + log(value / init): 1 at the beginning.
    """
    if isinstance(given, NetFunction) or not given.positive:
        return numbers
    exp = np.exp if isinstance(numbers, np.ndarray) else jnp.exp
    return np.asarray(given.init) * exp(numbers - 1)


def slopes_of(given: Coefficient, numbers: np.ndarray) -> np.ndarray:
    """Of the values by what is trained, number by number."""
    is_log = not isinstance(given, NetFunction) and given.positive
    return values_of(given, numbers) if is_log else np.ones_like(numbers)


class GridFunction(NoNumber):
    """An unknown function where a residual reads it: a number when it is called with numbers."""

    def __init__(self, name: str, inputs: int, function: Callable[..., jax.Array]):
        self._name, self._inputs, self._function = name, inputs, function

    def _sentence(self) -> str:
        return f"c.{self._name} is a function: call it, such as c.{self._name}(x.z)"

    def __call__(self, *at: Any) -> jax.Array:
        if len(at) != self._inputs:
            raise TypeError(
                f"c.{self._name} is called with {len(at)} numbers: {self._inputs} "
                f"{'is' if self._inputs == 1 else 'are'} accepted"
            )
        for one in at:
            if jnp.shape(one) != ():
                raise ValueError(
                    f"c.{self._name} is called with an array of shape {jnp.shape(one)}: a number "
                    "is accepted, such as a coordinate, x[0] or x by the name of an axis"
                )
        return self._function(*at)


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
        given, numbers = self._unknown.given[name], self._values[self._unknown.places[name]]
        if isinstance(given, Scalar):
            return given.function(numbers)
        inputs = given.inputs if isinstance(given, NetFunction) else 1
        return GridFunction(
            name, inputs, functools.partial(self._unknown.at, name, numbers, self._point)
        )


class Unknown:
    """All unknown coefficients of a problem, and where each one's numbers are among those of all.

    Attributes:
        given: By name.
        places: A slice by name.
        start: (numbers,), float64: what training begins with.
        read: The names that residuals have read so far.
    """

    def __init__(self, given: Mapping[str, Coefficient] | None, boxes: Boxes, axes: Axes):
        if given is not None and not isinstance(given, Mapping):
            raise TypeError(
                f"coefficients={described(given)} given: Scalar, Grid1D and NetFunction by name "
                "are accepted, such as {'speed': Scalar(1.0)}"
            )
        self.given = dict(given or {})
        self.places: dict[str, slice] = {}
        self.read: set[str] = set()
        self._boxes, self._axes = boxes, axes
        self._domains: dict[tuple[str, int], tuple[float, float]] = {}
        start: list[np.ndarray] = []
        count = 0
        for name, one in self.given.items():
            if not isinstance(one, Coefficient):
                raise TypeError(
                    f"coefficients[{name!r}] is {described(one)}: Scalar, Grid1D and NetFunction "
                    "are accepted, such as Scalar(1.0)"
                )
            if not isinstance(name, str) or not name.isidentifier() or name.startswith("_"):
                raise ValueError(
                    f"a coefficient is called {name!r}: names are accepted that can follow c. and "
                    "begin with a letter"
                )
            if isinstance(one, NetFunction):
                values = one.begin()
            else:
                init = 1.0 if one.positive else np.asarray(one.init, np.float64)
                values = np.broadcast_to(init, (one.numbers,))
            start.append(values)
            self.places[name] = slice(count, count + len(values))
            count += len(values)
        self.start = np.concatenate([np.zeros(0), *start])

    def at(self, name: str, numbers: Any, point: Point | None, *variables: Any) -> jax.Array:
        """A function at some variables, its nodes seen from what it is called with."""
        given = self.given[name]
        domains = [self.domain(name, point, one, place) for place, one in enumerate(variables)]
        if isinstance(given, NetFunction):
            return given.at(numbers, domains, *variables)
        assert isinstance(given, Grid1D)
        return given.interpolated(values_of(given, numbers), domains[0], jnp.asarray(variables[0]))

    def domain(
        self, name: str, point: Point | None = None, at: object = None, variable: int = 0
    ) -> tuple[float, float]:
        """Where the nodes of a function lie, seen from what it is called with the first time."""
        given = self.given[name]
        kind = type(given).__name__
        if isinstance(given, Grid1D) and given.domain is not None:
            return given.domain
        if isinstance(given, NetFunction) and given.domain is not None:
            return given.domain[variable]
        axis = None if point is None else point.axis_of(at)
        if axis is None:
            if point is None and (name, variable) in self._domains:
                return self._domains[name, variable]
            raise ValueError(
                f"c.{name} is called with something that is no coordinate of x, so that it is not "
                f"known where {'its nodes lie' if kind == 'Grid1D' else 'it is to be scaled'}: "
                f"pass {kind}(..., domain=(least, greatest))"
            )
        low, high = map(float, self._boxes.domain[axis])
        if self._domains.setdefault((name, variable), (low, high)) != (low, high):
            raise ValueError(
                f"c.{name} is called with coordinates of different domains: pass "
                f"{kind}(..., domain=(least, greatest))"
            )
        return low, high

    def values(self, name: str, numbers: np.ndarray, points: np.ndarray) -> np.ndarray:
        """(points,): an unknown function at points, (points, variables)."""
        given = self.given.get(name) if isinstance(name, str) else None
        if not isinstance(given, (Grid1D, NetFunction)):
            raise ValueError(
                f"{described(name)} is no function among the coefficients: the name of a Grid1D or "
                "a NetFunction is accepted"
            )
        inputs = given.inputs if isinstance(given, NetFunction) else 1
        words = f"(points, {inputs}) is accepted"
        found = array("points", points, words)
        found = found[:, None] if found.ndim == 1 and inputs == 1 else found
        if found.ndim != 2 or found.shape[1] != inputs:
            raise ValueError(f"points of shape {np.shape(points)} given: {words}")
        mine = jnp.asarray(numbers[self.places[name]])
        return np.asarray(jax.vmap(lambda x: self.at(name, mine, None, *x))(jnp.asarray(found)))

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
