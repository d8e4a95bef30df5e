"""Normalised windows of subdomains and their derivatives in JAX, at points that are drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from shardsolve.fbpinn._jet import Order
from shardsolve.fbpinn._network_jets import factorial, products, times


def normalised_windows(
    orders: Sequence[Order], place: jax.Array, rates: jax.Array, levels: jax.Array
) -> jax.Array:
    """Derivatives of each window divided by the sum of all of its level.

    Args:
        orders: Closed as `closure` does it.
        place: (dimensions, points, boxes): of each point in the boxes around it, in half widths
            from their centres; outside of [-1, 1] the window is 0.
        rates: (dimensions, points, boxes): 1 / half width.
        levels: (levels, points, boxes): 1 for boxes of the level, 0 for others.

    Returns:
        (orders, points, boxes).
    """
    windows = _windows(orders, place, rates)
    total = jnp.zeros_like(windows)
    for level in levels:
        sums = (windows * level).sum(-1)
        total += jnp.stack(_reciprocal(orders, sums))[..., None] * level
    return times(orders, windows, total)


def _windows(orders: Sequence[Order], place: jax.Array, rates: jax.Array) -> jax.Array:
    """Products of cos(pi t / 2)^4 along each axis."""
    most = [max(order[axis] for order in orders) for axis in range(len(place))]
    along = [_bump(t, math.pi / 2 * rate, n) for t, rate, n in zip(place, rates, most, strict=True)]
    return jnp.stack(
        [
            math.prod(along[axis][n] for axis, n in enumerate(order))  # type: ignore[misc]
            for order in orders
        ]
    )


def _bump(t: jax.Array, rate: jax.Array, most: int) -> list[jax.Array]:
    """cos(pi t / 2)^4 and its derivatives by the coordinate, 0 outside."""
    inside = jnp.abs(t) < 1
    c, s = (jnp.where(inside, one, 0) for one in _cos_and_sin(math.pi / 2 * jnp.clip(t, -1, 1)))
    derivatives = (
        lambda: c**4,
        lambda: -4 * rate * c**3 * s,
        lambda: 4 * rate**2 * (3 * c**2 * s**2 - c**4),
        lambda: 8 * rate**3 * (5 * c**3 * s - 3 * c * s**3),
        lambda: 8 * rate**4 * (3 * s**4 - 24 * c**2 * s**2 + 5 * c**4),
    )
    return [one() for one in derivatives[: most + 1]]


def _cos_and_sin(z: jax.Array) -> tuple[jax.Array, jax.Array]:
    """To rounding for |z| <= pi / 2, by their series, which XLA vectorises on CPUs."""
    last = 14 if z.dtype == jnp.float32 else 24
    square = z * z
    found = []
    for first in (0, 1):
        total = jnp.zeros_like(z)
        for power in range(last + first, first - 1, -2):
            total = total * square + (-1) ** (power // 2) / math.factorial(power)
        found.append(total)
    return found[0], z * found[1]


def _reciprocal(orders: Sequence[Order], sums: jax.Array) -> list[jax.Array]:
    """Derivatives of 1 / S from those of S, by Leibniz's rule for S / S = 1; 0 where S is 0."""
    is_there = sums[0] > 0
    first = jnp.where(is_there, 1 / jnp.where(is_there, sums[0], 1), 0)
    found = [first]
    for number in range(1, len(orders)):
        rest = jnp.zeros_like(first)
        for result, i, j in products(orders):
            if result == number and i > 0:
                weight = factorial(orders[number]) / factorial(orders[i]) / factorial(orders[j])
                rest += weight * sums[i] * found[j]
        found.append(-first * rest)
    return found
