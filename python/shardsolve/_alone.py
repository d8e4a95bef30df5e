"""What calls for small systems on a device that is alone have in common.

What devices need to meet takes longer than such a system. XLA's own routines do it, or a local call
of the library, and what they give is looked at here as the library looks at its own. Whatever is
not fine, or not certain, is left to the library's usual call: it says what is wrong, or takes more
pains.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

FINE = (0, -1, -1, -1, 0)  # a verdict that has nothing to say
EXACT = lax.Precision.HIGHEST

Arrays = tuple[jax.Array, ...]
Usual = Callable[..., Arrays]


# Of right-hand sides; of more XLA's routines are faster than eight warps.
MOST_COLUMNS_OF_A_BLOCK = 16
# Beyond that XLA's routines took less time on an H200; runtime/small_systems.hpp has the same.
_MOST_ROWS_OF_A_BLOCK = 64


def fits_a_block(n: int) -> bool:
    """Whether a block of a GPU's threads factors such a matrix, and solves, in its own memory."""
    return n <= _MOST_ROWS_OF_A_BLOCK


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


def is_in_range(norm: jax.Array) -> jax.Array:
    """Whether it is so far from the ends of the range that nobody has to scale."""
    return (norm >= 2.0**-60) & (norm <= 2.0**60)


def largest_bits(a: jax.Array, axis: int | None = None) -> jax.Array:
    """Of the largest part of a number of `a`, by its size, as a whole number.

    What is larger has the larger one, NaN the largest. XLA on CPUs takes subnormal numbers for
    zeros, but not their bits.
    """
    return jnp.max(functools.reduce(jnp.maximum, _bits_of_parts(a)), axis=axis)


def is_short(a: jax.Array) -> jax.Array:
    """Which numbers are so small, and not 0, that what is left of them may lack digits."""
    return _is_below(a, bits_of_shortest(a.dtype))


def is_subnormal(a: jax.Array) -> jax.Array:
    """Which numbers have a part that XLA on CPUs takes for 0."""
    real = jnp.finfo(a.dtype)
    return _is_below(a, real.tiny.view(f"uint{real.bits}"))


def _is_below(a: jax.Array, limit: np.unsignedinteger) -> jax.Array:
    below = [(bits > 0) & (bits < limit) for bits in _bits_of_parts(a)]
    return functools.reduce(jnp.logical_or, below)


def lifted(a: jax.Array) -> jax.Array:
    """Numbers of size 1 at most times 2^lift(), which brings subnormal ones into the range."""
    if jnp.iscomplexobj(a):
        return lax.complex(lifted(jnp.real(a)), lifted(jnp.imag(a)))
    real, power = jnp.finfo(a.dtype), lift(a.dtype)
    (bits,) = _bits_of_parts(a)
    steps = bits.astype(a.dtype) * 2.0 ** (real.minexp - real.nmant + power)
    steps = jnp.where(jnp.signbit(a), -steps, steps)
    return jnp.where(bits < real.tiny.view(f"uint{real.bits}"), steps, a * 2.0**power)


def lift(dtype: jnp.dtype) -> int:
    return jnp.finfo(dtype).maxexp // 2


def bits_of_shortest(dtype: jnp.dtype) -> np.unsignedinteger:
    """Of the least number that has all its digits, and leaves rounding above the range's end."""
    real = jnp.finfo(dtype)
    return (real.tiny / real.eps).view(f"uint{real.bits}")


def _bits_of_parts(a: jax.Array) -> list[jax.Array]:
    real = jnp.finfo(a.dtype).dtype
    kind, sign = (jnp.uint32, 31) if real == jnp.float32 else (jnp.uint64, 63)
    parts = (jnp.real(a), jnp.imag(a)) if jnp.iscomplexobj(a) else (a,)
    return [lax.bitcast_convert_type(part, kind) & kind(2**sign - 1) for part in parts]


def column_errors(a: jax.Array, x: jax.Array, b: jax.Array) -> Arrays:
    """||b - A x|| / (||A|| ||x|| + ||b||) of each column, (..., k), in the infinity norm.

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
    # Powers of two that bring the entries of A and of each column of x to at most 1.
    of_a = exponent_of(jnp.max(size_of(a), axis=(-2, -1), keepdims=True))
    of_x = exponent_of(jnp.max(size_of(x), axis=-2, keepdims=True))
    a, x, b = times_power(a, -of_a), times_power(x, -of_x), times_power(b, -of_a - of_x)
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
    r = _less(b, [jnp.matmul(*factors, precision=EXACT) for factors in products])
    most_r, most_x, most_b = (
        jnp.max(jnp.abs(one), axis=-2, keepdims=True, initial=0) for one in (r, x, b)
    )
    norm = jnp.max(jnp.sum(jnp.abs(a), axis=-1), axis=-1)[..., None, None]  # in range, so scaled
    whole = norm * most_x + most_b
    error = jnp.where(whole > 0, most_r / jnp.where(whole > 0, whole, 1), most_r)
    error = jnp.where(jnp.isnan(whole), jnp.nan, error)[..., 0, :]
    return error, r, of_a + of_x


def adjoint_of(a: jax.Array) -> jax.Array:
    return jnp.conj(jnp.swapaxes(a, -1, -2))


def size_of(a: jax.Array) -> jax.Array:
    """Of a complex number the larger of its parts."""
    return jnp.maximum(jnp.abs(a.real), jnp.abs(a.imag)) if jnp.iscomplexobj(a) else jnp.abs(a)


def exponent_of(size: jax.Array) -> jax.Array:
    """Of the power of two that is larger; 0 of what has none."""
    exponent = jnp.frexp(jnp.where(jnp.isfinite(size) & (size > 0), size, 1))[1]
    return jnp.where(jnp.isfinite(size) & (size > 0), exponent, 0)


def times_power(a: jax.Array, exponent: jax.Array) -> jax.Array:
    """`a` times 2^exponent: in two steps, as XLA takes a power of two that is subnormal for 0."""
    one = jnp.ones((), jnp.finfo(a.dtype).dtype)
    half = exponent // 2
    for part in (half, exponent - half):
        a = a * jnp.ldexp(one, part).astype(a.dtype)
    return a


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


def factor_record(n: int, norm: jax.Array) -> jax.Array:
    """FactorRecord of jax/records.hpp: a verdict, n, devices, ranks, tile, norm."""
    # Any tile that the library accepts: it is that of later solves, where it is of little weight.
    tile = min(512, max(64, -(-n // 64) * 64))
    return jnp.concatenate([words(norm, (*FINE, n, 1, 1, tile)), scaled_words(norm)], axis=-1)


def scaled_words(number: jax.Array) -> jax.Array:
    """ScaledWords of jax/records.hpp, of positive numbers: (..., 3)."""
    fraction, exponent = jnp.frexp(number)
    # A double in [1/2, 1): its exponent is stored as 1022, then 20 and 32 bits of the fraction.
    bits = (2 * fraction - 1) * 2.0**20
    high = jnp.floor(bits)
    low = lax.bitcast_convert_type(((bits - high) * 2.0**32).astype(jnp.uint32), jnp.int32)
    parts = low, (1022 << 20) + high.astype(jnp.int32), exponent.astype(jnp.int32)
    return jnp.stack(parts, axis=-1)


# `custom_partitioning` takes no constant arrays, only numbers.


def words(like: jax.Array, numbers: Sequence[int]) -> jax.Array:
    """(..., count) for a batch of the shape of `like`."""
    return jnp.stack([jnp.full_like(like, one, dtype=jnp.int32) for one in numbers], axis=-1)


def begins_with(record: jax.Array, numbers: Sequence[int | None]) -> jax.Array:
    """Whether a record begins with these words; None: any."""
    known = [record[..., at] == one for at, one in enumerate(numbers) if one is not None]
    return functools.reduce(jnp.logical_and, known)


def made_alone(record: jax.Array, n: int) -> jax.Array:
    """Whether one device has made it of a matrix of this size, or nobody."""
    return begins_with(record, (0, None, None, None, None, n, 1, 1))
