"""What networks have learned as a JAX function of a point."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shardsolve.fbpinn._boxes import Boxes
from shardsolve.fbpinn._equations import Equations
from shardsolve.fbpinn._net import Mlp
from shardsolve.fbpinn._network_jets import FUNCTIONS
from shardsolve.fbpinn._parameters import layers_of

_PAIRS_AT_A_TIME = 2**22


class Solution:
    """u(x) at one point, to be used in jit, grad, vmap, and in the functions of other problems.

    A function of (dimensions,), or of a number if there is one axis, or of a point x as residuals
    and `constrain` get it, to a number, or (fields,) if there are several. Of all subdomains those
    around the point are looked up, so that work is in proportion to their number and a few
    networks. Where there is no subdomain it is nan.
    """

    def __init__(self, problem: Equations, parts: tuple[Any, ...]):
        hidden, last, _, net_parameters = parts
        self._problem = problem
        if isinstance(problem.net, Mlp):
            net_parameters = layers_of(problem.net, problem.boxes.dimensions, hidden)
        self._levels, first = [], 0
        for level in problem.boxes.levels:
            mine = slice(first, first + len(level.centers))
            networks = jax.tree.map(lambda leaf, at=mine: np.asarray(leaf)[at], net_parameters)
            self._levels.append((level, most_around(level), networks, last[mine]))
            first += len(level.centers)

    def __repr__(self) -> str:
        return f"<the solution of {self._problem.boxes!r} as a function of a point>"

    def __call__(self, x: Any) -> jax.Array:
        """The value at a point."""
        problem = self._problem
        point = jnp.asarray(x)
        point = point[None] if point.ndim == 0 and problem.boxes.dimensions == 1 else point
        if point.shape != (problem.boxes.dimensions,):
            raise ValueError(
                f"a point of shape {point.shape} given: ({problem.boxes.dimensions},) is accepted; "
                "for many points take jax.vmap(run.u), or run.evaluate"
            )
        # Last layers are large and of both signs: narrower numbers would lose what is left of them.
        kind, point = point.dtype, point.astype(float)
        each = [self._of_level(point, *level) for level in self._levels]
        values = jnp.stack(each).sum(0)
        if problem.constrain is not None:
            values = jnp.stack(list(problem._constrain(point, list(values))))
        if jnp.issubdtype(kind, jnp.floating):
            values = values.astype(kind)
        return values[0] if len(problem.fields) == 1 else values

    def _of_level(
        self, point: jax.Array, level: Boxes, most: int, networks: Any, last: np.ndarray
    ) -> jax.Array:
        kind = point.dtype
        centers, half = (jnp.asarray(one, kind) for one in (level.centers, level.half_widths))
        distance = jnp.abs(jax.lax.stop_gradient(point) - centers) / half
        _, near = jax.lax.top_k(-distance.max(1), most)
        place = (point - centers[near]) / half[near]
        inside = (jnp.abs(place) < 1).all(1)
        safe = jnp.where(inside[:, None], place, 0)
        windows = jnp.where(inside, jnp.prod(jnp.cos(math.pi / 2 * safe), 1) ** 4, 0)
        total = windows.sum()

        def floats(leaf: np.ndarray) -> jax.Array:
            return jnp.asarray(leaf, kind if leaf.dtype.kind == "f" else leaf.dtype)[near]

        mine = jax.tree.map(floats, networks)
        features = jax.vmap(self._features)(mine, safe)
        weights = floats(last)
        values = jnp.einsum("bfk,bk->bf", weights[..., :-1], features) + weights[..., -1]
        found = jnp.where(total > 0, windows / jnp.where(total > 0, total, 1), 0) @ values
        is_first = level is self._levels[0][0]
        return jnp.where((total > 0) | (not is_first), found, jnp.nan)

    def _features(self, network: Any, place: jax.Array) -> jax.Array:
        net = self._problem.net
        if not isinstance(net, Mlp):
            return net.features(network, place)
        h = place
        for weights, biases in network:
            h = FUNCTIONS[net.activation](weights @ h + biases)
        return h


def most_around(level: Boxes) -> int:
    """At most how many boxes of a level a point lies in."""
    count = len(level.centers)
    if level.counts is not None:
        sizes = level.domain[:, 1] - level.domain[:, 0]
        distance = sizes / np.maximum(np.array(level.counts) - 1, 1)
        widths = np.ceil(2 * level.half_widths[0] / distance - 1e-9).astype(int)
        return int(np.prod(np.minimum(widths, level.counts)))
    most, step = 1, max(1, _PAIRS_AT_A_TIME // count)
    for first in range(0, count, step):
        mine = slice(first, first + step)
        apart = np.abs(level.centers[mine, None] - level.centers)
        meet = (apart < level.half_widths[mine, None] + level.half_widths).all(2)
        most = max(most, int(meet.sum(1).max()))
    return most
