"""What a differential equation reads: points, and jets (a value and its derivatives at a point).

A user's function gets a point x and jets u and never a network. Which derivatives it reads is
recorded when it is traced once; so there is no list of equations to choose from.
"""

from __future__ import annotations

import itertools
import math
import numbers
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from shardsolve.fbpinn._given import described
from shardsolve.fbpinn._given import names as names_of

MOST_ORDER = 4
VALUE = "v"

Order = tuple[int, ...]  # how often each axis is differentiated


class NoNumber:
    """What has parts by name and is no number: arithmetic with it says what to write instead."""

    def _sentence(self) -> str:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{self._sentence()}>"

    def _refuse(self, *_: object, **__: object) -> Any:
        raise TypeError(self._sentence())


_OPERATORS = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"),
    *("radd", "rsub", "rmul", "rtruediv", "rfloordiv", "rmod", "rpow", "rmatmul"),
    *("neg", "pos", "abs", "lt", "le", "gt", "ge", "eq", "ne"),
    *("float", "int", "index", "complex", "array", "getitem", "iter", "call"),
)
for _operator in _OPERATORS:
    setattr(NoNumber, f"__{_operator}__", NoNumber._refuse)


class Axes:
    """The names of the coordinates, a letter each."""

    def __init__(self, given: str | Sequence[str], dimensions: int):
        words = (
            f"{dimensions} different letters with spaces between them are accepted, or a list of "
            f"them, as the boxes have {dimensions} axes; not {VALUE!r}, which stands for the value"
        )
        self.names = names_of("axes", given, words)
        if (
            len(self.names) != dimensions
            or len(set(self.names)) != dimensions
            or any(len(name) != 1 or not name.isalpha() or name == VALUE for name in self.names)
        ):
            raise ValueError(f"axes={given!r} given: {words}")

    def order(self, name: str, whole: str) -> Order:
        """Of the derivative with this name: "xt" is (1, 1) for the axes "x t"."""
        if name == VALUE:
            return (0,) * len(self.names)
        strange = [letter for letter in name if letter not in self.names]
        if strange:
            raise AttributeError(
                f"{whole}.{name} was read, and there is no axis {strange[0]!r}: derivatives are "
                f"named by letters of the axes {' '.join(self.names)!r}, such as "
                f"{whole}.{self.names[0] * 2}, and the value is {whole}.{VALUE}"
            )
        if len(name) > MOST_ORDER:
            raise AttributeError(
                f"{whole}.{name} was read, a derivative of order {len(name)}: up to "
                f"{MOST_ORDER} is accepted; write the equation as a system of lower order"
            )
        return tuple(name.count(axis) for axis in self.names)

    def named(self, name: str, given: object) -> Order:
        """Of a derivative that a caller asks for."""
        try:
            if not isinstance(given, str) or not given:
                raise AttributeError
            return self.order(given, "u")
        except AttributeError:
            raise ValueError(
                f"{name}={described(given)} given: 'v' for the value is accepted, or letters of "
                f"the axes {' '.join(self.names)!r} for a derivative up to order {MOST_ORDER}, "
                f"such as {self.names[0] * 2!r}"
            ) from None

    def name(self, order: Order) -> str:
        """The other way round."""
        return "".join(axis * n for axis, n in zip(self.names, order, strict=True)) or VALUE

    def orders(self, most: int = MOST_ORDER) -> list[Order]:
        """All up to a total order, the value first."""
        every = itertools.product(range(most + 1), repeat=len(self.names))
        return sorted((order for order in every if sum(order) <= most), key=_place)


class Point(NoNumber):
    """A point: x.t by the name of an axis, x[0] by its number; an array where one is needed."""

    def __init__(self, axes: Axes, array: jax.Array):
        self._axes, self._array = axes, array
        self._read: dict[int, jax.Array] = {}

    def _sentence(self) -> str:
        return (
            f"x is a point and no number: write x.{self._axes.names[0]} for a coordinate, or "
            "jnp.asarray(x) for the vector of all"
        )

    def __getattr__(self, name: str) -> jax.Array:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._axes.names:
            raise AttributeError(
                f"x.{name} was read, and the axes are {' '.join(self._axes.names)!r}"
            )
        return self._coordinate(self._axes.names.index(name))

    def _coordinate(self, axis: int) -> jax.Array:
        if axis not in self._read:
            self._read[axis] = self._array[axis]
        return self._read[axis]

    def axis_of(self, value: object) -> int | None:
        """The axis whose coordinate, read by name, this object is; None if it is none."""
        return next((axis for axis, read in self._read.items() if read is value), None)

    def __getitem__(self, index: Any) -> jax.Array:
        if not isinstance(index, numbers.Integral):
            return self._array[index]
        place = int(index)
        if not -len(self) <= place < len(self):  # JAX would take the last one
            raise IndexError(
                f"x[{index}] was read, and a point has {len(self)} coordinates, x[0] the first"
            )
        return self._coordinate(place % len(self))

    def __iter__(self) -> Iterator[jax.Array]:
        return map(self._coordinate, range(len(self)))

    def __len__(self) -> int:
        return len(self._axes.names)

    def __jax_array__(self) -> jax.Array:
        return self._array


class Jet(NoNumber):
    """One field at a point: u.v is its value, u.x, u.xx, u.xt, ... its derivatives."""

    def __init__(self, axes: Axes, name: str, get: Callable[[Order], jax.Array]):
        self._axes, self._name, self._get = axes, name, get

    def _sentence(self) -> str:
        return (
            f"{self._name} is a field with its derivatives and no number: write "
            f"{self._name}.{VALUE} for its value, {self._name}.{self._axes.names[0]} for a "
            "derivative"
        )

    def __getattr__(self, name: str) -> jax.Array:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._get(self._axes.order(name, self._name))


class Fields(NoNumber):
    """Several fields at a point: u.p is what is known of one, its jet or its value alone."""

    def __init__(self, each: dict[str, Any], then: str):
        self._each, self._then = each, then

    def _sentence(self) -> str:
        return (
            f"u has the fields {' '.join(self._each)!r} and is no number: write "
            f"u.{next(iter(self._each))}{self._then}"
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._each:
            then = "first the field, then its derivative, " if self._then else ""
            raise AttributeError(
                f"u.{name} was read, and the fields are {' '.join(self._each)!r}: {then}"
                f"such as u.{next(iter(self._each))}{self._then}"
            )
        return self._each[name]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._each.values())


def fields_of(axes: Axes, names: Sequence[str], get: Callable[[int, Order], jax.Array]) -> object:
    """What a user's function gets as u; get(field, order) is a derivative."""

    def jet(number: int, name: str) -> Jet:
        return Jet(axes, name, lambda order: get(number, order))

    if len(names) == 1:
        return jet(0, "u")
    jets = {name: jet(number, f"u.{name}") for number, name in enumerate(names)}
    return Fields(jets, f".{VALUE}")


def values_of(names: Sequence[str], values: Sequence[jax.Array]) -> object:
    """What `constrain` gets as u: the values alone, by name if there are several fields."""
    return values[0] if len(names) == 1 else Fields(dict(zip(names, values, strict=True)), "")


def closure(orders: Sequence[Order]) -> list[Order]:
    """These, and all that a product's derivatives of these orders need; the value first."""
    below = {
        lower for order in orders for lower in itertools.product(*(range(n + 1) for n in order))
    }
    return sorted(below, key=_place)


def _place(order: Order) -> tuple[int, tuple[int, ...]]:
    """As the library sorts them: u, u_x, u_y, u_xx, u_xy, u_yy."""
    return sum(order), tuple(-n for n in order)


def constrained(
    constrain: Callable[[jax.Array, Sequence[jax.Array]], Sequence[jax.Array]],
    point: jax.Array,
    jets: jax.Array,
    given: Sequence[Order],
    wanted: Sequence[Order],
) -> jax.Array:
    """Derivatives of x -> constrain(x, u(x)) from those of u.

    Exact: those of constrain(x + d, P(d)) at d = 0, where P is the Taylor polynomial of u, which
    has the derivatives of u as far as they are used.

    Args:
        constrain: From a point (dimensions,) and the value of each field to a value for each.
        point: (dimensions,).
        jets: (fields, given): derivatives of u.
        given: Their orders, closed as `closure` does it.
        wanted: Orders of the result.

    Returns:
        (fields, wanted).
    """

    def at(shift: jax.Array) -> jax.Array:
        factors = jnp.stack(
            [
                math.prod(
                    (shift[a] ** n for a, n in enumerate(order) if n), start=1.0 + 0 * point[0]
                )
                / math.prod(map(math.factorial, order))
                for order in given
            ]
        )
        return jnp.stack(list(constrain(point + shift, list(jets @ factors))))

    # Not a constant: inside of a shard_map the derivative with respect to one is summed over the
    # devices.
    origin = 0 * point
    return jnp.stack([derivative(at, order)(origin) for order in wanted], 1)


def derivative(
    function: Callable[[jax.Array], jax.Array], order: Order
) -> Callable[[jax.Array], jax.Array]:
    """The derivative of a function of a point, (dimensions,)."""
    for axis, times in enumerate(order):
        for _ in range(times):
            function = _along(function, axis)
    return function


def _along(
    function: Callable[[jax.Array], jax.Array], axis: int
) -> Callable[[jax.Array], jax.Array]:
    def derivative(shift: jax.Array) -> jax.Array:
        return jax.jvp(function, (shift,), ((0 * shift).at[axis].set(1),))[1]

    return derivative
