"""Training by least squares, and what it leaves."""

from __future__ import annotations

import ctypes
import json
import os
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
import numpy as np
from jax.sharding import Mesh

from shardsolve import _library
from shardsolve._records import VERDICT_WORDS, Status, raise_if_failed
from shardsolve.fbpinn._coefficients import Grid1D
from shardsolve.fbpinn._equations import Equations, Prepared, on_cpu
from shardsolve.fbpinn._jet import Order, Point, closure
from shardsolve.fbpinn._net import ACTIVATIONS, Mlp, Net, UnitJets

_DOUBLES = ctypes.POINTER(ctypes.c_double)
_LINEARISE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64, *[_DOUBLES] * 6)
_BYTES = ctypes.POINTER(ctypes.c_uint8)
_UNIT_JETS = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int64, _BYTES, ctypes.c_int64, ctypes.c_int64, _DOUBLES, _DOUBLES
)
_FEWEST = 64  # points that a compiled function is called with


METHODS = ("automatic", "factor", "gradients")  # as fbpinn::LinearMethod


@dataclass(frozen=True)
class LeastSquares:
    """Hidden layers stay as they are, and the last ones make the loss least.

    The loss is the sum over the terms of weight^2 times the mean of the squared residual. If the
    residual is linear in u that is one linear problem, otherwise several by Gauss-Newton with a
    line search. Each box's columns are made orthonormal, their Gram matrix is factored by blocks in
    an order that keeps it sparse, and the solution is refined.

    Attributes:
        max_iterations: Linear problems at most.
        tolerance: It ends when a step changes the residual by less than this share of it.
        rank_tolerance: Columns of a box that are smaller than this beside its largest are left out.
            Unknown coefficients and steps that lead nowhere make it larger by themselves.
        method: "factor" solves linear problems by a factor of the Gram matrix, "gradients" by
            conjugate gradients, whose memory is that of the columns alone; "automatic" takes these
            if the factor has not the room (`Plan.is_by_gradients`).
        gradient_tolerance: Conjugate gradients end at this certificate,
        max_gradient_steps: or after so many steps: NOT_CONVERGED.
    """

    max_iterations: int = 30
    tolerance: float = 1e-5
    rank_tolerance: float = 1e-12
    method: str = "automatic"
    gradient_tolerance: float = 1e-10
    max_gradient_steps: int = 10_000

    def __post_init__(self) -> None:
        for name in ("max_iterations", "max_gradient_steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} given; at least 1 is accepted")
        if self.method not in METHODS:
            raise ValueError(f"method={self.method!r} given; {', '.join(METHODS)} are accepted")
        for name in ("tolerance", "rank_tolerance", "gradient_tolerance"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(
                    f"{name}={getattr(self, name)} given; a number between 0 and 1 is accepted"
                )


EQUATIONS = ("cheaper", "parameters", "samples")  # as LevenbergMarquardtOptions::Equations


@dataclass(frozen=True)
class LevenbergMarquardt:
    """All weights make the loss smaller, those of hidden layers too, from least squares on.

    Damped Gauss-Newton steps with the whole Jacobian; at the end the last layers once more by least
    squares if the residual is linear in u. For small problems: networks of few units then do what
    least squares needs many for. `Outcome.ok` says that it came near a local minimum.

    Attributes:
        steps: At most; each makes the loss smaller.
        gradient_tolerance: It ends when no column of the Jacobian has a larger cosine with the
            residual,
        step_tolerance: or a step is smaller than this beside the parameters.
        damping: Of the first step; columns of the Jacobian have the norm 1 there.
        equations: What a step solves: "parameters", J^T J, block-sparse; "samples", J J^T, dense;
            "cheaper" takes the one with fewer flops.
        start: How the last layers are found that it begins with.
    """

    steps: int = 200
    gradient_tolerance: float = 1e-8
    step_tolerance: float = 1e-14
    damping: float = 1e-6
    equations: str = "cheaper"
    start: LeastSquares = LeastSquares(rank_tolerance=1e-8)

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"steps={self.steps} given; at least 1 is accepted")
        for name in ("gradient_tolerance", "step_tolerance"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(
                    f"{name}={getattr(self, name)} given; a number between 0 and 1 is accepted"
                )
        if not (np.isfinite(self.damping) and self.damping > 0):
            raise ValueError(f"damping={self.damping} given; a number above 0 is accepted")
        if self.equations not in EQUATIONS:
            raise ValueError(
                f"equations={self.equations!r} given; {', '.join(EQUATIONS)} are accepted"
            )


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
        own: _OwnUnits | None,
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
                result[first : first + chunk] = _padded(compiled, len(part), part, jets)[0]
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
        _raise(verdict)
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


def plan(problem: Equations) -> Plan:
    """What training by least squares will need."""
    with _Given(problem) as given:
        found = given.call("plan")
    return Plan(**{**found, "costs": _costs(found["costs"])})


def train(problem: Equations, how: LeastSquares | LevenbergMarquardt, mesh: Mesh | None) -> Run:
    """As `Problem.train`."""
    if not isinstance(how, (LeastSquares, LevenbergMarquardt)):
        raise TypeError(
            f"{type(how).__name__} given: LeastSquares is accepted, or LevenbergMarquardt"
        )
    descends = isinstance(how, LevenbergMarquardt)
    least = how.start if isinstance(how, LevenbergMarquardt) else how
    if jax.dtypes.canonicalize_dtype(np.float64) != np.float64:
        raise TypeError(
            "least squares needs 64-bit numbers, and they are off: set "
            "jax.config.update('jax_enable_x64', True) first"
        )
    options = _Options(
        _ranks(problem, mesh),
        problem.seed,
        problem.net.scale if isinstance(problem.net, Mlp) else 1.0,
        least.rank_tolerance,
        least.max_iterations,
        least.tolerance,
        _gpu(mesh),
        METHODS.index(least.method),
        least.gradient_tolerance,
        least.max_gradient_steps,
    )
    if isinstance(how, LevenbergMarquardt):
        options.most_steps = how.steps
        options.gradient_tolerance = how.gradient_tolerance
        options.step_tolerance = how.step_tolerance
        options.first_damping = how.damping
        options.equations = EQUATIONS.index(how.equations)
    networks = ctypes.c_void_p()
    with _Given(problem) as given:
        found = given.call("train", ctypes.byref(options), ctypes.byref(networks))
    status = Status[found.pop("status").upper()]
    costs = _costs(found.pop("costs"))
    coefficients = np.array(found.pop("coefficients"))
    descent = Descent(**found.pop("descent"))
    outcome = Outcome(status=status, costs=costs, descent=descent if descends else None, **found)
    return Run(problem, outcome, networks, coefficients, given.own)


def _ranks(problem: Equations, mesh: Mesh | None) -> int:
    """How many threads share the boxes."""
    if mesh is None:
        return max(1, min(os.cpu_count() or 1, problem.boxes.count))
    kinds = {device.platform for device in mesh.devices.flat}
    if kinds != {"cpu"} and (kinds != {"gpu"} or mesh.devices.size > 1):
        raise ValueError(
            f"a mesh of {mesh.devices.size} {', '.join(sorted(kinds))} devices given: least "
            "squares runs on CPU devices or one GPU; pass none, or a mesh of jax.devices('cpu') or "
            "of one of jax.devices('gpu')"
        )
    if mesh.devices.size > problem.boxes.count:
        raise ValueError(
            f"a mesh of {mesh.devices.size} devices for {problem.boxes.count} boxes given: pass at "
            "most as many devices as there are boxes"
        )
    return int(mesh.devices.size)


def _gpu(mesh: Mesh | None) -> int:
    """CUDA's number of the GPU that trains; -1 if none does."""
    device = None if mesh is None else mesh.devices.flat[0]
    return -1 if device is None or device.platform == "cpu" else int(device.local_hardware_id)


def _costs(found: dict[str, dict]) -> dict[str, Cost]:
    return {name: Cost(**cost) for name, cost in found.items()}


def _raise(verdict: np.ndarray) -> None:
    """As raise_if_failed, but a ValueError where the caller gave what is not accepted."""
    status = Status(int(verdict[0]))
    if status == Status.INVALID_ARGUMENT:
        raise ValueError(_library.message(verdict))
    if status == Status.OUT_OF_MEMORY:
        raise MemoryError(_library.message(verdict))
    raise_if_failed(verdict)


def _padded(function: Callable, count: int, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """A function of so many points, compiled for few numbers of them."""
    size = max(_FEWEST, 1 << (count - 1).bit_length())
    if size != count:  # the last point again: what is computed from it is finite if it was
        arrays = tuple(
            np.concatenate([array, np.broadcast_to(array[-1:], (size - count, *array.shape[1:]))])
            for array in arrays
        )
    results = function(*arrays)
    results = results if isinstance(results, tuple) else (results,)
    return tuple(np.asarray(result)[:count] for result in results)


class _Term(ctypes.Structure):  # as jax/networks.hpp
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("points", ctypes.c_void_p),
        ("targets", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("equations", ctypes.c_int64),
        ("weight", ctypes.c_double),
        ("linearise", _LINEARISE),
    )


class _Coefficient(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("start", ctypes.c_void_p),
        ("numbers", ctypes.c_int64),
    )


class _Problem(ctypes.Structure):
    _fields_ = (
        ("axes", ctypes.c_int64),
        ("fields", ctypes.c_int64),
        ("levels", ctypes.c_int64),
        ("boxes", ctypes.c_void_p),
        ("centers", ctypes.c_void_p),
        ("half_widths", ctypes.c_void_p),
        ("layers", ctypes.c_int64),
        ("widths", ctypes.c_void_p),
        ("activation", ctypes.c_int64),
        ("derivatives", ctypes.c_int64),
        ("orders", ctypes.c_void_p),
        ("terms", ctypes.c_int64),
        ("term", ctypes.POINTER(_Term)),
        ("coefficients", ctypes.c_int64),
        ("coefficient", ctypes.POINTER(_Coefficient)),
        ("units", ctypes.c_int64),
        ("unit_jets", _UNIT_JETS),
    )


class _Options(ctypes.Structure):
    _fields_ = (
        ("ranks", ctypes.c_int64),
        ("seed", ctypes.c_uint64),
        ("hidden_scale", ctypes.c_double),
        ("rank_tolerance", ctypes.c_double),
        ("most_iterations", ctypes.c_int64),
        ("tolerance", ctypes.c_double),
        ("gpu", ctypes.c_int64),
        ("method", ctypes.c_int64),
        ("linear_tolerance", ctypes.c_double),
        ("most_linear_steps", ctypes.c_int64),
        ("most_steps", ctypes.c_int64),
        ("gradient_tolerance", ctypes.c_double),
        ("step_tolerance", ctypes.c_double),
        ("first_damping", ctypes.c_double),
        ("equations", ctypes.c_int64),
    )


class _OwnUnits:
    """The user's network as the library calls it, as long as what is trained with it lives."""

    def __init__(self, problem: Equations, raised: list[BaseException]):
        assert isinstance(problem.net, Net)
        self.raised = raised
        dimensions, units = problem.boxes.dimensions, problem.units
        with on_cpu():
            compute = UnitJets(problem.net, problem.boxes, problem.seed)

        def jets(derivatives: int, orders, box: int, count: int, points, to) -> int:
            try:
                wanted = np.ctypeslib.as_array(orders, (derivatives, dimensions))
                key = tuple(tuple(map(int, order)) for order in wanted)
                at = np.ctypeslib.as_array(points, (count, dimensions))
                with on_cpu():
                    (found,) = _padded(lambda each: compute(key, box, each), count, at)
                np.ctypeslib.as_array(to, (count, units, derivatives))[...] = found
            except BaseException as error:
                raised.append(error)
                return 0
            return 1

        self.function = _UNIT_JETS(jets)


class _Given:
    """A problem as the library takes it, and what the user's functions raise meanwhile."""

    def __init__(self, problem: Equations):
        self._problem = problem
        self._kept: list[object] = []  # what the structures point to
        self._raised: list[BaseException] = []
        self.own = _OwnUnits(problem, self._raised) if isinstance(problem.net, Net) else None

    def __enter__(self) -> _Given:
        problem, levels = self._problem, self._problem.boxes.levels
        terms = (_Term * len(problem.prepared))(*map(self._term, problem.prepared))
        coefficients = self._coefficients()
        self._kept += [terms, coefficients]
        self._structure = _Problem(
            problem.boxes.dimensions,
            len(problem.fields),
            len(levels),
            self._array([len(level.centers) for level in levels], np.int64),
            self._array(np.concatenate([level.centers for level in levels]), np.float64),
            self._array(np.concatenate([level.half_widths for level in levels]), np.float64),
            *self._layers(),
            len(problem.orders),
            self._array(problem.orders, np.uint8),
            len(terms),
            terms,
            len(coefficients),
            coefficients,
            *((0, _UNIT_JETS()) if self.own is None else (problem.units, self.own.function)),
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._kept.clear()

    def call(self, name: str, *between: object) -> dict:
        """Calls the library, and returns what the text that it gives says."""
        library, verdict = _library.library(), np.zeros(VERDICT_WORDS, np.int32)
        text = ctypes.c_char_p()
        getattr(library, f"shardsolve_{name}_networks")(
            ctypes.byref(self._structure),
            *between,
            ctypes.byref(text),
            verdict.ctypes.data_as(ctypes.c_void_p),
        )
        if self._raised:
            raise self._raised[0]
        _raise(verdict)
        found = json.loads(text.value or b"")
        library.shardsolve_free(text)
        return found

    def _layers(self) -> tuple[int, int | None, int]:
        net = self._problem.net
        if not isinstance(net, Mlp):
            return 0, None, 0
        widths = self._array(net.widths, np.int64)
        return len(net.widths), widths, ACTIVATIONS.index(net.activation)

    def _array(self, values: object, dtype: type) -> int:
        array: np.ndarray = np.ascontiguousarray(values, dtype)
        self._kept.append(array)
        return array.ctypes.data

    def _coefficients(self) -> ctypes.Array[_Coefficient]:
        unknown = self._problem.unknown
        parts = {name: unknown.start[place] for name, place in unknown.places.items()}
        return (_Coefficient * len(parts))(
            *(
                _Coefficient(name.encode(), self._array(values, np.float64), len(values))
                for name, values in parts.items()
            )
        )

    def _term(self, term: Prepared) -> _Term:
        fields, orders = len(self._problem.fields), len(self._problem.orders)
        axes, equations = self._problem.boxes.dimensions, term.equations

        numbers = len(self._problem.unknown.start)

        def linearise(count: int, points, jets, coefficients, r, a, b) -> int:
            try:
                arrays = (
                    np.ctypeslib.as_array(points, (count, axes)),
                    np.ctypeslib.as_array(jets, (count, fields, orders)),
                )
                to = [np.ctypeslib.as_array(r, (count, equations))]
                if a:
                    to.append(np.ctypeslib.as_array(a, (count, equations, fields, orders)))
                if a and numbers:
                    to.append(np.ctypeslib.as_array(b, (count, equations, numbers)))
                c = np.zeros(0)
                if numbers:
                    c = np.ctypeslib.as_array(coefficients, (numbers,)).copy()
                compiled = term.linearised if a else term.residuals
                with on_cpu():
                    results = _padded(lambda *each: compiled(*each, c), count, *arrays)
                for array, result in zip(to, results, strict=False):
                    array[...] = result
            except BaseException as error:
                self._raised.append(error)
                return 0
            return 1

        function = _LINEARISE(linearise)
        self._kept.append(function)
        return _Term(
            term.name.encode(),
            self._array(term.points, np.float64),
            self._array(term.values, np.float64),
            len(term.points),
            equations,
            term.weight,
            function,
        )
