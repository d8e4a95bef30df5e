"""Systems with a shift on the diagonal, which goes up where Cholesky's method needs more."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from shardsolve import _cholesky
from shardsolve._cut import Cut
from shardsolve._eigh_alone import random_signs
from shardsolve._products import everywhere, times
from shardsolve._records import Info, Status

LADDER_STEPS = 10  # how often a shift is multiplied by ten at most, unless something else is asked
_POWERS = 3  # of the matrix, for its norm: from then on it is right but for a factor of 2
ROUNDING = 32  # of a pivot beside its entry of the diagonal: times eps and the norm

State = tuple[jax.Array, jax.Array, _cholesky.Factor]  # steps taken, shift, factor with it


class Shifted(NamedTuple):
    """A matrix to whose diagonal a shift is added."""

    plus: Callable[[jax.Array], jax.Array]  # shift -> the sum
    norm: jax.Array  # about the largest eigenvalue, with ones on the diagonal


def shifted(matrix: jax.Array, cut: Cut | None, rows: int) -> Shifted:
    """Of a Hermitian matrix whose diagonal is not negative.

    Rows past the first `rows` are zero, and get the largest entry of the diagonal as well: they
    stand for an eigenvalue of a size that is there anyway.
    """
    numbers = jnp.arange(len(matrix), dtype=jnp.int32)
    is_diagonal = _is_diagonal(matrix, cut)

    def largest() -> jax.Array:
        return jnp.max(jnp.where(is_diagonal, matrix.real, 0))

    def add(shift: jax.Array) -> jax.Array:
        added = shift
        if rows < len(matrix):
            added = jnp.where(numbers < rows, shift, shift + largest())[None]
        return matrix + jnp.where(is_diagonal, added, 0).astype(matrix.dtype)

    diagonal = everywhere(jnp.sum(jnp.where(is_diagonal, matrix.real, 0), axis=1), cut)
    scale = jnp.where(diagonal > 0, lax.rsqrt(jnp.where(diagonal > 0, diagonal, 1)), 0)
    scale = scale.astype(matrix.dtype)
    v = random_signs(len(matrix))[:, 0].astype(matrix.dtype) / math.sqrt(len(matrix))
    norm = jnp.zeros((), diagonal.dtype)
    for _ in range(_POWERS):
        v = scale * times(matrix, scale * v, cut)
        norm = jnp.linalg.norm(v)
        v = v / jnp.where(norm > 0, norm, 1).astype(v.dtype)
    return Shifted(add, norm)


def _is_diagonal(matrix: jax.Array, cut: Cut | None) -> jax.Array:
    numbers = jnp.arange(len(matrix), dtype=jnp.int32)
    return (numbers if cut is None else cut.place(numbers))[:, None] == numbers[None]


def _is_rounding(factor: _cholesky.Factor, norm: jax.Array, cut: Cut | None) -> jax.Array:
    """Whether a pivot is no more than rounding leaves of the entry of the diagonal it came from.

    Digits of x along it are then noise divided by that pivot, more than a tenth of x as a rule:
    matrices of low rank with a shift, beside exact fractions. What rounding of the matrix leaves
    there is eps times the largest eigenvalue. Not a small condition number: rows of very different
    sizes are as good as others.
    """
    eps = jnp.finfo(factor.dtype).eps
    pivots = jnp.square(factor._slab.real)
    least = ROUNDING * eps * norm * factor._diagonal.real[:, None]
    return jnp.any(_is_diagonal(factor._slab, cut) & (pivots < least))


def solve(
    matrix: Shifted,
    right: jax.Array,
    shift: jax.Array,
    first: jax.Array,
    cut: Cut | None,
    steps: int,
    with_rcond: bool,
) -> tuple[jax.Array, jax.Array, Info]:
    """X of matrix.plus(shift) x = right, the shift that it took, and what is known of the answer.

    Where a pivot is not positive, or rounding, the shift is multiplied by ten, at most so many
    times; from zero it goes to `first`. In a loop of the program: the host is not asked. A pivot
    that is rounding at the end makes the answer nearly singular.
    """

    def factored(by: jax.Array) -> _cholesky.Factor:
        return _cholesky.factor_traced(matrix.plus(by), cut, 0)

    def goes_on(state: State) -> jax.Array:
        taken, _, factor = state
        has_failed = factor._record[0] == Status.NOT_POSITIVE_DEFINITE
        return (has_failed | _is_rounding(factor, matrix.norm, cut)) & (taken < steps)

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
    status = info.verdict[0]
    is_answer = (status == Status.OK) | (status == Status.NEARLY_SINGULAR)
    judged = jnp.where(_is_rounding(factor, matrix.norm, cut), Status.NEARLY_SINGULAR, Status.OK)
    verdict = info.verdict.at[0].set(jnp.where(is_answer, judged, status))
    return x, shift, dataclasses.replace(info, verdict=verdict)
