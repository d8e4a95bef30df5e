"""What a problem consists of: boxes, networks, the user's equations at given jets."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shardsolve.fbpinn._boxes import Boxes
from shardsolve.fbpinn._coefficients import Coefficients, Grid1D, Scalar, Unknown
from shardsolve.fbpinn._jet import (
    Axes,
    Order,
    Point,
    closure,
    constrained,
    fields_of,
    values_of,
)
from shardsolve.fbpinn._net import Mlp, Net
from shardsolve.fbpinn._terms import Boundary, Data, Interior

Term = Interior | Boundary | Data
_FORWARD = 8  # numbers of coefficients up to which all are differentiated by in forward mode

Constrain = Callable[[Point, object], Any]


@dataclass(frozen=True)
class Prepared:
    """A term whose function has been traced.

    Attributes:
        name: What messages call it.
        points: (points, dimensions).
        values: (points, equations): what is subtracted from the function.
        equations: How many numbers the function gives at a point.
        weight: Multiplies the residual.
        is_measured: Whether the values are measured ones, which are known at the points only.
        order: Of the highest derivative of u that it reads; -1 if it reads coefficients alone.
        residual: (dimensions,), (fields, orders of the problem), (numbers of coefficients,) ->
            (equations,), traceable.
    """

    name: str
    points: np.ndarray
    values: np.ndarray
    equations: int
    weight: float
    is_measured: bool
    order: int
    residual: Callable[[jax.Array, jax.Array, jax.Array], jax.Array]

    @functools.cached_property
    def residuals(self) -> Callable[[jax.Array, jax.Array, jax.Array], jax.Array]:
        """(points, dimensions), (points, fields, orders), (numbers,) to (points, equations).

        Compiled.
        """
        return jax.jit(jax.vmap(self.residual, (0, 0, None)))

    def linearise(
        self, point: jax.Array, jets: jax.Array, coefficients: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """The residual at a point, and its derivatives.

        By the jets, (equations, fields, orders), and by the coefficients, (equations, numbers).
        """

        def residual(jets: jax.Array) -> tuple[jax.Array, jax.Array]:
            value = self.residual(point, jets, coefficients)
            return value, value

        derivatives, value = jax.jacfwd(residual, has_aux=True)(jets)
        if coefficients.size == 0:
            return value, derivatives, jnp.zeros((self.equations, 0), value.dtype)
        jacobian = jax.jacfwd if coefficients.size <= _FORWARD else jax.jacrev
        by_coefficients = jacobian(lambda c: self.residual(point, jets, c))(coefficients)
        return value, derivatives, by_coefficients

    @functools.cached_property
    def linearised(self) -> Callable[..., tuple[jax.Array, jax.Array, jax.Array]]:
        """The same of many points, as `residuals`. Compiled."""
        return jax.jit(jax.vmap(self.linearise, (0, 0, None)))


class Equations:
    """Equations for one or several fields over boxes; `Problem` without its solution."""

    def __init__(
        self,
        boxes: Boxes,
        *,
        axes: str,
        terms: Sequence[Term],
        fields: str = "u",
        net: Mlp | Net | None = None,
        constrain: Constrain | None = None,
        coefficients: Mapping[str, Scalar | Grid1D] | None = None,
        seed: int = 0,
    ):
        """Traces the functions once, to see what they read.

        Args:
            boxes: Where the networks are.
            axes: Names of the coordinates, a letter each: "x t".
            terms: What is to vanish where: `Interior`, `Boundary`, `Data`.
            fields: Names of the unknown fields: "u", or "p q".
            net: The networks, alike in all boxes, `Mlp` or your own `Net`; by default `Mlp([16])`.
            constrain: From a point and the value of u to the value that the solution has there,
                such as lambda x, u: x.t**2 * u, so that conditions hold exactly. Of several fields
                it gets u.p, u.q and returns (p, q). It applies to the sum of the networks.
            coefficients: Unknown numbers and functions, `Scalar` and `Grid1D` by name. Residuals
                take them from a third argument: c.name, c.name(x.z).
            seed: Of the weights that are not trained.
        """
        if not isinstance(boxes, Boxes):
            raise TypeError(f"boxes is {type(boxes).__name__}: pass shardsolve.fbpinn.Boxes")
        self.boxes = boxes
        self.axes = Axes(axes, boxes.dimensions)
        self.fields = fields.split()
        if not self.fields or len(set(self.fields)) != len(self.fields):
            raise ValueError(
                f"fields={fields!r} given: different names with spaces between them are accepted"
            )
        self.net = Mlp([16]) if net is None else net
        if not isinstance(self.net, (Mlp, Net)):
            raise TypeError(
                f"net is {type(net).__name__}: Mlp is accepted, or Net(features, init) for a "
                "network of your own"
            )
        if isinstance(self.net, Net):
            self.units = self.net.units(boxes.dimensions)
        else:
            self.units = self.net.widths[-1]
        self.constrain = constrain
        if not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**64:
            raise ValueError(f"seed={seed!r} given: a whole number from 0 on is accepted")
        self.seed = seed
        self.unknown = Unknown(coefficients, boxes, self.axes)
        if constrain is not None:
            point = jax.ShapeDtypeStruct((boxes.dimensions,), np.float64)
            values = [jax.ShapeDtypeStruct((), np.float64)] * len(self.fields)
            jax.eval_shape(self._constrain, point, values)
        if not terms:
            raise ValueError("terms=[] given: pass at least one Interior, Boundary or Data")
        for number, term in enumerate(terms):
            if not isinstance(term, Term):
                raise TypeError(
                    f"terms[{number}] is {type(term).__name__}: Interior, Boundary and Data are "
                    "accepted"
                )
        names = [f"terms[{number}], {type(term).__name__}" for number, term in enumerate(terms)]
        traced = [self._trace(name, term) for name, term in zip(names, terms, strict=True)]
        self.unknown.require_all_read()
        self.orders = closure(
            [(0,) * boxes.dimensions, *(order for wanted, _ in traced for order in wanted)]
        )
        self.prepared = [
            self._prepare(name, term, wanted, equations)
            for name, term, (wanted, equations) in zip(names, terms, traced, strict=True)
        ]

    def values(self, function: Callable[[Point], Any], points: np.ndarray) -> np.ndarray:
        """A function of a point x, any JAX code, such as a known solution, at many points.

        Args:
            function: Gives a number, or several in a tuple.
            points: (points, dimensions), or (points,) along one axis.

        Returns:
            (points,), float64, or (points, several).
        """

        def at(point: jax.Array) -> jax.Array:
            value = function(Point(self.axes, point))
            return jnp.stack(list(value)) if isinstance(value, (tuple, list)) else value

        given = np.asarray(points, np.float64).reshape(len(points), self.boxes.dimensions)
        with on_cpu():
            return np.asarray(jax.jit(jax.vmap(at))(given), np.float64)

    def solution(
        self,
        point: jax.Array,
        jets: jax.Array,
        wanted: Sequence[Order],
        given: Sequence[Order] | None = None,
    ) -> jax.Array:
        """Derivatives of the solution at a point from those of the sum of the networks.

        Args:
            point: (dimensions,).
            jets: (fields, given).
            wanted: Orders among those given.
            given: By default those of the problem.

        Returns:
            (fields, wanted).
        """
        given = self.orders if given is None else given
        if self.constrain is None:
            return jets[:, jnp.asarray([given.index(order) for order in wanted])]
        return constrained(self._constrain, point, jets, given, wanted)

    def _constrain(self, point: jax.Array, values: Sequence[jax.Array]) -> Sequence[jax.Array]:
        assert self.constrain is not None
        given = self.constrain(Point(self.axes, point), values_of(self.fields, values))
        result = list(given) if isinstance(given, (tuple, list)) else [given]
        if len(result) != len(self.fields) or any(jnp.shape(one) != () for one in result):
            raise ValueError(
                f"constrain returned {_described(given)}: a number for each of the fields "
                f"{' '.join(self.fields)!r} is accepted"
            )
        return result

    def _call(
        self,
        name: str,
        term: Term,
        x: jax.Array,
        u: object,
        c: jax.Array,
    ) -> jax.Array:
        """What the user's function gives, (equations,)."""
        point = Point(self.axes, x)
        further = [Coefficients(self.unknown, point, c)] if _arguments(term) == 3 else []
        given = term.residual(point, u, *further)
        result = list(given) if isinstance(given, (tuple, list)) else [given]
        if not result or any(jnp.shape(one) != () for one in result):
            raise ValueError(
                f"{name}: the function returned {_described(given)} at one point; a number is "
                "accepted, or a tuple of numbers, one for each equation. It is called for one "
                "point at a time, so reduce nothing over points"
            )
        stacked = jnp.stack([jnp.asarray(one) for one in result])
        if stacked.dtype.kind != "f":
            raise TypeError(
                f"{name}: the function returned {stacked.dtype.name}; real floating-point numbers "
                "are accepted"
            )
        return stacked

    def _trace(self, name: str, term: Term) -> tuple[list[Order], int]:
        """The derivatives that a term reads, and how many equations it has."""
        read: set[Order] = set()
        every = self.axes.orders()

        def probe(x: jax.Array, jets: jax.Array, c: jax.Array) -> jax.Array:
            def get(field: int, order: Order) -> jax.Array:
                read.add(order)
                return jets[field, every.index(order)]

            return self._call(name, term, x, fields_of(self.axes, self.fields, get), c)

        if not callable(term.residual):
            raise TypeError(f"{name}: a function is accepted, not {type(term.residual).__name__}")
        needed = _arguments(term)
        if needed not in (2, 3) or (needed == 3 and not self.unknown.given):
            raise TypeError(
                f"{name}: the function needs {needed} arguments; it gets two, the point x and the "
                "jets u"
                + (", and c if it likes, the coefficients" if self.unknown.given else "")
                + ("" if needed != 3 else "; a third one, c, needs coefficients= of the problem")
            )
        shapes = [
            jax.ShapeDtypeStruct((self.boxes.dimensions,), np.float64),
            jax.ShapeDtypeStruct((len(self.fields), len(every)), np.float64),
            jax.ShapeDtypeStruct(self.unknown.start.shape, np.float64),
        ]
        others, self.unknown.read = self.unknown.read, set()
        result = jax.eval_shape(probe, *shapes)
        if not read and not self.unknown.read:
            raise ValueError(
                f"{name}: the function reads nothing of u and no coefficient, so nothing can be "
                "trained"
            )
        self.unknown.read |= others
        return sorted(read), result.shape[0]

    def _prepare(self, name: str, term: Term, wanted: list[Order], equations: int) -> Prepared:
        points = term.place(self.boxes, self.axes)
        values = np.zeros((len(points), equations))
        if isinstance(term, Data):
            given = np.asarray(term.values, np.float64)
            given = given[:, None] if given.ndim == 1 else given
            if given.shape != values.shape:
                raise ValueError(
                    f"{name}: values of shape {np.shape(term.values)} for {len(points)} points and "
                    f"{equations} numbers at each; {values.shape} is accepted"
                )
            values = given
        if not (np.isfinite(term.weight) and term.weight > 0):
            raise ValueError(f"{name}: weight={term.weight} given; a number above 0 is accepted")

        def residual(point: jax.Array, jets: jax.Array, coefficients: jax.Array) -> jax.Array:
            derivatives = self.solution(point, jets, wanted) if wanted else jets
            u = fields_of(
                self.axes,
                self.fields,
                lambda field, order: derivatives[field, wanted.index(order)],
            )
            return self._call(name, term, point, u, coefficients)

        return Prepared(
            name,
            points,
            values,
            equations,
            float(term.weight),
            isinstance(term, Data),
            max(map(sum, wanted), default=-1),
            residual,
        )


def _arguments(term: Term) -> int:
    """How many arguments the function needs."""
    parameters = inspect.signature(term.residual).parameters.values()
    return sum(p.default is p.empty and p.kind is not p.VAR_POSITIONAL for p in parameters)


def _described(given: Any) -> str:
    if isinstance(given, (tuple, list)):
        return f"{len(given)} results of shapes {[jnp.shape(one) for one in given]}"
    return f"an array of shape {jnp.shape(given)}"


def on_cpu() -> AbstractContextManager[object]:
    """Whose work it is to call the user's functions."""
    return jax.default_device(jax.local_devices(backend="cpu")[0])
