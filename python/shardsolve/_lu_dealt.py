"""The LU factors of a matrix in natural order, of a device's rows: the call behind `lu`.

The library eliminates columns in an order that keeps all devices busy. To have L and U of the
matrix itself, blocks of its columns are dealt out by one all-to-all exchange, such that this order
is the natural one, and the rows of both come back by another. Rows need no dealing: each device has
whole columns, so that row exchanges are those of LAPACK whatever lies where.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from shardsolve._alone import (
    EXACT,
    bits_of_shortest,
    is_short,
    largest_bits,
    lift,
    lifted,
    times_power,
)
from shardsolve._calls import Arrays, Call, may_be_alone
from shardsolve._cut import Cut
from shardsolve._eigh_alone import random_signs
from shardsolve._natural import blocks_of
from shardsolve._records import FAILURE, NOT_KNOWN, VERDICT_WORDS, Status

# What stands for P.
MATRIX, INDICES, IN_L = "matrix", "indices", "in_l"


@functools.cache
def call_of(tall: bool, form: str) -> Call:
    """A (m, n) -> L or P L, U, the rows of A in the order of L U, verdict, error, and p if wanted.

    Args:
        tall: Whether there are more rows than columns: then U is whole on each device.
        form: MATRIX or INDICES for p, or IN_L for P L and none.
    """
    of_u = "b c" if tall else "i j"
    of_p = {MATRIX: ", i q", INDICES: ", q", IN_L: ""}[form]
    return _Factors(
        "lu_factor", f"i j -> i a, {of_u}, p, r, e{of_p}", empty=(), tall=tall, form=form
    )


@dataclass(frozen=True, eq=False)
class _Factors(Call):
    """The call; its options are the largest tile, and whether to certify."""

    tall: bool = False
    form: str = MATRIX

    @property
    def result_axes(self) -> tuple[int | None, ...]:
        of_p = {MATRIX: (0,), INDICES: (None,), IN_L: ()}[self.form]
        return 0, None if self.tall else 0, None, None, None, *of_p

    @property
    def is_tall(self) -> bool:
        return True  # rows are counted: there may be more columns, or fewer

    def takes_batch(self, cut: Cut | None, n: int, options: dict) -> bool:
        return may_be_alone(cut)

    def _run(
        self,
        axes: tuple[str, ...],
        others: tuple[str, ...],
        n: int,
        options: dict,
        batch: bool = False,
        place: jax.Array | None = None,
    ) -> Callable[[jax.Array], Arrays]:
        def factor(slab: jax.Array, tile: int) -> Arrays:
            usual = super(_Factors, self)._run
            return usual(axes, others, slab.shape[1], {"tile": tile}, False, place)(slab)

        def one(own: jax.Array) -> Arrays:
            rows = _Rows.of(axes, place, n, own.shape[1])
            own = rows.without_rest(own)
            bits = rows.largest(largest_bits(own))
            is_tiny = (bits > 0) & (bits < bits_of_shortest(own.dtype))
            own = jnp.where(is_tiny, lifted(jnp.where(is_tiny, own, 0)), own)
            size = rows.largest(jnp.max(_size(own)))
            if rows.each_takes_all:
                found = _by_each(rows, own, self.form, size)
            else:
                found = _by_all(rows, own, self.form, options["tile"], factor)
            if options["certify"]:
                error = _error(rows, own, found, self.form)
            else:
                error = jnp.full((), NOT_KNOWN, jnp.finfo(own.dtype).dtype)
            found = _lowered(rows, found, is_tiny)
            return _results(rows, found, error, self.form)

        def run(given: jax.Array) -> Arrays:
            if not batch:
                return one(given)
            alone = not axes or lax.axis_size(axes) == 1
            return jax.vmap(one)(given) if alone else lax.map(one, given)

        return run


class _Rows(NamedTuple):
    """Which rows of an (m, n) matrix a device has: those from rank * width on, while there are."""

    axes: tuple[str, ...]
    ranks: int
    rank: jax.Array | int
    m: int
    n: int

    @classmethod
    def of(cls, axes: tuple[str, ...], place: jax.Array | None, m: int, n: int) -> _Rows:
        """Those of the device that traces; `place` as in `Call._run`."""
        if not axes:
            return cls(axes, 1, 0, m, n)
        rank = lax.axis_index(axes) if place is None else place[0]
        return cls(axes, lax.axis_size(axes), rank, m, n)

    @property
    def width(self) -> int:
        return -(-self.m // self.ranks)

    @property
    def k(self) -> int:
        return min(self.m, self.n)

    @property
    def is_tall(self) -> bool:
        return self.m > self.n

    @property
    def each_takes_all(self) -> bool:
        """Whether sharing the work would cost more than that."""
        return self.ranks * self.k <= max(self.m, self.n)

    @property
    def numbers(self) -> jax.Array:
        """(width,): the device's rows."""
        return self.rank * self.width + jnp.arange(self.width, dtype=jnp.int32)

    def without_rest(self, own: jax.Array) -> jax.Array:
        """Zeros where the last devices have more than there is: that may be anything."""
        if self.m % self.ranks == 0:
            return own
        return jnp.where(self.numbers[:, None] < self.m, own, 0)

    def gather(self, own: jax.Array) -> jax.Array:
        """All rows, of what has a device's."""
        return own if self.ranks == 1 else lax.all_gather(own, self.axes, tiled=True)[: self.m]

    def own(self, whole: jax.Array) -> jax.Array:
        """A device's rows, and zeros, of what has all."""
        if self.ranks == 1:
            return whole
        return lax.dynamic_slice_in_dim(self.padded(whole), self.rank * self.width, self.width)

    def padded(self, whole: jax.Array) -> jax.Array:
        """All rows, and zeros: as many for each device."""
        rest = self.ranks * self.width - self.m
        return jnp.pad(whole, [(0, rest), *((0, 0) for _ in whole.shape[1:])])

    def largest(self, number: jax.Array) -> jax.Array:
        """Of all devices'; NaN if one is."""
        if self.ranks == 1:
            return number
        return jnp.max(lax.all_gather(number, self.axes))


class _Found(NamedTuple):
    """Factors, whatever the verdict on them."""

    lower: jax.Array  # (width, k): L or P L
    upper: jax.Array  # (width, n), or whole where there are more rows than columns
    order: jax.Array  # int32 (m,): the row of A that is row i of L U
    verdict: jax.Array


def _results(rows: _Rows, found: _Found, error: jax.Array, form: str) -> Arrays:
    status = found.verdict[0]
    failed = (status != Status.OK) & (status != Status.SINGULAR)
    factors = (_unless(failed, one) for one in found[:3])
    results = *factors, found.verdict, error[None]
    if form == MATRIX:
        p = rows.numbers[:, None] == found.order[None]
        return *results, _unless(failed, p.astype(error.dtype))
    return (*results, _unless(failed, inverse_of(found.order))) if form == INDICES else results


def _unless(failed: jax.Array, a: jax.Array) -> jax.Array:
    return jnp.where(failed, -1 if a.dtype == jnp.int32 else jnp.nan, a)


def inverse_of(order: jax.Array) -> jax.Array:
    """Of a permutation, in its own dtype."""
    return jnp.argsort(order).astype(order.dtype)


def _lower(packed: jax.Array, number: jax.Array, k: int) -> jax.Array:
    """Rows of L of those of L U in one matrix, whose numbers are given."""
    columns = jnp.arange(k, dtype=jnp.int32)[None]
    one = (columns == number[:, None]).astype(packed.dtype)
    return jnp.where(columns < number[:, None], packed[:, :k], one)


def _upper(packed: jax.Array, number: jax.Array) -> jax.Array:
    """Rows of U, likewise."""
    columns = jnp.arange(packed.shape[1], dtype=jnp.int32)[None]
    return jnp.where(columns >= number[:, None], packed, 0)


def _by_each(rows: _Rows, own: jax.Array, form: str, size: jax.Array) -> _Found:
    """By XLA's routine on every device, which has all of A for it; `size`: of its largest entry.

    A pivot whose reciprocal is below the normal range would be taken for infinite on CPUs.
    """
    real = jnp.finfo(own.dtype)
    is_large = size >= 2.0 ** (real.maxexp - 24)
    down, up = (jnp.where(is_large, 2.0**power, 1).astype(own.dtype) for power in (-8, 8))
    limit = jnp.where(is_large, 2.0 ** (real.maxexp - 8), 2.0 ** (real.maxexp - 3))
    whole = rows.gather(own)
    packed, _, order = lax.linalg.lu(whole * down)
    verdict = _verdict_on(whole, packed, limit.astype(real.dtype))
    # XLA on CPUs makes zeros of subnormal numbers: a pivot of 0 may be one. Not that of a column
    # of zeros, nor one before which, with its own column, there is nothing that is so small.
    pivot = verdict[3]
    before = jnp.arange(rows.n, dtype=jnp.int32) <= pivot
    doubtful = jnp.any(is_short(whole) & before[None]) & (largest_bits(whole[:, pivot]) > 0)
    doubtful &= verdict[0] == Status.SINGULAR
    verdict = jnp.where(doubtful, verdict_words(Status.UNDERFLOW), verdict)
    numbers = jnp.arange(rows.m, dtype=jnp.int32)
    lower = _lower(packed, numbers, rows.k)
    upper = _upper(packed[: rows.k] * up, numbers[: rows.k])
    lower = lower[inverse_of(order)] if form == IN_L else lower
    upper = upper if rows.is_tall else rows.own(upper)
    return _Found(rows.own(lower), upper, order, verdict)


def _size(a: jax.Array) -> jax.Array:
    """Of a complex number the larger of its parts, which does not overflow."""
    return jnp.maximum(jnp.abs(a.real), jnp.abs(a.imag)) if jnp.iscomplexobj(a) else jnp.abs(a)


def _lowered(rows: _Rows, found: _Found, is_lifted: jax.Array) -> _Found:
    """The factors of A, where those of its multiple by 2^lift() were made.

    An entry of U may be below the range then.
    """
    real, power = jnp.finfo(found.upper.dtype), lift(found.upper.dtype)
    sizes = _size(found.upper)
    lost = jnp.any((sizes > 0) & (sizes < real.tiny * 2.0**power)).astype(jnp.int32)
    lost = is_lifted & (rows.largest(lost) > 0) & (found.verdict[0] < FAILURE)
    return found._replace(
        upper=jnp.where(is_lifted, found.upper * 2.0**-power, found.upper),
        verdict=jnp.where(lost, verdict_words(Status.UNDERFLOW), found.verdict),
    )


def _verdict_on(a: jax.Array, packed: jax.Array, limit: jax.Array) -> jax.Array:
    """What the library would say of A and of its factors in one matrix, all below the limit."""

    def first(where: jax.Array) -> jax.Array:
        return jnp.argmax(where).astype(jnp.int32)

    strange, lost = ~jnp.isfinite(a), ~(_size(packed) < limit)
    zero = jnp.diagonal(packed) == 0
    row = first(jnp.any(strange, axis=1))
    step, pivot = first(jnp.any(lost, axis=0)), first(zero)
    verdict = jnp.where(
        jnp.any(zero), verdict_words(Status.SINGULAR, pivot, -1, pivot), verdict_words(Status.OK)
    )
    verdict = jnp.where(jnp.any(lost), verdict_words(Status.OVERFLOW, step, -1, step), verdict)
    bad_entry = verdict_words(Status.NONFINITE_INPUT, row, first(strange[row]))
    return jnp.where(jnp.any(strange), bad_entry, verdict)


def verdict_words(
    status: Status,
    row: jax.Array | int = -1,
    column: jax.Array | int = -1,
    before: jax.Array | int = -1,
) -> jax.Array:
    """A verdict, as in jax/records.hpp."""
    return jnp.stack([jnp.int32(word) for word in (status, row, column, before, 0)])


def _by_all(
    rows: _Rows,
    own: jax.Array,
    form: str,
    largest_tile: int,
    factor: Callable[[jax.Array, int], Arrays],
) -> _Found:
    """By the library, which shares the work, of a square matrix: A and zeros.

    Columns of zeros have pivots of 0 and do nothing, and rows of zeros are never a pivot's.
    """
    columns = _Columns.of(rows, largest_tile)
    slab, order, _, _, record = factor(columns.deal(rows, own), columns.tile)
    order = order[: rows.m]
    packed = columns.collect(rows, slab.T[: rows.m])
    upper = _upper(packed, rows.numbers)
    if rows.is_tall:
        top = jnp.zeros((rows.k, rows.n), own.dtype)
        upper = lax.psum(top.at[rows.numbers].set(upper, mode="drop"), rows.axes)
    number = rows.numbers
    if form == IN_L:  # before they come back every device has whole columns
        back = inverse_of(order)
        packed, number = columns.collect(rows, slab.T[back]), rows.own(back)
    lower = _lower(packed, number, rows.k)
    return _Found(lower, upper, order, columns.verdict(rows, record))


class _Columns(NamedTuple):
    """Which columns of a square matrix a device is dealt.

    Block b of `tile` columns goes to device b % ranks. Every device gets `blocks` whole ones; what
    they hold beyond the matrix is the identity's.
    """

    ranks: int
    tile: int
    blocks: int

    @classmethod
    def of(cls, rows: _Rows, largest_tile: int) -> _Columns:
        size = max(rows.m, rows.n)
        return cls(rows.ranks, *blocks_of(size, rows.ranks, largest_tile))

    @property
    def size(self) -> int:
        """Of the square matrix."""
        return self.ranks * self.blocks * self.tile

    def deal(self, rows: _Rows, own: jax.Array) -> jax.Array:
        """(columns of a device, size): of a device's rows of A, the columns that it is dealt."""
        parts = jnp.pad(own, ((0, 0), (0, self.size - rows.n)))
        parts = parts.reshape(rows.width, self.blocks, self.ranks, self.tile)
        parts = lax.all_to_all(parts, rows.axes, split_axis=2, concat_axis=0, tiled=True)
        dealt = parts.reshape(self.ranks * rows.width, -1)[: rows.m]
        dealt = jnp.pad(dealt, ((0, self.size - rows.m), (0, 0)))
        blocks = jnp.arange(self.blocks, dtype=jnp.int32) * self.ranks + rows.rank
        inside = jnp.arange(self.tile, dtype=jnp.int32)
        number = (blocks[:, None] * self.tile + inside[None]).ravel()
        places = jnp.arange(self.size, dtype=jnp.int32)
        behind = number >= max(rows.m, rows.n)
        is_one = (places[:, None] == number[None]) & behind[None]
        return jnp.where(is_one, 1, dealt).T

    def collect(self, rows: _Rows, own: jax.Array) -> jax.Array:
        """The way back: (width, n) of (m, columns of a device)."""
        parts = rows.padded(own).reshape(-1, self.blocks, 1, self.tile)
        parts = lax.all_to_all(parts, rows.axes, split_axis=0, concat_axis=2, tiled=True)
        return parts.reshape(rows.width, self.size)[:, : rows.n]

    def verdict(self, rows: _Rows, record: jax.Array) -> jax.Array:
        """The record's, with rows and columns as they are in A.

        The library counts as its rows those of what it is given, and these are columns of A.
        """
        status, line, other, before, _ = verdict = record[:VERDICT_WORDS]
        width = self.blocks * self.tile
        block = line % width // self.tile * self.ranks + line // width
        column = jnp.where(line >= 0, block * self.tile + line % self.tile, line)
        is_entry = other >= 0
        row = jnp.where(is_entry, other, column)
        named = jnp.stack([status, row, jnp.where(is_entry, column, other), before, record[4]])
        named = jnp.where(status < FAILURE, named, verdict)
        of_zeros = (status == Status.SINGULAR) & (before >= rows.k)
        return jnp.where(of_zeros, verdict_words(Status.OK), named)


def _error(rows: _Rows, own: jax.Array, found: _Found, form: str) -> jax.Array:
    """||A - P L U|| / ||A|| of A as `lu` says it."""
    real = jnp.finfo(own.dtype)
    exponent = jnp.frexp(rows.largest(jnp.max(jnp.abs(own))))[1]
    exponent = jnp.clip(-exponent, real.minexp + 2, real.maxexp - 2)
    a, upper = times_power(own, exponent), times_power(found.upper, exponent)
    # Of several sizes: by signs alone L (U v) may round as elimination has, and errors of U cancel.
    sizes = (64 + jnp.arange(rows.n) * 37 % 64).astype(own.dtype) / 64
    v = random_signs(rows.n).astype(own.dtype) * sizes[:, None]
    products = rows.gather(jnp.matmul(a, v, precision=EXACT))
    behind = jnp.matmul(upper, v, precision=EXACT)
    behind = behind if rows.is_tall else rows.gather(behind)
    products = products if form == IN_L else products[found.order]
    rest = rows.own(products) - jnp.matmul(found.lower, behind, precision=EXACT)
    rest = rows.without_rest(rest)
    norm = rows.largest(jnp.max(jnp.sum(jnp.abs(a), axis=1)))
    error = rows.largest(jnp.max(jnp.abs(rest))) / 1.5  # the mean size
    return jnp.where(norm == 0, error, error / jnp.where(norm == 0, 1, norm))
