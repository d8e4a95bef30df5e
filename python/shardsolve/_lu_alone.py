"""Small general systems on a device that is alone, one or a batch of them.

On the CPU a local call of the library solves such a system in XLA's thread, a batch in all of them.
On a GPU one block of a kernel of the library does, or, with more rows, XLA's own routines, batched;
see `_alone`.

All functions here take and give what the calls `lu_factor` and `lu_solve` do, or a batch of that.
A slab's rows are columns of C = A^T: it is (L U)^T for P C = L U.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from shardsolve import _local
from shardsolve._alone import (
    EXACT,
    FINE,
    MOST_COLUMNS_OF_A_BLOCK,
    Arrays,
    Usual,
    adjoint_of,
    column_errors,
    exponent_of,
    factor_record,
    fits_a_block,
    is_in_range,
    made_alone,
    scaled_words,
    size_of,
    times_power,
    unless,
    words,
)
from shardsolve._eigh_alone import random_signs
from shardsolve._records import EMPTY_LU, VERDICT_WORDS

# Seconds of `solve` in `jit` beside jax.scipy's: bench/small.py, and the table in
# docs/performance.md.
MOST_ROWS_ON_CPU = 512
MOST_ROWS_ON_GPU = 1024

# Of an inverse; beyond that the library's three sweeps take less time than XLA's two solves.
MOST_ROWS_INVERTED_ON_CPU = MOST_ROWS_ON_CPU
MOST_ROWS_INVERTED_ON_GPU = MOST_ROWS_ON_GPU

# Of U^-T, so that little of what is 0 in it is computed.
_PANELS = 16

# Units of rounding; see src/dense/lu/certified_solve.cpp.
_GIVEN_UP_FROM = 10
_REFINED_FROM = 4
_REFINED_FROM_BY_COMPONENTS = 10


def factor_on_cpu(usual: Usual, a: jax.Array) -> Arrays:
    """By the library, which also makes the usual call itself where that is needed."""
    n = a.shape[-1]
    rows, slab, *rest = _local.call("small_lu_factor", a, lengths=(n, (n, n), 1, 1, len(EMPTY_LU)))
    return slab, rows, *rest


def solve_on_cpu(
    usual: Usual,
    slab: jax.Array,
    a: jax.Array,
    rows: jax.Array,
    record: jax.Array,
    b: jax.Array,
    **options: Any,
) -> Arrays:
    """Likewise."""
    n, k = b.shape[-2:]
    verdict, x, errors = _local.call(
        "small_lu_solve",
        *(slab, a, rows, record, adjoint_of(b)),
        lengths=(VERDICT_WORDS, (k, n), 2),
        **options,
    )
    return adjoint_of(x), verdict, errors


def factor_on_gpu(usual: Usual, a: jax.Array) -> Arrays:
    """By a block for each matrix, if they fit there."""
    n = a.shape[-1]
    if not fits_a_block(n):
        return factor_by_xla(usual, a)
    rows, slab, *rest, record = _local.call(
        "small_lu_factor", a, lengths=(n, (n, n), 1, 1, len(EMPTY_LU)), recorded=True
    )
    return unless(record[..., 0] == 0, (slab, rows, *rest, record), usual, a)


def solve_on_gpu(
    usual: Usual,
    slab: jax.Array,
    a: jax.Array,
    rows: jax.Array,
    record: jax.Array,
    b: jax.Array,
    *,
    adjoint: bool,
) -> Arrays:
    """Likewise, a warp for each right-hand side."""
    n, k = b.shape[-2:]
    given = slab, a, rows, record, b
    if not fits_a_block(n) or k > MOST_COLUMNS_OF_A_BLOCK:
        return solve_by_xla(usual, *given, adjoint=adjoint)
    verdict, x, errors = _local.call(
        "small_lu_solve",
        *(slab, a, rows, record, adjoint_of(b)),
        lengths=(VERDICT_WORDS, (k, n), 2),
        recorded=True,
        strided=True,
        adjoint=adjoint,
    )
    return unless(verdict[..., 0] == 0, (adjoint_of(x), verdict, errors), usual, *given)


def factor_by_xla(usual: Usual, a: jax.Array) -> Arrays:
    """P C = L U by XLA's routine, if no number in it is near the ends of the range."""
    n, real = a.shape[-1], jnp.finfo(a.dtype)
    sizes = jnp.abs(a)
    one_norm = jnp.max(jnp.sum(sizes, axis=-1), axis=-1)  # of C
    inf_norm = jnp.max(jnp.sum(sizes, axis=-2), axis=-1)
    both, pivots, rows = lax.linalg.lu(_transpose(a))
    diagonal = jnp.diagonal(both, axis1=-2, axis2=-1)
    modulus = jnp.abs(diagonal)
    growth = jnp.max(jnp.abs(jnp.triu(both)), axis=(-2, -1)) / jnp.max(sizes, axis=(-2, -1))
    fine = is_in_range(one_norm) & is_in_range(inf_norm) & jnp.isfinite(growth)
    fine &= jnp.all(modulus > real.tiny / real.eps, axis=-1)  # of NaN, too
    swaps = jnp.sum(pivots != lax.broadcasted_iota(pivots.dtype, pivots.shape, pivots.ndim - 1), -1)
    phases = diagonal / jnp.where(modulus > 0, modulus, 1).astype(a.dtype)
    sign = jnp.prod(phases, axis=-1) * (1 - 2 * (swaps % 2)).astype(a.dtype)
    log_modulus = jnp.sum(jnp.log(modulus), axis=-1, keepdims=True)
    record = jnp.concatenate(
        [factor_record(n, one_norm), scaled_words(inf_norm), scaled_words(growth)], axis=-1
    )
    found = _transpose(both), rows, sign[..., None], log_modulus, record
    return unless(fine, found, usual, a)


def solve_by_xla(
    usual: Usual,
    slab: jax.Array,
    a: jax.Array,
    rows: jax.Array,
    record: jax.Array,
    b: jax.Array,
    *,
    adjoint: bool,
) -> Arrays:
    """A x = b or A^H x = b by XLA's routines, refined once, each column where that helps it."""
    given = slab, a, rows, record, b
    made = made_alone(record, a.shape[-1])
    a = jnp.conj(_transpose(a)) if adjoint else a
    u = jnp.finfo(b.dtype).eps / 2
    where = rows[..., None]
    upper, lower = {"lower": False, "unit_diagonal": True}, {"lower": True}

    def solve(b: jax.Array) -> jax.Array:
        if adjoint:  # conj(L) conj(U) x = P b
            turned = {"left_side": True, "transpose_a": True, "conjugate_a": True}
            pivoted = jnp.take_along_axis(b, jnp.broadcast_to(where, b.shape), axis=-2)
            y = lax.linalg.triangular_solve(slab, pivoted, **turned, **upper)
            return lax.linalg.triangular_solve(slab, y, **turned, **lower)
        y = lax.linalg.triangular_solve(slab, b, left_side=True, **lower)  # U^T L^T P x = b
        z = lax.linalg.triangular_solve(slab, y, left_side=True, **upper)
        back = jnp.broadcast_to(jnp.argsort(rows, axis=-1)[..., None], b.shape)
        return jnp.take_along_axis(z, back, axis=-2)

    def errors_of(x: jax.Array) -> Arrays:
        """By the norm and by components, (..., k); the residual, and its exponents."""
        by_norm, residual, exponent = column_errors(a, x, b)
        size_of_x, size_of_b = (times_power(jnp.abs(one), -exponent) for one in (x, b))
        sizes = jnp.matmul(jnp.abs(a), size_of_x, precision=EXACT) + size_of_b
        share = jnp.abs(residual) / jnp.where(sizes > 0, sizes, 1)
        return by_norm, jnp.max(share, axis=-2, initial=0), residual, exponent

    x = solve(b)
    by_norm, by_components, residual, exponent = errors_of(x)
    closer = x + times_power(solve(residual), exponent)
    again, again_by_components, *_ = errors_of(closer)
    wanted = (by_norm > _REFINED_FROM * u) | (by_components > _REFINED_FROM_BY_COMPONENTS * u)
    helps = (again < by_norm) | (
        (again <= _REFINED_FROM * u) & (again_by_components < by_components)
    )
    better = wanted & helps
    x = jnp.where(better[..., None, :], closer, x)
    by_norm = jnp.where(better, again, by_norm)
    by_components = jnp.where(better, again_by_components, by_components)
    # Not if one is NaN. What one step has not brought home gets more of them, and a verdict.
    fine = (by_norm <= _REFINED_FROM * u) & (by_components <= _REFINED_FROM_BY_COMPONENTS * u)
    errors = [jnp.max(one, axis=-1, initial=0) for one in (by_norm, by_components)]
    fine = made & (_growth_of(record) < float(u) ** -0.5) & jnp.all(fine, axis=-1)
    found = x, words(made, FINE), jnp.stack(errors, axis=-1).astype(jnp.finfo(b.dtype).dtype)
    return unless(fine, found, usual, *given)


def inverse_on_cpu(usual: Usual, *factor: jax.Array) -> Arrays:
    """What the call `lu_inverse` gives."""
    few = factor[1].shape[-1] <= MOST_ROWS_ON_CPU
    return _inverse_by_solving(solve_on_cpu, usual, *factor) if few else _inverse(usual, *factor)


def inverse_on_gpu(usual: Usual, *factor: jax.Array) -> Arrays:
    """Likewise."""
    few = factor[1].shape[-1] <= MOST_ROWS_ON_GPU
    return _inverse_by_solving(solve_on_gpu, usual, *factor) if few else _inverse(usual, *factor)


def solve_identity_on_cpu(usual: Usual, *given: jax.Array, adjoint: bool) -> Arrays:
    """What a solve gives for b = I; of another b, as derivatives have them, likewise."""
    return _solve_identity(MOST_ROWS_ON_CPU, solve_on_cpu, usual, *given, adjoint=adjoint)


def solve_identity_on_gpu(usual: Usual, *given: jax.Array, adjoint: bool) -> Arrays:
    """Likewise."""
    return _solve_identity(MOST_ROWS_ON_GPU, solve_on_gpu, usual, *given, adjoint=adjoint)


def _solve_identity(
    most_rows: int,
    solve: Callable[..., Arrays],
    usual: Usual,
    *given: jax.Array,
    adjoint: bool,
) -> Arrays:
    n, k = given[-1].shape[-2:]
    if n <= most_rows:
        return solve(usual, *given, adjoint=adjoint)
    if n != k:  # what a derivative has many of
        return lax.map(lambda own: usual(*own), given) if given[1].ndim > 2 else usual(*given)
    return _inverse(usual, *given, adjoint=adjoint)


def _inverse_by_solving(solve: Callable[..., Arrays], usual: Usual, *factor: jax.Array) -> Arrays:
    a = factor[1]
    identity = jnp.broadcast_to(jnp.eye(a.shape[-1], dtype=a.dtype), a.shape)
    # What it leaves to the usual call is left to that of an inverse.
    x, verdict, errors = solve(lambda *given: usual(*given[:-1]), *factor, identity, adjoint=False)
    return x, verdict, _error_and_rcond(errors[..., 0], a, x)


def _inverse(
    usual: Usual,
    slab: jax.Array,
    a: jax.Array,
    rows: jax.Array,
    record: jax.Array,
    *b: jax.Array,
    adjoint: bool = False,
) -> Arrays:
    """A^-1, or A^-H, by XLA's routines, of a factor that one device has made.

    If there is a b, it is to be I; with another one it is the usual call's. Unrefined, as LAPACK's.
    Its error is the largest entry of A X g - g for vectors of random signs g, beside
    ||A|| ||X|| + 1: about the largest 2-norm of a row of A X - I.
    """
    given = slab, a, rows, record, *b
    made = made_alone(record, a.shape[-1])
    n = a.shape[-1]
    identity = jnp.broadcast_to(jnp.eye(n, dtype=a.dtype), a.shape)
    left, upper = {"left_side": True}, {"lower": False, "unit_diagonal": True}
    # U^T L^T P X = I, and U^-T is a lower triangle: each panel begins with its own rows.
    width = max(-(-n // _PANELS), 1)
    panels = []
    for first in range(0, n, width):
        own = identity[..., first:, first : first + width]
        panel = lax.linalg.triangular_solve(slab[..., first:, first:], own, lower=True, **left)
        above = [(0, 0)] * (panel.ndim - 2) + [(first, 0), (0, 0)]
        panels.append(jnp.pad(panel, above))
    z = lax.linalg.triangular_solve(slab, jnp.concatenate(panels, axis=-1), **left, **upper)
    back = jnp.broadcast_to(jnp.argsort(rows, axis=-1)[..., None], z.shape)
    x = jnp.take_along_axis(z, back, axis=-2)
    g = random_signs(n).astype(a.dtype)
    rest = jnp.matmul(a, jnp.matmul(x, g, precision=EXACT), precision=EXACT) - g
    most = jnp.max(jnp.sqrt(jnp.mean(jnp.square(jnp.abs(rest)), axis=-1)), axis=-1)
    norm = jnp.max(jnp.sum(jnp.abs(a), axis=-1), axis=-1)
    of_x = jnp.max(jnp.sum(jnp.abs(x), axis=-1), axis=-1)
    error = most / (norm * of_x + 1)
    limit = _GIVEN_UP_FROM * jnp.finfo(a.dtype).eps / 2
    fine = made & (_growth_of(record) < float(jnp.finfo(a.dtype).eps / 2) ** -0.5)
    fine &= is_in_range(norm) & is_in_range(of_x)
    fine &= error <= limit  # not if it is NaN
    for right in b:
        fine &= jnp.all(right == identity, axis=(-2, -1))
    figures = _error_and_rcond(error, a, x)
    found = adjoint_of(x) if adjoint else x, words(made, FINE), figures
    return unless(fine, found, usual, *given)


def _one_norm(a: jax.Array) -> Arrays:
    """The 1-norm, (...,), over a power of two, and its exponent: sums may not fit the range."""
    exponent = exponent_of(jnp.max(size_of(a), axis=(-2, -1), keepdims=True))
    scaled = times_power(a, -exponent)
    return jnp.max(jnp.sum(jnp.abs(scaled), axis=-2), axis=-1), exponent[..., 0, 0]


def _error_and_rcond(error: jax.Array, a: jax.Array, inverse: jax.Array) -> jax.Array:
    (norm, of_norm), (other, of_other) = _one_norm(a), _one_norm(inverse)
    rcond = jnp.minimum(times_power(1 / (norm * other), -of_norm - of_other), 1)
    return jnp.stack([error, rcond], axis=-1).astype(norm.dtype)


def _growth_of(record: jax.Array) -> jax.Array:
    """Of an LuRecord; rounded up to a power of two."""
    high, exponent = (
        record[..., -2],
        record[..., -1],
    )  # of a double, and of what it is multiplied by
    return 2.0 ** ((high >> 20) - 1022 + exponent).astype(jnp.float32)


def _transpose(a: jax.Array) -> jax.Array:
    return jnp.swapaxes(a, -1, -2)
