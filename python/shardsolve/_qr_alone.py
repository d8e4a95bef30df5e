"""QR factors on a device that is alone: by XLA's routine, judged as the library judges its own.

Where a has not many more rows than columns Householder's method costs less than what is made for
rows over devices; on a GPU also where it has few numbers. What is not fine, or not in the middle of
the range, is left to the library.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax import lax

from shardsolve._alone import EXACT, Arrays, Usual, adjoint_of, unless
from shardsolve._eigh_alone import random_signs
from shardsolve._svd_alone import is_orthonormal, looked_at, no_complaint

ANY_ROWS = 2**31 - 1
# On one core of a Xeon 1000 x 100 took 0.4 times LAPACK's time, 300 x 300 1.3 times.
TALL = 4
# On an H200 2^20 x 256 took 0.28 times XLA's time, 2^20 x 8 0.12 times, 16384 x 64 half of it,
# 4096 x 128 and 16384 x 16 1.4 times; on an H100 4096 x 4096 27 times.
TALL_ON_GPU, MANY_NUMBERS_ON_GPU = 16, 2**20


def find_on_cpu(usual: Usual, a: jax.Array, *, vectors: bool) -> Arrays:
    """What the library's `qr` gives: q, r, figures, verdict, of a (m, n) with m >= n."""
    m, n = a.shape
    return usual(a) if m >= TALL * n else _find(usual, a, vectors)


def find_on_gpu(usual: Usual, a: jax.Array, *, vectors: bool) -> Arrays:
    """The same."""
    m, n = a.shape
    is_tall = m >= TALL_ON_GPU * n and m * n >= MANY_NUMBERS_ON_GPU
    return usual(a) if is_tall else _find(usual, a, vectors)


def find_in_rows(usual: Usual, a: jax.Array, *, vectors: bool) -> Arrays:
    """Likewise of `qr_in_rows`, for a that is nearly square."""
    return _find(usual, a, vectors, rows=len(a))


def _find(usual: Usual, a: jax.Array, vectors: bool, rows: int | None = None) -> Arrays:
    fine, safe = looked_at(a)
    q, r = lax.linalg.qr(safe, full_matrices=False)
    pivots = jnp.diag(r)
    sizes = jnp.abs(pivots)
    phases = jnp.where(sizes > 0, pivots / jnp.where(sizes > 0, sizes, 1), 1).astype(a.dtype)
    q, r = q * phases, jnp.triu(jnp.conj(phases)[:, None] * r)
    r = jnp.where(jnp.eye(len(r), dtype=bool), sizes.astype(r.dtype), r)
    g = random_signs(len(r)).astype(a.dtype)
    rest = jnp.matmul(safe, g, **EXACT) - jnp.matmul(q, jnp.matmul(r, g, **EXACT), **EXACT)
    residual = jnp.linalg.norm(rest) / math.sqrt(g.shape[1]) / jnp.linalg.norm(r)
    turned = jnp.matmul(adjoint_of(q), jnp.matmul(q, g, **EXACT), **EXACT) - g
    orthogonality = jnp.max(jnp.sqrt(jnp.mean(jnp.square(jnp.abs(turned)), axis=1)))
    fine &= residual <= (10 + math.sqrt(len(r))) * jnp.finfo(a.dtype).eps / 2
    fine &= is_orthonormal(orthogonality, len(r)) & jnp.all(jnp.isfinite(r))
    figures = jnp.stack([residual, orthogonality])
    figures = figures if vectors else jnp.full_like(figures, -1)
    r = r if rows is None else jnp.pad(r, [(0, rows - len(r)), (0, 0)])
    return unless(fine, (q, r, figures, no_complaint()), usual, a)
