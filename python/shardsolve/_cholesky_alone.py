"""Small Hermitian positive definite systems on a device that is alone, one or a batch of them.

What devices need to meet takes longer than such a system. On the CPU a local call of the library
solves it in XLA's thread, a batch in all of them. On a GPU XLA's own routines do, batched, and what
they give is looked at here as the library looks at its own. Whatever is not fine, or not certain,
is left to the library's usual call: it says what is wrong, or takes more pains.

All functions here take and give what the calls `cholesky_factor` and `cholesky_solve` do, or a
batch of that.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax import lax

from shardsolve import _local
from shardsolve._records import FACTOR_WORDS, VERDICT_WORDS

# One CPU device, seconds of `solve` in `jit` beside jax.scipy's: bench/small.py, and the table in
# docs/performance.md. Beyond this size threads of a mesh are worth waking.
MOST_ROWS_ON_CPU = 512
# Beyond this size the library's call is as fast as cuSOLVER's on one GPU.
MOST_ROWS_ON_GPU = 2048

_REFINED_FROM = 4  # units of rounding; see src/dense/cholesky/certified_solve.hpp
FINE = (0, -1, -1, -1, 0)  # a verdict that has nothing to say
_EXACT = {"precision": lax.Precision.HIGHEST}

Arrays = tuple[jax.Array, ...]
Usual = Callable[..., Arrays]


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
        *(slab, diagonal, record, _adjoint(b)),
        lengths=(VERDICT_WORDS, (k, n), 1),
    )
    return _adjoint(x), verdict, error


def factor_by_xla(usual: Usual, a: jax.Array) -> Arrays:
    """A = L L^H by XLA's routine, if A is Hermitian beyond doubt."""
    n = a.shape[-1]
    sizes, real = jnp.sum(jnp.abs(a), axis=-1), jnp.finfo(a.dtype)
    norm = jnp.max(sizes, axis=-1)
    fine = jnp.all(is_hermitian(a, sizes), axis=-1) & is_in_range(norm)
    # The library works on rows as on columns of conj(A), whose factor is conj(L).
    lower = lax.linalg.cholesky(_adjoint(a), symmetrize_input=False)
    pivots = jnp.real(jnp.diagonal(lower, axis1=-2, axis2=-1))
    fine &= jnp.all(pivots > real.tiny / real.eps, axis=-1)  # of NaN, too
    rows = jnp.arange(n)
    slab = jnp.where(rows[:, None] > rows, a, _adjoint(lower))
    diagonal = jnp.real(jnp.diagonal(a, axis1=-2, axis2=-1))
    log_determinant = 2 * jnp.sum(jnp.log(pivots), axis=-1, keepdims=True)
    return unless(fine, (slab, diagonal, log_determinant, _record_of(n, norm)), usual, a)


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
    error, residual, exponent = backward_error(a, x, b)
    # Made of a matrix of this size by one device, or not at all.
    made = _is(record, (0, None, None, None, None, n, 1, 1))
    verdict = _words(made, FINE)

    def certified(x: jax.Array, error: jax.Array) -> Arrays:
        found = x, verdict, error[..., None]
        return unless(made & jnp.isfinite(error), found, usual, slab, diagonal, record, b)

    if k > 1:
        return certified(x, error)

    def refined() -> Arrays:
        closer = x + _times_power(solve(residual), exponent)
        again = backward_error(a, closer, b)[0]
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
    off = jnp.sum(jnp.abs(a - _adjoint(a)), axis=-1)
    return off <= 16 * math.sqrt(a.shape[-1]) * jnp.finfo(a.dtype).eps / 2 * sizes


def is_in_range(norm: jax.Array) -> jax.Array:
    """Whether it is so far from the ends of the range that nobody has to scale."""
    return (norm >= 2.0**-60) & (norm <= 2.0**60)


def backward_error(a: jax.Array, x: jax.Array, b: jax.Array) -> Arrays:
    """The largest ||b - A x|| / (||A|| ||x|| + ||b||) of all columns, in the infinity norm.

    And b - A x, as (..., n, k) and the exponents of the powers of two, (..., 1, k), that it is to
    be multiplied by.

    The residual has to be known to more digits than A x has, and XLA rounds and contracts sums as
    it likes. So A and x are cut into parts of so few bits that sums of products of the first ones
    are whole numbers without any rounding, in whatever order; what is left is so small that its
    rounding does no harm. Source: K. Ozaki, T. Ogita, S. Oishi, S. M. Rump, Numer. Algorithms 59
    (2012) 95. NaN if x or b is not finite.

    Args:
        a: (..., n, n), in range.
        x: (..., n, k).
        b: (..., n, k).
    """
    norm = jnp.max(jnp.sum(jnp.abs(a), axis=-1), axis=-1)[..., None, None]
    # Powers of two that bring the entries of A and of each column of x to at most 1.
    of_a = _exponent(jnp.max(_size(a), axis=(-2, -1), keepdims=True))
    of_x = _exponent(jnp.max(_size(x), axis=-2, keepdims=True))
    a, x, b = _times_power(a, -of_a), _times_power(x, -of_x), _times_power(b, -of_a - of_x)
    real = jnp.finfo(a.dtype)
    terms = a.shape[-1] * (4 if jnp.iscomplexobj(a) else 1)
    bits = (real.nmant + 1 - math.ceil(math.log2(terms))) // 2
    first, rest = _cut(a, bits)
    x_first, x_rest = _cut(x, bits)
    products = [(first, x_first)]
    if real.bits == 32:  # so few bits that a second part is needed
        second, rest = _cut(rest, 2 * bits)
        x_second, x_third = _cut(x_rest, 2 * bits)
        products += [(first, x_second), (second, x_first), (second, x_rest)]
        x_rest = x_third
    products += [(first, x_rest), (rest, x)]
    r = _less(b, [jnp.matmul(*factors, **_EXACT) for factors in products])
    most_r, most_x, most_b = (
        jnp.max(jnp.abs(one), axis=-2, keepdims=True, initial=0) for one in (r, x, b)
    )
    whole = jnp.ldexp(norm, -of_a) * most_x + most_b
    error = jnp.where(whole > 0, most_r / jnp.where(whole > 0, whole, 1), most_r)
    error = jnp.max(jnp.where(jnp.isnan(whole), jnp.nan, error), axis=(-2, -1), initial=0)
    return error, r, of_a + of_x


def unless(fine: jax.Array, found: Arrays, usual: Usual, *arguments: jax.Array) -> Arrays:
    """`found` where it is fine, elsewhere the usual call's results, one after the other."""

    def one(fine: jax.Array, found: Arrays, arguments: Arrays) -> Arrays:
        return lax.cond(fine, lambda found, _: found, lambda _, own: usual(*own), found, arguments)

    if fine.ndim == 0:
        return one(fine, found, arguments)
    return lax.cond(
        jnp.all(fine),
        lambda found, *_: found,
        lambda *all_of_it: lax.map(lambda own: one(own[1], own[0], own[2]), all_of_it),
        *(found, fine, arguments),
    )


def _adjoint(a: jax.Array) -> jax.Array:
    return jnp.conj(jnp.swapaxes(a, -1, -2))


def _matrix_of(slab: jax.Array, diagonal: jax.Array) -> jax.Array:
    """The A that a factor keeps: below the diagonal it is still there."""
    rows = jnp.arange(slab.shape[-1])
    below = rows[:, None] > rows
    mirrored = jnp.where(below, slab, _adjoint(slab))
    return jnp.where(rows[:, None] == rows, diagonal[..., None].astype(slab.dtype), mirrored)


def _size(a: jax.Array) -> jax.Array:
    """Of a complex number the larger of its parts."""
    return jnp.maximum(jnp.abs(a.real), jnp.abs(a.imag)) if jnp.iscomplexobj(a) else jnp.abs(a)


def _exponent(size: jax.Array) -> jax.Array:
    """Of the power of two that is larger; 0 of what has none."""
    exponent = jnp.frexp(jnp.where(jnp.isfinite(size) & (size > 0), size, 1))[1]
    return jnp.where(jnp.isfinite(size) & (size > 0), exponent, 0)


def _times_power(a: jax.Array, exponent: jax.Array) -> jax.Array:
    return a * jnp.ldexp(jnp.ones((), jnp.finfo(a.dtype).dtype), exponent)


def _cut(a: jax.Array, bits: int) -> Arrays:
    """`a` in whole multiples of 2^-bits, and what is left, exactly."""
    # Its bits say what it is multiplied by: no product is rounded.
    up, down = 2.0**bits, 2.0**-bits

    def rounded(part: jax.Array) -> jax.Array:
        return lax.round(part * up, lax.RoundingMethod.TO_NEAREST_EVEN) * down

    first = lax.complex(rounded(a.real), rounded(a.imag)) if jnp.iscomplexobj(a) else rounded(a)
    return first, a - first


def _less(total: jax.Array, terms: Sequence[jax.Array]) -> jax.Array:
    """`total` without the terms; what rounding takes is kept: D. E. Knuth's sum of two."""
    lost = jnp.zeros_like(total)
    for term in terms:
        before, total = total, total - term
        taken = before - total
        lost = lost + ((before - (total + taken)) - (term - taken))
    return total + lost


def _record_of(n: int, norm: jax.Array) -> jax.Array:
    """FactorRecord of jax/records.hpp: a verdict, n, devices, ranks, tile, norm as three words."""
    fraction, exponent = jnp.frexp(norm)
    # A double in [1/2, 1): its exponent is stored as 1022, then 20 and 32 bits of the fraction.
    bits = (2 * fraction - 1) * 2.0**20
    high = jnp.floor(bits)
    low = lax.bitcast_convert_type(((bits - high) * 2.0**32).astype(jnp.uint32), jnp.int32)
    norm_words = low, (1022 << 20) + high.astype(jnp.int32), exponent.astype(jnp.int32)
    first = _words(norm, (*FINE, n, 1, 1, _tile(n)))
    return jnp.concatenate([first, jnp.stack(norm_words, axis=-1)], axis=-1)


# `custom_partitioning` takes no constant arrays, only numbers.


def _words(like: jax.Array, words: Sequence[int]) -> jax.Array:
    """(..., count) for a batch of the shape of `like`."""
    return jnp.stack([jnp.full_like(like, word, dtype=jnp.int32) for word in words], axis=-1)


def _is(record: jax.Array, words: Sequence[int | None]) -> jax.Array:
    """Whether a record begins with these words; None: any."""
    known = [record[..., at] == word for at, word in enumerate(words) if word is not None]
    return functools.reduce(jnp.logical_and, known)


def _tile(n: int) -> int:
    """Any that the library accepts: it is that of later solves, where it is of little weight."""
    return min(512, max(64, -(-n // 64) * 64))
