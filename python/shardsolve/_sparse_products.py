"""Where the entries of a sparse matrix are, and the products with it that the library makes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from shardsolve import _local

_MOST_LANES = 32  # max_row_lanes of src/runtime/sparse_row_sum.hpp


class Pattern:
    """Where the entries of a sparse matrix are: never traced, compared by what it holds.

    Attributes:
        shape: (m, n).
        pointers: int64[m + 1]: entries of row i are those from pointers[i] to pointers[i + 1].
        columns: int32[nse]: of each entry; ascending in each row, none twice.
    """

    def __init__(self, shape: tuple[int, int], pointers: np.ndarray, columns: np.ndarray):
        self.shape = shape
        self.pointers = np.ascontiguousarray(pointers, np.int64)
        self.columns = np.ascontiguousarray(columns, np.int32)
        for array in (self.pointers, self.columns):
            array.flags.writeable = False
        self._hash = hash((shape, self.pointers.tobytes(), self.columns.tobytes()))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Pattern)
            and self._hash == other._hash
            and self.shape == other.shape
            and np.array_equal(self.pointers, other.pointers)
            and np.array_equal(self.columns, other.columns)
        )

    def __repr__(self) -> str:
        return f"Pattern(shape={self.shape}, nse={self.nse})"

    @property
    def nse(self) -> int:
        """How many entries are kept."""
        return len(self.columns)

    @property
    def lanes(self) -> int:
        """Of the sum of a row: row_lanes() of src/runtime/sparse_row_sum.hpp."""
        rows, lanes = self.shape[0], 1
        while lanes < _MOST_LANES and rows > 0 and self.nse // rows >= 4 * lanes:
            lanes *= 2
        return lanes

    @functools.cached_property
    def rows(self) -> np.ndarray:
        """int32[nse]: the row of each entry."""
        rows = np.repeat(np.arange(self.shape[0], dtype=np.int32), np.diff(self.pointers))
        return np.ascontiguousarray(rows, np.int32)

    @functools.cached_property
    def transposed(self) -> tuple[Pattern, np.ndarray]:
        """That of A^T, and which entry of A each of its entries is."""
        order = np.argsort(self.columns, kind="stable").astype(np.int32)
        m, n = self.shape
        pointers = np.concatenate([[0], np.cumsum(np.bincount(self.columns, minlength=n))])
        return Pattern((n, m), pointers, self.rows[order]), order

    @functools.cached_property
    def diagonal(self) -> np.ndarray:
        """int32[min(m, n)]: which entry is (i, i), or nse if there is none."""
        at = np.full(min(self.shape), self.nse, np.int32)
        on = np.flatnonzero(self.rows == self.columns)
        at[self.rows[on]] = on
        return at

    @functools.cached_property
    def pointer_words(self) -> np.ndarray:
        """The row pointers as the library's call takes them: JAX may have no int64."""
        return self.pointers.view(np.int32)

    @functools.cached_property
    def product(self) -> Callable[[jax.Array, jax.Array], jax.Array]:
        """(values, x) -> A x with derivatives of any order in both."""
        return _make_product(self)


def multiply(
    pattern: Pattern,
    data: jax.Array,
    x: jax.Array,
    *,
    rank: jax.Array | None = None,
    own_rows: int | None = None,
    before: jax.Array | None = None,
    skip: jax.Array | None = None,
) -> jax.Array:
    """Rows of A x by the library, without a derivative.

    Args:
        pattern: Of A, (m, n).
        data: (nse,).
        x: (n,).
        rank: int32[1]: the rows from rank * own_rows on; all by default.
        own_rows: How many.
        before: (own_rows,): what stays if `skip` says no; its memory becomes that of the result.
        skip: int32[1], with `before`: a ProductFlag of src/runtime/product_flag.hpp.
    """
    own_rows = pattern.shape[0] if own_rows is None else own_rows
    if own_rows == 0 or pattern.nse == 0:
        return jnp.zeros(own_rows, data.dtype) if before is None else jnp.zeros_like(before)
    rank = jnp.zeros(1, jnp.int32) if rank is None else rank
    arrays = (data, jnp.asarray(pattern.columns), jnp.asarray(pattern.pointer_words), x, rank)
    options: dict[str, Any] = {"rows": pattern.shape[0], "lanes": pattern.lanes}
    if before is None or skip is None:
        return _local.call("csr_product", *arrays, lengths=(own_rows,), recorded=True, **options)[0]
    return _local.call(
        "csr_product_into",
        *arrays,
        before,
        skip,
        lengths=(own_rows,),
        recorded=True,
        aliases={len(arrays): 0},
        **options,
    )[0]


def _make_product(pattern: Pattern) -> Callable[[jax.Array, jax.Array], jax.Array]:
    """Makes y = A x, as the solve of [I 0; -A I] (x, y) = (x, 0).

    That is how JAX lets us say that a map is ours, that its transpose is, and what its derivative
    in the values is: that of the product in the system, which JAX derives and never computes.
    """
    m, n = pattern.shape

    def product(data: jax.Array, x: jax.Array) -> jax.Array:
        # One vector, as JAX transposes a solve only if all that it is given is linear.
        def system(both: jax.Array) -> jax.Array:
            terms = data * both[:n][pattern.columns]
            sums = jax.ops.segment_sum(terms, pattern.rows, m, indices_are_sorted=True)
            return both - jnp.concatenate([jnp.zeros_like(both[:n]), sums])

        def forward(_: Callable, right: jax.Array) -> jax.Array:
            y = right[n:] + multiply(pattern, data, right[:n])
            return jnp.concatenate([right[:n], y])

        def backward(_: Callable, right: jax.Array) -> jax.Array:
            transposed, order = pattern.transposed
            x = right[:n] + multiply(transposed, data[order], right[n:])
            return jnp.concatenate([x, right[n:]])

        right = jnp.concatenate([x, jnp.zeros(m, data.dtype)])
        return lax.custom_linear_solve(system, right, forward, backward)[n:]

    return product
