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

# Of one box, (hidden parameters, last layer (fields, units + 1), 1 / half width along each axis,
# places in [-1, 1] of its points (points, dimensions)) to the derivatives of its network by the
# coordinates, (orders, fields, points). Points come last: products of small matrices with many
# columns are what XLA computes well, sums over points are what it does not.
NetworkJets = Callable[[Any, jax.Array, jax.Array, jax.Array], jax.Array]


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
    """Derivatives of a product from those of its factors, (orders, ...), by Leibniz's rule."""
    sums: list[Any] = [0.0] * len(orders)
    for result, i, j in products(orders):
        weight = factorial(orders[result]) / factorial(orders[i]) / factorial(orders[j])
        sums[result] += weight * left[i] * right[j]
    return jnp.stack(sums)


def network_jets(net: Mlp | Net, orders: Sequence[Order]) -> NetworkJets:
    """Those of a network; `orders` are closed as `closure` does it."""
    if isinstance(net, Net):
        return _contracted(_of_function(net, orders), orders)
    if len(net.widths) == 1:
        return _of_one_layer(net, orders)
    return _contracted(_of_layers(net, orders), orders)


def _of_one_layer(net: Mlp, orders: Sequence[Order]) -> NetworkJets:
    """The derivatives of one order are f^(order)(z), times numbers of the units alone."""
    most = max(map(sum, orders))
    function = FUNCTIONS[net.activation]
    of_order = [[d for d, order in enumerate(orders) if sum(order) == m] for m in range(most + 1)]

    def jets(hidden: Any, last: jax.Array, rates: jax.Array, places: jax.Array) -> jax.Array:
        ((weights, biases),) = hidden
        series = _derivatives(function, _affine(weights, biases, places.T), most)
        slopes = weights * rates
        found: list[Any] = [None] * len(orders)
        for mine, values in zip(of_order, series, strict=True):
            factors = [
                last[:, :-1] * math.prod(slopes[:, a] ** n for a, n in enumerate(orders[d]) if n)
                for d in mine
            ]
            if factors:
                parts = jnp.concatenate(factors) @ values
                for number, d in enumerate(mine):
                    found[d] = parts[number * len(last) : (number + 1) * len(last)]
        found[0] = found[0] + last[:, -1:]
        return jnp.stack(found)

    return jets


def _contracted(
    units: Callable[[Any, jax.Array, jax.Array], Sequence[jax.Array | None]],
    orders: Sequence[Order],
) -> NetworkJets:
    """The last layer behind units, whose derivatives are (units, points) each, or None if 0."""

    def jets(hidden: Any, last: jax.Array, rates: jax.Array, places: jax.Array) -> jax.Array:
        nothing = jnp.zeros((len(last), len(places)), last.dtype)
        found = [
            nothing if one is None else last[:, :-1] @ one for one in units(hidden, rates, places)
        ]
        found[0] = found[0] + last[:, -1:]
        return jnp.stack(found)

    return jets


def _affine(weights: jax.Array, biases: jax.Array, inputs: jax.Array) -> jax.Array:
    """Of each unit at each point; the biases by a row of ones, so that their gradient is no sum."""
    ones = jnp.ones_like(inputs[:1])
    return jnp.concatenate([weights, biases[:, None]], 1) @ jnp.concatenate([inputs, ones])


def _of_layers(
    net: Mlp, orders: Sequence[Order]
) -> Callable[[Any, jax.Array, jax.Array], Sequence[jax.Array | None]]:
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

    def jets(hidden: Any, rates: jax.Array, places: jax.Array) -> Sequence[jax.Array | None]:
        h: list[Any] = [None] * len(orders)
        h[0] = places.T
        for number, order in enumerate(orders):
            if sum(order) == 1:
                axis = order.index(1)
                h[number] = rates[axis] * jnp.eye(len(rates), 1, -axis, dtype=places.dtype)
        for weights, biases in hidden:
            z = [None if one is None else weights @ one for one in h]
            z[0] = _affine(weights, biases, h[0])
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


def _of_function(
    net: Net, orders: Sequence[Order]
) -> Callable[[Any, jax.Array, jax.Array], Sequence[jax.Array | None]]:
    def jets(hidden: Any, rates: jax.Array, places: jax.Array) -> Sequence[jax.Array | None]:
        def at(place: jax.Array) -> list[jax.Array]:
            def features(shift: jax.Array) -> jax.Array:
                return net.features(hidden, place + shift * rates)

            return [derivative(features, order)(0 * place) for order in orders]

        return jax.vmap(at, out_axes=1)(places)

    return jets
