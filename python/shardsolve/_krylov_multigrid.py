"""Preconditioners made of products: Chebyshev polynomials, and multigrid that they smooth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from shardsolve import _sparse_products
from shardsolve._krylov_linear import Linear, Product, Sparse, register
from shardsolve._krylov_rounds import Place


@register("low", "high", "degree")
class Chebyshev(Product):
    """A polynomial in A; Y. Saad, Iterative Methods for Sparse Linear Systems (2003), 12.1."""

    of: Any
    low: float = field()
    high: float = field()
    degree: int = field()

    def apply(self, x: jax.Array, place: Place) -> jax.Array:
        return chebyshev_steps(
            lambda d: self.of.apply(d, place), x, self.low, self.high, self.degree
        )

    def forward(self, x: jax.Array, place: Place) -> jax.Array:
        return chebyshev_steps(
            lambda d: self.of.forward(d, place), x, self.low, self.high, self.degree
        )

    def transposed(self) -> Linear:
        return Chebyshev(self.of.transposed(), self.low, self.high, self.degree)

    def conjugated(self) -> Linear:
        return Chebyshev(self.of.conjugated(), self.low, self.high, self.degree)


def chebyshev_steps(
    multiply: Callable[[jax.Array], jax.Array],
    right: jax.Array,
    low: Any,
    high: Any,
    degree: int,
) -> jax.Array:
    """Returns z with A z about `right`, from z = 0: degree - 1 products with A."""
    real = right.real.dtype
    middle, half = 0.5 * (high + low), 0.5 * (high - low)
    sigma = middle / half
    rho = 1.0 / sigma
    direction = right * jnp.asarray(1.0 / middle, real)
    z = direction
    for _ in range(1, degree):
        right = right - multiply(direction)
        following = 1.0 / (2.0 * sigma - rho)
        direction = (
            jnp.asarray(following * rho, real) * direction
            + jnp.asarray(2.0 * following / half, real) * right
        )
        z = z + direction
        rho = following
    return z


@register()
class Level:
    """One level of a multigrid hierarchy: A, prolongation, restriction, 1 / diagonal of A."""

    a: Sparse
    prolongation: Sparse
    restriction: Sparse
    scale: jax.Array


@register("bounds", "degree")
class Multigrid(Product):
    """A V-cycle with Chebyshev smoothing of D^-1 A in `bounds` of each level."""

    levels: list[Level]
    coarse: Sparse  # the inverse of the coarsest level's matrix
    bounds: tuple[tuple[float, float], ...] = field()
    degree: int = field()

    def apply(self, x: jax.Array, place: Place) -> jax.Array:
        return _whole(
            lambda x: self._cycle(0, x, lambda a, x: a.pattern.product(a.data, x)), x, place
        )

    def forward(self, x: jax.Array, place: Place) -> jax.Array:
        return _whole(
            lambda x: self._cycle(
                0, x, lambda a, x: _sparse_products.multiply(a.pattern, a.data, x)
            ),
            x,
            place,
        )

    def _cycle(self, number: int, right: jax.Array, product: Callable) -> jax.Array:
        if number == len(self.levels):
            return product(self.coarse, right)
        level, (low, high) = self.levels[number], self.bounds[number]

        def smooth(right: jax.Array) -> jax.Array:
            return chebyshev_steps(
                lambda d: level.scale * product(level.a, d),
                level.scale * right,
                low,
                high,
                self.degree,
            )

        x = smooth(right)
        coarse = product(level.restriction, right - product(level.a, x))
        x = x + product(level.prolongation, self._cycle(number + 1, coarse, product))
        return x + smooth(right - product(level.a, x))

    def transposed(self) -> Linear:
        levels = [
            Level(
                level.a.transposed(),
                level.restriction.transposed(),
                level.prolongation.transposed(),
                level.scale,
            )
            for level in self.levels
        ]
        return Multigrid(levels, self.coarse.transposed(), self.bounds, self.degree)

    def conjugated(self) -> Linear:
        return jax.tree.map(jnp.conj, self)


def _whole(function: Callable, x: jax.Array, place: Place) -> jax.Array:
    """function(x) where each device does all of it, as its parts are of other sizes than x."""

    def own_rows(x: jax.Array) -> tuple[jax.Array]:
        if not place.axes:
            return (function(x),)
        own = len(x)
        whole = function(lax.all_gather(x, place.axes, tiled=True))
        return (lax.dynamic_slice_in_dim(whole, lax.axis_index(place.axes) * own, own),)

    return place.run(own_rows, (x,), "v", "v")[0]
