"""Systems with a shift on the diagonal, which goes up where Cholesky's method needs more."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from shardsolve import _cholesky
from shardsolve._cut import Cut
from shardsolve._records import Info, Status

LADDER_STEPS = 10  # how often a shift is multiplied by ten at most, unless something else is asked

State = tuple[jax.Array, jax.Array, _cholesky.Factor]  # steps taken, shift, factor with it


def adder(matrix: jax.Array, cut: Cut | None, rows: int) -> Callable[[jax.Array], jax.Array]:
    """Shift -> the matrix with it on the diagonal.

    Rows past the first `rows` are zero, and get the largest entry of the diagonal as well: they
    stand for an eigenvalue of a size that is there anyway.
    """
    numbers = jnp.arange(len(matrix), dtype=jnp.int32)
    is_diagonal = (numbers if cut is None else cut.place(numbers))[:, None] == numbers[None]

    def largest() -> jax.Array:
        return jnp.max(jnp.where(is_diagonal, matrix.real, 0))

    def add(shift: jax.Array) -> jax.Array:
        added = shift
        if rows < len(matrix):
            added = jnp.where(numbers < rows, shift, shift + largest())[None]
        return matrix + jnp.where(is_diagonal, added, 0).astype(matrix.dtype)

    return add


def solve(
    add: Callable[[jax.Array], jax.Array],
    right: jax.Array,
    shift: jax.Array,
    first: jax.Array,
    cut: Cut | None,
    steps: int,
    with_rcond: bool,
) -> tuple[jax.Array, jax.Array, Info]:
    """X of add(shift) x = right, the shift that it took, and what is known of the answer.

    Where a pivot is not positive the shift is multiplied by ten, at most so many times; from zero
    it goes to `first`. In a loop of the program: the host is not asked.
    """

    def factored(by: jax.Array) -> _cholesky.Factor:
        return _cholesky.factor_traced(add(by), cut, 0)

    def goes_on(state: State) -> jax.Array:
        taken, _, factor = state
        return (factor._record[0] == Status.NOT_POSITIVE_DEFINITE) & (taken < steps)

    def step(state: State) -> State:
        taken, by, _ = state
        more = jnp.where(by == 0, first, 10 * by)
        return taken + 1, more, factored(more)

    # The first is made outside: its result has the types that the loop asks for.
    factor = factored(shift)
    if steps:
        _, shift, factor = lax.while_loop(goes_on, step, (jnp.int32(0), shift, factor))
    x, info = _cholesky._cho_solve(factor, right, cut, with_rcond)
    # Whoever adds a shift asks for no digits of what it alone holds: rcond may be what it is.
    doubtful = info.verdict[0] == Status.NEARLY_SINGULAR
    verdict = info.verdict.at[0].set(jnp.where(doubtful, Status.OK, info.verdict[0]))
    return x, shift, dataclasses.replace(info, verdict=verdict)
