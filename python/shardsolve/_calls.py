"""The library's calls as functions of whole arrays, on however many devices these lie.

Each call is built in layers, from the inside: the FFI call on a device's own rows; `shard_map` or
`custom_partitioning`, by what is known of the sharding; `custom_vmap`, one problem after the other.
Derivatives come on top, in _cholesky.py.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_batching import custom_vmap
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from shardsolve import (
    _cholesky_alone,
    _eigh_alone,
    _library,
    _lu_alone,
    _qr_alone,
    _svd_alone,
)
from shardsolve._cut import Cut, cuts_columns, row_axes, spec_along, varies
from shardsolve._library import Row
from shardsolve._records import EMPTY_FACTOR, EMPTY_LU, EMPTY_SKETCHED_LU, FAILURE

Arrays = tuple[jax.Array, ...]
AxisName = str | Sequence[str]

_AXIS_IS_TAKEN = ("marked as manual", "unbound axis name")  # shard_map's words for it
_BATCH_IS_CUT = (
    "vmap goes along an axis that Explicit axes of the mesh cut, and each matrix of a batch is "
    "solved on all devices, one after the other: bring the batch to where that axis is whole, with "
    "jax.sharding.reshard(a, PartitionSpec(None, 'x', None)); or solve inside of a jax.shard_map, "
    "where each device can have matrices of its own"
)


def compiled(function: Callable, **options) -> Callable:
    """`jax.jit(function, **options)`, also under `jax.disable_jit`.

    There is nothing of the caller's to be seen inside; and where XLA is to say how a matrix is cut,
    as under vmap, nobody would. Outside of all transformations `jax_debug_nans` has no say either:
    the caller reads the verdict, which knows why a result is NaN.
    """
    run = jax.jit(function, **options)

    @functools.wraps(run)
    def call(*arguments):
        with jax.disable_jit(False):
            if jax.config.jax_debug_nans and not _traced(arguments):
                with jax.debug_nans(False):
                    return run(*arguments)
            return run(*arguments)

    return call


def _traced(arguments: Sequence[object]) -> bool:
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(arguments))


class Compiled:
    """A function of a matrix and more, compiled for a matrix that stays and for one given up."""

    def __init__(self, function: Callable, *static: int, overwriting: Callable | None = None):
        self.keep = compiled(function, static_argnums=static)
        self.overwrite = compiled(
            overwriting or function, static_argnums=static, donate_argnums=(0,)
        )

    def __call__(self, overwrite_a: bool, a: jax.Array, *arguments: object):
        # Inside of the caller's transformations there is no memory to give up.
        given_up = overwrite_a and not isinstance(a, jax.core.Tracer)
        return (self.overwrite if given_up else self.keep)(a, *arguments)


@dataclass(frozen=True, eq=False)
class Alone:
    """What a device that is alone does in place of a call, up to so many rows."""

    most_rows: int
    # Takes the usual call, the operands and the options, and gives the call's results.
    run: Callable[..., Arrays]


@dataclass(frozen=True, eq=False)
class Call:
    """One of the library's calls: a row of its table, and what only JAX needs to know of it."""

    name: str  # in the table
    rule: str  # the sharding rule for Shardy, in its Einstein-like notation
    empty: tuple[float | tuple[float, ...], ...]  # what to fill each result with where n = 0
    # Makes of the function of a device's rows that of its columns, for a first operand that can be
    # either.
    from_columns: Callable[[Callable[..., Arrays]], Callable[..., Arrays]] | None = None
    # What a device that is alone does in its place, by platform; not where a tile is asked for.
    alone: Mapping[str, Alone] = field(default_factory=dict)
    # Whether that takes a batch of everything as well.
    batches: bool = False

    @property
    def row(self) -> Row:
        """Its buffers and options."""
        return _library.rows()[self.name]

    @property
    def operand_axes(self) -> tuple[int | None, ...]:
        """Along which axis each operand is cut over the devices; None: all have all of it."""
        return tuple(buffer.axis for buffer in self.row.operands)

    @property
    def result_axes(self) -> tuple[int | None, ...]:
        """Likewise."""
        return tuple(buffer.axis for buffer in self.row.results)

    @property
    def factors(self) -> bool:
        """Whether a matrix is given, and not its factor."""
        return self.row.record is None

    def rows_in(self, arguments: Sequence[jax.Array]) -> int:
        """The n of whole arrays, or of a device's own if the matrix is n x n."""
        return arguments[self.row.matrix].shape[-2 if self.is_tall else -1]

    @property
    def is_tall(self) -> bool:
        """Whether the matrix has columns of a number of their own."""
        return "c" in self.row.operands[self.row.matrix].shape

    def takes_batch(self, cut: Cut | None, n: int, options: dict) -> bool:
        """Whether a batch of such matrices is made at once where a device is alone, as it may be.

        XLA alone knows how many there are if `cut` is None.
        """
        return self.batches and bool(self._ways_alone(n, options)) and may_be_alone(cut)

    def __call__(
        self, cut: Cut | None, *arguments: jax.Array, batch: bool = False, **options: int
    ) -> Arrays:
        """The results for whole arrays; inside of a shard_map for a device's own rows.

        `batch`: all arguments have one more dimension, the first.
        """
        n = self.rows_in(arguments)
        if n == 0:
            return self._nothing(arguments, options, batch)
        if cut is None:
            return _partitioned(self, tuple(sorted(options.items())), batch)(*arguments)
        if cut.inside:
            if self.is_tall and cut.axes:
                n *= lax.axis_size(cut.axes)  # of a device's own rows
            return self._run(cut.axes, cut.others, n, options, batch)(*arguments)
        run = self._mapped(cut.by_rows, options, batch)
        if cut.columns and self.from_columns:
            run = self.from_columns(run)  # XLA sees that no device needs another's columns
        return run(*arguments)

    def _ways_alone(self, n: int, options: dict) -> dict[str, Alone]:
        """What a device that is alone does with so many rows in place of the usual call."""
        if options.get("tile"):
            return {}
        return {name: alone for name, alone in self.alone.items() if n <= alone.most_rows}

    def _run(
        self,
        axes: tuple[str, ...],
        others: tuple[str, ...],
        n: int,
        options: dict,
        batch: bool = False,
        place: jax.Array | None = None,
    ) -> Callable:
        """The local call for devices along `axes`; those along `others` do the same.

        `place`: the device's number along the first and along the others, (2,), if it is known.
        """

        def find_place() -> jax.Array:
            rank = lax.axis_index(axes) if axes else 0
            group = lax.axis_index(others) if others else 0
            return jnp.stack([jnp.int32(rank), jnp.int32(group)])

        def usual(*arguments: jax.Array) -> Arrays:
            found = find_place() if place is None else place
            ranks = lax.axis_size(axes) if axes else 1
            if ranks > 1 and jax.process_count() > 1:
                found = self._meet(found, axes, arguments, n, ranks, options)
            return self._local(found, arguments, n, ranks, options)

        def run(*arguments: jax.Array) -> Arrays:
            def all_of(*arguments: jax.Array) -> Arrays:
                return lax.map(lambda own: usual(*own), arguments) if batch else usual(*arguments)

            ranks = lax.axis_size(axes) if axes else 1
            # Where the caller's shard_map checks what varies, JAX 0.8 has results of a call vary,
            # and XLA's own not: no branch could give either.
            checked = place is None and bool(others) and varies(lax.axis_index(others))
            ways = {} if ranks > 1 or checked else self._ways_alone(n, options)
            if not ways:
                return all_of(*arguments)
            given = {name: value for name, value in options.items() if name != "tile"}
            return lax.platform_dependent(
                *arguments,
                default=all_of,
                **{
                    platform: functools.partial(alone.run, usual, **given)
                    for platform, alone in ways.items()
                },
            )

        return run

    def _attributes(self, n: int, ranks: int, options: dict) -> dict[str, object]:
        """Of the call, with the types that the library's table asks for."""
        shape = {"n": np.int64(n), "ranks": np.int64(ranks)}
        return {**self.row.attributes(options), **shape}

    def _local(
        self,
        place: jax.Array,
        arguments: Sequence[jax.Array],
        n: int,
        ranks: int,
        options: dict,
    ) -> Arrays:
        """The call of the library with a device's own parts of operands and results."""
        row = self.row
        operands = [
            jnp.conj(a.T) if buffer.turned else a
            for buffer, a in zip(row.operands, arguments, strict=True)
        ]
        sizes: dict[str | int, int] = {"n": n, "w": -(-n // ranks)}
        for buffer, operand in zip(row.operands, operands, strict=True):
            for size in {"k", "c"} & {*buffer.shape}:
                sizes[size] = operand.shape[buffer.shape.index(size)]
        shapes = tuple(
            jax.ShapeDtypeStruct(
                tuple(sizes.get(length, length) for length in buffer.shape),
                buffer.dtype(operands[row.matrix].dtype),
            )
            for buffer in row.results
        )
        aliases = None
        if row.copied_from is not None and row.copied_to is not None:
            aliases = {1 + row.copied_from: row.copied_to}
        call = jax.ffi.ffi_call(
            _library.target(self.name),
            shapes,
            input_output_aliases=aliases,
        )
        results = call(place, *operands, **self._attributes(n, ranks, options))
        return tuple(
            jnp.conj(a).T if buffer.turned else a
            for buffer, a in zip(row.results, results, strict=True)
        )

    def _meet(
        self,
        place: jax.Array,
        axes: tuple[str, ...],
        arguments: Sequence[jax.Array],
        n: int,
        ranks: int,
        options: dict,
    ) -> jax.Array:
        """`place`, followed by how the ranks of this call reach each other, for other processes.

        What tells one call from another is local to a process. But XLA knows which are the same
        one: what it gathers here has been written for this call.
        """
        _library.end_without_waiting()
        words = _library.description()["invitation_words"]
        invite = jax.ffi.ffi_call(
            _library.target("invitation"), jax.ShapeDtypeStruct((words,), jnp.int32)
        )

        def meet() -> jax.Array:
            own = invite(*arguments, **self._attributes(n, ranks, options))
            return lax.all_gather(own, axes).ravel()

        if self.row.record is None:
            return jnp.concatenate([place, meet()])
        # Without a factor nobody has to meet, and somebody may be lost: XLA would wait for them.
        record = arguments[self.row.record]
        nobody = jnp.zeros(ranks * words, jnp.int32)
        return jnp.concatenate([place, lax.cond(record[0] == 0, meet, lambda: nobody)])

    def _shapes(
        self, arguments: Sequence[jax.Array], options: dict, batch: bool
    ) -> Sequence[jax.ShapeDtypeStruct]:
        """Of the whole results."""
        usual = dataclasses.replace(self, alone={})
        run = usual._run((), (), self.rows_in(arguments), options, batch)
        # Not the arrays, whose types may say where they lie: XLA's routines refuse such.
        return jax.eval_shape(run, *(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arguments))

    def _nothing(self, arguments: Sequence[jax.Array], options: dict, batch: bool) -> Arrays:
        return tuple(
            jnp.broadcast_to(jnp.asarray(fill, shape.dtype), shape.shape)
            for fill, shape in zip(self.empty, self._shapes(arguments, options, batch), strict=True)
        )

    def _mapped(self, cut: Cut, options: dict, batch: bool) -> Callable:
        operand_axes = _behind_batch(self.operand_axes, batch)
        result_axes = _behind_batch(self.result_axes, batch)
        others = tuple(axis for axis in cut.known_mesh.axis_names if axis not in cut.axes)
        indexed = tuple(P(axis) for axis in cut.known_mesh.axis_names)

        def pad(a: jax.Array, axis: int, missing: int) -> jax.Array:
            if missing:
                a = cut.place(a, None)
                a = jnp.pad(a, [(0, missing if at == axis else 0) for at in range(a.ndim)])
            return cut.place(a, axis)

        def run(*arguments: jax.Array) -> Arrays:
            n = self.rows_in(arguments)

            def local(indices: Arrays, *arguments: jax.Array) -> Arrays:
                place = jnp.stack([cut.number(axes, indices) for axes in (cut.axes, others)])
                return self._run(cut.axes, others, n, options, batch, place)(*arguments)

            missing = -n % cut.parts
            padded = [
                cut.place(argument, None) if axis is None else pad(argument, axis, missing)
                for axis, argument in zip(operand_axes, arguments, strict=True)
            ]
            shapes = self._shapes(arguments, options, batch)

            def specs(axes: Sequence[int | None], arrays: Sequence) -> tuple[P, ...]:
                return tuple(
                    cut.spec(axis, len(a.shape)) for axis, a in zip(axes, arrays, strict=True)
                )

            mapped = jax.shard_map(
                local,
                mesh=cut.mesh,
                in_specs=(indexed, *specs(operand_axes, padded)),
                out_specs=specs(result_axes, shapes),
                check_vma=False,
            )
            try:
                results = mapped(cut.indices(), *padded)
            except (ValueError, NameError) as error:
                # JAX has no public way to ask which axes a vmap around this has taken.
                if not any(words in str(error) for words in _AXIS_IS_TAKEN):
                    raise
                raise ValueError(_BATCH_IS_CUT) from error
            if missing == 0:
                return results
            return tuple(
                result if axis is None else cut.whole(result, n, axis)
                for axis, result in zip(result_axes, results, strict=True)
            )

        return run


def _behind_batch(axes: Sequence[int | None], batch: bool) -> tuple[int | None, ...]:
    """The axes of arrays that may have the batch's before them."""
    return tuple(None if axis is None else axis + batch for axis in axes)


def may_be_alone(cut: Cut | None) -> bool:
    """Whether a matrix may lie on one device; XLA alone knows if `cut` is None."""
    if cut is None:
        return True
    if cut.inside:
        return not cut.axes or lax.axis_size(cut.axes) == 1
    return cut.parts == 1


@functools.cache
def _partitioned(call: Call, options: tuple[tuple[str, int], ...], batch: bool) -> Callable:
    """The call where XLA knows the shardings and Python does not: under jit with Auto axes."""
    operand_axes = _behind_batch(call.operand_axes, batch)
    result_axes = _behind_batch(call.result_axes, batch)

    @custom_partitioning
    def whole(*arguments: jax.Array) -> Arrays:  # this body is what runs on a single device
        return call._run((), (), call.rows_in(arguments), dict(options), batch)(*arguments)

    def spec_of(argument):
        # Operands that nobody has placed come with a sharding of another kind, without a spec.
        return P(*getattr(argument.sharding, "spec", P())[batch:])

    def takes_columns(arguments):
        return call.from_columns is not None and cuts_columns(spec_of(arguments[0]))

    def shardings(mesh, decides, arguments, results):
        axes = row_axes(spec_of(decides), mesh, decides.shape[-2])

        def of(cut_axes, shapes):
            return tuple(
                NamedSharding(mesh, spec_along(axes, axis, len(shape.shape)))
                for axis, shape in zip(cut_axes, shapes, strict=True)
            )

        return axes, of(operand_axes, arguments), of(result_axes, results)

    def partition(mesh, arguments, results):
        # A factor's ranks are counted where it is used, by how the slab lies. XLA may have laid it
        # otherwise than the matrix: as b lies, or the result of an inverse.
        decides = results[0] if call.factors and call.result_axes[0] is not None else arguments[0]
        axes, before, after = shardings(mesh, decides, arguments, results)
        others = tuple(axis for axis in mesh.axis_names if axis not in axes)
        run = call._run(axes, others, call.rows_in(arguments), dict(options), batch)
        if takes_columns(arguments):
            run = call.from_columns(run)
            by_columns = spec_along(axes, 1 + batch, 2 + batch)
            before = (NamedSharding(mesh, by_columns), *before[1:])
        return mesh, run, after, before

    def infer(mesh, arguments, results):
        return shardings(mesh, arguments[0], arguments, results)[2]

    whole.def_partition(
        partition=partition,
        infer_sharding_from_operands=infer,
        sharding_rule=_rule_of_batch(call.rule) if batch else call.rule,
    )
    return whole


def _rule_of_batch(rule: str) -> str:
    """The rule of a call for a batch: b is the first axis of everything."""
    sides = (side.split(",") for side in rule.split("->"))
    return " -> ".join(", ".join(f"b {one.strip()}" for one in side) for side in sides)


def _from_columns(run: Callable[..., Arrays]) -> Callable[..., Arrays]:
    """A call on rows of a Hermitian matrix, for somebody who has columns; its record comes last.

    The conjugate transpose of columns are rows of A^H, which is A, or fails as A does: then the
    entry that is named is A^H's.
    """

    def call(a: jax.Array, *others: jax.Array) -> Arrays:
        *made, record = run(jnp.conj(jnp.swapaxes(a, -1, -2)), *others)
        row, column = record[..., 1], record[..., 2]
        is_entry = (record[..., 0] < FAILURE) & (column >= 0)
        swapped = record.at[..., 2].set(row).at[..., 1].set(column)
        return *made, jnp.where(is_entry[..., None], swapped, record)

    return call


FACTOR = Call(
    "cholesky_factor",
    rule="i j -> i j, i, l, m",
    empty=(0, 0, 0, EMPTY_FACTOR),
    alone={
        "cpu": Alone(_cholesky_alone.MOST_ROWS_ON_CPU, _cholesky_alone.factor_on_cpu),
        "cuda": Alone(_cholesky_alone.MOST_ROWS_ON_GPU, _cholesky_alone.factor_on_gpu),
    },
    batches=True,
    from_columns=_from_columns,
)
_LOOK = Call("eigh_look", rule="i j -> v", empty=((0, -1, -1, -1, 0),))


def _eigh_on_cpu(usual: Callable[..., Arrays], a: jax.Array, *others: jax.Array, **options: Any):
    return _eigh_alone.find_on_cpu(_LOOK._run((), (), len(a), {}), usual, a, *others, **options)


_EIGH = Call(
    "eigh",
    rule="i j, e -> i j, v, k, l, m",
    empty=(0, 0, 0, 0, (0, -1, -1, -1, 0)),
    alone={
        "cpu": Alone(_eigh_alone.MOST_ROWS_ON_CPU, _eigh_on_cpu),
        "cuda": Alone(_eigh_alone.MOST_ROWS_ON_GPU, _eigh_alone.find_on_gpu),
    },
    from_columns=_from_columns,
)
# Where a factor is used, the rows of its slab share no letter with anything (r is not i): Shardy
# brings operands that share one to a common sharding first, and a slab that b had moved would be
# used on other devices than it was made on. The diagonal still says where results are to lie.
_SOLVE = Call(
    "cholesky_solve",
    rule="i j, r, m, r k -> r k, v, l",
    empty=(0, 0, 0),
    alone={
        "cpu": Alone(_cholesky_alone.MOST_ROWS_ON_CPU, _cholesky_alone.solve_on_cpu),
        "cuda": Alone(_cholesky_alone.MOST_ROWS_ON_GPU, _cholesky_alone.solve_on_gpu),
    },
    batches=True,
)
_HALF = Call("cholesky_half", rule="i j, r, m, r k -> r k, v", empty=(0, 0))
_INVERSE = Call("cholesky_inverse", rule="i j, r, m -> r j, v, l", empty=(0, 0, (0, 1)))
_CONDITION = Call("cholesky_condition", rule="i j, r, m, r k, e -> l, v", empty=(1, 0))
_LU_FACTOR = Call(
    "lu_factor",
    rule="i j -> i j, r, s, l, m",
    empty=(0, 0, 1, 0, EMPTY_LU),
    alone={
        "cpu": Alone(_lu_alone.MOST_ROWS_ON_CPU, _lu_alone.factor_on_cpu),
        "cuda": Alone(_lu_alone.MOST_ROWS_ON_GPU, _lu_alone.factor_on_gpu),
    },
    batches=True,
)
# The matrix, which comes with its factor, says where results are to lie.
_LU_SOLVE = Call(
    "lu_solve",
    rule="i j, r c, p, m, r k -> r k, v, l",
    empty=(0, 0, 0),
    alone={
        "cpu": Alone(_lu_alone.MOST_ROWS_ON_CPU, _lu_alone.solve_on_cpu),
        "cuda": Alone(_lu_alone.MOST_ROWS_ON_GPU, _lu_alone.solve_on_gpu),
    },
    batches=True,
)
# Of an identity, where the inverse is to lie as the solutions of a system with A^H do.
_LU_SOLVE_IDENTITY = dataclasses.replace(
    _LU_SOLVE,
    alone={
        "cpu": Alone(_qr_alone.ANY_ROWS, _lu_alone.solve_identity_on_cpu),
        "cuda": Alone(_qr_alone.ANY_ROWS, _lu_alone.solve_identity_on_gpu),
    },
)
_LU_INVERSE = Call(
    "lu_inverse",
    rule="i j, r c, p, m -> r j, v, l",
    empty=(0, 0, (0, 1)),
    alone={
        "cpu": Alone(_lu_alone.MOST_ROWS_INVERTED_ON_CPU, _lu_alone.inverse_on_cpu),
        "cuda": Alone(_lu_alone.MOST_ROWS_INVERTED_ON_GPU, _lu_alone.inverse_on_gpu),
    },
    batches=True,
)
_LU_CONDITION = Call("lu_condition", rule="i j, r c, p, m, r k, e -> l, v", empty=((1, 0), 0))
_LU_FACTOR_IN_PLACE = Call(
    "lu_factor_in_place",
    rule="i j, r c -> i j, r c, p, s, l, m",
    empty=(0, 0, 0, 1, 0, EMPTY_SKETCHED_LU),
)
_LU_SOLVE_IN_PLACE = Call(
    "lu_solve_in_place", rule="i j, r c, p, m, r k -> r k, v, l", empty=(0, 0, 0)
)
_LU_INVERSE_IN_PLACE = Call(
    "lu_inverse_in_place", rule="i j, r c, p, m -> r j, v, l", empty=(0, 0, (0, 1))
)
_LU_CONDITION_IN_PLACE = Call("lu_condition_in_place", rule="i j, r c, p, m -> l, v", empty=(1, 0))
_QR = Call(
    "qr",
    rule="i j -> i j, a b, l, m",
    empty=(0, 0, 0, 0),
    alone={
        "cpu": Alone(_qr_alone.ANY_ROWS, _qr_alone.find_on_cpu),
        "cuda": Alone(_qr_alone.ANY_ROWS, _qr_alone.find_on_gpu),
    },
)
_QR_IN_ROWS = Call(
    "qr_in_rows",
    rule="i j -> i j, i k, l, m",
    empty=(0, 0, 0, 0),
    alone={
        "cpu": Alone(_qr_alone.ANY_ROWS, _qr_alone.find_in_rows_on_cpu),
        "cuda": Alone(_qr_alone.ANY_ROWS, _qr_alone.find_in_rows_on_gpu),
    },
)
_SVD = Call(
    "svd",
    rule="i j -> i j, b, c d, l, m",
    empty=(0, 0, 0, 0, 0),
    alone={
        "cpu": Alone(_svd_alone.MOST_ROWS_ON_CPU, _svd_alone.find_vectors),
        "cuda": Alone(_svd_alone.MOST_ROWS_ON_GPU, _svd_alone.find_vectors_on_gpu),
    },
)
_SVDVALS = Call(
    "svdvals",
    rule="i j -> b, m",
    empty=(0, 0),
    alone={
        "cpu": Alone(_svd_alone.MOST_ROWS_ON_CPU, _svd_alone.find_values),
        "cuda": Alone(_svd_alone.MOST_ROWS_ON_GPU, _svd_alone.find_values_on_gpu),
    },
)
_POLAR = Call(
    "polar",
    rule="i j -> i j, c d, l, m",
    empty=(0, 0, 0, 0),
    alone={
        "cpu": Alone(_svd_alone.MOST_ROWS_ON_CPU, _svd_alone.find_polar_on_cpu),
        "cuda": Alone(_svd_alone.MOST_ROWS_ON_GPU, _svd_alone.find_polar_on_gpu),
    },
)
_LEAST_SQUARES = Call(
    "least_squares", rule="i j, i k, e -> a b, c, d, f, l, m", empty=(0, 0, 0, 0, 0, 0)
)
_GENERALISED = Call(
    "eigh_generalised",
    rule="i j, r, m, r k, e -> r k, v, c, l, w",
    empty=_EIGH.empty,
)


def factor(cut: Cut | None, tile: int) -> Callable[[jax.Array], Arrays]:
    """A (n, n) -> slab (n, n), diagonal (n,), log-determinant (1,), record."""
    return one_by_one(FACTOR, cut, tile=tile)


def solve(cut: Cut | None) -> Callable[..., Arrays]:
    """Slab, diagonal, record, b (n, k) -> x (n, k), verdict, backward error (1,)."""
    return _with_shared_factor(_SOLVE, cut)


def half(cut: Cut | None, adjoint: bool, product: bool) -> Callable[..., Arrays]:
    """Slab, diagonal, record, b (n, k) -> F^-1 b, or F^-H b, F b, F^H b (n, k), verdict."""
    return _with_shared_factor(_HALF, cut, adjoint=adjoint, product=product)


@functools.cache
def _with_shared_factor(what: Call, cut: Cut | None, **options: Any) -> Callable[..., Arrays]:
    """What a factor consists of, and b (n, k) -> x (n, k), verdict, of a solve error (1,)."""

    @custom_vmap
    def call(*arguments: jax.Array) -> Arrays:
        return what(cut, *arguments, **options)

    @call.def_vmap
    def rule(axis_size, batched, *arguments):
        *factor, b = arguments
        if not any(batched[:-1]):
            # Right-hand sides of one matrix: columns. The certificate is the worst of all.
            n, k = b.shape[1:]
            columns = jnp.moveaxis(b, 0, 1).reshape(n, axis_size * k)
            x, *of_all = call(*factor, columns)
            x = jnp.moveaxis(x.reshape(n, axis_size, k), 1, 0)
            return (x, *of_all), (True, *(False for _ in of_all))
        return _batch(what, cut, call, batched, arguments, options)

    return call


def lu_factor(cut: Cut | None, tile: int) -> Callable[..., Arrays]:
    """A (n, n) -> slab (n, n), rows (n,), sign and log-modulus of the determinant (1,), record."""
    return one_by_one(_LU_FACTOR, cut, tile=tile)


def lu_solve(cut: Cut | None, adjoint: bool) -> Callable[..., Arrays]:
    """Slab, A, rows, record, b (n, k) -> x (n, k), verdict, and errors (2,).

    The backward errors by the norm and by components.
    """
    return _with_shared_factor(_LU_SOLVE, cut, adjoint=adjoint)


def lu_solve_identity(cut: Cut | None, adjoint: bool) -> Callable[..., Arrays]:
    """Likewise for b = I, which has to be given."""
    return _with_shared_factor(_LU_SOLVE_IDENTITY, cut, adjoint=adjoint)


def lu_inverse(cut: Cut | None) -> Callable[..., Arrays]:
    """Slab, A, rows, record -> inverse (n, n), verdict, backward error and rcond (2,)."""
    return one_by_one(_LU_INVERSE, cut)


def lu_inverse_in_place(cut: Cut | None) -> Callable[..., Arrays]:
    """Slab, sketch, rows, record -> likewise."""
    return one_by_one(_LU_INVERSE_IN_PLACE, cut)


def lu_condition(cut: Cut | None, adjoint: bool) -> Callable[..., Arrays]:
    """Slab, A, rows, record, x (n, k), errors (2,) -> rcond and forward error (2,), verdict.

    x and errors are those of `lu_solve`; the verdict is that on x.
    """
    return _judging(_LU_CONDITION, cut, adjoint=adjoint)


@functools.cache
def _judging(what: Call, cut: Cut | None, **options: Any) -> Callable[..., Arrays]:
    """What a factor consists of, x (n, k) and its errors -> figures, the verdict on x."""

    @custom_vmap
    def call(*arguments: jax.Array) -> Arrays:
        return what(cut, *arguments, **options)

    @call.def_vmap
    def rule(axis_size, batched, *arguments):
        *factor, x, errors = arguments
        if any(batched[:-2]) or not batched[-2]:
            return _batch(what, cut, call, batched, arguments, options)
        # Solutions of one matrix: columns.
        columns = jnp.moveaxis(x, 0, 1).reshape(x.shape[1], axis_size * x.shape[2])
        worst = jnp.max(errors, axis=0) if batched[-1] else errors
        return call(*factor, columns, worst), (False, False)

    return call


def lu_factor_in_place(cut: Cut | None, tile: int) -> Callable[..., Arrays]:
    """A (n, n), zeros (n, 16) -> slab (n, n), sketch (n, 16), and what `lu_factor` has beside."""
    return one_by_one(_LU_FACTOR_IN_PLACE, cut, tile=tile)


def lu_solve_in_place(cut: Cut | None, adjoint: bool) -> Callable[..., Arrays]:
    """Slab, sketch, rows, record, b (n, k) -> x (n, k), verdict, backward error (1,)."""
    return _with_shared_factor(_LU_SOLVE_IN_PLACE, cut, adjoint=adjoint)


def lu_condition_in_place(cut: Cut | None) -> Callable[..., Arrays]:
    """Slab, sketch, rows, record -> rcond (1,), the verdict on any x."""
    return one_by_one(_LU_CONDITION_IN_PLACE, cut)


def qr(cut: Cut | None, **options: int) -> Callable[[jax.Array], Arrays]:
    """A (n, c) -> Q (n, c), R (c, c), residual and orthogonality (2,), verdict."""
    return one_by_one(_QR, cut, **options)


def qr_in_rows(cut: Cut | None, **options: int) -> Callable[[jax.Array], Arrays]:
    """A (n, c) -> Q (n, c), [R; 0] (n, c), residual and orthogonality (2,), verdict."""
    return one_by_one(_QR_IN_ROWS, cut, **options)


def svd(cut: Cut | None) -> Callable[[jax.Array], Arrays]:
    """A (n, c) -> U (n, c), values (c,), V (c, c), residual and orthogonality (2,), verdict."""
    return one_by_one(_SVD, cut)


def svdvals(cut: Cut | None) -> Callable[[jax.Array], Arrays]:
    """A (n, c) -> values (c,), verdict."""
    return one_by_one(_SVDVALS, cut)


def polar(cut: Cut | None) -> Callable[[jax.Array], Arrays]:
    """A (n, c) -> U (n, c), H (c, c), residual and orthogonality (2,), verdict."""
    return one_by_one(_POLAR, cut)


def least_squares(cut: Cut | None, **options: float) -> Callable[..., Arrays]:
    """A (n, c), b (n, k), eps (1,) -> x (c, k), and more.

    That is norms of residuals (k,), the rank (1,), singular values (c,), backward error and
    rcond (2,), and the verdict.
    """
    return one_by_one(_LEAST_SQUARES, cut, **options)


def eigh(cut: Cut | None, **options: int) -> Callable[[jax.Array, jax.Array], Arrays]:
    """A (n, n), interval (2,) -> vectors (n, n), values (n,), how many of both (1,), and more.

    That is residual and orthogonality (2,), and the verdict.
    """
    return one_by_one(_EIGH, cut, **options)


def generalised_eigh(cut: Cut | None, **options: Any) -> Callable[..., Arrays]:
    """Slab, diagonal and record of a factor of B, A (n, n), interval (2,) -> as `eigh`."""
    return one_by_one(_GENERALISED, cut, **options)


def inverse(cut: Cut | None) -> Callable[..., Arrays]:
    """Slab, diagonal, record -> inverse (n, n), verdict, backward error and rcond (2,)."""
    return one_by_one(_INVERSE, cut)


def condition(cut: Cut | None) -> Callable[..., Arrays]:
    """Slab, diagonal, record, x (n, k), its backward error (1,) -> rcond (1,), the verdict on x.

    An error below 0 says that there is no x.
    """
    return _judging(_CONDITION, cut)


@functools.cache
def one_by_one(what: Call, cut: Cut | None, **options: Any) -> Callable[..., Arrays]:
    """A call of which a batch is done one after the other, unless a device does it at once."""

    @custom_vmap
    def call(*arguments: jax.Array) -> Arrays:
        return what(cut, *arguments, **options)

    @call.def_vmap
    def rule(axis_size, batched, *arguments):
        return _batch(what, cut, call, batched, arguments, options)

    return call


def _batch(
    what: Call,
    cut: Cut | None,
    one: Callable[..., Arrays],
    batched: Sequence[bool],
    arguments: Sequence[jax.Array],
    options: dict,
) -> tuple[Arrays, tuple[bool, ...]]:
    """The results of a batch, and that all of them are batched; `one`: the call for one problem."""
    if what.takes_batch(cut, what.rows_in(arguments), options):
        size = next(a.shape[0] for a, own in zip(arguments, batched, strict=True) if own)
        whole = (
            a if own else jnp.broadcast_to(a, (size, *a.shape))
            for a, own in zip(arguments, batched, strict=True)
        )
        results = _at_once(what, cut, **options)(*whole)
    else:
        results = map_batch(one, batched, arguments)
    return results, (True,) * len(what.result_axes)


@functools.cache
def _at_once(what: Call, cut: Cut | None, **options: Any) -> Callable[..., Arrays]:
    """A call for a batch; a batch of batches is a larger one."""

    @custom_vmap
    def call(*arguments: jax.Array) -> Arrays:
        return what(cut, *arguments, batch=True, **options)

    @call.def_vmap
    def rule(axis_size, batched, *arguments):
        flat = (
            (a if own else jnp.broadcast_to(a, (axis_size, *a.shape))).reshape(
                -1, *a.shape[1 + own :]
            )
            for a, own in zip(arguments, batched, strict=True)
        )
        results = call(*flat)
        shaped = tuple(r.reshape(axis_size, -1, *r.shape[1:]) for r in results)
        return shaped, (True,) * len(what.result_axes)

    return call


def map_batch(call: Callable, batched: Sequence[bool], arguments: Sequence[jax.Array]):
    """Applies `call` to each problem of a batch in turn."""
    mapped = [a for a, is_batched in zip(arguments, batched, strict=True) if is_batched]

    def one(own):
        remaining = iter(own)
        return call(
            *(
                next(remaining) if is_batched else argument
                for argument, is_batched in zip(arguments, batched, strict=True)
            )
        )

    return lax.map(one, tuple(mapped))
