"""The true Cholesky factor, in the order of the matrix.

The library eliminates in an order that keeps all devices busy without moving anything, so what it
leaves is the factor of a permuted matrix. To have the factor of the matrix itself, blocks of rows
are dealt out first, such that the order of elimination is the natural one, and collected again
afterwards: two all-to-all exchanges, and a third that transposes.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from shardsolve import _calls
from shardsolve._check import check_matrix, check_tile
from shardsolve._cut import Cut, find_cut, inside_shard_map
from shardsolve._records import FAILURE, raise_if_failed

LARGEST_TILE = 384


def cholesky(
    a: jax.Array, *, upper: bool = False, mesh: Mesh | None = None, tile: int | None = None
) -> jax.Array:
    """The Cholesky factor: a = l l^H with l lower triangular, or a = u^H u with upper=True.

    Out of place: each device holds its rows of `a`, and up to three times as much besides. To
    solve, take `cho_factor`, which moves and copies nothing. Not to be called inside of a
    `shard_map`. Its derivative solves triangular systems by `jax.lax.linalg`, for which XLA may
    bring the whole factor to every device.

    Args:
        a: As in `solve`.
        upper: Which of the two factors; the other triangle is zero.
        mesh: As in `solve`.
        tile: Columns of a block at most; by default 384.

    Returns:
        (n, n), of a's dtype, its rows cut as those of `a`.

    Raises:
        LinAlgError: As `solve`. The pivot's row is a's.
        NotImplementedError: Inside of a `shard_map`.
    """
    a = check_matrix(a, inside=False)
    if inside_shard_map():
        raise NotImplementedError(
            "cholesky cannot be called inside of a shard_map; call it outside, or use cho_factor"
        )
    cut = find_cut(a, mesh, None) or _whole_context()
    factor, record = _cholesky(a, cut.by_rows, check_tile(tile) or LARGEST_TILE)
    raise_if_failed(record)
    return jnp.conj(factor.T) if upper else factor


def _whole_context() -> Cut:
    """Under jit with Auto axes: the mesh that is set, if one is."""
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty:
        raise ValueError(
            "cholesky does not know the devices of a here: under jit, pass mesh= or use "
            "jax.set_mesh; cho_factor needs neither"
        )
    return Cut(mesh, tuple(mesh.axis_names))


@functools.partial(jax.jit, static_argnames=("cut", "tile"))
def _cholesky(a: jax.Array, cut: Cut, tile: int) -> tuple[jax.Array, jax.Array]:
    return _cholesky_of(cut, tile)(a)


@functools.cache
def _cholesky_of(cut: Cut, tile: int):
    @jax.custom_jvp
    def cholesky(a: jax.Array) -> tuple[jax.Array, jax.Array]:
        return _natural(a, cut, tile)

    @cholesky.defjvp
    def rule(primals, tangents):
        # Murray, arXiv:1602.07527, equation 8.
        factor, record = cholesky(*primals)
        change = (tangents[0] + jnp.conj(tangents[0].T)) / 2
        half = lax.linalg.triangular_solve(
            factor, change, left_side=False, lower=True, transpose_a=True, conjugate_a=True
        )
        middle = jnp.tril(lax.linalg.triangular_solve(factor, half, left_side=True, lower=True))
        middle = middle - jnp.diag(jnp.diag(middle)) / 2
        return (factor, record), (
            jnp.matmul(factor, middle, precision=lax.Precision.HIGHEST),
            np.zeros(record.shape, jax.dtypes.float0),
        )

    return cholesky


def _natural(a: jax.Array, cut: Cut, tile: int) -> tuple[jax.Array, jax.Array]:
    n, ranks = a.shape[0], cut.parts
    # Every device gets as many whole blocks as every other: `turns` from each device.
    turns = max(1, -(-n // (ranks * ranks * tile)))
    tile = max(1, -(-n // (ranks * ranks * turns)))
    padded = ranks * ranks * turns * tile
    blocks = ranks * turns  # on each device
    a = cut.place(a, cut_rows=False) if padded != n else a
    a = jnp.pad(a, ((0, padded - n), (0, padded - n)))
    a = a + jnp.diag((jnp.arange(padded) >= n).astype(a.dtype))  # the identity, behind the matrix
    rows = P(cut.axes, None)

    def deal(own: jax.Array) -> jax.Array:
        own = own.reshape(turns, ranks, tile, padded)
        own = lax.all_to_all(own, cut.axes, split_axis=1, concat_axis=0, tiled=True)
        own = own.reshape(blocks * tile, blocks, ranks, tile)
        return own.swapaxes(1, 2).reshape(blocks * tile, padded)

    def collect(own: jax.Array) -> jax.Array:
        own = own.reshape(blocks * tile, ranks, blocks, tile)
        own = own.swapaxes(1, 2).reshape(blocks, 1, tile, padded)
        own = lax.all_to_all(own, cut.axes, split_axis=0, concat_axis=1, tiled=True)
        return own.reshape(blocks * tile, padded)

    def on_rows(function):
        return jax.shard_map(
            function, mesh=cut.mesh, in_specs=rows, out_specs=rows, check_vma=False
        )

    slab, _, _, record = _calls.factor(cut, tile)(on_rows(deal)(cut.place(a)))
    upper = on_rows(collect)(slab)  # row j is column j of the factor of conj(a)
    lower = jnp.tril(jnp.conj(upper.T)) if jnp.iscomplexobj(a) else jnp.tril(upper.T)
    lower = lower[:n, :n] if padded != n else lower
    failed = record[0] != 0
    lower = jnp.where(failed, jnp.nan, lower)
    if cut.explicit:
        lower = cut.place(lower)
    elif n % ranks == 0:
        lower = lax.with_sharding_constraint(lower, NamedSharding(cut.known_mesh, rows))
    return lower, _in_order(record, ranks, blocks, tile)


def _in_order(record: jax.Array, ranks: int, blocks: int, tile: int) -> jax.Array:
    """The record with the rows that it names as they are in the matrix."""

    def original(row: jax.Array) -> jax.Array:
        rank, rest = row // (blocks * tile), row % (blocks * tile)
        natural = ((rest // tile) * ranks + rank) * tile + rest % tile
        return jnp.where(row >= 0, natural, row)

    is_row = record[0] < FAILURE
    named = record.at[1].set(original(record[1])).at[2].set(original(record[2]))
    return jnp.where(is_row, named, record)
