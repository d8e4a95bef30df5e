"""Residuals point by point, as functions of all weights: what derivatives of each one need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shardsolve.fbpinn._equations import Equations
from shardsolve.fbpinn._jet import derivative
from shardsolve.fbpinn._net import Mlp
from shardsolve.fbpinn._network_jets import FUNCTIONS, factorial, products
from shardsolve.fbpinn._placed import Placed
from shardsolve.fbpinn._prepared import Prepared

Batch = dict[str, Any]  # arrays with the points first


class Pointwise:
    """The equations of a problem at its points, each an equation of its own.

    `functions` are as `shardsolve.natural.natural_gradient` takes them, one for each equation of
    each term, of parameters in the order of the boxes, and `batches` their points. Half the mean
    square of all residuals is half the loss of the problem.
    """

    def __init__(self, problem: Equations, placed: Placed):
        self.problem = problem
        levels = problem.boxes.levels
        self._centers = np.concatenate([level.centers for level in levels])
        self._rates = 1 / np.concatenate([level.half_widths for level in levels])
        around, windows = _around(placed)
        terms = problem.prepared
        self.count = sum(len(term.points) * term.equations for term in terms)
        self.functions: list[Callable[[Any, Batch], jax.Array]] = []
        self.batches: list[Batch] = []
        first = 0
        for term in terms:
            mine = slice(first, first + len(term.points))
            first = mine.stop
            for equation in range(term.equations):
                self.functions.append(self._residuals(term, equation))
                self.batches.append(
                    {
                        "points": term.points,
                        "values": term.values[:, equation],
                        "boxes": around[mine],
                        "windows": windows[mine],
                    }
                )

    def _residuals(self, term: Prepared, equation: int) -> Callable[[Any, Batch], jax.Array]:
        # Of a term the loss has weight^2 times the mean, of a natural gradient the mean of all.
        scale = term.weight * np.sqrt(self.count / len(term.points))
        places = self.problem.unknown.places

        def residuals(parameters: Any, batch: Batch) -> jax.Array:
            numbers = [jnp.reshape(parameters.coefficients[name], -1) for name in places]
            coefficients = jnp.concatenate([jnp.zeros(0), *numbers])

            def at(one: Batch) -> jax.Array:
                jets = self._jets(parameters, one["points"], one["boxes"], one["windows"])
                found = term.residual(one["points"], jets, coefficients)[equation]
                return scale * (found - one["values"])

            return jax.vmap(at)(batch)

        return residuals

    def _jets(
        self, parameters: Any, point: jax.Array, boxes: jax.Array, windows: jax.Array
    ) -> jax.Array:
        """Of the sum of all networks at a point: (fields, orders)."""
        orders = self.problem.orders

        def of_box(box: jax.Array | int, window: jax.Array) -> jax.Array:
            hidden = jax.tree.map(lambda leaf: jnp.asarray(leaf)[box], parameters.hidden)
            last = parameters.last[box]
            center, rates = jnp.asarray(self._centers)[box], jnp.asarray(self._rates)[box]

            def network(x: jax.Array) -> jax.Array:
                units = self._units(hidden, (x - center) * rates)
                return jnp.matmul(last[:, :-1], units) + last[:, -1]

            jets = [derivative(network, order)(point) for order in orders]
            sums: list[Any] = [0.0] * len(orders)
            for result, i, j in products(orders):  # Leibniz's rule
                times = factorial(orders[result]) / factorial(orders[i]) / factorial(orders[j])
                sums[result] += times * window[i] * jets[j]
            return jnp.stack(sums, -1)

        if self.problem.boxes.count == 1:  # then weights need not be looked up for each point
            return of_box(0, windows[0])
        return jnp.sum(jax.vmap(of_box)(boxes, windows), axis=0)

    def _units(self, hidden: Any, place: jax.Array) -> jax.Array:
        """Of the last hidden layer, at a place in [-1, 1] of the box."""
        net = self.problem.net
        if not isinstance(net, Mlp):
            return net.features(hidden, place)
        for weights, biases in hidden:
            place = FUNCTIONS[net.activation](jnp.matmul(weights, place) + biases)
        return place


def _around(placed: Placed) -> tuple[np.ndarray, np.ndarray]:
    """Of each point the boxes around it, (points, most), and their windows.

    Where there are fewer the first one comes again, with a window of 0.
    """
    box = np.repeat(np.arange(len(placed.owner)), np.diff(placed.begin))
    by_point = np.argsort(placed.point, kind="stable")
    count = np.bincount(placed.point, minlength=len(placed.point_owner))
    first = np.cumsum(count) - count
    number = np.arange(count.max(initial=1))
    pair = by_point[first[:, None] + np.where(number < count[:, None], number, 0)]
    windows = np.where((number < count[:, None])[:, :, None], placed.windows[pair], 0)
    return box[pair].astype(np.int32), windows
