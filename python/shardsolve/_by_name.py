"""What the library and Python give each other by name: JSON with the addresses of arrays."""

from __future__ import annotations

import ctypes
import json
from typing import Any

import numpy as np


class ByName:
    """Makes what jax/by_name.hpp reads; the arrays live as long as this does."""

    def __init__(self) -> None:
        self._kept: list[object] = []

    def array(self, values: Any, dtype: Any) -> list[int]:
        """Its numbers as that dtype, or those of the caller if they are."""
        array: np.ndarray = np.ascontiguousarray(values, dtype)
        self._kept.append(array)
        return [array.ctypes.data, array.size, array.itemsize]

    def function(self, function: Any) -> int:
        """One that ctypes has wrapped."""
        self._kept.append(function)
        address = ctypes.cast(function, ctypes.c_void_p).value
        assert address is not None
        return address


def text(given: dict[str, Any]) -> bytes:
    """As the library takes it. Numbers have to be finite."""
    return json.dumps(given, allow_nan=False, default=lambda number: number.item()).encode()


def copy_of(given: list[int], dtype: Any, *shape: int) -> np.ndarray:
    """The numbers of an array of the library."""
    address, size, width = given
    array = np.empty(shape, dtype)
    assert (array.size, array.itemsize) == (size, width), (given, shape, dtype)
    ctypes.memmove(array.ctypes.data, address, array.nbytes)
    return array
