"""The user's functions on GPUs: what they give stays in the memory of the GPU that reads it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from shardsolve.fbpinn._prepared import Prepared, filled_up

_DOUBLES = ctypes.POINTER(ctypes.c_double)
# Rank, points, their coordinates, jets, coefficients, whether derivatives are wanted; and where
# three addresses go.
ON_DEVICE = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_int64,
    ctypes.c_int64,
    *[_DOUBLES] * 3,
    ctypes.c_int32,
    ctypes.POINTER(ctypes.c_void_p),
)
FAILED, MADE, DECLINED = range(3)


class OnDevices:
    """Calls the functions of terms on the devices of a training, in double precision.

    What JAX cannot do there is left to the CPU: then all calls decline from there on.

    Attributes:
        declined: Why, for people; None if that has not happened.
    """

    def __init__(self, devices: Sequence[jax.Device], raised: list[BaseException]):
        """Of these devices, rank by rank; `raised` gets what is to end the training."""
        self._devices = list(devices)
        self._raised = raised
        self.declined: str | None = None

    def function(self, term: Prepared, dimensions: int, jets_shape: tuple[int, int], numbers: int):
        """As the library calls it. Results live until the next call for the same rank.

        Args:
            term: Its function.
            dimensions: Coordinates of a point.
            jets_shape: (fields, orders).
            numbers: Of the coefficients.
        """
        held: dict[int, tuple[jax.Array, ...]] = {}

        def call(rank: int, count: int, points, jets, coefficients, derivatives: int, to) -> int:
            held.pop(rank, None)
            if self.declined is not None:
                return DECLINED
            device = self._devices[rank]
            try:
                arrays = [
                    np.ctypeslib.as_array(points, (count, dimensions)),
                    np.ctypeslib.as_array(jets, (count, *jets_shape)),
                ]
                c = np.zeros(0)
                if numbers:
                    c = np.ctypeslib.as_array(coefficients, (numbers,)).copy()
                function = term.linearised if derivatives else term.residuals
                held[rank] = _called(function, device, filled_up(count, *arrays), c)
                for number, array in enumerate(held[rank]):
                    to[number] = array.unsafe_buffer_pointer() if array.size else None
            except Exception as error:
                first = (str(error).splitlines() or [""])[0]
                self.declined = f"{term.name} on {device}: {type(error).__name__}: {first}"
                return DECLINED
            except BaseException as error:  # of Ctrl-C
                self._raised.append(error)
                return FAILED
            return MADE

        return ON_DEVICE(call)


def _called(
    function: Callable[..., Any],
    device: jax.Device,
    arrays: Sequence[np.ndarray],
    coefficients: np.ndarray,
) -> tuple[jax.Array, ...]:
    """Its results, finished, in the memory of the device."""
    with jax.default_device(device), jax.enable_x64(True):
        given = jax.device_put((*arrays, coefficients), device)
        results = function(*given)
        results = results if isinstance(results, tuple) else (results,)
        return jax.block_until_ready(tuple(_as_doubles(result) for result in results))


def _as_doubles(array: jax.Array) -> jax.Array:
    return array if array.dtype == np.float64 else array.astype(np.float64)
