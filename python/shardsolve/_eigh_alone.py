"""Eigenpairs of a matrix of few rows on a device that is alone: by XLA, judged as ours are.

XLA's routines are made for one device: up to some 2000 rows they are faster than what is made for
several. On the CPU XLA calls LAPACK. What is refused is refused by the library, and the answer has
the same figures. On GPUs it calls cuSOLVER, whose eigenvalues miss the library's gates (28 u ||A||
where 20 are allowed), as do the vectors of up to 32 rows, which are Jacobi's: one step of Newton's
method mends both. Where something is not fine or not certain, the library finds the pairs itself.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from shardsolve._alone import FINE, is_in_range, unless
from shardsolve._cholesky_alone import is_hermitian

# Up to here XLA was faster on all CPUs that were tried.
MOST_ROWS_ON_CPU = 2048
# Likewise on an H100, float64: 1000 rows 11 ms against 29, 2048 rows 28 against 44.
MOST_ROWS_ON_GPU = 2048
PROBES = 4

Arrays = tuple[jax.Array, ...]


def find_on_cpu(
    look: Callable[..., Arrays],
    usual: Callable[..., Arrays],
    a: jax.Array,
    interval: jax.Array,
    *,
    vectors: bool,
    first: int,
    last: int,
    by_value: bool,
) -> Arrays:
    """What the library's `eigh` gives: vectors, values, how many of them, figures, verdict.

    Args:
        look: The library's call that says whether `a` is Hermitian and finite.
        usual: The library's call, given `a` and `interval`.
        a: (n, n), all of it on this device.
        interval: (2,), eigenvalues low < w <= high are wanted, with `by_value`.
        vectors: Whether vectors are wanted; if not, what is in their place is of no use.
        first: The number of the first eigenvalue that is wanted.
        last: That of the one behind the last; negative: all are.
        by_value: Whether `interval` says which are wanted.
    """
    n = a.shape[0]
    (verdict,) = look(a)
    # Elsewhere numbers are lost: of small ones XLA makes zeros.
    largest = jnp.max(jnp.abs(jnp.real(a)) + jnp.abs(jnp.imag(a)))
    fine = (verdict[0] == 0) & is_in_range(largest)
    safe = jnp.where(fine, a, jnp.eye(n, dtype=a.dtype))
    v, w = lax.linalg.eigh(safe, lower=True, symmetrize_input=False)
    fine &= jnp.all(jnp.isfinite(w))
    figures = jnp.full(2, jnp.nan, w.dtype)
    if vectors:
        v = _with_fixed_phases(v)
        figures = jnp.stack(_figures(safe, w, v))
    w, v, count = _those_wanted(fine, w, v, interval, first, last, by_value)
    return unless(fine, (v if vectors else a, w, count, figures, verdict), usual, a, interval)


def find_on_gpu(
    usual: Callable[..., Arrays],
    a: jax.Array,
    interval: jax.Array,
    *,
    vectors: bool,
    first: int,
    last: int,
    by_value: bool,
) -> Arrays:
    """The same. `usual`: the library's call, given `a` and `interval`."""
    if not vectors:
        return usual(a, interval)  # takes a fraction of the time that vectors take
    sizes = jnp.sum(jnp.abs(a), axis=1)
    fine = jnp.all(is_hermitian(a, sizes)) & is_in_range(jnp.max(sizes))
    safe = jnp.where(fine, a, jnp.eye(len(a), dtype=a.dtype))
    w, v = eigenpairs_on_gpu(safe)
    v = _with_fixed_phases(v)
    figures = jnp.stack(_figures(safe, w, v))
    # Twice LAPACK's, or so: these are 5 and 3.5 sqrt(n) units of rounding. NaN is below neither.
    root, u = math.sqrt(len(a)), jnp.finfo(a.dtype).eps / 2
    fine &= (figures[0] <= (10 + root / 2) * u) & (figures[1] <= (10 + 8 * root) * u)
    fine &= jnp.all(jnp.isfinite(w))
    w, v, count = _those_wanted(fine, w, v, interval, first, last, by_value)
    verdict = jnp.stack([jnp.int32(word) for word in FINE])
    return unless(fine, (v, w, count, figures, verdict), usual, a, interval)


def eigenpairs_on_gpu(a: jax.Array) -> Arrays:
    """w, ascending, and vectors of a Hermitian a that is finite and in range."""
    return _mended(a, lax.linalg.eigh(a, lower=True, symmetrize_input=False)[0])


def _mended(a: jax.Array, v: jax.Array) -> Arrays:
    """Rayleigh quotients of vectors, ascending, and the vectors after one step of Newton's method.

    Source of the step: T. Ogita and K. Aishima, Iterative refinement for symmetric eigenvalue
    decomposition, Japan J. Indust. Appl. Math. 35 (2018). It leaves squares of what it turns, so
    vectors of eigenvalues so close that it is not below sqrt(u) are only made orthonormal.
    """
    product = jnp.matmul(a, v, precision=lax.Precision.HIGHEST)
    both = jnp.concatenate([v, product], axis=1)
    gram, inner = jnp.split(jnp.matmul(jnp.conj(v.T), both, precision=lax.Precision.HIGHEST), 2, 1)
    w = jnp.real(jnp.diag(inner)) / jnp.real(jnp.diag(gram))
    off = jnp.eye(len(a), dtype=a.dtype) - gram
    gaps = w[None, :] - w[:, None]
    sums = (w[None, :] + w[:, None]).astype(a.dtype)
    # Hermitian whatever its rounding, so that turns are skew and lose no orthogonality.
    force = (inner + jnp.conj(inner.T) + sums * off) / 2
    most = math.sqrt(jnp.finfo(a.dtype).eps) / 4
    is_apart = jnp.abs(force) < most * jnp.abs(gaps)
    turn = jnp.where(is_apart, force / jnp.where(is_apart, gaps, 1).astype(a.dtype), 0)
    v = v + jnp.matmul(v, turn + off / 2, precision=lax.Precision.HIGHEST)
    order = jnp.argsort(w)
    return w[order], v[:, order]


def _those_wanted(
    fine: jax.Array,
    w: jax.Array,
    v: jax.Array,
    interval: jax.Array,
    first: int,
    last: int,
    by_value: bool,
) -> Arrays:
    """Values and vectors that are wanted, in front, and how many there are."""
    start, count = _wanted(w, interval, first, last, by_value)
    here = fine & (jnp.arange(len(w), dtype=count.dtype) < count)
    w = jnp.where(here, jnp.roll(w, -start), jnp.where(fine, 0, jnp.nan))
    v = jnp.where(fine, jnp.roll(v, -start, axis=1), jnp.nan)
    return w, v, jnp.where(fine, count, 0).astype(jnp.int32)[None]


def _with_fixed_phases(v: jax.Array) -> jax.Array:
    """The largest entry of each column, the first of equals, real and positive."""
    at = jnp.argmax(jnp.abs(v), axis=0)[None, :]
    largest = jnp.take_along_axis(v, at, axis=0)
    size = jnp.abs(largest).astype(v.dtype)
    is_largest = jnp.arange(v.shape[0])[:, None] == at
    return jnp.where(is_largest, size, v * (jnp.conj(largest) / size))


def _figures(a: jax.Array, w: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Residual and orthogonality, by vectors of random signs as in the library's certificate."""
    n = a.shape[0]
    g = random_signs(n).astype(a.dtype)
    vh = jnp.conj(v.T)
    product = functools.partial(jnp.matmul, precision=lax.Precision.HIGHEST)
    # G^H (A v - v w), its adjoint: v^H (A G) - w (v^H G)
    off = product(vh, product(a, g)) - w[:, None].astype(a.dtype) * product(vh, g)
    turned = product(vh, product(v, g)) - g
    norm = jnp.max(jnp.sum(jnp.abs(a), axis=0))
    worst = [jnp.max(jnp.sqrt(jnp.mean(jnp.square(jnp.abs(one)), axis=1))) for one in (off, turned)]
    return jnp.where(norm > 0, worst[0] / jnp.where(norm > 0, norm, 1), 0), worst[1]


def random_signs(n: int) -> jax.Array:
    """As good as random; of no more rows than vectors orthogonal, so that norms are no estimates.

    XLA computes them, as `custom_partitioning` takes no constant arrays. Source of the factors:
    C. Wellons, Prospecting for hash functions, 2018.
    """
    number = jnp.arange(n * PROBES, dtype=jnp.uint32) + np.uint32(1)
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):
        number = (number ^ (number >> np.uint32(shift))) * np.uint32(factor)
    signs = (1 - 2 * (number >> np.uint32(31)).astype(jnp.int32)).reshape(n, PROBES)
    if n > PROBES:
        return signs
    # A Hadamard matrix, as Sylvester made them.
    both = jnp.arange(n, dtype=jnp.int32)[:, None] & jnp.arange(PROBES, dtype=jnp.int32)[None]
    return signs[:, :1] * (1 - 2 * (lax.population_count(both) % 2))


def _wanted(
    w: jax.Array, interval: jax.Array, first: int, last: int, by_value: bool
) -> tuple[jax.Array, jax.Array]:
    """The number of the first eigenvalue that is wanted, and how many there are."""
    if not by_value:
        return jnp.int32(first), jnp.int32((len(w) if last < 0 else last) - first)
    begin, end = (jnp.sum(w <= bound) for bound in interval)
    return begin, jnp.maximum(end - begin, 0)
