"""Many steps of an optimiser in one compiled call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from shardsolve.fbpinn._cells import drawn
from shardsolve.fbpinn._gradients import ByGradients, Refined
from shardsolve.fbpinn._loss_setup import Setup
from shardsolve.fbpinn._moving import MovingSetup, groups_of_points
from shardsolve.fbpinn._optimisers import Method
from shardsolve.fbpinn._parameters import Parameters

KEYS = "threefry2x32"  # of jax.random, whatever its default is
_BALANCED = 0.1  # of the way to equal gradients that a change of the factors goes


class State(NamedTuple):
    """All that the next step depends on.

    Attributes:
        step: How many steps were taken.
        parameters: Of which the next step takes the gradient.
        previous: The last ones at which the loss was finite.
        optimiser: Its own.
        key: (2,): of the points.
        factors: (terms,): of the terms' parts of the loss, to balance them.
        points: (points, dimensions) if they are kept for many steps, else (0, dimensions).
        is_finite: Whether the last loss was.
        is_done: Whether the optimiser is.
    """

    step: Any
    parameters: Any
    previous: Any
    optimiser: Any
    key: Any
    factors: Any
    points: Any
    is_finite: Any
    is_done: Any


def parts_of_loss(
    setup: Setup, parameters: Parameters, tables: dict, *points: jax.Array
) -> jax.Array:
    """(terms,): of each term weight^2 times the mean of the squared residual."""

    def on_device(parameters: Parameters, tables: dict, *points: jax.Array) -> jax.Array:
        if points:
            assert isinstance(setup, MovingSetup)
            tables = setup.at(tables, points[0])
        rows = setup.each_term(parameters, tables, lambda term: term.residual)
        found = []
        for term, table, residual in zip(
            setup.problem.prepared, tables["terms"], rows, strict=True
        ):
            r = jnp.where(table["used"][:, None], residual - table["values"], 0)
            found.append(term.weight**2 / len(term.points) * jnp.sum(r * r))
        return jnp.stack(found)[None].astype(setup.dtype)

    return setup.mapped(on_device)(parameters, tables, *points).sum(0)


def squares_at(
    setup: MovingSetup, parameters: Parameters, tables: dict, points: jax.Array
) -> jax.Array:
    """(points,): the squared residual at each, of all terms."""

    def on_device(parameters: Parameters, tables: dict, points: jax.Array) -> jax.Array:
        tables = setup.at(tables, points)
        rows = setup.each_term(parameters, tables, lambda term: term.residual)
        found = []
        for table, residual, size in zip(tables["terms"], rows, setup.sizes, strict=True):
            r = jnp.where(table["used"][:, None], residual - table["values"], 0)
            found.append(jnp.zeros(size, r.dtype).at[table["number"]].add((r * r).sum(1)))
        return jnp.concatenate(found)[None]

    return setup.mapped(on_device)(parameters, tables, points).sum(0)


def trained_part(parameters: Any) -> Any:
    """Without what is no floating-point number."""
    return jax.tree.map(lambda leaf: leaf if leaf.dtype.kind == "f" else None, parameters)


def with_the_rest(trained: Any, parameters: Any) -> Any:
    """The inverse: the rest from other parameters."""
    return jax.tree.map(
        lambda new, old: old if new is None else new,
        trained,
        parameters,
        is_leaf=lambda leaf: leaf is None,
    )


class Block:
    """Up to `how.block` steps, to be compiled; see `__call__`."""

    def __init__(self, setup: Setup, how: ByGradients, method: Method):
        self._setup, self._how, self._method = setup, how, method
        if isinstance(how.points, Refined):
            assert isinstance(setup, MovingSetup)
            self._slots, self._kept = _places(groups_of_points(setup), how.points.candidates)

    def __call__(
        self, state: State, tables: dict, count: jax.Array, rate: jax.Array
    ) -> tuple[State, jax.Array]:
        """So many steps, fewer if the loss is not finite.

        Returns:
            The state, and (how.block,) losses before each step.
        """
        losses = jnp.zeros(self._how.block, self._setup.dtype)

        def goes_on(carry: tuple) -> jax.Array:
            number, state, _ = carry
            return (number < count) & state.is_finite & ~state.is_done

        def body(carry: tuple) -> tuple:
            number, state, losses = carry
            state, loss = self._step(self._renewed(state, tables), tables, rate)
            return number + 1, state, losses.at[number].set(loss)

        _, state, losses = jax.lax.while_loop(
            goes_on, body, (jnp.zeros((), jnp.int32), state, losses)
        )
        return state, losses

    def _step(self, state: State, tables: dict, rate: jax.Array) -> tuple[State, jax.Array]:
        evaluate = _Evaluation(self, state, tables)
        trained = trained_part(state.parameters)
        step = self._method.step(state.step, rate, trained, state.optimiser, evaluate)
        loss = step.value if self._how.balance is None else step.parts.sum()
        good = jnp.isfinite(step.value)

        def chosen(new: Any, old: Any) -> Any:
            return jax.tree.map(lambda a, b: jnp.where(good, a, b), new, old)

        moved = with_the_rest(step.parameters, state.parameters)
        return state._replace(
            step=state.step + good,
            parameters=chosen(moved, state.parameters),
            previous=chosen(state.parameters, state.previous),
            optimiser=chosen(step.state, state.optimiser),
            is_finite=good,
            is_done=jnp.asarray(step.done) & good,
        ), loss

    def points(self, state: State, number: Any) -> tuple[jax.Array, ...]:
        """Of one gradient of the next step."""
        if self._how.points == "given":
            return ()
        if isinstance(self._how.points, Refined):
            return (state.points,)
        assert isinstance(self._setup, MovingSetup)
        key = jax.random.fold_in(_key(state, state.step), number)
        return (drawn(self._setup.cells, self._how.points, key, self._setup.dtype),)

    def _renewed(self, state: State, tables: dict) -> State:
        """With other points and factors, where it is time for them."""
        how = self._how
        if isinstance(how.points, Refined):
            state = jax.lax.cond(
                state.step % how.points.every == 0,
                lambda: state._replace(points=self._refined(state, tables)),
                lambda: state,
            )
        if how.balance is not None:
            state = jax.lax.cond(
                state.step % how.balance == 0,
                lambda: state._replace(factors=self._balanced(state, tables)),
                lambda: state,
            )
        return state

    def _balanced(self, state: State, tables: dict) -> jax.Array:
        points = self.points(state, 0)
        trained = trained_part(state.parameters)

        def length(factors: jax.Array) -> jax.Array:
            def loss(trained: Any) -> jax.Array:
                whole = with_the_rest(trained, state.parameters)
                return factors @ parts_of_loss(self._setup, whole, tables, *points)

            slope = jax.grad(loss)(trained)
            return jnp.sqrt(sum((leaf**2).sum() for leaf in jax.tree.leaves(slope)))

        lengths = jax.lax.map(length, jnp.eye(len(state.factors), dtype=state.factors.dtype))
        wanted = lengths.mean() / jnp.maximum(lengths, 1e-12 * lengths.max())
        found = (1 - _BALANCED) * state.factors + _BALANCED * wanted
        return jnp.where(jnp.isfinite(found).all(), found, state.factors)

    def _refined(self, state: State, tables: dict) -> jax.Array:
        """Points of candidates, more of them where the residual is large."""
        setup, wishes = self._setup, self._how.points
        assert isinstance(setup, MovingSetup) and isinstance(wishes, Refined)
        key = _key(state, state.step)

        def candidates(number: jax.Array) -> tuple[jax.Array, jax.Array]:
            points = drawn(setup.cells, "latin", jax.random.fold_in(key, number), setup.dtype)
            return points, squares_at(setup, state.parameters, tables, points)

        points, squares = jax.lax.map(candidates, jnp.arange(1, wishes.candidates + 1))
        size = squares ** (wishes.power / 2)
        terms = jnp.repeat(
            jnp.arange(len(setup.sizes)),
            np.array(setup.sizes),
            total_repeat_length=sum(setup.sizes),
        )
        means = jax.ops.segment_sum(size.mean(0), terms, len(setup.sizes)) / np.array(setup.sizes)
        shares = size / jnp.maximum(means[terms], 1e-30) + wishes.floor
        luck = jax.random.gumbel(jax.random.fold_in(key, 0), shares.shape, shares.dtype)
        ranks = jnp.lexsort(
            (
                -(jnp.log(shares) + luck).ravel(),
                jnp.tile(jnp.asarray(self._slots[1]), wishes.candidates),
            )
        )
        chosen = points.reshape(-1, points.shape[-1])[ranks[self._kept]]
        return jnp.zeros_like(points[0]).at[self._slots[0]].set(chosen, unique_indices=True)


class _Evaluation:
    """The loss, its terms' parts and its gradient by what is trained."""

    def __init__(self, block: Block, state: State, tables: dict):
        self._block, self._state, self._tables = block, state, tables

    def _loss(self, trained: Any, number: Any) -> tuple[jax.Array, jax.Array]:
        block, state = self._block, self._state
        whole = with_the_rest(trained, state.parameters)
        points = block.points(state, number)
        parts = parts_of_loss(block._setup, whole, self._tables, *points)
        return (parts if block._how.balance is None else state.factors * parts).sum(), parts

    def value_of(self, trained: Any) -> jax.Array:
        return self._loss(trained, 0)[0]

    def __call__(self, trained: Any) -> tuple[jax.Array, jax.Array, Any]:
        count = self._block._how.accumulate
        function = jax.value_and_grad(self._loss, has_aux=True)
        if count == 1:
            (value, parts), slope = function(trained, 0)
            return value, parts, slope

        def add(number: jax.Array, sums: Any) -> Any:
            (value, parts), slope = function(trained, number)
            return jax.tree.map(jnp.add, sums, (value, parts, slope))

        kind = self._block._setup.dtype
        zeros = (
            jnp.zeros((), kind),
            jnp.zeros(len(self._state.factors), kind),
            jax.tree.map(jnp.zeros_like, trained),
        )
        sums = jax.lax.fori_loop(0, count, add, zeros)
        return jax.tree.map(lambda one: one / count, sums)


def _key(state: State, step: Any) -> jax.Array:
    return jax.random.fold_in(jax.random.wrap_key_data(state.key, impl=KEYS), step)


def _places(
    groups: np.ndarray, candidates: int
) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """The points group by group and all groups; where the kept ones are among all candidates.

    Candidates are sorted by group, the best first, so that of a group with n points the first n of
    its n * candidates are kept.
    """
    slots = np.argsort(groups, kind="stable")
    counts = np.bincount(groups)
    first = np.cumsum(counts) - counts
    within = np.arange(len(groups)) - np.repeat(first, counts)
    kept = candidates * np.repeat(first, counts) + within
    return (slots.astype(np.int32), groups.astype(np.int32)), kept.astype(np.int32)


def initial_key(seed: int) -> np.ndarray:
    """(2,) of a seed."""
    return np.asarray(jax.random.key_data(jax.random.key(seed, impl=KEYS)))


Program = Callable[..., Any]
