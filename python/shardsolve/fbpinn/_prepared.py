"""A term whose function has been traced, as training calls it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_FEWEST = 64  # points that a compiled function is called with
_FORWARD = 8  # numbers of coefficients up to which all are differentiated by in forward mode


@dataclass(frozen=True)
class Prepared:
    """A term whose function has been traced.

    Attributes:
        name: What messages call it.
        points: (points, dimensions).
        values: (points, equations): what is subtracted from the function.
        equations: How many numbers the function gives at a point.
        weight: Multiplies the residual.
        is_measured: Whether the values are measured ones, which are known at the points only.
        order: Of the highest derivative of u that it reads; -1 if it reads coefficients alone.
        residual: (dimensions,), (fields, orders of the problem), (numbers of coefficients,) ->
            (equations,), traceable.
    """

    name: str
    points: np.ndarray
    values: np.ndarray
    equations: int
    weight: float
    is_measured: bool
    order: int
    residual: Callable[[jax.Array, jax.Array, jax.Array], jax.Array]
    _compiled: dict[str, Callable[..., Any]] = field(default_factory=dict)

    @property
    def residuals(self) -> Callable[[Any, Any, Any], jax.Array]:
        """(points, dimensions), (points, fields, orders), (numbers,) to (points, equations).

        Compiled.
        """
        return self._of_many("residual", self.residual)

    def _of_many(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        if name not in self._compiled:
            self._compiled[name] = jax.jit(jax.vmap(function, (0, 0, None)))
        return self._compiled[name]

    def linearise(
        self, point: jax.Array, jets: jax.Array, coefficients: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """The residual at a point, and its derivatives.

        By the jets, (equations, fields, orders), and by the coefficients, (equations, numbers).
        """

        def residual(jets: jax.Array) -> tuple[jax.Array, jax.Array]:
            value = self.residual(point, jets, coefficients)
            return value, value

        derivatives, value = jax.jacfwd(residual, has_aux=True)(jets)
        if coefficients.size == 0:
            return value, derivatives, jnp.zeros((self.equations, 0), value.dtype)
        jacobian = jax.jacfwd if coefficients.size <= _FORWARD else jax.jacrev
        by_coefficients = jacobian(lambda c: self.residual(point, jets, c))(coefficients)
        return value, derivatives, by_coefficients

    @property
    def linearised(self) -> Callable[..., tuple[jax.Array, jax.Array, jax.Array]]:
        """The same of many points, as `residuals`. Compiled."""
        return self._of_many("linearise", self.linearise)


@contextlib.contextmanager
def on_cpu() -> Iterator[None]:
    """Where the user's functions are called: on the CPU, in double precision.

    Also by threads of the library, which do not see what is set for the caller's thread alone.
    """
    with jax.default_device(jax.local_devices(backend="cpu")[0]), jax.enable_x64(True):
        yield


def filled_up(count: int, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """Arrays of so many points, as few numbers of points are compiled for."""
    size = max(_FEWEST, 1 << (count - 1).bit_length())
    if size == count:
        return arrays
    # The last point again: what is computed from it is finite if it was.
    return tuple(
        np.concatenate([array, np.broadcast_to(array[-1:], (size - count, *array.shape[1:]))])
        for array in arrays
    )
