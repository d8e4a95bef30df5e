"""Singular values and vectors on a CPU device that is alone: by XLA, which calls LAPACK there.

They are judged as the library judges its own, and have the same figures. What is not fine, or not
in the middle of the range, is left to the library.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax import lax

from shardsolve._alone import EXACT, FINE, Arrays, Usual, adjoint_of, is_in_range, unless
from shardsolve._eigh_alone import random_signs

# LAPACK's routine was faster on one core at all sizes that were tried, 16 to 1000.
MOST_ROWS = 2048


def find_vectors(usual: Usual, a: jax.Array) -> Arrays:
    """What the library's `svd` gives: u, s, v, figures, verdict, of a (m, n) with m >= n."""
    fine, safe = _looked_at(a)
    u, s, vh = lax.linalg.svd(safe, full_matrices=False)
    v = adjoint_of(vh)
    at = jnp.argmax(jnp.abs(v), axis=0)[None, :]
    largest = jnp.take_along_axis(v, at, axis=0)
    phases = jnp.conj(largest) / jnp.abs(largest)
    u, v = u * phases, v * phases
    is_largest = jnp.arange(len(v))[:, None] == at
    v = jnp.where(is_largest, jnp.real(v).astype(v.dtype), v)
    g = random_signs(len(v)).astype(a.dtype)
    rest = _times(safe, g) - _times(u, s[:, None] * _times(adjoint_of(v), g))
    residual = jnp.linalg.norm(rest) / math.sqrt(g.shape[1]) / jnp.linalg.norm(safe)
    turned = [_times(adjoint_of(q), _times(q, g)) - g for q in (u, v)]
    rows = [jnp.sqrt(jnp.mean(jnp.square(jnp.abs(one)), axis=1)) for one in turned]
    orthogonality = jnp.max(jnp.stack(rows))
    root, unit = math.sqrt(len(v)), jnp.finfo(a.dtype).eps / 2
    fine &= (residual <= (20 + 4 * root) * unit) & (orthogonality <= (10 + 8 * root) * unit)
    fine &= jnp.all(jnp.isfinite(s))
    found = u, s, v, jnp.stack([residual, orthogonality]), _no_complaint()
    return unless(fine, found, usual, a)


def find_values(usual: Usual, a: jax.Array) -> Arrays:
    """What the library's `svdvals` gives: s, verdict."""
    fine, safe = _looked_at(a)
    s = lax.linalg.svd(safe, full_matrices=False, compute_uv=False)
    return unless(fine & jnp.all(jnp.isfinite(s)), (s, _no_complaint()), usual, a)


def _looked_at(a: jax.Array) -> Arrays:
    """Whether a is in the middle of the range, which NaN is not; and a, or something that is."""
    largest = jnp.max(jnp.abs(jnp.real(a)) + jnp.abs(jnp.imag(a)))
    fine = is_in_range(largest)
    return fine, jnp.where(fine, a, jnp.eye(*a.shape, dtype=a.dtype))


def _no_complaint() -> jax.Array:
    return jnp.stack([jnp.int32(word) for word in FINE])


def _times(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.matmul(a, b, **EXACT)
