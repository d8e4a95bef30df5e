"""A problem as the library takes it: its structures, and the user's functions that it calls."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from shardsolve import _library
from shardsolve._records import VERDICT_WORDS, Status, raise_if_failed
from shardsolve.fbpinn._equations import Equations
from shardsolve.fbpinn._interrupt import stoppable
from shardsolve.fbpinn._net import ACTIVATIONS, Mlp, Net, OwnNet
from shardsolve.fbpinn._prepared import Prepared, on_cpu

_DOUBLES = ctypes.POINTER(ctypes.c_double)
_LINEARISE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64, *[_DOUBLES] * 6)
_BYTES = ctypes.POINTER(ctypes.c_uint8)
_OF_BOX = (ctypes.c_int64, _BYTES, ctypes.c_int64, _DOUBLES, ctypes.c_int64, _DOUBLES)
_UNIT_JETS = ctypes.CFUNCTYPE(ctypes.c_int, *_OF_BOX, _DOUBLES)
_PULL_BACK = ctypes.CFUNCTYPE(ctypes.c_int, *_OF_BOX, ctypes.c_int64, _DOUBLES, _DOUBLES)
_FEWEST = 64  # points that a compiled function is called with


def raise_for(verdict: np.ndarray) -> None:
    """As raise_if_failed, but a ValueError where the caller gave what is not accepted."""
    status = Status(int(verdict[0]))
    if status == Status.INVALID_ARGUMENT:
        raise ValueError(_library.message(verdict))
    if status == Status.OUT_OF_MEMORY:
        raise MemoryError(_library.message(verdict))
    raise_if_failed(verdict)


def padded(function: Callable, count: int, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
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
        ("order", ctypes.c_int64),
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
        ("pull_back", _PULL_BACK),
        ("parameters", ctypes.c_int64),
        ("start", ctypes.c_void_p),
        ("domain", ctypes.c_void_p),
        ("is_constrained", ctypes.c_int64),
    )


class Options(ctypes.Structure):
    _fields_ = (
        ("ranks", ctypes.c_int64),
        ("seed", ctypes.c_uint64),
        ("hidden_scale", ctypes.c_double),
        ("rank_tolerance", ctypes.c_double),
        ("max_iterations", ctypes.c_int64),
        ("tolerance", ctypes.c_double),
        ("gpu_count", ctypes.c_int64),
        ("gpus", ctypes.POINTER(ctypes.c_int64)),
        ("method", ctypes.c_int64),
        ("linear_tolerance", ctypes.c_double),
        ("max_linear_steps", ctypes.c_int64),
        ("max_steps", ctypes.c_int64),
        ("gradient_tolerance", ctypes.c_double),
        ("step_tolerance", ctypes.c_double),
        ("first_damping", ctypes.c_double),
        ("equations", ctypes.c_int64),
        ("chunk", ctypes.c_int64),
        ("hidden", ctypes.c_void_p),
        ("last", ctypes.c_void_p),
        ("coefficients", ctypes.c_void_p),
    )


class OwnUnits:
    """The user's network as the library calls it, as long as what is trained with it lives.

    Attributes:
        net: Its functions.
        raised: What they have raised meanwhile.
    """

    def __init__(self, problem: Equations, raised: list[BaseException], parameters: Any):
        assert isinstance(problem.net, Net)
        self.raised = raised
        dimensions, units = problem.boxes.dimensions, problem.units
        with jax.default_device(jax.local_devices(backend="cpu")[0]):
            if parameters is None:
                parameters = problem.net.parameters(problem.boxes.count, problem.seed)
            self.net = net = OwnNet(problem.net, problem.boxes, parameters)
            net.share(problem.compiled("network", lambda: net))
        size = net.start.shape[1]

        def called(function: Callable[..., Any]) -> Callable[..., int]:
            def call(derivatives: int, orders, box: int, numbers, count: int, points, *rest) -> int:
                try:
                    wanted = np.ctypeslib.as_array(orders, (derivatives, dimensions))
                    key = tuple(tuple(map(int, order)) for order in wanted)
                    mine = np.ctypeslib.as_array(numbers, (size,)).copy() if size else np.zeros(0)
                    arrays = [np.ctypeslib.as_array(points, (count, dimensions))]
                    shape: tuple[int, ...] = (count, units, derivatives)
                    if len(rest) > 1:
                        sums, factors, _ = rest
                        from_units = (count, sums, units, derivatives)
                        arrays.append(np.ctypeslib.as_array(factors, from_units))
                        shape = (count, sums, size)
                    with on_cpu():
                        (found,) = padded(
                            lambda *each: function(key, box, mine, *each), count, *arrays
                        )
                    np.ctypeslib.as_array(rest[-1], shape)[...] = found
                except BaseException as error:
                    raised.append(error)
                    return 0
                return 1

            return call

        self.jets = _UNIT_JETS(called(net.jets))
        self.pull_back = _PULL_BACK(called(net.pull_back))


class Given:
    """A problem as the library takes it, and what the user's functions raise meanwhile."""

    def __init__(self, problem: Equations, net_parameters: Any = None):
        self._problem = problem
        self._kept: list[object] = []  # what the structures point to
        self._raised: list[BaseException] = []
        self.own = None
        if isinstance(problem.net, Net):
            self.own = OwnUnits(problem, self._raised, net_parameters)

    def __enter__(self) -> Given:
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
            *self._units(),
            self._array(problem.boxes.domain, np.float64) if problem.boxes.has_domain else None,
            problem.constrain is not None,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._kept.clear()

    def call(self, name: str, *between: object) -> dict:
        """Calls the library, and returns what the text that it gives says."""
        library, verdict = _library.library(), np.zeros(VERDICT_WORDS, np.int32)
        text = ctypes.c_char_p()
        function = getattr(library, f"shardsolve_{name}_networks")

        def work(*stop: ctypes.c_void_p) -> None:
            function(
                ctypes.byref(self._structure),
                *between,
                *stop,
                ctypes.byref(text),
                verdict.ctypes.data_as(ctypes.c_void_p),
            )

        try:
            if name == "train":
                stoppable(work)
            else:
                work()
            if self._raised:
                raise self._raised[0]
            raise_for(verdict)
            return json.loads(text.value or b"")
        finally:
            library.shardsolve_free(text)

    def networks(
        self, hidden: np.ndarray | None, last: np.ndarray, coefficients: np.ndarray
    ) -> ctypes.c_void_p:
        """Of these weights, to be freed. Hidden ones of a `Net` are those that were given."""
        hidden = hidden if self.own is None else self.own.net.start
        verdict, networks = np.zeros(VERDICT_WORDS, np.int32), ctypes.c_void_p()
        ranks = max(1, min(os.cpu_count() or 1, self._problem.boxes.count))
        _library.library().shardsolve_make_networks(
            ctypes.byref(self._structure),
            ctypes.c_int64(ranks),
            *(
                ctypes.c_void_p(self._array(one, np.float64))
                for one in (hidden, last, coefficients)
            ),
            ctypes.byref(networks),
            verdict.ctypes.data_as(ctypes.c_void_p),
        )
        raise_for(verdict)
        return networks

    def _layers(self) -> tuple[int, int | None, int]:
        net = self._problem.net
        if not isinstance(net, Mlp):
            return 0, None, 0
        widths = self._array(net.widths, np.int64)
        return len(net.widths), widths, ACTIVATIONS.index(net.activation)

    def _units(self) -> tuple:
        if self.own is None:
            return 0, _UNIT_JETS(), _PULL_BACK(), 0, None
        start = self.own.net.start
        functions = self.own.jets, self.own.pull_back
        return self._problem.units, *functions, start.shape[1], self._array(start, np.float64)

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
                compiled: Callable[..., Any] = term.linearised if a else term.residuals
                with on_cpu():
                    results = padded(lambda *each: compiled(*each, c), count, *arrays)
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
            self._array(term.values, np.float64) if term.is_measured else None,
            len(term.points),
            equations,
            term.weight,
            function,
            term.order,
        )
