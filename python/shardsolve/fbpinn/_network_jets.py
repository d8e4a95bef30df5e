"""Jets of the boxes' networks as JAX computes them, differentiable by all weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from shardsolve.fbpinn._jet import Order, derivative
from shardsolve.fbpinn._net import Mlp, Net

FUNCTIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "tanh": jnp.tanh,
    "sin": jnp.sin,
    "sigmoid": jax.nn.sigmoid,
    "softplus": jax.nn.softplus,
    "gaussian": lambda z: jnp.exp(-z * z),
    "silu": jax.nn.silu,
}

# Of one box, (hidden parameters, 1 / half width along each axis, places in [-1, 1] of its points)
# to the derivatives of its units by the coordinates: an array (points, units) for each order, or
# None where they are 0.
UnitJets = Callable[[Any, jax.Array, jax.Array], list[jax.Array | None]]


def products(orders: Sequence[Order]) -> list[tuple[int, int, int]]:
    """(result, left, right) of all products of two derivatives whose orders add up to a third."""
    place = {order: number for number, order in enumerate(orders)}
    return [
        (place[total], i, j)
        for i, left in enumerate(orders)
        for j, right in enumerate(orders)
        if (total := tuple(a + b for a, b in zip(left, right, strict=True))) in place
    ]


def factorial(order: Order) -> int:
    """Of a derivative: what its Taylor coefficient is multiplied by."""
    return math.prod(map(math.factorial, order))


def times(orders: Sequence[Order], left: jax.Array, right: jax.Array) -> jax.Array:
    """Derivatives of a product from those of its factors, (..., orders), by Leibniz's rule."""
    sums: list[Any] = [0.0] * len(orders)
    for result, i, j in products(orders):
        weight = factorial(orders[result]) / factorial(orders[i]) / factorial(orders[j])
        sums[result] += weight * left[..., i] * right[..., j]
    return jnp.stack(sums, -1)


def network_jets(
    units: UnitJets,
    orders: Sequence[Order],
    hidden: Any,
    last: jax.Array,
    rates: jax.Array,
    places: jax.Array,
) -> jax.Array:
    """Of one box's network: (points, fields, orders).

    Args:
        units: Of the hidden layers.
        orders: Closed as `closure` does it.
        hidden: The hidden layers' parameters.
        last: (fields, units + 1): the constant last.
        rates: (dimensions,): 1 / half width.
        places: (points, dimensions): scaled to [-1, 1] over the box.
    """
    found = []
    for number, jet in enumerate(units(hidden, rates, places)):
        if jet is None:
            found.append(jnp.zeros((len(places), len(last)), last.dtype))
        else:
            found.append(jet @ last[:, :-1].T + (last[:, -1] if number == 0 else 0))
    return jnp.stack(found, -1)


def unit_jets(net: Mlp | Net, orders: Sequence[Order]) -> UnitJets:
    """Those of all hidden layers."""
    return _of_layers(net, orders) if isinstance(net, Mlp) else _of_function(net, orders)


def _of_layers(net: Mlp, orders: Sequence[Order]) -> UnitJets:
    """Taylor coefficients from layer to layer; f(z) by Horner's scheme in z - z_0."""
    most = max(map(sum, orders))
    pairs = products(orders)
    function = FUNCTIONS[net.activation]

    def product(left: list, right: list) -> list:
        sums: list[Any] = [None] * len(orders)
        for result, i, j in pairs:
            if left[i] is not None and right[j] is not None:
                one = left[i] * right[j]
                sums[result] = one if sums[result] is None else sums[result] + one
        return sums

    def activated(z: list) -> list:
        series = _derivatives(function, z[0], most)
        rest = [None, *z[1:]]
        out: list[Any] = [series[most] / math.factorial(most)] + [None] * (len(orders) - 1)
        for m in range(most - 1, -1, -1):
            out = product(out, rest)
            out[0] = series[m] / math.factorial(m)
        return out

    def jets(hidden: Any, rates: jax.Array, places: jax.Array) -> list[jax.Array | None]:
        h: list[Any] = [None] * len(orders)
        h[0] = places
        for number, order in enumerate(orders):
            if sum(order) == 1:
                axis = order.index(1)
                h[number] = rates[axis] * jnp.eye(1, len(rates), axis, dtype=places.dtype)
        for weights, biases in hidden:
            z = [None if one is None else one @ weights.T for one in h]
            z[0] = z[0] + biases
            h = activated(z)
        return [
            None if one is None else factorial(order) * one
            for one, order in zip(h, orders, strict=True)
        ]

    return jets


def _derivatives(
    function: Callable[[jax.Array], jax.Array], z: jax.Array, most: int
) -> list[jax.Array]:
    """f(z), f'(z), ... element by element."""
    found = []
    for _ in range(most + 1):
        found.append(function(z))
        function = _slope(function)
    return found


def _slope(function: Callable[[jax.Array], jax.Array]) -> Callable[[jax.Array], jax.Array]:
    return lambda z: jax.jvp(function, (z,), (jnp.ones_like(z),))[1]


def _of_function(net: Net, orders: Sequence[Order]) -> UnitJets:
    def jets(hidden: Any, rates: jax.Array, places: jax.Array) -> list[jax.Array | None]:
        def at(place: jax.Array) -> list[jax.Array]:
            def features(shift: jax.Array) -> jax.Array:
                return net.features(hidden, place + shift * rates)

            return [derivative(features, order)(0 * place) for order in orders]

        return jax.vmap(at)(places)

    return jets
