"""What training will need, and what it leaves."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
import numpy as np

from shardsolve import _library
from shardsolve._records import VERDICT_WORDS, Status
from shardsolve.fbpinn._call import OwnUnits, padded, raise_for
from shardsolve.fbpinn._coefficients import Grid1D
from shardsolve.fbpinn._equations import Equations, on_cpu
from shardsolve.fbpinn._jet import Order, Point, closure
from shardsolve.fbpinn._net import Mlp


@dataclass(frozen=True)
class Descent:
    """How `LevenbergMarquardt` went.

    Attributes:
        steps: That made the loss smaller.
        ended: "gradient", "step" (or no step made the loss smaller) or "limit".
        gradient: The largest cosine of a column of the Jacobian with the residual, at the last one.
        damping: At the end.
        in_samples: Whether steps solved equations of the samples.
        losses: Before and after each step.
    """

    steps: int
    ended: str
    gradient: float
    damping: float
    in_samples: bool
    losses: list[float]


@dataclass(frozen=True)
class Cost:
    """What one way to factor the Gram matrix takes.

    Attributes:
        flops: Floating-point operations.
        bytes: At the peak.
        largest: Columns of the largest dense block, or of the band.
    """

    flops: float
    bytes: float
    largest: int


@dataclass(frozen=True)
class Plan:
    """What training by least squares will need, known before.

    Attributes:
        boxes, points: How many there are.
        pairs: Of a point and a box around it.
        rows, columns: Of the least-squares problem.
        bytes: At the peak.
        costs: Of the factorisation, by "dense", "band" and "nested_dissection". The last is taken,
            if there is room for it.
        gpu_bytes: What each of so many GPUs needs at least, by their number.
        is_by_gradients: There is not, so that conjugate gradients are taken.
        text: All of this for people.
    """

    boxes: int
    points: int
    pairs: int
    rows: int
    columns: int
    bytes: float
    costs: dict[str, Cost]
    gpu_bytes: dict[int, float]
    is_by_gradients: bool
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Outcome:
    """How training ended.

    Attributes:
        status: OK, NOT_CONVERGED (Gauss-Newton did not come to an end) or NOT_POSITIVE_DEFINITE
            (the Gram matrix could not be factored).
        loss: At the end.
        losses: Before each step, and at the end.
        is_linear: One solve was all there was to do.
        rows, columns: Of the least-squares problem; columns before small ones were left out.
        ranks: Columns that were kept of each box, in the last solve.
        coefficients_determined: Of the numbers of unknown coefficients, those that equations and
            data determine, in the last solve; the others stayed as they were.
        certificate: ||A^T r|| / (||A|| ||r||) of the last linear problem, the columns of each box
            orthonormal: how near to least it is; rounding alone gives about 1e-16.
        condition: Of those columns, an estimate from below.
        refinements: Of the last solve.
        gradient_steps: Of conjugate gradients in the last solve.
        is_by_gradients: There was no factor, and no estimate of the condition.
        shift: What was added to the diagonal of the Gram matrix.
        costs: Of the factorisation, as in `Plan`.
        seconds: By part: "geometry", "residual", "rows", "factor", "solve".
        warnings: Sentences with figures.
        descent: Of `LevenbergMarquardt`; None of `LeastSquares`.
    """

    status: Status
    loss: float
    losses: list[float]
    is_linear: bool
    rows: int
    columns: int
    ranks: list[int]
    coefficients_determined: int
    certificate: float
    condition: float
    refinements: int
    gradient_steps: int
    is_by_gradients: bool
    shift: float
    costs: dict[str, Cost]
    seconds: dict[str, float]
    warnings: list[str]
    descent: Descent | None = None

    @property
    def ok(self) -> bool:
        """Whether the loss is least, as far as rounding lets it be."""
        return self.status == Status.OK

    def __str__(self) -> str:
        steps = len(self.losses) - 1
        done = f"{steps} solve{'' if steps == 1 else 's'}"
        if self.descent is not None:
            done = f"{self.descent.steps} steps, ended by {self.descent.ended},"
        return (
            f"{self.status.name.lower()}: loss {self.loss:.3e} after {done} of {self.rows} x "
            f"{self.columns}, {sum(self.ranks)} "
            f"columns kept, condition at least {self.condition:.1e}, certificate "
            f"{self.certificate:.1e}, {sum(self.seconds.values()):.2f} s"
            + "".join(f"\n  {warning}" for warning in self.warnings)
        )


class Run:
    """A solution.

    Attributes:
        problem: What was solved.
        outcome: How well.
        coefficients: What was found of each, by name: a float of a `Scalar`, (nodes,) of a
            `Grid1D`.
    """

    def __init__(
        self,
        problem: Equations,
        outcome: Outcome,
        networks: ctypes.c_void_p,
        coefficients: np.ndarray,
        own: OwnUnits | None,
    ):
        self._own = own
        self.problem, self.outcome, self._networks = problem, outcome, networks
        self.coefficients: dict[str, float | np.ndarray] = {
            name: coefficients[place]
            if isinstance(problem.unknown.given[name], Grid1D)
            else float(coefficients[place][0])
            for name, place in problem.unknown.places.items()
        }
        weakref.finalize(self, _library.library().shardsolve_free_networks, networks)

    def evaluate(
        self, points: np.ndarray, derivative: str = "v", *, chunk: int = 25_000
    ) -> np.ndarray:
        """The solution, or a derivative of it, at points inside of the boxes.

        Args:
            points: (points, dimensions), or (points,) along one axis.
            derivative: "v" for the value, "x", "xt", ... for others.
            chunk: How many points at a time; memory is in proportion to it.

        Returns:
            (points,), float64, or (points, fields) if there are several.
        """
        wanted = self.problem.axes.order(derivative, "u")
        given = np.asarray(points, np.float64)
        given = given[:, None] if given.ndim == 1 and self.problem.boxes.dimensions == 1 else given
        if given.ndim != 2 or given.shape[1] != self.problem.boxes.dimensions:
            raise ValueError(
                f"points of shape {np.shape(points)} given: (points, "
                f"{self.problem.boxes.dimensions}) is accepted"
            )
        if chunk < 1:
            raise ValueError(f"chunk={chunk} given; at least 1 is accepted")
        orders = [wanted] if self.problem.constrain is None else closure([wanted])
        result = np.empty((len(given), len(self.problem.fields)))
        compiled = jax.jit(
            jax.vmap(lambda point, jets: self.problem.solution(point, jets, [wanted], orders)[:, 0])
        )
        kept = closure(orders)
        places = [kept.index(order) for order in orders]
        with on_cpu():
            for first in range(0, len(given), chunk):
                part = given[first : first + chunk]
                jets = self._jets(part, kept)[:, :, places]
                result[first : first + chunk] = padded(compiled, len(part), part, jets)[0]
        return result[:, 0] if len(self.problem.fields) == 1 else result

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
        if points is None:
            if boxes.counts is None or not callable(reference):
                raise ValueError(
                    "pass points=: there is a grid of its own only for boxes with counts and a "
                    "reference that is a function"
                )
            points = boxes.grid([6 * n for n in boxes.counts])
        u = self.evaluate(points).reshape(len(points), -1)
        true = self.problem.values(reference, points) if callable(reference) else reference
        true = np.asarray(true, np.float64).reshape(len(points), -1)
        if true.shape != u.shape:
            raise ValueError(f"the reference has shape {true.shape}; {u.shape} is accepted")
        return float(np.mean(np.abs(u - true)) / np.std(true))

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
            each unit, then its biases; none of a `Net`. Of the last layer,
            (boxes, fields, units + 1): the constant last.
        """
        problem = self.problem
        net, boxes = problem.net, problem.boxes
        of_box = net.weights(boxes.dimensions) if isinstance(net, Mlp) else 0
        hidden = np.empty((boxes.count, of_box))
        last = np.empty((boxes.count, len(problem.fields), problem.units + 1))
        _library.library().shardsolve_weights_of_networks(
            self._networks,
            hidden.ctypes.data_as(ctypes.c_void_p),
            last.ctypes.data_as(ctypes.c_void_p),
        )
        return hidden, last
