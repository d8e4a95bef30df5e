"""A A^H of a matrix whose rows are cut over devices, its rows where those of A lie.

Each block of the product is made once: of the blocks (i, j) and (j, i) one is the adjoint of the
other. The rows of A go round a ring of devices, half of the way, and no device ever has all of A:

    device i:  A_i A_i^H | receives A_(i+1), sends A_i to i-1:  B = A_i A_(i+1)^H, B^H to i+1 | ...

A message and the product before it do not depend on each other, so XLA may do both at once. Of
A_i A_i^H, too, a half is made.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_batching import custom_vmap
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from shardsolve._calls import map_batch
from shardsolve._cut import Cut, row_axes
from shardsolve._square import product, square


def gram(a: jax.Array, cut: Cut | None) -> jax.Array:
    """A A^H, (n, n), Hermitian to the last bit, of A (n, k), n a multiple of the cut's parts.

    A device holds, beside its n/d rows of A and of the product, two more times its rows of A.
    """
    if cut is None:
        return _partitioned(a)
    names = tuple(cut.known_mesh.axis_names)
    run = jax.shard_map(
        functools.partial(_rows, axes=cut.axes, n=a.shape[0], names=names),
        mesh=cut.mesh,
        in_specs=P(cut.axes, None),
        out_specs=P(cut.axes, None),
        check_vma=False,
    )
    return run(cut.place(a))


def _rows(own: jax.Array, axes: tuple[str, ...], n: int, names: tuple[str, ...]) -> jax.Array:
    """A device's rows of the product, (w, n), of its w rows of A; the last device's may be fewer.

    `names`: all axes of the mesh, in its order. With an even number of devices those that face each
    other in the ring share the product of their rows: each makes half of the block.
    """
    ranks = lax.axis_size(axes) if axes else 1
    of_own = square(own)
    if ranks == 1:
        return of_own
    rank, width = lax.axis_index(axes), len(own)
    # `ppermute` numbers devices in the order of the mesh, everything else in that of `axes`.
    of_mesh = tuple(name for name in names if name in axes)
    grid = np.arange(ranks).reshape([lax.axis_size(name) for name in of_mesh])
    number = grid.transpose([of_mesh.index(name) for name in axes]).ravel().tolist()
    slab = jnp.zeros((width, ranks * width), own.dtype)

    def with_block(slab: jax.Array, ahead: int, block: jax.Array) -> jax.Array:
        """With the block of this device's rows and of those of the device so far ahead."""
        column = (rank + ahead) % ranks * width
        return lax.dynamic_update_slice_in_dim(slab, block, column, axis=1)

    def sent(block: jax.Array, ahead: int) -> jax.Array:
        """What a device so far behind sends to this one."""
        pairs = [(number[i], number[(i + ahead) % ranks]) for i in range(ranks)]
        return lax.ppermute(block, of_mesh, pairs)

    slab = with_block(slab, 0, of_own)
    other = sent(own, ranks - 1)
    for ahead in range(1, (ranks + 1) // 2):
        following = sent(other, ranks - 1) if ahead < ranks // 2 else other
        # B = A_i A_(i+ahead)^H
        block = product(own, other)
        slab = with_block(slab, ahead, block)
        slab = with_block(slab, ranks - ahead, sent(jnp.conj(block.T), ahead))
        other = following
    if ranks % 2 == 0:
        half = ranks // 2
        block = _shared_block(own, other, rank < half, lambda made: sent(made, half))
        slab = with_block(slab, half, block)
    return slab[:, :n]


def _shared_block(
    own: jax.Array,
    other: jax.Array,
    is_first: jax.Array,
    exchanged: Callable[[jax.Array], jax.Array],
) -> jax.Array:
    """The block of a device and the one opposite. Of B = A_first A_second^H each makes a half.

    The first makes the upper rows and the second the lower ones, with one in common if there is an
    odd number of them.
    """
    width, half = len(own), (len(own) + 1) // 2
    made = lax.cond(
        is_first,
        lambda: product(own[:half], other),
        lambda: product(other[width - half :], own),
    )
    received = exchanged(made)
    upper, lower = jnp.where(is_first, made, received), jnp.where(is_first, received, made)
    block = jnp.concatenate([upper, lower[2 * half - width :]])
    return jnp.where(is_first, block, jnp.conj(block.T))


@custom_vmap
def _partitioned(a: jax.Array) -> jax.Array:
    """Where XLA knows how the rows are cut, and Python does not: under jit with Auto axes."""
    return _where_it_lies(a)


@_partitioned.def_vmap
def _one_by_one(axis_size, batched, a):
    return map_batch(_partitioned, batched, (a,)), True


@custom_partitioning
def _where_it_lies(a: jax.Array) -> jax.Array:
    return _rows(a, (), len(a), ())


def _cut_of(mesh, arguments):
    shape, spec = arguments[0].shape, getattr(arguments[0].sharding, "spec", P())
    return row_axes(spec, mesh, shape[0])


def _infer(mesh, arguments, result):
    return NamedSharding(mesh, P(_cut_of(mesh, arguments), None))


def _partition(mesh, arguments, result):
    axes = _cut_of(mesh, arguments)
    where = NamedSharding(mesh, P(axes, None))
    names = tuple(mesh.axis_names)
    run = functools.partial(_rows, axes=axes, n=arguments[0].shape[0], names=names)
    return mesh, run, where, (where,)


_where_it_lies.def_partition(
    partition=_partition, infer_sharding_from_operands=_infer, sharding_rule="i k -> i j"
)
