"""Calls that each device makes by itself: in the order of its program, without another device.

No rendezvous, and the host waits for nothing, so they may stand in `lax.while_loop`. What devices
have to tell each other goes through collectives of XLA's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_batching import custom_vmap

from shardsolve import _library

# Of the order in which a dot product is summed; see src/runtime/fixed_dot.hpp.
_LEAF = 64
_SUBTREE = 32 * _LEAF


def dot(
    x: jax.Array, y: jax.Array, *, axes: str | Sequence[str] = (), n: int | None = None
) -> jax.Array:
    """<x, y> = sum of conj(x_i) y_i, with the same bits on every device and any number of them.

    The order of the sum depends on n alone, every rounding in it is written down, and a batch has
    the bits of its items one by one; so has `vmap`. On one device one call, on several a call, an
    all_gather of about n / 64 numbers and 256 for each device, and another call: several products
    of one stage of an algorithm are best made as one batch. Has no derivative.

    Args:
        x: (..., n), float32, float64, complex64 or complex128; inside of a `shard_map` along
            `axes`, with check_vma=False, (..., w): a device's own rows, w of them on each, as JAX
            cuts n rows evenly, and padding behind the last.
        y: Of the same shape and dtype.
        axes: Along which the devices with the other rows lie; none: all rows are here.
        n: Rows of all devices without padding; by default w times their number.

    Returns:
        (...): the same on all devices.

    Raises:
        TypeError, ValueError: If x and y differ in dtype or shape.
    """
    if x.dtype != y.dtype:
        raise TypeError(f"x is {x.dtype.name} and y is {y.dtype.name}: they must be of one dtype")
    if x.shape != y.shape or x.ndim == 0:
        raise ValueError(f"x is {x.shape} and y is {y.shape}: pass vectors of one shape")
    batch, rows = x.shape[:-1], x.shape[-1]
    ranks = lax.axis_size(axes) if axes else 1
    n = rows * ranks if n is None else n
    if n == 0:
        return jnp.zeros(batch, x.dtype)
    work = -(-n // _SUBTREE)
    if ranks == 1:
        return _call("dot", x[..., :n], y[..., :n], lengths=(1, work))[0][..., 0]
    length = rows // _LEAF + 1 + 4 * _LEAF
    rank = jnp.broadcast_to(jnp.int32(lax.axis_index(axes)), (*batch, 1))
    (parts,) = _call("dot_parts", x, y, rank, lengths=(length,), n=n)
    gathered = lax.all_gather(parts, axes, axis=parts.ndim - 1, tiled=True)
    return _call("dot_of_parts", gathered, lengths=(1, work), n=n, rows=rows)[0][..., 0]


def call(
    name: str,
    *operands: jax.Array,
    lengths: Sequence[int | tuple[int, ...]],
    aliases: dict[int, int] | None = None,
    recorded: bool = False,
    strided: bool = False,
    **options: object,
) -> tuple[jax.Array, ...]:
    """A local call for a batch: operands (batch..., length), and results of these lengths.

    Dimensions of the batch may be 1 in an operand, which is then the same for all of it and not
    copied; `vmap` makes use of that. The memory of operand i becomes that of result aliases[i].
    `recorded`: the call does nothing on a GPU but enqueue, so XLA may make it part of a CUDA graph.
    `strided`: the call knows operands that are one for all of the batch or one for each; of those
    that are shared by some, as under a `vmap` of a `vmap`, copies are made. Has no derivative.
    """
    aliases = aliases or {}

    def has_to_be_whole(at: int, own: Sequence[int], batch: Sequence[int]) -> bool:
        return at in aliases or (strided and math.prod(own) not in (1, math.prod(batch)))

    @custom_vmap
    def run(*operands: jax.Array) -> tuple[jax.Array, ...]:
        row = _library.rows()[name]
        own = [max(1, len(buffer.shape)) for buffer in row.operands]
        batch = np.broadcast_shapes(
            *(operand.shape[: operand.ndim - k] for operand, k in zip(operands, own, strict=True))
        )
        operands = tuple(
            jnp.broadcast_to(operand, (*batch, *operand.shape[operand.ndim - own[at] :]))
            if has_to_be_whole(at, operand.shape[: operand.ndim - own[at]], batch)
            else operand
            for at, operand in enumerate(operands)
        )
        shapes = _shapes(row, batch, operands[row.matrix].dtype, lengths)
        target = _library.target(f"{name}_recorded" if recorded else name)
        made = jax.ffi.ffi_call(target, shapes, input_output_aliases=aliases)
        return tuple(made(*operands, **row.attributes(options)))

    @run.def_vmap
    def rule(axis_size: int, batched: Sequence[bool], *operands: jax.Array):
        whole = tuple(
            operand if is_batched else operand[None]
            for operand, is_batched in zip(operands, batched, strict=True)
        )
        if not any(batched):
            return run(*operands), (False,) * len(lengths)
        return run(*whole), (True,) * len(lengths)

    return run(*operands)


def _shapes(
    row: _library.Row, batch: Sequence[int], dtype: np.dtype, lengths: Sequence[Any]
) -> list[jax.ShapeDtypeStruct]:
    return [
        jax.ShapeDtypeStruct(
            (*batch, *((length,) if isinstance(length, int) else length)), buffer.dtype(dtype)
        )
        for buffer, length in zip(row.results, lengths, strict=True)
    ]


def _call(
    name: str, *operands: jax.Array, lengths: Sequence[int], **options: object
) -> Sequence[jax.Array]:
    """A local call for a batch: operands (..., length), and results of these lengths."""
    row = _library.rows()[name]
    batch, dtype = operands[0].shape[:-1], operands[row.matrix].dtype
    shapes = _shapes(row, batch, dtype, lengths)
    call = jax.ffi.ffi_call(_library.target(name), shapes, vmap_method="broadcast_all")
    return call(*operands, **row.attributes(options))
