"""Small Hermitian positive definite systems on a device that is alone, one or a batch of them.

On the CPU a local call of the library solves such a system in XLA's thread, a batch in all of them.
On a GPU one block of a kernel of the library does, or, with more rows, XLA's own routines, batched;
see `_alone`.

All functions here take and give what the calls `cholesky_factor` and `cholesky_solve` do, or a
batch of that.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax import lax

from shardsolve import _local
from shardsolve._alone import (
    FINE,
    MOST_COLUMNS_OF_A_BLOCK,
    Arrays,
    Usual,
    adjoint_of,
    column_errors,
    factor_record,
    fits_a_block,
    is_in_range,
    made_alone,
    times_power,
    unless,
    words,
)
from shardsolve._records import FACTOR_WORDS, VERDICT_WORDS

# One CPU device, seconds of `solve` in `jit` beside jax.scipy's: bench/small.py, and the table in
# docs/performance.md. Beyond this size threads of a mesh are worth waking.
MOST_ROWS_ON_CPU = 512
# Beyond this size the library's call is as fast as cuSOLVER's on one GPU.
MOST_ROWS_ON_GPU = 2048

_REFINED_FROM = 4  # units of rounding; see src/dense/cholesky/certified_solve.hpp


def factor_on_cpu(usual: Usual, a: jax.Array) -> Arrays:
    """By the library, which also makes the usual call itself where that is needed."""
    n = a.shape[-1]
    diagonal, slab, log_determinant, record = _local.call(
        "small_cholesky_factor", a, lengths=(n, (n, n), 1, FACTOR_WORDS), aliases={0: 1}
    )
    return slab, diagonal, log_determinant, record


def solve_on_cpu(
    usual: Usual, slab: jax.Array, diagonal: jax.Array, record: jax.Array, b: jax.Array
) -> Arrays:
    """Likewise."""
    n, k = b.shape[-2:]
    verdict, x, error = _local.call(
        "small_cholesky_solve",
        *(slab, diagonal, record, adjoint_of(b)),
        lengths=(VERDICT_WORDS, (k, n), 1),
    )
    return adjoint_of(x), verdict, error


def factor_on_gpu(usual: Usual, a: jax.Array) -> Arrays:
    """By a block for each matrix, if they fit there."""
    n = a.shape[-1]
    if not fits_a_block(n):
        return factor_by_xla(usual, a)
    diagonal, slab, log_determinant, record = _local.call(
        "small_cholesky_factor", a, lengths=(n, (n, n), 1, FACTOR_WORDS), recorded=True
    )
    return unless(record[..., 0] == 0, (slab, diagonal, log_determinant, record), usual, a)


def solve_on_gpu(
    usual: Usual, slab: jax.Array, diagonal: jax.Array, record: jax.Array, b: jax.Array
) -> Arrays:
    """Likewise, a warp for each right-hand side."""
    n, k = b.shape[-2:]
    given = slab, diagonal, record, b
    if not fits_a_block(n) or k > MOST_COLUMNS_OF_A_BLOCK:
        return solve_by_xla(usual, *given)
    verdict, x, error = _local.call(
        "small_cholesky_solve",
        *(slab, diagonal, record, adjoint_of(b)),
        lengths=(VERDICT_WORDS, (k, n), 1),
        recorded=True,
        strided=True,
    )
    return unless(verdict[..., 0] == 0, (adjoint_of(x), verdict, error), usual, *given)


def factor_by_xla(usual: Usual, a: jax.Array) -> Arrays:
    """A = L L^H by XLA's routine, if A is Hermitian beyond doubt."""
    n = a.shape[-1]
    sizes, real = jnp.sum(jnp.abs(a), axis=-1), jnp.finfo(a.dtype)
    norm = jnp.max(sizes, axis=-1)
    fine = jnp.all(is_hermitian(a, sizes), axis=-1) & is_in_range(norm)
    # The library works on rows as on columns of conj(A), whose factor is conj(L).
    lower = lax.linalg.cholesky(adjoint_of(a), symmetrize_input=False)
    pivots = jnp.real(jnp.diagonal(lower, axis1=-2, axis2=-1))
    fine &= jnp.all(pivots > real.tiny / real.eps, axis=-1)  # of NaN, too
    rows = jnp.arange(n)
    slab = jnp.where(rows[:, None] > rows[None, :], a, adjoint_of(lower))
    diagonal = jnp.real(jnp.diagonal(a, axis1=-2, axis2=-1))
    log_determinant = 2 * jnp.sum(jnp.log(pivots), axis=-1, keepdims=True)
    return unless(fine, (slab, diagonal, log_determinant, factor_record(n, norm)), usual, a)


def solve_by_xla(
    usual: Usual, slab: jax.Array, diagonal: jax.Array, record: jax.Array, b: jax.Array
) -> Arrays:
    """L L^H x = b by XLA's routine, with the residual of a sum in twice the precision."""
    n, k = b.shape[-2:]
    a = _matrix_of(slab, diagonal)

    def solve(b: jax.Array) -> jax.Array:
        upper = {"left_side": True, "lower": False}
        y = lax.linalg.triangular_solve(slab, b, **upper, transpose_a=True, conjugate_a=True)
        return lax.linalg.triangular_solve(slab, y, **upper)

    x = solve(b)
    errors, residual, exponent = column_errors(a, x, b)
    error = jnp.max(errors, axis=-1, initial=0)
    made = made_alone(record, n)
    verdict = words(made, FINE)

    def certified(x: jax.Array, error: jax.Array) -> Arrays:
        found = x, verdict, error[..., None]
        return unless(made & jnp.isfinite(error), found, usual, slab, diagonal, record, b)

    if k != 1:
        return certified(x, error)

    def refined() -> Arrays:
        closer = x + times_power(solve(residual), exponent)
        again = column_errors(a, closer, b)[0][..., 0]
        better = again < error
        return certified(
            jnp.where(better[..., None, None], closer, x), jnp.where(better, again, error)
        )

    good = made & (error <= _REFINED_FROM * jnp.finfo(b.dtype).eps / 2)  # not if it is NaN
    return lax.cond(jnp.all(good), lambda: (x, verdict, error[..., None]), refined)


def is_hermitian(a: jax.Array, sizes: jax.Array) -> jax.Array:
    """For each row, whether the library's look would find it Hermitian, finite too; maybe not all.

    It allows |((A - A^H) v)_i| <= 32 sqrt(n) u (|A| 1)_i, where no entry of v is larger than 2.

    Args:
        a: (..., n, n).
        sizes: (..., n): sums of |a| along its rows.
    """
    off = jnp.sum(jnp.abs(a - adjoint_of(a)), axis=-1)
    return off <= 16 * math.sqrt(a.shape[-1]) * jnp.finfo(a.dtype).eps / 2 * sizes


def _matrix_of(slab: jax.Array, diagonal: jax.Array) -> jax.Array:
    """The A that a factor keeps: below the diagonal it is still there."""
    rows = jnp.arange(slab.shape[-1])
    own, rows = rows[:, None], rows[None, :]
    mirrored = jnp.where(own > rows, slab, adjoint_of(slab))
    return jnp.where(own == rows, diagonal[..., None].astype(slab.dtype), mirrored)
