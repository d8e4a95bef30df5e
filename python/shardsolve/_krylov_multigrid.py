"""Preconditioners made of products: Chebyshev polynomials, and multigrid that they smooth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from shardsolve import _local, _sparse_products
from shardsolve._krylov_linear import (
    Linear,
    Product,
    Sparse,
    linear_in_x,
    register,
    require_made_for,
)
from shardsolve._krylov_rounds import Place


@register("low", "high", "degree")
class Chebyshev(Product):
    """A polynomial in A; Y. Saad, Iterative Methods for Sparse Linear Systems (2003), 12.1."""

    of: Any
    low: float = field()
    high: float = field()
    degree: int = field()

    def apply(self, x: jax.Array, place: Place) -> jax.Array:
        return linear_in_x(self, x, place)

    def forward(self, x: jax.Array, place: Place) -> jax.Array:
        require_made_for(self.of.pattern.shape[0], x, place)
        return chebyshev_steps(
            lambda d: self.of.forward(d, place), x, None, self.low, self.high, self.degree, place
        )

    def transposed(self) -> Linear:
        return Chebyshev(self.of.transposed(), self.low, self.high, self.degree)

    def conjugated(self) -> Linear:
        return Chebyshev(self.of.conjugated(), self.low, self.high, self.degree)


def chebyshev_steps(
    multiply: Callable[[jax.Array], jax.Array],
    right: jax.Array,
    diagonal: jax.Array | None,
    low: float,
    high: float,
    degree: int,
    place: Place,
) -> jax.Array:
    """Returns z with A z about `right`, from z = 0: degree - 1 products with A. No derivative.

    Args:
        multiply: The product with A.
        right: What A z is to be, cut as `place` says.
        diagonal: D of the iteration with D^-1 A, of a vector that each device has whole; or None.
        low: Of the interval of eigenvalues of A, or of D^-1 A.
        high: Likewise.
        degree: Steps.
        place: Where the rows of vectors lie.
    """

    def call(name: str, *operands: jax.Array, **options: Any) -> tuple[jax.Array, ...]:
        def own_rows(x: jax.Array, *vectors: jax.Array) -> tuple[jax.Array, ...]:
            zero = jnp.zeros(1, jnp.int32)
            d = jnp.zeros(0, x.dtype) if diagonal is None else diagonal
            aliases = {3 + v: v for v in range(len(vectors))}
            lengths = (*(x.shape[0],) * 3, d.shape[0])
            return _local.call(
                name,
                x,
                zero,
                d,
                *vectors,
                lengths=lengths,
                aliases=aliases,
                recorded=True,
                **options,
            )[:3]

        return place.run(own_rows, operands, "v" * len(operands), "vvv")

    bounds = {"low": low, "high": high}
    vectors = call("krylov_chebyshev_begin", right, **bounds)
    for step in range(1, degree):
        product = multiply(vectors[1])
        vectors = call("krylov_chebyshev_step", product, *vectors, step=step, **bounds)
    return vectors[2]


@register()
class Level:
    """One level of a multigrid hierarchy: A, prolongation, restriction, diagonal of A."""

    a: Sparse
    prolongation: Sparse
    restriction: Sparse
    diagonal: jax.Array


@register("bounds", "degree")
class Multigrid(Product):
    """A V-cycle with Chebyshev smoothing of D^-1 A in `bounds` of each level.

    As krylov::Operator::multigrid does it, so with the bits of C++ and of the command. What is not
    a call of the library is a sum of two vectors.
    """

    levels: list[Level]
    coarse: Sparse  # the inverse of the coarsest level's matrix
    bounds: tuple[tuple[float, float], ...] = field()
    degree: int = field()

    def apply(self, x: jax.Array, place: Place) -> jax.Array:
        return linear_in_x(self, x, place)

    def forward(self, x: jax.Array, place: Place) -> jax.Array:
        first = self.levels[0].a if self.levels else self.coarse
        require_made_for(first.pattern.shape[0], x, place)
        return _whole(lambda x: self._cycle(0, x), x, place)

    def _cycle(self, number: int, right: jax.Array) -> jax.Array:
        def product(a: Sparse, x: jax.Array) -> jax.Array:
            return _sparse_products.multiply(a.pattern, a.data, x)

        if number == len(self.levels):
            return product(self.coarse, right)
        level, (low, high) = self.levels[number], self.bounds[number]

        def smooth(right: jax.Array) -> jax.Array:
            return chebyshev_steps(
                lambda d: product(level.a, d),
                right,
                level.diagonal,
                low,
                high,
                self.degree,
                Place(None),
            )

        x = smooth(right)
        coarse = product(level.restriction, right - product(level.a, x))
        x = x + product(level.prolongation, self._cycle(number + 1, coarse))
        return x + smooth(right - product(level.a, x))

    def transposed(self) -> Linear:
        levels = [
            Level(
                level.a.transposed(),
                level.restriction.transposed(),
                level.prolongation.transposed(),
                level.diagonal,
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
