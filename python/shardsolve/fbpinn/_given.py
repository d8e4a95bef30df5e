"""What a caller gives: numbers and names as they are needed, and a sentence where they are not."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

LONGEST = 60  # letters of a value that messages quote


def described(given: Any) -> str:
    """For messages: the value if it is short, else its kind."""
    if isinstance(given, jax.core.Tracer):
        return f"a value that JAX traces, {given.aval.str_short()}"
    if isinstance(given, (np.ndarray, jax.Array)) and given.ndim > 0:
        return f"an array of shape {given.shape} and type {given.dtype.name}"
    if isinstance(given, type):
        return f"the class {given.__name__}"
    if callable(given):
        return f"the function {getattr(given, '__name__', type(given).__name__)}"
    text = repr(given)
    return text if len(text) <= LONGEST else f"a value of type {type(given).__name__}"


def array(name: str, given: Any, accepted: str) -> np.ndarray:
    """Real numbers as float64, of any shape."""
    try:
        found = np.asarray(given)
        if found.dtype.kind not in "fiuV":  # V: the short floats of JAX
            raise TypeError
        return found.astype(np.float64)
    except (TypeError, ValueError):
        # A list of rows of different lengths has no shape, a string is no number.
        raise TypeError(f"{name}={described(given)} given: {accepted}") from None


def real(name: str, given: Any, accepted: str, good: Callable[[float], bool]) -> float:
    """A number for which `good` is true."""
    is_number = isinstance(given, numbers.Real) and not isinstance(given, (bool, np.bool_))
    if not is_number and isinstance(given, (np.ndarray, jax.Array)) and given.shape == ():
        is_number = not isinstance(given, jax.core.Tracer) and given.dtype.kind in "fiuV"
    if not is_number:
        raise TypeError(f"{name}={described(given)} given: {accepted}")
    value = float(given)
    if not good(value):
        raise ValueError(f"{name}={described(given)} given: {accepted}")
    return value


def whole(name: str, given: Any, accepted: str, least: int = 1, most: float = np.inf) -> int:
    """A whole number, written as 12 or 12.0."""

    def good(value: float) -> bool:
        return least <= value <= most and value.is_integer()

    real(name, given, accepted, good)
    return int(given)


def wholes(
    name: str, given: Any, count: int, accepted: str, most: float = np.inf
) -> tuple[int, ...]:
    """So many whole numbers from 1 on; where one is wanted it need not be in a list."""
    is_list = isinstance(given, (Sequence, np.ndarray, jax.Array)) and getattr(given, "ndim", 1) > 0
    found = given if is_list or count > 1 else (given,)
    if isinstance(given, (str, bytes)) or not isinstance(found, (Sequence, np.ndarray, jax.Array)):
        raise TypeError(f"{name}={described(given)} given: {accepted}")
    if getattr(found, "ndim", 1) != 1 or len(found) != count:
        raise ValueError(f"{name}={described(given)} given: {accepted}")
    try:
        return tuple(whole(name, one, accepted, most=most) for one in found)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}={described(given)} given: {accepted}") from None


def names(name: str, given: Any, accepted: str) -> list[str]:
    """Names with spaces between them, or a list of names."""
    if isinstance(given, str):
        return given.split()
    if isinstance(given, (tuple, list)) and all(isinstance(one, str) for one in given):
        return [one.strip() for one in given]
    raise TypeError(f"{name}={described(given)} given: {accepted}")


def choice(name: str, given: Any, accepted: Sequence[str]) -> str:
    """One of some words."""
    if not isinstance(given, str) or given not in accepted:
        words = (", " if len(accepted) > 2 else " and ").join(accepted)
        raise ValueError(f"{name}={described(given)} given; {words} are accepted")
    return given
