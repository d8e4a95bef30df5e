"""The library's calls as functions of whole arrays, on however many devices these lie.

Each call is built in layers, from the inside: the FFI call on a device's own rows; `shard_map` or
`custom_partitioning`, by what is known of the sharding; `custom_vmap`, one problem after the other.
Derivatives come on top, in _cholesky.py.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_batching import custom_vmap
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from shardsolve import _eigh_alone, _library
from shardsolve._cut import Cut, cuts_columns, row_axes, spec_along
from shardsolve._library import Row
from shardsolve._records import EMPTY_FACTOR, EMPTY_LU, FAILURE

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
class Call:
    """One of the library's calls: a row of its table, and what only JAX needs to know of it."""

    name: str  # in the table
    rule: str  # the sharding rule for Shardy, in its Einstein-like notation
    empty: tuple[float | tuple[float, ...], ...]  # what to fill each result with where n = 0
    # Makes of the function of a device's rows that of its columns, for a first operand that can be
    # either.
    from_columns: Callable[[Callable[..., Arrays]], Callable[..., Arrays]] | None = None
    # What a CPU device that is alone does in its place, given the operands and the options, up to
    # so many rows.
    alone: Callable[..., Arrays] | None = None
    max_alone: int = 0

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
        return arguments[self.row.matrix].shape[0 if self.is_tall else 1]

    @property
    def is_tall(self) -> bool:
        """Whether the matrix has columns of a number of their own."""
        return "c" in self.row.operands[self.row.matrix].shape

    def __call__(self, cut: Cut | None, *arguments: jax.Array, **options: int) -> Arrays:
        """The results for whole arrays; inside of a shard_map for a device's own rows."""
        n = self.rows_in(arguments)
        if n == 0:
            return self._nothing(arguments, options)
        if cut is None:
            return self._partitioned(options)(*arguments)
        if cut.inside:
            if self.is_tall and cut.axes:
                n *= lax.axis_size(cut.axes)  # of a device's own rows
            return self._run(cut.axes, cut.others, n, options)(*arguments)
        run = self._mapped(cut.by_rows, options)
        if cut.columns and self.from_columns:
            run = self.from_columns(run)  # XLA sees that no device needs another's columns
        return run(*arguments)

    def _run(
        self,
        axes: tuple[str, ...],
        others: tuple[str, ...],
        n: int,
        options: dict,
        place: jax.Array | None = None,
    ) -> Callable:
        """The local call for devices along `axes`; those along `others` do the same.

        `place`: the device's number along the first and along the others, (2,), if it is known.
        """

        def find_place() -> jax.Array:
            rank = lax.axis_index(axes) if axes else 0
            group = lax.axis_index(others) if others else 0
            return jnp.stack([jnp.int32(rank), jnp.int32(group)])

        def run(*arguments: jax.Array) -> Arrays:
            found = find_place() if place is None else place
            ranks = lax.axis_size(axes) if axes else 1
            if ranks > 1 and jax.process_count() > 1:
                found = self._meet(found, axes, arguments, n, ranks, options)

            def ours(*arguments: jax.Array) -> Arrays:
                return self._local(found, arguments, n, ranks, options)

            if ranks > 1 or self.alone is None or n > self.max_alone:
                return ours(*arguments)
            alone = functools.partial(self.alone, **self.row.attributes(options))
            return lax.platform_dependent(*arguments, cpu=alone, default=ours)

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
        call = jax.ffi.ffi_call(
            _library.target(self.name),
            shapes,
            input_output_aliases=(
                None if row.copied_from is None else {1 + row.copied_from: row.copied_to}
            ),
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
        self, arguments: Sequence[jax.Array], options: dict
    ) -> Sequence[jax.ShapeDtypeStruct]:
        """Of the whole results."""
        run = dataclasses.replace(self, alone=None)._run((), (), self.rows_in(arguments), options)
        return jax.eval_shape(run, *arguments)

    def _nothing(self, arguments: Sequence[jax.Array], options: dict) -> Arrays:
        return tuple(
            jnp.broadcast_to(jnp.asarray(fill, shape.dtype), shape.shape)
            for fill, shape in zip(self.empty, self._shapes(arguments, options), strict=True)
        )

    def _mapped(self, cut: Cut, options: dict) -> Callable:
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
                return self._run(cut.axes, others, n, options, place)(*arguments)

            missing = -n % cut.parts
            padded = [
                cut.place(argument, None) if axis is None else pad(argument, axis, missing)
                for axis, argument in zip(self.operand_axes, arguments, strict=True)
            ]
            shapes = self._shapes(arguments, options)

            def specs(axes: Sequence[int | None], arrays: Sequence) -> tuple[P, ...]:
                return tuple(
                    cut.spec(axis, len(a.shape)) for axis, a in zip(axes, arrays, strict=True)
                )

            mapped = jax.shard_map(
                local,
                mesh=cut.mesh,
                in_specs=(indexed, *specs(self.operand_axes, padded)),
                out_specs=specs(self.result_axes, shapes),
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
                for axis, result in zip(self.result_axes, results, strict=True)
            )

        return run

    def _partitioned(self, options: dict) -> Callable:
        return _partitioned(self, tuple(sorted(options.items())))


@functools.cache
def _partitioned(call: Call, options: tuple[tuple[str, int], ...]) -> Callable:
    """The call where XLA knows the shardings and Python does not: under jit with Auto axes."""

    @custom_partitioning
    def whole(*arguments: jax.Array) -> Arrays:  # this body is what runs on a single device
        return call._run((), (), call.rows_in(arguments), dict(options))(*arguments)

    def spec_of(argument):
        # Operands that nobody has placed come with a sharding of another kind, without a spec.
        return getattr(argument.sharding, "spec", P())

    def takes_columns(arguments):
        return call.from_columns is not None and cuts_columns(spec_of(arguments[0]))

    def shardings(mesh, decides, arguments, results):
        axes = row_axes(spec_of(decides), mesh, decides.shape[0])

        def of(cut_axes, shapes):
            return tuple(
                NamedSharding(mesh, spec_along(axes, axis, len(shape.shape)))
                for axis, shape in zip(cut_axes, shapes, strict=True)
            )

        return axes, of(call.operand_axes, arguments), of(call.result_axes, results)

    def partition(mesh, arguments, results):
        # A factor's ranks are counted where it is used, by how the slab lies. XLA may have laid it
        # otherwise than the matrix: as b lies, or the result of an inverse.
        decides = results[0] if call.factors and call.result_axes[0] is not None else arguments[0]
        axes, before, after = shardings(mesh, decides, arguments, results)
        others = tuple(axis for axis in mesh.axis_names if axis not in axes)
        run = call._run(axes, others, call.rows_in(arguments), dict(options))
        if takes_columns(arguments):
            run = call.from_columns(run)
            before = (NamedSharding(mesh, P(None, axes)), *before[1:])
        return mesh, run, after, before

    def infer(mesh, arguments, results):
        return shardings(mesh, arguments[0], arguments, results)[2]

    whole.def_partition(
        partition=partition,
        infer_sharding_from_operands=infer,
        sharding_rule=call.rule,
    )
    return whole


def _from_columns(run: Callable[..., Arrays]) -> Callable[..., Arrays]:
    """A call on rows of a Hermitian matrix, for somebody who has columns; its record comes last.

    The conjugate transpose of columns are rows of A^H, which is A, or fails as A does: then the
    entry that is named is A^H's.
    """

    def call(a: jax.Array, *others: jax.Array) -> Arrays:
        *made, record = run(jnp.conj(a.T), *others)
        column = record[2]
        is_entry = (record[0] < FAILURE) & (column >= 0)
        swapped = record.at[2].set(record[1]).at[1].set(column)
        return *made, jnp.where(is_entry, swapped, record)

    return call


FACTOR = Call(
    "cholesky_factor",
    rule="i j -> i j, i, l, m",
    empty=(0, 0, 0, EMPTY_FACTOR),
    from_columns=_from_columns,
)
_LOOK = Call("eigh_look", rule="i j -> v", empty=((0, -1, -1, -1, 0),))
_EIGH = Call(
    "eigh",
    rule="i j, e -> i j, v, k, l, m",
    empty=(0, 0, 0, 0, (0, -1, -1, -1, 0)),
    alone=lambda a, *others, **options: _eigh_alone.find(
        _LOOK._run((), (), len(a), {}), a, *others, **options
    ),
    max_alone=_eigh_alone.MOST_ROWS,
    from_columns=_from_columns,
)
# Where a factor is used, the rows of its slab share no letter with anything (r is not i): Shardy
# brings operands that share one to a common sharding first, and a slab that b had moved would be
# used on other devices than it was made on. The diagonal still says where results are to lie.
_SOLVE = Call("cholesky_solve", rule="i j, r, m, r k -> r k, v, l", empty=(0, 0, 0))
_INVERSE = Call("cholesky_inverse", rule="i j, r, m -> r j, v, l", empty=(0, 0, (0, 1)))
_CONDITION = Call("cholesky_condition", rule="i j, r, m -> l, v", empty=(1, 0))
_LU_FACTOR = Call("lu_factor", rule="i j -> i j, r, s, l, m", empty=(0, 0, 1, 0, EMPTY_LU))
# The matrix, which comes with its factor, says where results are to lie.
_LU_SOLVE = Call("lu_solve", rule="i j, r c, p, m, r k -> r k, v, l", empty=(0, 0, 0))
_LU_CONDITION = Call("lu_condition", rule="i j, p, m -> l, v", empty=(1, 0))
_QR = Call("qr", rule="i j -> i j, a b, l, m", empty=(0, 0, 0, 0))
_LEAST_SQUARES = Call(
    "least_squares", rule="i j, i k, e -> a b, c, d, f, l, m", empty=(0, 0, 0, 0, 0, 0)
)
_GENERALISED = Call(
    "eigh_generalised",
    rule="i j, r, m, r k, e -> r k, v, c, l, w",
    empty=_EIGH.empty,
)


@functools.cache
def factor(cut: Cut | None, tile: int) -> Callable[[jax.Array], Arrays]:
    """A (n, n) -> slab (n, n), diagonal (n,), log-determinant (1,), record."""

    @custom_vmap
    def call(a: jax.Array) -> Arrays:
        return FACTOR(cut, a, tile=tile)

    @call.def_vmap
    def one_by_one(axis_size, batched, a):
        return lax.map(call, a), (True,) * 4

    return call


def solve(cut: Cut | None) -> Callable[..., Arrays]:
    """Slab, diagonal, record, b (n, k) -> x (n, k), verdict, backward error (1,)."""
    return _with_shared_factor(_SOLVE, cut)


@functools.cache
def _with_shared_factor(what: Call, cut: Cut | None, **options: int) -> Callable[..., Arrays]:
    """A solve with what a factor consists of, and b (n, k) -> x (n, k), verdict, error (1,)."""

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
            x, verdict, error = call(*factor, columns)
            return (jnp.moveaxis(x.reshape(n, axis_size, k), 1, 0), verdict, error), (
                True,
                False,
                False,
            )
        return map_batch(call, batched, arguments), (True,) * 3

    return call


def lu_factor(cut: Cut | None, tile: int) -> Callable[..., Arrays]:
    """A (n, n) -> slab (n, n), rows (n,), sign and log-modulus of the determinant (1,), record."""
    return _one_by_one(_LU_FACTOR, cut, tile=tile)


def lu_solve(cut: Cut | None, adjoint: bool) -> Callable[..., Arrays]:
    """Slab, A, rows, record, b (n, k) -> x (n, k), verdict, backward error (1,)."""
    return _with_shared_factor(_LU_SOLVE, cut, adjoint=adjoint)


def lu_condition(cut: Cut | None) -> Callable[..., Arrays]:
    """Slab, rows, record -> reciprocal condition number (1,), verdict."""
    return _one_by_one(_LU_CONDITION, cut)


def qr(cut: Cut | None, **options: int) -> Callable[[jax.Array], Arrays]:
    """A (n, c) -> Q (n, c), R (c, c), residual and orthogonality (2,), verdict."""
    return _one_by_one(_QR, cut, **options)


def least_squares(cut: Cut | None, **options: float) -> Callable[..., Arrays]:
    """A (n, c), b (n, k), eps (1,) -> x (c, k), and more.

    That is norms of residuals (k,), the rank (1,), singular values (c,), backward error and
    rcond (2,), and the verdict.
    """
    return _one_by_one(_LEAST_SQUARES, cut, **options)


def eigh(cut: Cut | None, **options: int) -> Callable[[jax.Array, jax.Array], Arrays]:
    """A (n, n), interval (2,) -> vectors (n, n), values (n,), how many of both (1,), and more.

    That is residual and orthogonality (2,), and the verdict.
    """
    return _one_by_one(_EIGH, cut, **options)


def generalised_eigh(cut: Cut | None, **options: int) -> Callable[..., Arrays]:
    """Slab, diagonal and record of a factor of B, A (n, n), interval (2,) -> as `eigh`."""
    return _one_by_one(_GENERALISED, cut, **options)


def inverse(cut: Cut | None) -> Callable[..., Arrays]:
    """Slab, diagonal, record -> inverse (n, n), verdict, backward error and rcond (2,)."""
    return _one_by_one(_INVERSE, cut)


def condition(cut: Cut | None) -> Callable[..., Arrays]:
    """Slab, diagonal, record -> reciprocal condition number (1,), verdict."""
    return _one_by_one(_CONDITION, cut)


@functools.cache
def _one_by_one(what: Call, cut: Cut | None, **options: int) -> Callable[..., Arrays]:
    """A call of which a batch is done one after the other."""

    @custom_vmap
    def call(*arguments: jax.Array) -> Arrays:
        return what(cut, *arguments, **options)

    @call.def_vmap
    def rule(axis_size, batched, *arguments):
        return map_batch(call, batched, arguments), (True,) * len(what.result_axes)

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
