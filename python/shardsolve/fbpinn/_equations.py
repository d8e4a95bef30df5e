"""What a problem consists of: boxes, networks, the user's equations at given jets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from shardsolve.fbpinn._boxes import Boxes
from shardsolve.fbpinn._coefficients import Coefficient, Coefficients, Unknown
from shardsolve.fbpinn._functions import (
    arguments,
    explained,
    require_arguments,
    results,
    returned,
    shape_of,
)
from shardsolve.fbpinn._given import described, real, whole
from shardsolve.fbpinn._given import names as names_of
from shardsolve.fbpinn._jet import (
    Axes,
    NoNumber,
    Order,
    Point,
    closure,
    constrained,
    fields_of,
    values_of,
)
from shardsolve.fbpinn._net import Mlp, Net
from shardsolve.fbpinn._pickle import made_again, require_names
from shardsolve.fbpinn._prepared import Prepared, on_cpu
from shardsolve.fbpinn._terms import Boundary, Data, Interior, points_of

Term = Interior | Boundary | Data
_MOST_COMPILED = 32  # functions that a problem keeps for further calls

Constrain = Callable[[Point, object], Any]


class Equations:
    """Equations for one or several fields over boxes; `Problem` without its solution."""

    def __init__(
        self,
        boxes: Boxes,
        *,
        axes: str | Sequence[str],
        terms: Sequence[Term] | Term,
        fields: str | Sequence[str] = "u",
        net: Mlp | Net | None = None,
        constrain: Constrain | None = None,
        coefficients: Mapping[str, Coefficient] | None = None,
        seed: int = 0,
    ):
        """Traces the functions once, to see what they read.

        Args:
            boxes: Where the networks are.
            axes: Names of the coordinates, a letter each: "x t", or ["x", "t"].
            terms: What is to vanish where: `Interior`, `Boundary`, `Data`.
            fields: Names of the unknown fields: "u", or "p q", or ["p", "q"].
            net: The networks, alike in all boxes, `Mlp` or your own `Net`; by default `Mlp([16])`.
            constrain: From a point and the value of u to the value that the solution has there,
                such as lambda x, u: x.t**2 * u, so that conditions hold exactly. Of several fields
                it gets u.p, u.q and returns (p, q). It applies to the sum of the networks.
            coefficients: Unknown numbers and functions by name, `Scalar`, `Grid1D` and
                `NetFunction`. Residuals take them from a third argument: c.name, c.name(x.z).
            seed: Of the weights that are not trained.

        Raises:
            ValueError: If a value is not accepted.
            TypeError: If it is of a kind that is not, or a function needs other arguments.
            AttributeError: If a function reads what is not there.
        """
        if not isinstance(boxes, Boxes):
            raise TypeError(
                f"boxes={described(boxes)} given: pass shardsolve.fbpinn.Boxes(domain, counts)"
            )
        self.boxes = boxes
        self.axes = Axes(axes, boxes.dimensions)
        self.fields = _names_of_fields(fields)
        self.net = Mlp([16]) if net is None else net
        if not isinstance(self.net, (Mlp, Net)):
            raise TypeError(
                f"net={described(net)} given: Mlp is accepted, such as Mlp([16]), or "
                "Net(features, init) for a network of your own"
            )
        if isinstance(self.net, Net):
            self.net.require_boxes(boxes.count)
            self.units = self.net.units(boxes.dimensions)
        else:
            self.units = self.net.widths[-1]
        words = "a whole number from 0 to 2^63 - 1 is accepted"
        if not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**63:
            raise ValueError(f"seed={described(seed)} given: {words}")
        self.seed = seed
        self.unknown = Unknown(coefficients, boxes, self.axes)
        self.constrain = constrain
        if constrain is not None:
            self._require_constrain()
        terms = _terms(terms)
        self._given: dict[str, Any] = {
            "boxes": boxes,
            "axes": self.axes.names,
            "terms": terms,
            "fields": self.fields,
            "net": self.net,
            "constrain": constrain,
            "coefficients": self.unknown.given,
            "seed": seed,
        }
        self._compiled: dict[object, Any] = {}
        self.form = object()  # the same of all that `with_points` makes
        self._of_known_value: set[int] = set()  # fields whose values a term reads
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

    def with_points(self, points: Mapping[int, Any]) -> Self:
        """The same equations at other points: nothing is traced or compiled again.

        Args:
            points: What the points of a term are to be, by its number: as in `Interior` and
                `Boundary`; of a `Data` a pair of points and values. Other terms keep theirs.

        Raises:
            ValueError: If there is no such term, or points are not accepted.
            TypeError: If they are of another kind.
        """
        words = (
            f"points by the number of a term, 0 to {len(self.prepared) - 1}, are accepted, such as "
            "{0: points}"
        )
        if not isinstance(points, Mapping):
            raise TypeError(f"points={described(points)} given: {words}")
        terms, prepared = list(self._given["terms"]), list(self.prepared)
        for number, given in points.items():
            place = whole("points", number, words, 0, len(terms) - 1)
            term = terms[place] = terms[place].moved(given, self.boxes)
            found, values, _ = self._placed(prepared[place].name, term, prepared[place].equations)
            prepared[place] = replace(prepared[place], points=found, values=values)
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._given, other.prepared = {**self._given, "terms": terms}, prepared
        return other

    def __copy__(self) -> Self:  # it does not change
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Its arguments; it traces the functions again."""
        functions = {f"terms[{n}]": term.residual for n, term in enumerate(self._given["terms"])}
        if self.constrain is not None:
            functions["constrain"] = self.constrain
        if isinstance(self.net, Net):
            functions |= {"features": self.net.features, "init": self.net.init}
        require_names(functions)
        return made_again, (type(self), self._given)

    def values(self, function: Callable[[Point], Any], points: np.ndarray) -> np.ndarray:
        """A function of a point x, any JAX code, such as a known solution, at many points.

        Args:
            function: Gives a number, or several in a tuple.
            points: (points, dimensions), or (points,) along one axis.

        Returns:
            (points,), float64, or (points, several).
        """
        if not callable(function):
            raise TypeError(f"function={described(function)} given: a function of x is accepted")
        require_arguments(function, 1, "the function", "it gets one, the point x")

        def at(point: jax.Array) -> jax.Array:
            with explained("function"):
                value = function(Point(self.axes, point))
            if any(shape_of(one) != () for one in results(value)):
                raise ValueError(
                    f"the function returned {returned(value)} for one point: a number is accepted, "
                    "or a tuple of numbers"
                )
            return jnp.stack(list(value)) if isinstance(value, (tuple, list)) else value

        given = points_of("points", points, self.boxes)
        # Not compiled: kept for another call it would not see what the function reads elsewhere.
        with on_cpu():
            return np.asarray(jax.vmap(at)(jnp.asarray(given)), np.float64)

    def compiled(self, key: object, make: Callable[[], Any]) -> Any:
        """What `make` gave the first time, as JAX compiles a function that is made again anew."""
        if key not in self._compiled:
            if len(self._compiled) >= _MOST_COMPILED:
                self._compiled.pop(next(iter(self._compiled)))
            self._compiled[key] = make()
        return self._compiled[key]

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
        with explained("constrain"):
            given = self.constrain(Point(self.axes, point), values_of(self.fields, values))
        result = results(given)
        if len(result) != len(self.fields) or any(shape_of(one) != () for one in result):
            raise ValueError(
                f"constrain returned {returned(given)}: a number for each of the fields "
                f"{' '.join(self.fields)!r} is accepted"
            )
        return result

    def _require_constrain(self) -> None:
        if not callable(self.constrain):
            raise TypeError(
                f"constrain={described(self.constrain)} given: a function of a point x and of the "
                "value of u is accepted, such as lambda x, u: x.t * u"
            )
        words = "it gets two, the point x and the value of u there"
        require_arguments(self.constrain, 2, "constrain: the function", words)
        point = jax.ShapeDtypeStruct((self.boxes.dimensions,), np.float64)
        values = [jax.ShapeDtypeStruct((), np.float64)] * len(self.fields)
        try:
            jax.eval_shape(self._constrain, point, values)
        except AttributeError as error:
            read = re.search(r"Tracer'?(?: object)? has no attribute '?(\w+)", str(error))
            if read is None:
                raise
            wanted = "u" if len(self.fields) == 1 else f"u.{self.fields[0]}"
            raise AttributeError(
                f"constrain read .{read[1]} of a number: it gets the value of u itself, and JAX "
                f"makes derivatives of what it returns; write {wanted}, not {wanted}.{read[1]}"
            ) from error

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
        with explained(name):
            given = term.residual(point, u, *further)
        result = results(given)
        for one in result:
            if isinstance(one, NoNumber):
                raise TypeError(f"{name}: the function returned what is no number: {one}")
        if not result or any(shape_of(one) != () for one in result):
            raise ValueError(
                f"{name}: the function returned {returned(given)} at one point; a number is "
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
                if sum(order) == 0:
                    self._of_known_value.add(field)
                return jets[field, every.index(order)]

            return self._call(name, term, x, fields_of(self.axes, self.fields, get), c)

        if not callable(term.residual):
            raise TypeError(
                f"{name}: {described(term.residual)} given where a function is accepted, "
                "residual(x, u)"
            )
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

    def warnings(self) -> list[str]:
        """What the functions say of the solution before it is there."""
        if self.constrain is not None:
            return []
        names = [f for at, f in enumerate(self.fields) if at not in self._of_known_value]
        return [
            f"no term reads {name}.v, only derivatives of it: {name} is determined up to a "
            f"constant at most, and this is one of many; a term that reads {name}.v holds it, at "
            "one point or its mean"
            for name in names
        ]

    def _placed(
        self, name: str, term: Term, equations: int
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Its points, values and weight."""
        try:
            points = term.place(self.boxes, self.axes)
            values = np.zeros((len(points), equations))
            if isinstance(term, Data):
                values = term.measured_values(len(points), equations)
            weight = real(
                "weight",
                term.weight,
                "a number above 0 is accepted",
                lambda weight: np.isfinite(weight) and weight > 0,
            )
        except (ValueError, TypeError) as error:
            raise type(error)(f"{name}: {error}") from None
        return points, values, weight

    def _prepare(self, name: str, term: Term, wanted: list[Order], equations: int) -> Prepared:
        points, values, weight = self._placed(name, term, equations)

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
            weight,
            isinstance(term, Data),
            max(map(sum, wanted), default=-1),
            residual,
        )


def _arguments(term: Term) -> int:
    """How many arguments the function gets, as it needs so many."""
    needed = arguments(term.residual)
    return 2 if needed is None else needed


def _names_of_fields(given: str | Sequence[str]) -> list[str]:
    words = (
        "different names with spaces between them are accepted, or a list of them; names that can "
        "follow u. and begin with a letter"
    )
    found = names_of("fields", given, words)
    is_good = [name.isidentifier() and not name.startswith("_") for name in found]
    if not found or len(set(found)) != len(found) or not all(is_good):
        raise ValueError(f"fields={given!r} given: {words}")
    return found


def _terms(given: Any) -> list[Term]:
    words = "Interior, Boundary and Data are accepted"
    if isinstance(given, Term):
        return [given]
    if not isinstance(given, Iterable) or isinstance(given, (str, bytes, Mapping)):
        raise TypeError(f"terms={described(given)} given: a list of terms; {words}")
    found = list(given)
    if not found:
        raise ValueError("terms=[] given: pass at least one Interior, Boundary or Data")
    for number, term in enumerate(found):
        if not isinstance(term, Term):
            raise TypeError(f"terms[{number}] is {described(term)}: {words}")
    return found
