"""The user's functions: how many arguments they take, and what went wrong where JAX traced one."""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Callable, Iterator
from numbers import Number
from typing import Any

import jax
import numpy as np

_VALUE_WANTED = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)


def arguments(function: Callable[..., Any]) -> int | None:
    """How many arguments it needs; None if that cannot be seen, or any number does."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return None
    return sum(p.default is p.empty and p.kind is not p.VAR_KEYWORD for p in parameters)


def require_arguments(function: Callable[..., Any], count: int, name: str, words: str) -> None:
    """Throws unless it takes so many arguments, or that cannot be seen."""
    needed = arguments(function)
    try:
        takes = needed is None or inspect.signature(function).bind(*[None] * count) is not None
    except TypeError:
        takes = False
    if not takes:
        raise TypeError(f"{name} needs {needed} arguments; {words}")


@contextlib.contextmanager
def explained(name: str) -> Iterator[None]:
    """What a user's function raises when JAX traces it, in words that help; else as it is."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if isinstance(error, _VALUE_WANTED) or "Only integer scalar arrays" in str(error):
            raise TypeError(
                f"{name}: the function asks for the value of a number that JAX traces, which has "
                "none yet: use jax.numpy in place of numpy and math, and jnp.where in place of if"
            ) from error
        if re.search(r"Tracer'? object is not callable", str(error)):
            raise TypeError(
                f"{name}: the function calls a number as if it were a function: u.x, x.x and c.a "
                "of a Scalar are numbers; an unknown function is a Grid1D"
            ) from error
        if re.search("returned a value .* not a valid JAX type", str(error), re.DOTALL):
            raise TypeError(
                f"{name}: the function returned what is no array: numbers and arrays are accepted"
            ) from error
        if re.search("not a valid JAX type|__jax_array__|as an abstract array", str(error)):
            raise TypeError(
                f"{name}: a function of JAX was called with what is no number: write u.v in place "
                "of u for its value, and jnp.asarray(x) in place of x for all coordinates"
            ) from error
        raise


def shape_of(given: Any) -> tuple[int, ...] | None:
    """Of what is an array or a number; None of anything else."""
    is_array = isinstance(given, (np.ndarray, jax.Array))
    return given.shape if is_array else () if isinstance(given, Number) else None


def results(given: Any) -> list[Any]:
    """What a function returned: one result, or several in a tuple or list."""
    return list(given) if isinstance(given, (tuple, list)) else [given]


def returned(given: Any) -> str:
    """For messages."""
    if given is None:
        return "nothing (None): end it with return"
    if isinstance(given, (tuple, list)):
        return f"{len(given)} results, {', '.join(map(_kind, given))}"
    return _kind(given)


def _kind(given: Any) -> str:
    shape = shape_of(given)
    if shape is None:
        return f"a {type(given).__name__}"
    return "a number" if shape == () else f"an array of shape {shape}"
