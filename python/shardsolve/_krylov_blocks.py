"""Preconditioners of blocks of a matrix, whose factors are made and solved with by the library.

And what else the library says of a matrix for a preconditioner.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import json
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from shardsolve import _library, _local
from shardsolve._by_name import ByName, text
from shardsolve._check import DTYPES
from shardsolve._cut import place_whole
from shardsolve._krylov_linear import (
    Linear,
    Product,
    linear_in_x,
    register,
    require_made_for,
)
from shardsolve._krylov_rounds import Place
from shardsolve._records import VERDICT_WORDS, SolverError, Status, raise_if_failed
from shardsolve._sparse_products import Pattern

INCOMPLETE_CHOLESKY = "incomplete_cholesky"


@dataclass(frozen=True)
class Plan:
    """What is known of such a preconditioner whatever the values of the matrix are.

    Attributes:
        kind: A name of krylov::BlockKind (src/krylov/local_blocks.hpp).
        dtype: Of the matrix.
        pattern: Of the matrix, (n, n).
        boundaries: int64[blocks + 1]: where blocks begin, and n.
        words: Lengths of the factors' arrays, int32 the first and the last.
        numbers: Likewise.
        lists: Likewise.
        largest: Rows of a block.
        widest: Of the bands.
    """

    kind: str
    dtype: str
    pattern: Pattern
    boundaries: bytes
    words: int
    numbers: int
    lists: int
    largest: int
    widest: int

    @property
    def number(self) -> int:
        """Of the kind."""
        return _library.description()["krylov"]["block_kinds"][self.kind]

    @functools.cached_property
    def transposed(self) -> tuple[Plan, np.ndarray]:
        """That of A^T, and which entry of A each of its entries is."""
        pattern, order = self.pattern.transposed
        blocks = np.frombuffer(self.boundaries, np.int64)
        return plan_of(self.kind, self.dtype, pattern, None, blocks), order

    def ends_with_devices(self, own: int) -> bool:
        """Whether no block has rows of two devices, which have `own` each."""
        ends = np.arange(0, self.pattern.shape[0] + 1, own)
        return bool(np.isin(ends, np.frombuffer(self.boundaries, np.int64)).all())

    def factors(self, data: jax.Array) -> tuple[jax.Array, ...]:
        """Three arrays, of the matrix with these values."""
        return _local.call(
            "krylov_factor_blocks",
            data,
            jnp.asarray(self.pattern.columns),
            jnp.asarray(self.pattern.pointer_words),
            jnp.asarray(np.frombuffer(self.boundaries, np.int32)),
            lengths=(self.words, self.numbers, self.lists),
            kind=self.number,
        )


def plan_of(
    kind: str,
    dtype: str,
    pattern: Pattern,
    values: np.ndarray | None,
    blocks: np.ndarray | int,
) -> Plan:
    """Asks the library, which says what is wrong.

    Args:
        kind: See Plan.
        dtype: Of the matrix.
        pattern: Of the matrix.
        values: Of the matrix; None: not known.
        blocks: Where they begin, and n; or how many, for which values are needed.
    """
    by_name = ByName()
    asked = {
        "kind": _library.description()["krylov"]["block_kinds"][kind],
        "blocks": None if isinstance(blocks, int) else by_name.array(blocks, np.int64),
        "count": blocks if isinstance(blocks, int) else 0,
    }
    found = _ask("plan_krylov_blocks", by_name, dtype, pattern, values, **asked)
    boundaries = np.array(found.pop("boundaries"), np.int64).tobytes()
    return Plan(kind, dtype, pattern, boundaries, **found)


def chebyshev_bounds(dtype: str, pattern: Pattern, values: np.ndarray) -> tuple[float | None, ...]:
    """An interval of eigenvalues of a Hermitian positive definite matrix, by Lanczos steps.

    None where products with it leave the range of the dtype.
    """
    found = _ask("krylov_chebyshev_bounds", ByName(), dtype, pattern, values)
    return found["low"], found["high"]


def largest_eigenvalue(dtype: str, pattern: Pattern, values: np.ndarray) -> float:
    """A bound of the eigenvalues of D^-1 A, D the diagonal of A, which has no zero."""
    return _ask("krylov_largest_eigenvalue", ByName(), dtype, pattern, values)["largest"]


def inverse_of(dtype: str, pattern: Pattern, values: np.ndarray) -> np.ndarray:
    """A^-1, (n, n), with entries that are not finite where A is singular."""
    by_name, inverse = ByName(), np.empty(pattern.shape, dtype)
    told = by_name.array(inverse, dtype)
    _ask("krylov_inverse", by_name, dtype, pattern, values, inverse=told)
    return inverse


def _ask(
    name: str,
    by_name: ByName,
    dtype: str,
    pattern: Pattern,
    values: np.ndarray | None,
    **asked: Any,
) -> dict[str, Any]:
    """What a function of the library knows of a matrix; throws what it says is wrong."""
    verdict, made = np.zeros(VERDICT_WORDS, np.int32), ctypes.c_char_p()
    asked |= {
        "dtype": DTYPES.index(dtype),
        "pointers": by_name.array(pattern.pointers, np.int64),
        "columns": by_name.array(pattern.columns, np.int32),
        "values": None if values is None else by_name.array(values, dtype),
    }
    library = _library.library()
    function = getattr(library, f"shardsolve_{name}")
    function(text(asked), ctypes.byref(made), verdict.ctypes.data)
    try:
        raise_if_failed(verdict)
    except SolverError as error:
        if error.status == Status.INVALID_ARGUMENT:
            raise ValueError(str(error)) from None
        raise
    found = json.loads(made.value or b"")
    library.shardsolve_free(made)
    return found


@register("plan")
class Blocks(Product):
    """M x of a preconditioner of blocks."""

    data: jax.Array  # of the matrix
    blocks: jax.Array
    numbers: jax.Array
    lists: jax.Array
    plan: Plan

    @classmethod
    def of(cls, plan: Plan, data: jax.Array) -> Blocks:
        """Of the matrix with these values. What it does has no derivative in them."""
        data = lax.stop_gradient(place_whole(data))
        blocks, numbers, lists = plan.factors(data)
        return cls(data, blocks, numbers, lists, plan)

    def apply(self, x: jax.Array, place: Place) -> jax.Array:
        return linear_in_x(self, x, place)

    def forward(self, x: jax.Array, place: Place) -> jax.Array:
        return self.apply_into(x, jnp.zeros_like(x), jnp.int32(0), place)

    def apply_into(
        self, x: jax.Array, before: jax.Array, skip: jax.Array, place: Place
    ) -> jax.Array:
        plan = self.plan
        require_made_for(plan.pattern.shape[0], x, place)

        def own_rows(blocks, numbers, lists, x, before, skip):
            rank = jnp.zeros(1, jnp.int32)
            if place.axes:
                rank = jnp.full(1, lax.axis_index(place.axes), jnp.int32)
                if not plan.ends_with_devices(x.shape[0]):
                    x = lax.all_gather(x, place.axes, tiled=True)
            y, _ = _local.call(
                "krylov_solve_blocks",
                blocks,
                numbers,
                lists,
                x,
                rank,
                before,
                skip[None],
                lengths=(before.shape[0], x.shape[0]),
                recorded=True,
                aliases={5: 0},
                kind=plan.number,
                largest=plan.largest,
                widest=plan.widest,
            )
            return (y,)

        operands = (self.blocks, self.numbers, self.lists, x, before, skip)
        return place.run(own_rows, operands, "rrrvvr", "v")[0]

    def transposed(self) -> Linear:
        if self.plan.kind == INCOMPLETE_CHOLESKY:  # Hermitian
            return self.conjugated()
        plan, order = self.plan.transposed
        return Blocks.of(plan, self.data[order])

    def conjugated(self) -> Linear:
        if self.data.dtype.kind != "c":
            return self
        return dataclasses.replace(self, data=jnp.conj(self.data), numbers=jnp.conj(self.numbers))
