"""Steps of optimisers, traceable: Adam, L-BFGS, and those of optax."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from shardsolve.fbpinn._gradients import LBFGS, Adam, ByGradients, Optimiser

# From parameters to the loss, its terms' parts and its gradient.
Evaluate = Callable[[Any], tuple[jax.Array, jax.Array, Any]]


class Step(NamedTuple):
    """What a step gives.

    Attributes:
        parameters: The next ones.
        state: Of the optimiser.
        value: The loss that is made smaller, where the step began (L-BFGS: the least so far).
        parts: Of the terms, where the loss was evaluated.
        done: Nothing more can be done.
    """

    parameters: Any
    state: Any
    value: jax.Array
    parts: jax.Array
    done: Any = False


class Method(Protocol):
    """An optimiser."""

    def begin(self, parameters: Any) -> Any:
        """Its state before the first step."""

    def step(
        self, number: jax.Array, rate: jax.Array, parameters: Any, state: Any, evaluate: Evaluate
    ) -> Step:
        """One step."""


def method_of(how: ByGradients) -> Method:
    """The optimiser that was asked for."""
    if isinstance(how, Adam):
        return _Adam(how)
    if isinstance(how, LBFGS):
        return _Lbfgs(how)
    assert isinstance(how, Optimiser)
    return _Optax(how.transformation)


class _Adam:
    def __init__(self, how: Adam):
        self._how = how

    def begin(self, parameters: Any) -> Any:
        zeros = jax.tree.map(jnp.zeros_like, parameters)
        return zeros, zeros

    def step(
        self, number: jax.Array, rate: jax.Array, parameters: Any, state: Any, evaluate: Evaluate
    ) -> Step:
        how = self._how
        value, parts, slope = evaluate(parameters)
        kind = value.dtype
        means, squares = state
        means = jax.tree.map(lambda m, g: how.b1 * m + (1 - how.b1) * g, means, slope)
        squares = jax.tree.map(lambda s, g: how.b2 * s + (1 - how.b2) * g * g, squares, slope)
        count = (number + 1).astype(kind)
        of_means = 1 - jnp.asarray(how.b1, kind) ** count
        of_squares = 1 - jnp.asarray(how.b2, kind) ** count
        length = jnp.asarray(how.rate(number) if callable(how.rate) else rate, kind)

        def moved(p: jax.Array, m: jax.Array, s: jax.Array) -> jax.Array:
            return p - length * (m / of_means) / (jnp.sqrt(s / of_squares) + how.eps)

        return Step(jax.tree.map(moved, parameters, means, squares), (means, squares), value, parts)


class _Optax:
    def __init__(self, transformation: Any):
        self._transformation = transformation
        kinds = [p.kind for p in inspect.signature(transformation.update).parameters.values()]
        self._takes_more = inspect.Parameter.VAR_KEYWORD in kinds

    def begin(self, parameters: Any) -> Any:
        return self._transformation.init(parameters)

    def step(
        self, number: jax.Array, rate: jax.Array, parameters: Any, state: Any, evaluate: Evaluate
    ) -> Step:
        value, parts, slope = evaluate(parameters)
        more: dict[str, Any] = {}
        if self._takes_more:
            value_of = getattr(evaluate, "value_of", lambda p: evaluate(p)[0])
            more = {"value": value, "grad": slope, "value_fn": value_of}
        change, state = self._transformation.update(slope, state, parameters, **more)
        moved = jax.tree.map(lambda p, u: (p + u).astype(p.dtype), parameters, change)
        return Step(moved, state, value, parts)


class _Lbfgs:
    """One evaluation a step: of a trial along the direction, which is taken or made shorter."""

    def __init__(self, how: LBFGS):
        self._memory = how.memory

    def begin(self, parameters: Any) -> Any:
        kind = jax.tree.leaves(parameters)[0].dtype
        zeros = jax.tree.map(jnp.zeros_like, parameters)
        many = jax.tree.map(lambda p: jnp.zeros((self._memory, *p.shape), p.dtype), parameters)
        return {
            "slope": zeros,
            "direction": zeros,
            "base": parameters,
            "value": jnp.asarray(jnp.inf, kind),
            "unit": jnp.ones((), kind),  # of values and slopes that are kept: a power of two
            "length": jnp.ones((), kind),
            "least": jnp.zeros((), kind),  # below it a length is given up
            "changes": many,
            "slopes": many,
            "inverse": jnp.zeros(self._memory, kind),  # 1 / (change . slope); 0 where there is none
        }

    def step(
        self, number: jax.Array, rate: jax.Array, parameters: Any, state: Any, evaluate: Evaluate
    ) -> Step:
        value, parts, slope = evaluate(parameters)
        # About 1 at first: squares of slopes are in range whatever the units of the equations.
        size = jnp.where(jnp.isfinite(value) & (value > 0), value, 1)
        unit = jnp.where(jnp.isfinite(state["value"]), state["unit"], _power_of(size))
        state = state | {"unit": unit}
        value, slope = value / unit, jax.tree.map(lambda g: g / unit, slope)
        down = _dot(state["slope"], state["direction"])
        is_good = value <= state["value"] + 1e-4 * state["length"] * down
        is_good |= ~jnp.isfinite(state["value"])

        def taken() -> tuple[Any, dict]:
            first = ~jnp.isfinite(state["value"])
            change = _minus(parameters, state["base"])
            difference = _minus(slope, state["slope"])
            product = _dot(change, difference)
            curves = ~first & (product > 1e-10 * _norm(change) * _norm(difference))
            known = _pushed(state, change, difference, product, curves)
            direction = jax.tree.map(jnp.negative, self._times_inverse(known, slope))
            has_none = ~(known["inverse"] > 0).any()
            length = jnp.where(has_none, self._first_length(value, slope), 1).astype(value.dtype)
            known |= {"slope": slope, "direction": direction, "base": parameters, "value": value}
            known |= {"length": length, "least": 1e-10 * length}
            return _along(parameters, length, direction), known

        def shorter() -> tuple[Any, dict]:
            length = state["length"] / 2
            return _along(state["base"], length, state["direction"]), state | {"length": length}

        gained = state["value"] - value
        is_flat = is_good & (gained <= 10 * jnp.finfo(value.dtype).eps * jnp.abs(value))
        trial, state = jax.lax.cond(is_good, taken, shorter)
        is_stuck = (state["length"] < state["least"]) | (_norm(state["slope"]) == 0)
        done = is_flat | is_stuck
        ended = jax.tree.map(lambda b, t: jnp.where(done, b, t), state["base"], trial)
        return Step(ended, state, state["value"] * unit, parts, done)

    @staticmethod
    def _first_length(value: jax.Array, slope: Any) -> jax.Array:
        """Down the slope: to where a parabola with this value and slope is 0, and at most 1 far.

        So equations in other units take the same steps.
        """
        norm = jnp.maximum(_norm(slope), jnp.finfo(value.dtype).tiny)
        return jnp.minimum(1, 2 * value / norm) / norm

    def _times_inverse(self, known: dict, slope: Any) -> Any:
        """The inverse of the curvature by two loops; the newest step is the last."""
        pairs = (known["changes"], known["slopes"], known["inverse"])

        def back(slope: Any, pair: Any) -> tuple[Any, jax.Array]:
            change, difference, inverse = pair
            factor = inverse * _dot(change, slope)
            return jax.tree.map(lambda q, y: q - factor * y, slope, difference), factor

        slope, factors = jax.lax.scan(back, slope, pairs, reverse=True)
        newest = jax.tree.map(lambda one: one[-1], known["slopes"])
        inverse = known["inverse"][-1]
        is_known = inverse > 0
        square = jnp.where(is_known, inverse * _dot(newest, newest), 1)
        found = jax.tree.map(lambda q: q / square, slope)

        def forth(found: Any, pair: Any) -> tuple[Any, None]:
            (change, difference, inverse), factor = pair
            rest = factor - inverse * _dot(difference, found)
            return jax.tree.map(lambda r, s: r + rest * s, found, change), None

        return jax.lax.scan(forth, found, (pairs, factors))[0]


def _pushed(
    state: dict, change: Any, difference: Any, product: jax.Array, wanted: jax.Array
) -> dict:
    """The memory with one more step, if that is wanted."""

    def push(memory: jax.Array, one: jax.Array) -> jax.Array:
        return jnp.where(wanted, jnp.concatenate([memory[1:], one[None]]), memory)

    inverse = jnp.where(wanted, 1 / jnp.where(wanted, product, 1), 0)
    return state | {
        "changes": jax.tree.map(push, state["changes"], change),
        "slopes": jax.tree.map(push, state["slopes"], difference),
        "inverse": push(state["inverse"], inverse),
    }


def _dot(one: Any, other: Any) -> jax.Array:
    products = jax.tree.map(lambda a, b: (a * b).sum(), one, other)
    return functools.reduce(jnp.add, jax.tree.leaves(products))


def _power_of(size: jax.Array) -> jax.Array:
    """The power of two above `size`."""
    return jnp.ldexp(jnp.ones((), size.dtype), jnp.frexp(size)[1])


def _norm(one: Any) -> jax.Array:
    return jnp.sqrt(_dot(one, one))


def _minus(one: Any, other: Any) -> Any:
    return jax.tree.map(jnp.subtract, one, other)


def _along(base: Any, length: jax.Array, direction: Any) -> Any:
    return jax.tree.map(lambda b, d: b + length * d, base, direction)
