"""Networks that are trained, and what can be asked of them."""

from __future__ import annotations

import ctypes
import functools
import os
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

import jax
import numpy as np

from shardsolve import _library
from shardsolve._records import VERDICT_WORDS
from shardsolve.fbpinn._call import Given, OwnUnits, padded, raise_for
from shardsolve.fbpinn._coefficients import Scalar, slopes_of, values_of
from shardsolve.fbpinn._equations import Equations
from shardsolve.fbpinn._given import array, described, whole
from shardsolve.fbpinn._jet import Order, Point, closure
from shardsolve.fbpinn._net import Mlp
from shardsolve.fbpinn._outcome import Outcome
from shardsolve.fbpinn._prepared import on_cpu
from shardsolve.fbpinn._terms import points_of

if TYPE_CHECKING:
    from shardsolve.fbpinn._progress import GradientOutcome
    from shardsolve.fbpinn._solution import Solution


class Networks:
    """Networks in the boxes of a problem, whose sum is a solution.

    Attributes:
        problem: What they are to solve.
        coefficients: By name: a float of a `Scalar`, (nodes,) of a `Grid1D`, the weights of a
            `NetFunction`.
        coefficient_numbers: Of all, one behind the other, as they are trained: of positive ones
            1 + log(value / init).
    """

    def __init__(
        self,
        problem: Equations,
        networks: ctypes.c_void_p,
        coefficients: np.ndarray,
        own: OwnUnits | None,
    ):
        self._own = own
        self.problem, self._networks = problem, networks
        self.coefficient_numbers = coefficients
        self.coefficients: dict[str, float | np.ndarray] = {
            name: self._by_kind(name, values_of(problem.unknown.given[name], coefficients[place]))
            for name, place in problem.unknown.places.items()
        }
        weakref.finalize(self, _library.library().shardsolve_free_networks, networks)

    @classmethod
    def of(
        cls,
        problem: Equations,
        hidden: np.ndarray | None,
        last: np.ndarray,
        coefficients: np.ndarray,
        net_parameters: Any,
    ) -> Networks:
        """From weights as `weights` gives them, and of a `Net` its parameters.

        Args:
            problem: What they are to solve.
            hidden: (boxes, numbers of a box); of a `Net` it is not read.
            last: (boxes, fields, units + 1).
            coefficients: (numbers of all coefficients,).
            net_parameters: Of a `Net` its tree, each array (boxes, ...); None of an `Mlp`.

        Raises:
            ValueError: If an array has another shape, or is not finite.
            TypeError: If it is not of numbers, or `problem` is no `Problem`.
        """
        if not isinstance(problem, Equations):
            raise TypeError(f"problem={described(problem)} given: a Problem is accepted")
        kept = _arrays(problem, hidden, last, coefficients, net_parameters)
        for name, values in kept.items():
            if not np.isfinite(values).all():
                raise ValueError(
                    f"{name} has numbers that are not finite: finite ones are accepted"
                )
        return cls(problem, *_made(problem, hidden, last, coefficients, net_parameters))

    def _by_kind(self, name: str, values: np.ndarray) -> float | np.ndarray:
        is_one = isinstance(self.problem.unknown.given[name], Scalar)
        return float(values[0]) if is_one else values

    def coefficient(self, name: str, points: np.ndarray) -> np.ndarray:
        """An unknown function, `Grid1D` or `NetFunction`, at points.

        Args:
            name: Of the coefficient.
            points: (points, variables); of one variable (points,) does.

        Returns:
            (points,), float64.
        """
        with on_cpu():
            return self.problem.unknown.values(name, self.coefficient_numbers, points)

    def __copy__(self) -> Self:  # it does not change
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Its problem and its weights; what is made of them evaluates on the CPU."""
        return Networks.of, self._parts()

    def _parts(self) -> tuple[Any, ...]:
        """As `of` takes them."""
        hidden, last = self.weights()
        net_parameters = jax.tree.map(np.asarray, self.net_parameters())
        return self.problem, hidden, last, self.coefficient_numbers, net_parameters

    @functools.cached_property
    def u(self) -> Solution:
        """The solution as a JAX function of a point, for jit, grad and vmap.

        To be used in other problems, too: in residuals, in `constrain`. See `Solution`.
        """
        from shardsolve.fbpinn._solution import Solution

        return Solution(self.problem, self._parts()[1:])

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes weights, coefficients and outcome to one file, whole or not at all.

        The functions are not in there; `load(path, problem)` looks whether they are the same.

        Args:
            path: Of the file.
            overwrite: Whether it may replace a file.

        Raises:
            FileExistsError: If there is one.
            OSError: If it cannot be written; what was there is as it was.
        """
        from shardsolve.fbpinn._files import save

        save(self, path, overwrite)

    def evaluate(
        self, points: np.ndarray, derivative: str = "v", *, chunk: int = 25_000
    ) -> np.ndarray:
        """The solution, or a derivative of it, at points of the domain.

        Args:
            points: (points, dimensions), or (points,) along one axis. Boxes stick out of the
                domain, but nothing says what the networks are there: points outside of it and of
                all points of the training are refused with a ValueError.
            derivative: "v" for the value, "x", "xt", ... for others.
            chunk: How many points at a time; memory is in proportion to it.

        Returns:
            (points,), float64, or (points, fields) if there are several.
        """
        problem = self.problem
        wanted = problem.axes.named("derivative", derivative)
        given = points_of("points", points, problem.boxes, least=0)
        chunk = whole("chunk", chunk, "a whole number from 1 on is accepted")
        result = np.empty((len(given), len(problem.fields)))
        kept = closure([wanted])
        compiled = None
        if problem.constrain is not None:
            compiled = problem.compiled(
                ("solution", wanted),
                lambda: jax.jit(
                    jax.vmap(
                        lambda point, jets: problem.solution(point, jets, [wanted], kept)[:, 0]
                    )
                ),
            )
        with on_cpu():
            for first in range(0, len(given), chunk):
                part = given[first : first + chunk]
                jets = self._jets(part, kept)
                u = jets[:, :, kept.index(wanted)]
                if compiled is not None:
                    (u,) = padded(compiled, len(part), part, jets)
                result[first : first + chunk] = u
        return result[:, 0] if len(problem.fields) == 1 else result

    def error(
        self,
        reference: Callable[[Point], jax.Array] | np.ndarray,
        points: np.ndarray | None = None,
    ) -> float:
        """Mean |u - reference| / standard deviation of the reference, on other points.

        Args:
            reference: The true solution at a point x, any JAX code, as in a residual; or its values
                at `points`, (points,), or (points, fields).
            points: (points, dimensions); by default a grid with six points a box along each axis.
        """
        boxes = self.problem.boxes
        if callable(points):
            raise TypeError(f"points={described(points)} given: the reference comes first")
        if points is None:
            if boxes.counts is None or not callable(reference):
                raise ValueError(
                    "pass points=: there is a grid of its own only for boxes with counts and a "
                    "reference that is a function"
                )
            points = boxes.grid([6 * n for n in boxes.counts])
        u = self.evaluate(points)
        true = self.problem.values(reference, points) if callable(reference) else reference
        words = f"values at the points are accepted, {u.shape}, or a function of a point x"
        true = array("reference", true, words)
        true = true[:, 0] if true.shape == (len(u), 1) else true
        if true.shape != u.shape:
            raise ValueError(f"reference of shape {true.shape} given: {words}")
        spread = np.std(true)
        if len(u) == 0 or spread == 0:
            raise ValueError(
                f"the reference is the same at all {len(u)} points, and the error is in units of "
                "its standard deviation: one that changes is accepted; or take the difference"
            )
        return float(np.mean(np.abs(u - true)) / spread)

    def _jets(self, points: np.ndarray, orders: Sequence[Order]) -> np.ndarray:
        """Of the networks' sum: (points, fields, orders)."""
        points = np.ascontiguousarray(points)
        wanted = np.array(orders, np.uint8)
        jets = np.empty((len(points), len(self.problem.fields), len(orders)))
        verdict = np.zeros(VERDICT_WORDS, np.int32)
        _library.library().shardsolve_evaluate_networks(
            self._networks,
            ctypes.c_int64(len(orders)),
            wanted.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_int64(len(points)),
            points.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_int64(max(len(points), 1)),
            jets.ctypes.data_as(ctypes.c_void_p),
            verdict.ctypes.data_as(ctypes.c_void_p),
        )
        if self._own is not None and self._own.raised:
            raise self._own.raised.pop()
        raise_for(verdict)
        return jets

    def weights(self) -> tuple[np.ndarray, np.ndarray]:
        """Those of all networks.

        Returns:
            Of the hidden layers, (boxes, numbers of a box): of each layer its matrix, a row for
            each unit, then its biases; of a `Net` its floating-point parameters. Of the last layer,
            (boxes, fields, units + 1): the constant last.
        """
        problem, boxes = self.problem, self.problem.boxes
        own: Any = self._own  # there with a Net
        of_box = (
            problem.net.weights(boxes.dimensions)
            if isinstance(problem.net, Mlp)
            else own.net.start.shape[1]
        )
        hidden = np.empty((boxes.count, of_box))
        last = np.empty((boxes.count, len(problem.fields), problem.units + 1))
        _library.library().shardsolve_weights_of_networks(
            self._networks,
            hidden.ctypes.data_as(ctypes.c_void_p),
            last.ctypes.data_as(ctypes.c_void_p),
        )
        return hidden, last

    def net_parameters(self) -> Any:
        """Of a `Net`: its tree, each array (boxes, ...); None of an `Mlp`."""
        return None if self._own is None else self._own.net.tree(self.weights()[0])


class Run(Networks):
    """A solution that training has found.

    Attributes:
        outcome: How well.
        coefficient_deviations: Standard deviations by name, as `coefficients`: see
            `Outcome.coefficient_deviations`.
    """

    def __init__(
        self,
        problem: Equations,
        outcome: Outcome | GradientOutcome,
        networks: ctypes.c_void_p,
        coefficients: np.ndarray,
        own: OwnUnits | None,
    ):
        super().__init__(problem, networks, coefficients, own)
        self.outcome = outcome
        deviations = np.array(outcome.coefficient_deviations)
        self.coefficient_deviations: dict[str, float | np.ndarray] = {
            name: self._by_kind(
                name,
                deviations[place] * slopes_of(problem.unknown.given[name], coefficients[place]),
            )
            for name, place in problem.unknown.places.items()
            if len(deviations) > 0
        }

    def plot(self) -> Any:
        """A figure of matplotlib: subdomains, the solution, its residual, and how it was trained.

        Along more than two axes: a cut through the middle of the others.

        Raises:
            ImportError: If matplotlib is not there.
        """
        from shardsolve.fbpinn._plot import plot

        return plot(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return Run._again, (self.outcome, *self._parts())

    @staticmethod
    def _again(outcome: Any, problem: Equations, *parts: Any) -> Run:
        networks, numbers, own = _made(problem, *parts)
        return Run(problem, outcome, networks, numbers, own)


def _made(
    problem: Equations,
    hidden: np.ndarray | None,
    last: np.ndarray,
    coefficients: np.ndarray,
    net_parameters: Any,
) -> tuple[ctypes.c_void_p, np.ndarray, OwnUnits | None]:
    """Networks of these weights, which are to be freed."""
    arrays = _arrays(problem, hidden, last, coefficients, net_parameters)
    with Given(problem, net_parameters) as given:
        networks = given.networks(arrays.get("hidden"), arrays["last"], arrays["coefficients"])
    return networks, arrays["coefficients"], given.own


def _arrays(
    problem: Equations, hidden: Any, last: Any, coefficients: Any, net_parameters: Any
) -> dict[str, np.ndarray]:
    """By name, as float64, of the shapes that the problem has, as the library reads so many."""
    boxes = problem.boxes.count
    wanted = {
        "last": (last, (boxes, len(problem.fields), problem.units + 1)),
        "coefficients": (coefficients, problem.unknown.start.shape),
    }
    if isinstance(problem.net, Mlp):
        wanted["hidden"] = (hidden, (boxes, problem.net.weights(problem.boxes.dimensions)))
    elif net_parameters is None:
        raise ValueError("net_parameters=None given: of a Net its tree of parameters is accepted")
    else:
        for path, leaf in jax.tree_util.tree_leaves_with_path(net_parameters):
            if np.shape(leaf)[:1] != (boxes,):
                raise ValueError(
                    f"net_parameters{jax.tree_util.keystr(path)} has the shape {np.shape(leaf)}: "
                    f"({boxes}, ...) is accepted, as there are {boxes} boxes"
                )
    found = {}
    for name, (given, shape) in wanted.items():
        words = f"{shape} is accepted, as `weights` gives them"
        found[name] = array(name, given, words)
        if found[name].shape != shape:
            raise ValueError(f"{name} of shape {found[name].shape} given: {words}")
    return found
