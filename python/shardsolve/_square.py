"""A A^H of a matrix that one device has.

Half of it is made, by cuBLAS on GPUs, or little more: strips of rows, each from the diagonal on.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax import lax

# Of the product of a device's own rows: at most so many strips, each of so many rows at least.
# Eight make 9/16 of it; more strips save little and are slower products.
_STRIPS, _STRIP_ROWS = 8, 256


def product(a: jax.Array, b: jax.Array) -> jax.Array:
    """A B^H; GPUs would take fewer bits unless told not to."""
    contracted = (((1,), (1,)), ((), ()))
    return lax.dot_general(a, jnp.conj(b), contracted, precision=lax.Precision.HIGHEST)


def square(a: jax.Array) -> jax.Array:
    """A A^H, Hermitian to the last bit: what lies below the diagonal is what lies above."""
    if a.dtype.kind == "c":  # JAX has cuBLAS's syrk, not its herk
        return _in_strips(a)
    return lax.platform_dependent(a, cuda=_by_syrk, default=_in_strips)


def _by_syrk(a: jax.Array) -> jax.Array:
    """By cuBLAS, which makes half of the product and copies no rows."""
    n = len(a)
    lower = lax.linalg.symmetric_product(a, jnp.zeros((n, n), a.dtype))
    return jnp.tril(lower) + jnp.tril(lower, -1).T


def _in_strips(a: jax.Array) -> jax.Array:
    """From the diagonal on, a strip of rows at a time."""
    n = len(a)
    strips = max(1, min(_STRIPS, n // _STRIP_ROWS))
    width = -(-n // strips)

    def strip(first: int) -> jax.Array:
        """A_i [A_i; A_(i+1); ...]^H, filled up to (width, n)."""
        made = product(a[first : first + width], a[first:])
        return jnp.pad(made, ((0, width - len(made)), (first, 0)))

    # In a loop, as XLA copies rows of A for each strip, and would copy those of all at once.
    each = [functools.partial(strip, first) for first in range(0, n, width)]
    upper = lax.map(lambda number: lax.switch(number, each), jnp.arange(len(each)))
    upper = upper.reshape(-1, n)[:n]
    above = jnp.triu(upper, 1)
    diagonal = jnp.where(jnp.eye(n, dtype=bool), upper.real, 0).astype(upper.dtype)
    return above + jnp.conj(above.T) + diagonal
