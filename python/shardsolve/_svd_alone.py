"""Singular values and vectors and polar factors on a device that is alone: by XLA's routines.

On the CPU XLA calls LAPACK. What they give is judged as the library judges its own, and has the
same figures. What is not fine, or not in the middle of the range, is left to the library.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import jax.scipy.linalg
from jax import lax

from shardsolve._alone import EXACT, FINE, Arrays, Usual, adjoint_of, is_in_range, unless
from shardsolve._eigh_alone import eigenpairs_on_gpu, random_signs

# LAPACK's routine was faster on one core at all sizes that were tried, 16 to 1000.
MOST_ROWS_ON_CPU = 2048
# On an H100 XLA's polar factor and eigenpairs of it took 0.3 s for 4096 rows, XLA's own singular
# vectors 1.8 s, and those miss the gates.
MOST_ROWS_ON_GPU = 4096
TALL = 4  # so many times as many rows as columns: the library's polar factors take less time


def find_vectors(usual: Usual, a: jax.Array) -> Arrays:
    """What the library's `svd` gives: u, s, v, figures, verdict, of a (m, n) with m >= n."""
    fine, safe = looked_at(a)
    u, s, vh = lax.linalg.svd(safe, full_matrices=False)
    return _judged(fine, safe, (u, s, adjoint_of(vh)), usual, a)


def find_vectors_on_gpu(usual: Usual, a: jax.Array) -> Arrays:
    """The same, by a polar factor and the eigenpairs of the other, as the library does it."""
    fine, safe = looked_at(a)
    q, core = None, safe
    if a.shape[0] >= 2 * a.shape[1]:
        q, core = lax.linalg.qr(safe, full_matrices=False)
    u, h = jax.scipy.linalg.polar(core)
    w, v = eigenpairs_on_gpu((h + adjoint_of(h)) / 2)
    order = jnp.argsort(-jnp.abs(w))
    w, v = w[order], v[:, order]
    u = _times(u, v * jnp.where(w < 0, -1, 1)[None, :].astype(v.dtype))
    u = u if q is None else _times(q, u)
    return _judged(fine, safe, (u, jnp.abs(w), v), usual, a)


def _judged(fine: jax.Array, safe: jax.Array, found: Arrays, usual: Usual, a: jax.Array) -> Arrays:
    """u, s, v of `safe`, which is `a` where that is fine, with phases and figures."""
    u, s, v = found
    at = jnp.argmax(jnp.abs(v), axis=0)[None, :]
    largest = jnp.take_along_axis(v, at, axis=0)
    phases = jnp.conj(largest) / jnp.abs(largest).astype(v.dtype)
    u, v = u * phases, v * phases
    is_largest = jnp.arange(len(v))[:, None] == at
    v = jnp.where(is_largest, jnp.real(v).astype(v.dtype), v)
    g = random_signs(len(v)).astype(a.dtype)
    rest = _times(safe, g) - _times(u, s[:, None].astype(v.dtype) * _times(adjoint_of(v), g))
    residual = jnp.linalg.norm(rest) / math.sqrt(g.shape[1]) / jnp.linalg.norm(safe)
    turned = [_times(adjoint_of(q), _times(q, g)) - g for q in (u, v)]
    rows = [jnp.sqrt(jnp.mean(jnp.square(jnp.abs(one)), axis=1)) for one in turned]
    orthogonality = jnp.max(jnp.stack(rows))
    fine &= _is_small(residual, len(v)) & is_orthonormal(orthogonality, len(v))
    fine &= jnp.all(jnp.isfinite(s))
    figures = jnp.stack([residual, orthogonality])
    return unless(fine, (u, s, v, figures, no_complaint()), usual, a)


def find_values(usual: Usual, a: jax.Array) -> Arrays:
    """What the library's `svdvals` gives: s, verdict."""
    fine, safe = looked_at(a)
    s = lax.linalg.svd(safe, full_matrices=False, compute_uv=False)
    return unless(fine & jnp.all(jnp.isfinite(s)), (s, no_complaint()), usual, a)


def find_values_on_gpu(usual: Usual, a: jax.Array) -> Arrays:
    """The same, by vectors, which can be judged."""

    def none(_: jax.Array) -> Arrays:  # NaN wherever the vectors are not fine
        nothing = (jnp.full(shape, jnp.nan, a.dtype) for shape in (a.shape, (n, n)))
        u, v = nothing
        real = jnp.finfo(a.dtype).dtype
        return u, jnp.full(n, jnp.nan, real), v, jnp.full(2, jnp.nan, real), no_complaint()

    n = a.shape[1]
    s = find_vectors_on_gpu(none, a)[1]
    return unless(jnp.all(jnp.isfinite(s)), (s, no_complaint()), usual, a)


def find_polar_on_cpu(usual: Usual, a: jax.Array) -> Arrays:
    """What the library's `polar` gives: u, h, figures, verdict, of a (m, n) with m >= n."""

    def factors(a: jax.Array) -> Arrays:
        u, s, vh = lax.linalg.svd(a, full_matrices=False)
        return _times(u, vh), _times(adjoint_of(vh), s[:, None].astype(vh.dtype) * vh)

    return _find_polar(usual, a, factors)


def find_polar_on_gpu(usual: Usual, a: jax.Array) -> Arrays:
    """The same."""
    return _find_polar(usual, a, jax.scipy.linalg.polar)


def _find_polar(usual: Usual, a: jax.Array, factors: Callable[[jax.Array], Arrays]) -> Arrays:
    if a.shape[0] >= TALL * a.shape[1]:
        return usual(a)
    fine, safe = looked_at(a)
    u, h = factors(safe)
    h = (h + adjoint_of(h)) / 2
    g = random_signs(len(h)).astype(a.dtype)
    rest = _times(safe, g) - _times(u, _times(h, g))
    residual = jnp.linalg.norm(rest) / math.sqrt(g.shape[1]) / jnp.linalg.norm(safe)
    turned = _times(adjoint_of(u), _times(u, g)) - g
    orthogonality = jnp.max(jnp.sqrt(jnp.mean(jnp.square(jnp.abs(turned)), axis=1)))
    fine &= _is_small(residual, len(h)) & is_orthonormal(orthogonality, len(h))
    figures = jnp.stack([residual, orthogonality])
    return unless(fine, (u, h, figures, no_complaint()), usual, a)


def _is_small(residual: jax.Array, n: int) -> jax.Array:
    return residual <= (20 + 4 * math.sqrt(n)) * jnp.finfo(residual.dtype).eps / 2


def is_orthonormal(orthogonality: jax.Array, n: int) -> jax.Array:
    """Whether the largest row of Q^H Q - I is that of rounding, as of LAPACK's."""
    return orthogonality <= (10 + 8 * math.sqrt(n)) * jnp.finfo(orthogonality.dtype).eps / 2


def looked_at(a: jax.Array) -> Arrays:
    """Whether a is in the middle of the range, which NaN is not; and a, or something that is."""
    largest = jnp.max(jnp.abs(jnp.real(a)) + jnp.abs(jnp.imag(a)))
    fine = is_in_range(largest)
    return fine, jnp.where(fine, a, jnp.eye(a.shape[0], a.shape[1], dtype=a.dtype))


def no_complaint() -> jax.Array:
    return jnp.stack([jnp.int32(word) for word in FINE])


def _times(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.matmul(a, b, precision=EXACT)
