"""Divided differences f[x_0, ..., x_k] of a function of one number, at points near each other too.

Far from each other they are quotients of differences of lower order, whose rounding grows as the
points come near: u f / distance. Near each other they are a Taylor series about one of the points,

    f[x_0, ..., x_l] = sum over j of c_l+j h_j(x_0 - x_m, ..., x_l - x_m),    c_j = f^(j)(x_m) / j!,

with h_j the sum of all monomials of degree j. How near is near depends on the function and is not
known, so both are computed, each with an estimate of its error. The series is taken where that is
smaller, and where the quotient agrees: the series knows nothing of a kink between the points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp

# Derivatives beyond the order of the difference. The last one only tells how good the series is.
# With e = distance / the scale on which f changes, the errors u / e and e^4 are equal at e = u^1/5,
# where both are about 2e-13 for float64.
EXTRA_ORDERS = 4
AGREEMENT = 4  # times the estimated error of the quotient

Point = tuple[jax.Array, Sequence[jax.Array]]  # x and c_0, c_1, ... there


def taylor_coefficients(
    function: Callable[[jax.Array], jax.Array], order: int
) -> Callable[[jax.Array], tuple[jax.Array, ...]]:
    """Of one number x: f(x), f'(x), f''(x) / 2, ... up to that order."""

    def derivatives(x: jax.Array, order: int) -> tuple[jax.Array, ...]:
        if order == 0:
            return (function(x),)
        values, slopes = jax.jvp(lambda x: derivatives(x, order - 1), (x,), (jnp.ones_like(x),))
        return (*values, slopes[-1])

    def run(x: jax.Array) -> tuple[jax.Array, ...]:
        values = derivatives(x, order)
        return tuple(value / math.factorial(j) for j, value in enumerate(values))

    return run


def divided_difference(points: Sequence[Point], size: jax.Array) -> jax.Array:
    """f[x_0, ..., x_k], whatever the order of the points.

    Args:
        points: k + 1 of them, arrays of shapes that broadcast, real. Each with k + EXTRA_ORDERS + 1
            coefficients.
        size: Points are known up to rounding of a number of this size: nearer ones may be equal.

    Returns:
        An array of the common shape and the type of the coefficients.
    """
    ascending = _sorted(points)
    x, coefficients = [point[0] for point in ascending], [point[1] for point in ascending]
    rounding = float(jnp.finfo(x[0].dtype).eps)
    values = [c[0] for c in coefficients]
    errors = [rounding * jnp.abs(value) for value in values]
    for order in range(1, len(points)):
        for i in range(len(points) - order):  # in the place of what nothing needs any more
            distance = x[i + order] - x[i]
            middle = i + order // 2
            offsets = [x[j] - x[middle] for j in range(i, i + order + 1) if j != middle]
            series, of_series = _series(coefficients[middle][order:], offsets, rounding)
            quotient = (values[i + 1] - values[i]) / distance
            of_points = rounding * size * jnp.abs(series)
            of_quotient = (errors[i] + errors[i + 1] + of_points) / distance
            agree = jnp.abs(series - quotient) <= AGREEMENT * of_quotient
            take = (distance == 0) | (agree & (of_series <= of_quotient))
            values[i] = jnp.where(take, series, quotient)
            errors[i] = jnp.where(take, of_series, of_quotient)
    return values[0]


def _series(
    coefficients: Sequence[jax.Array], offsets: Sequence[jax.Array], rounding: float
) -> tuple[jax.Array, jax.Array]:
    """The sum, and how far it may be off."""
    monomials: list[jax.Array | float] = [1.0, *[0.0] * EXTRA_ORDERS]
    for offset in offsets:
        for j in range(EXTRA_ORDERS):
            monomials[j + 1] = monomials[j + 1] + offset * monomials[j]
    terms = [c * h for c, h in zip(coefficients, monomials, strict=False)]
    total = sum(terms[1:], terms[0])
    return total, jnp.abs(terms[-1]) + rounding * jnp.abs(total)


def _sorted(points: Sequence[Point]) -> Sequence[Point]:
    """In ascending order of x, entry by entry: a gather would move what lies on other devices."""
    points = list(points)
    for end in range(len(points) - 1, 0, -1):
        for i in range(end):
            (x, of_x), (y, of_y) = points[i], points[i + 1]
            swap = x > y
            pairs = [(x, y), *zip(of_x, of_y, strict=True)]
            low, high = zip(
                *((jnp.where(swap, b, a), jnp.where(swap, a, b)) for a, b in pairs), strict=True
            )
            points[i], points[i + 1] = (low[0], low[1:]), (high[0], high[1:])
    return points
