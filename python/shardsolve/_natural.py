"""The true Cholesky factor, in the order of the matrix.

The library eliminates in an order that keeps all devices busy without moving anything, so what it
leaves is the factor of a permuted matrix. To have the factor of the matrix itself, blocks of rows
are dealt out first, such that the order of elimination is the natural one, and collected again
afterwards: two all-to-all exchanges, and for the lower factor a third that transposes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_batching import custom_vmap
from jax.sharding import Mesh

from shardsolve import _words
from shardsolve._calls import FACTOR, Arrays, Call, compiled, map_batch
from shardsolve._check import check_matrix, check_tile
from shardsolve._cut import Cut, find_cut, inside_shard_map
from shardsolve._records import FAILURE, raise_if_failed
from shardsolve._words import accepts

LARGEST_TILE = 384


@accepts(_words.CHOLESKY)
def cholesky(
    a: jax.Array, *, upper: bool = False, mesh: Mesh | None = None, tile: int | None = None
) -> jax.Array:
    """The Cholesky factor: a = l l^H with l lower triangular, or a = u^H u with upper=True.

    Out of place: each device holds its rows of `a`, and up to three times as much besides, if the
    rows divide evenly. To solve, take `cho_factor`, which moves and copies nothing. Not to be
    called inside of a `shard_map`. Its derivative solves triangular systems by `jax.lax.linalg`,
    for which the whole factor may come to every device.

    Args:
        a: As in `solve`.
        upper: Which of the two factors; the other triangle is zero.
        mesh: As in `solve`.
        tile: Columns of a block at most; by default 384.

    Returns:
        (n, n), of a's dtype, its rows cut as those of `a`. Under `jit` with Auto axes, if the rows
        of `a` are not cut, XLA decides where it lies: for a replicated `a` whole on each device,
        unless mesh= is passed.

    Raises:
        LinAlgError: As `solve`. The pivot's row is a's.
        NotImplementedError: Inside of a `shard_map`.
    """
    a = check_matrix(a, inside=False)
    if inside_shard_map():
        raise NotImplementedError(
            "cholesky cannot be called inside of a shard_map; call it outside, or use cho_factor"
        )
    cut = find_cut(a, mesh, None)
    factor, record = _cholesky(a, cut, check_tile(tile) or LARGEST_TILE, bool(upper))
    raise_if_failed(record)
    return factor


@functools.partial(compiled, static_argnames=("cut", "tile", "upper"))
def _cholesky(a: jax.Array, cut: Cut | None, tile: int, upper: bool) -> Arrays:
    return _cholesky_of(cut, tile, upper)(a)


@functools.cache
def _cholesky_of(cut: Cut | None, tile: int, upper: bool) -> Callable[[jax.Array], Arrays]:
    @custom_vmap
    def call(a: jax.Array) -> Arrays:
        return _IN_ORDER(cut, a, tile=tile, upper=upper)

    @call.def_vmap
    def one_by_one(axis_size, batched, a):
        return lax.map(call, a), (True, True)

    def adjoint(a: jax.Array) -> jax.Array:
        return jnp.conj(a.T)

    def whole(a: jax.Array) -> jax.Array:
        """On every device where types say where arrays lie; else XLA decides."""
        return a if cut is None else cut.place(a, None)

    @jax.custom_jvp
    def cholesky(a: jax.Array) -> Arrays:
        return call(a)

    @cholesky.defjvp
    def rule(primals, tangents):
        # Murray, arXiv:1602.07527, equation 8.
        factor, record = cholesky(*primals)
        lower = whole(adjoint(factor) if upper else factor)
        change = whole(tangents[0])
        change = (change + adjoint(change)) / 2
        half = adjoint(solve_lower(lower, change))  # the change is Hermitian
        middle = jnp.tril(solve_lower(lower, half))
        middle = middle - jnp.diag(jnp.diag(middle)) / 2
        change = jnp.matmul(lower, middle, precision=lax.Precision.HIGHEST)
        change = adjoint(change) if upper else change
        return (factor, record), (
            change if cut is None else cut.place_like(change, factor),
            np.zeros(record.shape, jax.dtypes.float0),
        )

    return cholesky


def solve_lower(lower: jax.Array, b: jax.Array) -> jax.Array:
    """L^-1 b for whole (n, n) matrices, of a batch one after the other.

    The triangular solve of a batch waits for threads of a pool which the programs of several CPU
    devices may have taken: jaxlib 0.8 to 0.11 hang there. `custom_vmap` cannot be transposed, so
    `custom_linear_solve` is around it, which differentiates the product and never computes it.
    """
    frozen = lax.stop_gradient(lower)
    return lax.custom_linear_solve(
        lambda x: jnp.matmul(lower, x, precision=lax.Precision.HIGHEST),
        b,
        lambda _, b: _triangular_solve(False)(frozen, b),
        transpose_solve=lambda _, b: _triangular_solve(True)(frozen, b),
    )


@functools.cache
def _triangular_solve(transposed: bool) -> Callable[[jax.Array, jax.Array], jax.Array]:
    @custom_vmap
    def solve(lower: jax.Array, b: jax.Array) -> jax.Array:
        return lax.linalg.triangular_solve(
            lower, b, left_side=True, lower=True, transpose_a=transposed
        )

    @solve.def_vmap
    def one_by_one(axis_size, batched, lower, b):
        return map_batch(solve, batched, (lower, b)), True

    return solve


class _InOrder(Call):
    """The factorisation of a matrix whose blocks have been dealt out: factor and record."""

    @property
    def result_axes(self) -> tuple[int | None, ...]:
        return 0, None

    def _run(
        self,
        axes: tuple[str, ...],
        others: tuple[str, ...],
        n: int,
        options: dict,
        batch: bool = False,
        place: jax.Array | None = None,
    ) -> Callable[[jax.Array], Arrays]:
        def run(own: jax.Array) -> Arrays:
            order = _Order(n, axes, options["tile"])
            of_order = order.padded, {"tile": order.tile}
            factor = super(_InOrder, self)._run(axes, others, *of_order, batch, place)
            slab, _, _, record = factor(order.deal(own))
            factored = order.collect(slab)  # column j of conj(l) is row j: that is u
            columns = jnp.arange(n, dtype=jnp.int32)[None]
            factored = jnp.where(order.rows[:, None] <= columns, factored, 0)
            if not options["upper"]:
                factored = order.adjoint(factored)
            failed = record[0] != 0
            return jnp.where(failed, jnp.nan, factored), order.named(record)

        return run


class _Order:
    """Where the rows of a matrix go, so that its blocks are eliminated one after the other.

    Of the `ranks` devices along `axes` each has `width` rows, the last ones fewer. Block b of
    `tile` rows is dealt to device b % ranks. Every device gets `blocks` whole ones; what they hold
    beyond the matrix is the identity's.
    """

    def __init__(self, n: int, axes: tuple[str, ...], largest_tile: int):
        self.axes = axes
        ranks = lax.axis_size(axes) if axes else 1
        self.n, self.ranks, self.width = n, ranks, -(-n // ranks)
        self.tile, self.blocks = blocks_of(n, ranks, largest_tile)
        self.padded = self.blocks * self.tile * ranks
        if ranks == 1:  # the order is that of the matrix anyway
            self.tile, self.padded = min(largest_tile, n), n

    @property
    def rows(self) -> jax.Array:
        """(width,): a device's rows of the matrix, and past its end."""
        rank = lax.axis_index(self.axes) if self.axes else 0
        return rank * self.width + jnp.arange(self.width, dtype=jnp.int32)

    def deal(self, own: jax.Array) -> jax.Array:
        """Of a device's rows of the matrix, those of the matrix to be factored."""
        if self.ranks == 1:
            return own
        send, place, _, _ = self._routes
        rows = _exchange(own, self.axes, send, place)
        rows = jnp.pad(rows, ((0, 0), (0, self.padded - self.n)))
        number = jnp.asarray(self._dealt)[lax.axis_index(self.axes)][:, None]
        behind = (number == jnp.arange(self.padded, dtype=jnp.int32)[None]).astype(own.dtype)
        rows = jnp.where(number < self.n, rows, behind)
        columns = rows.reshape(-1, self.blocks, self.ranks, self.tile)
        return columns.swapaxes(1, 2).reshape(-1, self.padded)

    def collect(self, own: jax.Array) -> jax.Array:
        """The way back, for the rows of the factor."""
        if self.ranks == 1:
            return own
        _, _, send, place = self._routes
        columns = own.reshape(-1, self.ranks, self.blocks, self.tile).swapaxes(1, 2)
        return _exchange(columns.reshape(-1, self.padded)[:, : self.n], self.axes, send, place)

    def adjoint(self, own: jax.Array) -> jax.Array:
        """A device's rows of the conjugate transpose."""
        if self.ranks == 1:
            return jnp.conj(own.T)
        own = jnp.pad(own, ((0, 0), (0, self.ranks * self.width - self.n)))
        columns = lax.all_to_all(own, self.axes, split_axis=1, concat_axis=0, tiled=True)
        return jnp.conj(columns.T)[:, : self.n]

    def named(self, record: jax.Array) -> jax.Array:
        """The record with the rows that it names as they are in the matrix."""

        def original(row: jax.Array) -> jax.Array:
            return jnp.where(row >= 0, jnp.asarray(self._dealt.ravel())[row], row)

        if self.ranks == 1:
            return record
        named = record.at[1].set(original(record[1])).at[2].set(original(record[2]))
        return jnp.where(record[0] < FAILURE, named, record)

    @functools.cached_property
    def _dealt(self) -> np.ndarray:
        """(ranks, rows of each): the rows of the matrix that a device is dealt."""
        rows = np.arange(self.padded, dtype=np.int32).reshape(self.blocks, self.ranks, self.tile)
        return rows.swapaxes(0, 1).reshape(self.ranks, -1)

    @functools.cached_property
    def _routes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """`send` and `place` of `_exchange`, to deal rows out and then to collect them."""
        row = np.arange(self.n)
        source, held = row // self.width, row % self.width
        block, inside = row // self.tile, row % self.tile
        target, dealt = block % self.ranks, block // self.ranks * self.tile + inside
        pair = source * self.ranks + target
        count = np.bincount(pair, minlength=self.ranks**2)
        by_pair = np.argsort(pair, kind="stable")
        number = np.empty_like(row)  # among the rows of its pair
        number[by_pair] = row - (np.cumsum(count) - count)[pair[by_pair]]
        most = max(1, int(count.max()))

        def table(shape: tuple[int, ...], *places_and_value: np.ndarray) -> np.ndarray:
            *places, value = places_and_value
            filled = np.zeros(shape, np.int32)
            filled[tuple(places)] = value
            return filled

        pairs, rows = (self.ranks, self.ranks, most), self.padded // self.ranks
        return (
            table(pairs, source, target, number, held),
            table((self.ranks, rows), target, dealt, source * most + number),
            table(pairs, target, source, number, dealt),
            table((self.ranks, self.width), source, held, target * most + number),
        )


def blocks_of(n: int, ranks: int, largest_tile: int) -> tuple[int, int]:
    """Rows of a block, and how many blocks each device gets, to deal n rows out in turn."""
    turns = max(1, -(-n // (ranks * ranks * largest_tile)))
    return max(1, -(-n // (ranks * ranks * turns))), ranks * turns


def _exchange(
    own: jax.Array, axes: tuple[str, ...], send: np.ndarray, place: np.ndarray
) -> jax.Array:
    """Rows from all devices to all devices.

    Args:
        own: This device's rows.
        axes: Along which the devices lie.
        send: (ranks, ranks, most): which of its rows each device sends to each.
        place: (ranks, rows): which of all that it receives, device by device, is each row.
    """
    rank = lax.axis_index(axes)
    parts = lax.all_to_all(own[jnp.asarray(send)[rank]], axes, split_axis=0, concat_axis=0)
    return parts.reshape(-1, own.shape[1])[jnp.asarray(place)[rank]]


_IN_ORDER = _InOrder(FACTOR.name, "i j -> i j, m", (0, 0), FACTOR.from_columns)
