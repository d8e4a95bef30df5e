"""A problem as the library takes it, with the user's functions that it calls."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from shardsolve import _library
from shardsolve._by_name import ByName, text
from shardsolve._records import VERDICT_WORDS, Status, raise_if_failed
from shardsolve.fbpinn._equations import Equations
from shardsolve.fbpinn._interrupt import stoppable
from shardsolve.fbpinn._net import ACTIVATIONS, Mlp, Net, OwnNet
from shardsolve.fbpinn._on_devices import OnDevices
from shardsolve.fbpinn._prepared import Prepared, filled_up, on_cpu

_DOUBLES = ctypes.POINTER(ctypes.c_double)
_LINEARISE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64, *[_DOUBLES] * 6)
_BYTES = ctypes.POINTER(ctypes.c_uint8)
_OF_BOX = (ctypes.c_int64, _BYTES, ctypes.c_int64, _DOUBLES, ctypes.c_int64, _DOUBLES)
_UNIT_JETS = ctypes.CFUNCTYPE(ctypes.c_int, *_OF_BOX, _DOUBLES)
_PULL_BACK = ctypes.CFUNCTYPE(ctypes.c_int, *_OF_BOX, ctypes.c_int64, _DOUBLES, _DOUBLES)


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
    results = function(*filled_up(count, *arrays))
    results = results if isinstance(results, tuple) else (results,)
    return tuple(np.asarray(result)[:count] for result in results)


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
                if count == 0:  # of a term that has no point in the box
                    return 1
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
    """A problem as the library takes it, and what the user's functions raise meanwhile.

    Attributes:
        own: The network, if it is a `Net`.
        on_devices: Who calls the functions on GPUs; None if the CPU does.
    """

    def __init__(
        self,
        problem: Equations,
        net_parameters: Any = None,
        devices: Sequence[jax.Device] = (),
    ):
        """`devices`: the GPUs that are to call the functions, rank by rank."""
        self._problem = problem
        self._by_name = ByName()
        self._raised: list[BaseException] = []
        self.on_devices = OnDevices(devices, self._raised) if devices else None
        self.own = None
        if isinstance(problem.net, Net):
            self.own = OwnUnits(problem, self._raised, net_parameters)

    def __enter__(self) -> Given:
        problem, levels = self._problem, self._problem.boxes.levels
        array = self._by_name.array
        self._problem_text = text(
            {
                "axes": problem.boxes.dimensions,
                "fields": len(problem.fields),
                "levels": [
                    {
                        "centers": array(level.centers, np.float64),
                        "half_widths": array(level.half_widths, np.float64),
                    }
                    for level in levels
                ],
                "domain": problem.boxes.domain.tolist() if problem.boxes.has_domain else None,
                **self._network(),
                "orders": array(problem.orders, np.uint8),
                "terms": [self._term(term) for term in problem.prepared],
                "coefficients": [
                    {"name": name, "start": array(problem.unknown.start[place], np.float64)}
                    for name, place in problem.unknown.places.items()
                ],
                "is_constrained": problem.constrain is not None,
            }
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._by_name = ByName()

    def call(self, name: str, *between: object) -> dict:
        """Calls the library, and returns what the text that it gives says."""
        library, verdict = _library.library(), np.zeros(VERDICT_WORDS, np.int32)
        found = ctypes.c_char_p()
        function = getattr(library, f"shardsolve_{name}_networks")

        def work(*stop: ctypes.c_void_p) -> None:
            function(
                self._problem_text,
                *between,
                *stop,
                ctypes.byref(found),
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
            return json.loads(found.value or b"")
        finally:
            library.shardsolve_free(found)

    def networks(
        self, hidden: np.ndarray | None, last: np.ndarray, coefficients: np.ndarray
    ) -> ctypes.c_void_p:
        """Of these weights, to be freed. Hidden ones of a `Net` are those that were given."""
        hidden = hidden if self.own is None else self.own.net.start
        verdict, networks = np.zeros(VERDICT_WORDS, np.int32), ctypes.c_void_p()
        _library.library().shardsolve_make_networks(
            self._problem_text,
            text(
                {
                    "ranks": max(1, min(os.cpu_count() or 1, self._problem.boxes.count)),
                    "hidden": self.array(hidden),
                    "last": self.array(last),
                    "coefficients": self.array(coefficients),
                }
            ),
            ctypes.byref(networks),
            verdict.ctypes.data_as(ctypes.c_void_p),
        )
        raise_for(verdict)
        return networks

    def array(self, numbers: Any, dtype: Any = np.float64) -> list[int]:
        """By name, for a call."""
        return self._by_name.array(numbers, dtype)

    def _network(self) -> dict[str, Any]:
        if self.own is None:
            net = self._problem.net
            assert isinstance(net, Mlp)
            activation = ACTIVATIONS.index(net.activation)
            return {"widths": net.widths, "activation": activation, "own": None}
        own = {
            "count": self._problem.units,
            "jets": self._by_name.function(self.own.jets),
            "pull_back": self._by_name.function(self.own.pull_back),
            "parameters": self.own.net.start.shape[1],
            "start": self.array(self.own.net.start),
        }
        return {"own": own}

    def _term(self, term: Prepared) -> dict[str, Any]:
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

        on_device = None
        if self.on_devices is not None:
            on_device = self._by_name.function(
                self.on_devices.function(term, axes, (fields, orders), numbers)
            )
        return {
            "name": term.name,
            "points": self.array(term.points),
            "targets": self.array(term.values) if term.is_measured else None,
            "equations": equations,
            "weight": term.weight,
            "linearise": self._by_name.function(_LINEARISE(linearise)),
            "on_device": on_device,
            "order": term.order,
        }
