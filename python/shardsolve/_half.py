"""Solves and products with the half F of A = F F^H, and their derivatives.

F is lower triangular in the order in which the factor has eliminated the rows. Of a change A' of A

    F' = F M,    (F^-1)' = -M F^-1,    M = phi(F^-1 A' F^-H)

where phi keeps what is below the diagonal in that order, and half of the diagonal (Murray,
arXiv:1602.07527, equation 8).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from shardsolve import _calls
from shardsolve._calls import compiled
from shardsolve._cut import Cut
from shardsolve._products import multiply, transpose
from shardsolve._records import FACTOR_RANKS, FACTOR_TILE

Found = tuple[jax.Array, jax.Array]  # what was asked for, and the verdict


@functools.partial(compiled, static_argnames=("cut", "adjoint", "product"))
def half(factor: Any, b: jax.Array, cut: Cut | None, adjoint: bool, product: bool) -> Found:
    """F^-1 b, F^-H b, F b or F^H b with the half of a `Factor`."""
    x, verdict = _apply(factor, b if cut is None else cut.place(b), cut, adjoint, product)
    return (x if cut is None else cut.place_like(x, b)), verdict


def _apply(factor: Any, b: jax.Array, cut: Cut | None, adjoint: bool, product: bool) -> Found:
    frozen = lax.stop_gradient(factor)

    def call(adjoint: bool, right: jax.Array) -> Found:
        columns = right[:, None] if right.ndim == 1 else right
        run = _calls.half(cut, adjoint=adjoint, product=product)
        x, verdict = run(frozen._slab, frozen._diagonal, frozen._record, columns)
        return x.reshape(right.shape), verdict

    def transposed(_: Callable, right: jax.Array) -> Found:
        x, verdict = call(not adjoint, jnp.conj(right))
        return jnp.conj(x), verdict

    # x is the solution of F x = b, F^-1 x = b or the like. JAX only differentiates that product,
    # with respect to what stands for the matrix in it. It never computes it.
    matrix = _stand_in(cut, not product)(factor)
    matrix = jnp.conj(transpose(matrix, cut)) if adjoint else matrix
    return lax.custom_linear_solve(
        lambda x: multiply(matrix, x, cut),
        b,
        lambda _, right: call(adjoint, right),
        transpose_solve=transposed,
        has_aux=True,
    )


@functools.cache
def _stand_in(cut: Cut | None, of_half: bool) -> Callable[[Any], jax.Array]:
    """What has the derivative of F, or else of F^-1, and any value."""

    @jax.custom_jvp
    def matrix(factor: Any) -> jax.Array:
        return factor._slab

    @matrix.defjvp
    def rule(primals: tuple, tangents: tuple) -> tuple[jax.Array, jax.Array]:
        factor, middle = primals[0], _middle(primals[0], tangents[0]._slab, cut)
        if of_half:
            change, _ = _apply(factor, middle, cut, adjoint=False, product=True)
        else:  # -M F^-1 = -(F^-H M^H)^H
            right = jnp.conj(transpose(middle, cut))
            change, _ = _apply(factor, right, cut, adjoint=True, product=False)
            change = -jnp.conj(transpose(change, cut))
        return matrix(factor), change

    return matrix


def _middle(factor: Any, change: jax.Array, cut: Cut | None) -> jax.Array:
    """M: the change of A is Hermitian, so it is solved with from the left, twice."""
    solved, _ = _apply(factor, change, cut, adjoint=False, product=False)
    right = jnp.conj(transpose(solved, cut))
    solved, _ = _apply(factor, right, cut, adjoint=False, product=False)
    rows, n = change.shape
    own, order = _order(factor._record, rows, n, cut)
    own, order = own[:, None], order[None, :]
    kept = jnp.where(own == order, 0.5, jnp.where(own > order, 1.0, 0.0))
    return solved * kept.astype(solved.dtype)


def _order(record: jax.Array, rows: int, n: int, cut: Cut | None) -> tuple[jax.Array, jax.Array]:
    """Numbers that rise as rows are eliminated: of the rows that are here, and of all n."""
    ranks, tile = record[FACTOR_RANKS], jnp.maximum(record[FACTOR_TILE], 1)
    width = -(-n // ranks)

    def number(row: jax.Array) -> jax.Array:
        owner, column = row // width, row % width
        return (column // tile * ranks + owner) * tile + column % tile

    first: jax.Array | int = 0
    if cut is not None and cut.inside and cut.axes:
        first = lax.axis_index(cut.axes) * rows
    return number(first + jnp.arange(rows, dtype=jnp.int32)), number(jnp.arange(n, dtype=jnp.int32))
