"""QR factors on a device that is alone, by XLA's routines, judged as the library judges its own.

Where a has not many more rows than columns they cost less than what is made for rows over devices;
on a GPU also where it has few numbers. What is not fine, or not in the middle of the range, is left
to the library.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from shardsolve._alone import (
    EXACT,
    Arrays,
    Usual,
    adjoint_of,
    bits_of_shortest,
    largest_bits,
    times_power,
    unless,
)
from shardsolve._eigh_alone import random_signs
from shardsolve._square import square
from shardsolve._svd_alone import is_orthonormal, looked_at, no_complaint

ANY_ROWS = 2**31 - 1
# On one core of a Xeon 1000 x 100 took 0.4 times LAPACK's time, 300 x 300 1.3 times.
TALL = 4
# On a GPU the library makes R of all columns by few blocks. On an H200, ms, its way and ours by
# reflections: 2^20 x 8 1.9 and 10.5, 16384 x 64 half of it, 4096 x 128 1.8 and 1.2; float32 20000 x
# 300 4.1 and 6.6, 65536 x 1024 both 34, 16384 x 1024 26 and 22. By Gram matrices, float64: 262144 x
# 1024 60 and 63, 65536 x 1024 52 and 17, 65536 x 2048 191 and 40, 65536 x 256 both 3.2, 2^20 x 256
# 15 and 39.
MANY_NUMBERS_ON_GPU = 2**20
TALL_ON_GPU, TALL_OF_MANY_COLUMNS, TALL_BY_GRAM = 16, 64, 256
MANY_COLUMNS = 256
# Square ones by Gram matrices and by reflections, ms: float64 256 0.8 and 1.1, 1024 2.2 and 5.1,
# 4096 14 and 31, 8192 61 and 99; complex128 8192 205 and 239.
MOST_NUMBERS_BY_GRAM = 2**29  # Q is there twice for a moment
# 8192 x 8192 takes 67 ms with 4096 columns, 89 in one block.
MOST_COLUMNS_OF_A_BLOCK = 2048
# Of a block: cuBLAS's syrk of these leaves most of a GPU idle.
FEW_COLUMNS = 1024


def find_on_cpu(usual: Usual, a: jax.Array, *, vectors: bool) -> Arrays:
    """What the library's `qr` gives: q, r, figures, verdict, of a (m, n) with m >= n."""
    m, n = a.shape
    return usual(a) if m >= TALL * n else _find(usual, a, vectors)


def find_on_gpu(usual: Usual, a: jax.Array, *, vectors: bool) -> Arrays:
    """The same."""
    m, n = a.shape
    tall = TALL_ON_GPU
    if n >= MANY_COLUMNS:
        tall = TALL_BY_GRAM if _is_for_gram(a) else TALL_OF_MANY_COLUMNS
    is_tall = m >= tall * n and m * n >= MANY_NUMBERS_ON_GPU
    return usual(a) if is_tall else _find_on_gpu(usual, a, vectors)


def find_in_rows_on_cpu(usual: Usual, a: jax.Array, *, vectors: bool) -> Arrays:
    """Likewise of `qr_in_rows`, for a that is nearly square."""
    return _find(usual, a, vectors, rows=len(a))


def find_in_rows_on_gpu(usual: Usual, a: jax.Array, *, vectors: bool) -> Arrays:
    """The same."""
    return _find_on_gpu(usual, a, vectors, rows=len(a))


def _find_on_gpu(usual: Usual, a: jax.Array, vectors: bool, rows: int | None = None) -> Arrays:
    by_reflections = functools.partial(_find, usual, vectors=vectors, rows=rows)
    if _is_for_gram(a):
        return _find(by_reflections, a, vectors, rows, _by_gram)
    return by_reflections(a)


def _is_for_gram(a: jax.Array) -> bool:
    # In float32 a condition number of some thousands is too large, as random matrices have it.
    is_wide = jnp.finfo(a.dtype).bits == 64
    return is_wide and a.shape[1] >= MANY_COLUMNS and a.size <= MOST_NUMBERS_BY_GRAM


def _by_reflections(a: jax.Array) -> Arrays:
    return lax.linalg.qr(a, full_matrices=False)


def _by_gram(a: jax.Array) -> Arrays:
    """Q and R by Cholesky factors of Gram matrices; NaN where a's condition is too large for them.

    A block of columns is made orthogonal to those before it and orthonormal, both twice. Nearly all
    of that is products, which a GPU does best.
    """
    n = a.shape[1]
    width = -(-n // -(-n // MOST_COLUMNS_OF_A_BLOCK))
    exponents = jnp.frexp(jnp.linalg.norm(a, axis=0, keepdims=True))[1]
    scaled = times_power(a, -exponents)
    done: list[jax.Array] = []
    columns = []
    for first in range(0, n, width):
        once, above, top = _orthonormal(done, scaled[:, first : first + width])
        twice, more, last = _orthonormal(done, once)
        # What is left of `once` is near to it, or rounding was too much.
        squares = [_square_of(one) for one in (*more, last - jnp.eye(len(last), dtype=a.dtype))]
        done.append(jnp.where(sum(squares) <= 0.25, twice, jnp.nan))
        blocks = [one + _times(other, top) for one, other in zip(above, more, strict=True)]
        column = jnp.concatenate([*blocks, _times(last, top)])
        columns.append(jnp.pad(column, ((0, n - len(column)), (0, 0))))
    return jnp.concatenate(done, axis=1), times_power(jnp.concatenate(columns, axis=1), exponents)


def _orthonormal(
    done: list[jax.Array], x: jax.Array
) -> tuple[jax.Array, list[jax.Array], jax.Array]:
    """q, r and s of x = done r + q s. All NaN, and no work, if x or what is done is."""

    def made(x: jax.Array) -> tuple[jax.Array, list[jax.Array], jax.Array]:
        r = []
        for q in done:
            r.append(_times(adjoint_of(q), x))
            x = x - _times(q, r[-1])
        gram = _times(adjoint_of(x), x) if x.shape[1] <= FEW_COLUMNS else square(adjoint_of(x))
        lower = lax.linalg.cholesky(gram, symmetrize_input=False)
        turned = {"lower": True, "transpose_a": True, "conjugate_a": True}
        q = lax.linalg.triangular_solve(lower, x, left_side=False, **turned)
        return q, r, adjoint_of(lower)

    def failed(x: jax.Array) -> tuple[jax.Array, list[jax.Array], jax.Array]:
        results = jax.eval_shape(made, x)
        return jax.tree.map(lambda one: jnp.full(one.shape, jnp.nan, one.dtype), results)

    has_failed = jnp.isnan(jnp.stack([x[0, 0], *(q[0, 0] for q in done)]))
    return lax.cond(jnp.any(has_failed), failed, made, x)


def _square_of(a: jax.Array) -> jax.Array:
    """||a||_F^2."""
    return jnp.sum(jnp.square(jnp.abs(a)))


def _times(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.matmul(a, b, precision=EXACT)


def _find(
    usual: Usual,
    a: jax.Array,
    vectors: bool,
    rows: int | None = None,
    factors: Callable[[jax.Array], Arrays] = _by_reflections,
) -> Arrays:
    fine, safe = looked_at(a)
    largest = largest_bits(a, axis=0)  # XLA may take a column of subnormal numbers for zeros
    fine &= jnp.all((largest == 0) | (largest >= bits_of_shortest(a.dtype)))
    q, r = factors(safe)
    pivots = jnp.diag(r)
    sizes = jnp.abs(pivots)
    divisors = jnp.where(sizes > 0, sizes, 1).astype(a.dtype)
    phases = jnp.where(sizes > 0, pivots / divisors, 1)
    q, r = q * phases[None, :], jnp.triu(jnp.conj(phases)[:, None] * r)
    r = jnp.where(jnp.eye(len(r), dtype=bool), sizes.astype(r.dtype), r)
    g = random_signs(len(r)).astype(a.dtype)
    rest = _times(safe, g) - _times(q, _times(r, g))
    residual = jnp.linalg.norm(rest) / math.sqrt(g.shape[1]) / jnp.linalg.norm(r)
    turned = _times(adjoint_of(q), _times(q, g)) - g
    orthogonality = jnp.max(jnp.sqrt(jnp.mean(jnp.square(jnp.abs(turned)), axis=1)))
    fine &= residual <= (10 + math.sqrt(len(r))) * jnp.finfo(a.dtype).eps / 2
    fine &= is_orthonormal(orthogonality, len(r)) & jnp.all(jnp.isfinite(r))
    figures = jnp.stack([residual, orthogonality])
    figures = figures if vectors else jnp.full_like(figures, -1)
    r = r if rows is None else jnp.pad(r, [(0, rows - len(r)), (0, 0)])
    return unless(fine, (q, r, figures, no_complaint()), usual, a)
