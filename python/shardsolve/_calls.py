"""The library's calls as functions of whole arrays, on however many devices these lie.

Each call is built in layers, from the inside: the FFI call on a device's own rows; `shard_map` or
`custom_partitioning`, by what is known of the sharding; `custom_vmap`, one problem after the other.
Derivatives come on top, in _cholesky.py.
"""

from __future__ import annotations

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

from shardsolve import _library
from shardsolve._cut import Cut, cuts_columns, row_axes
from shardsolve._records import EMPTY_FACTOR, FACTOR_WORDS, FAILURE, VERDICT_WORDS

Arrays = tuple[jax.Array, ...]

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


@dataclass(frozen=True, eq=False)
class Call:
    """One of the library's calls.

    Operands and results are matrices whose first axis is cut along the devices (`rows`), or small
    things that all devices have (`small`); the first operand is the n x n matrix or factor.
    """

    operands: tuple[str, ...]  # "rows" or "small" for each
    results: tuple[str, ...]  # likewise
    number: int  # CallKind in jax/invitation.hpp
    local: Callable[..., Arrays]  # on one device: (place, *operands, n=, ranks=, **options)
    rule: str  # the sharding rule for Shardy, in its Einstein-like notation
    empty: tuple[float | tuple[float, ...], ...]  # what to fill each result with where n = 0
    # Makes of the function of a device's rows that of its columns, for a first operand that can be
    # either.
    from_columns: Callable[[Callable[..., Arrays]], Callable[..., Arrays]] | None = None

    @property
    def factors(self) -> bool:
        """Whether a matrix is given, and not its factor."""
        return len(self.operands) == 1

    def __call__(self, cut: Cut | None, *arguments: jax.Array, **options: int) -> Arrays:
        """The results for whole arrays; inside of a shard_map for a device's own rows."""
        if arguments[0].shape[1] == 0:
            return self._nothing(arguments, options)
        if cut is None:
            return self._partitioned(options)(*arguments)
        if cut.inside:
            return self._run(cut.axes, cut.others, arguments[0].shape[1], options)(*arguments)
        run = self._mapped(cut.by_rows, options)
        if cut.columns and self.from_columns:
            run = self.from_columns(run)  # XLA sees that no device needs another's columns
        return run(*arguments)

    def _run(
        self, axes: tuple[str, ...], others: tuple[str, ...], n: int, options: dict
    ) -> Callable:
        """The local call for devices along `axes`; those along `others` do the same."""

        def run(*arguments: jax.Array) -> Arrays:
            rank = lax.axis_index(axes) if axes else 0
            group = lax.axis_index(others) if others else 0
            place = jnp.stack([jnp.int32(rank), jnp.int32(group)])
            ranks = lax.axis_size(axes) if axes else 1
            if ranks > 1 and jax.process_count() > 1:
                place = self._meet(place, axes, arguments, n, ranks, options)
            return self.local(place, *arguments, n=n, ranks=ranks, **options)

        return run

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
        invite = jax.ffi.ffi_call(
            _library.target("invitation"),
            jax.ShapeDtypeStruct((_library.invitation_words(),), jnp.int32),
        )

        def meet() -> jax.Array:
            own = invite(
                *arguments,
                kind=np.int32(self.number),
                n=np.int64(n),
                ranks=np.int64(ranks),
                tile=np.int64(options.get("tile", 0)),
                columns=np.int64(arguments[3].shape[1] if len(arguments) > 3 else 0),
            )
            return lax.all_gather(own, axes).ravel()

        if len(arguments) == 1:
            return jnp.concatenate([place, meet()])
        # Without a factor nobody has to meet, and somebody may be lost: XLA would wait for them.
        record = arguments[2]
        nobody = jnp.zeros(ranks * _library.invitation_words(), jnp.int32)
        return jnp.concatenate([place, lax.cond(record[0] == 0, meet, lambda: nobody)])

    def _shapes(
        self, arguments: Sequence[jax.Array], options: dict
    ) -> Sequence[jax.ShapeDtypeStruct]:
        """Of the whole results."""
        return jax.eval_shape(self._run((), (), arguments[0].shape[1], options), *arguments)

    def _nothing(self, arguments: Sequence[jax.Array], options: dict) -> Arrays:
        return tuple(
            jnp.broadcast_to(jnp.asarray(fill, shape.dtype), shape.shape)
            for fill, shape in zip(self.empty, self._shapes(arguments, options), strict=True)
        )

    def _mapped(self, cut: Cut, options: dict) -> Callable:
        others = tuple(axis for axis in cut.known_mesh.axis_names if axis not in cut.axes)

        def spec(kind: str, ndim: int) -> P:
            return P(cut.axes, *(None,) * (ndim - 1)) if kind == "rows" else P()

        def pad(a: jax.Array, missing: int) -> jax.Array:
            if missing:
                a = cut.place(a, cut_rows=False)
                a = jnp.pad(a, ((0, missing),) + ((0, 0),) * (a.ndim - 1))
            return cut.place(a)

        def run(*arguments: jax.Array) -> Arrays:
            n = arguments[0].shape[1]
            local = self._run(cut.axes, others, n, options)
            missing = -n % cut.parts
            padded = [
                pad(argument, missing) if kind == "rows" else cut.place(argument, cut_rows=False)
                for kind, argument in zip(self.operands, arguments, strict=True)
            ]
            shapes = self._shapes(arguments, options)
            mapped = jax.shard_map(
                local,
                mesh=cut.mesh,
                in_specs=tuple(
                    spec(kind, a.ndim) for kind, a in zip(self.operands, padded, strict=True)
                ),
                out_specs=tuple(
                    spec(kind, len(shape.shape))
                    for kind, shape in zip(self.results, shapes, strict=True)
                ),
                check_vma=False,
            )
            try:
                results = mapped(*padded)
            except (ValueError, NameError) as error:
                # JAX has no public way to ask which axes a vmap around this has taken.
                if not any(words in str(error) for words in _AXIS_IS_TAKEN):
                    raise
                raise ValueError(_BATCH_IS_CUT) from error
            if missing == 0:
                return results
            return tuple(
                cut.whole(result, n) if kind == "rows" else result
                for kind, result in zip(self.results, results, strict=True)
            )

        return run

    def _partitioned(self, options: dict) -> Callable:
        return _partitioned(self, tuple(sorted(options.items())))


@functools.cache
def _partitioned(call: Call, options: tuple[tuple[str, int], ...]) -> Callable:
    """The call where XLA knows the shardings and Python does not: under jit with Auto axes."""

    @custom_partitioning
    def whole(*arguments: jax.Array) -> Arrays:  # this body is what runs on a single device
        return call._run((), (), arguments[0].shape[1], dict(options))(*arguments)

    def spec_of(argument):
        # Operands that nobody has placed come with a sharding of another kind, without a spec.
        return getattr(argument.sharding, "spec", P())

    def takes_columns(arguments):
        return call.from_columns is not None and cuts_columns(spec_of(arguments[0]))

    def shardings(mesh, decides, arguments, results):
        axes = row_axes(spec_of(decides), mesh, decides.shape[0])

        def of(kinds, shapes):
            return tuple(
                NamedSharding(
                    mesh,
                    P(axes, *(None,) * (len(shape.shape) - 1)) if kind == "rows" else P(),
                )
                for kind, shape in zip(kinds, shapes, strict=True)
            )

        return axes, of(call.operands, arguments), of(call.results, results)

    def partition(mesh, arguments, results):
        # A factor's ranks are counted where it is used, by how the slab lies. XLA may have laid it
        # otherwise than the matrix: as b lies, or the result of an inverse.
        decides = results[0] if call.factors else arguments[0]
        axes, before, after = shardings(mesh, decides, arguments, results)
        others = tuple(axis for axis in mesh.axis_names if axis not in axes)
        run = call._run(axes, others, arguments[0].shape[1], dict(options))
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


def _real(dtype: jnp.dtype) -> jnp.dtype:
    return jnp.finfo(dtype).dtype


def _factor_from_columns(run: Callable[[jax.Array], Arrays]) -> Callable[[jax.Array], Arrays]:
    """The factorisation of rows, for somebody who has columns.

    The conjugate transpose of columns are rows of A^H, which is A, or fails as A does: then the
    entry that is named is A^H's.
    """

    def factor(a: jax.Array) -> Arrays:
        *made, record = run(jnp.conj(a.T))
        column = record[2]
        is_entry = (record[0] < FAILURE) & (column >= 0)
        swapped = record.at[2].set(record[1]).at[1].set(column)
        return *made, jnp.where(is_entry, swapped, record)

    return factor


def _call_library(
    name: str,
    arguments: Sequence[jax.Array],
    results: Sequence[tuple[tuple[int, ...], jnp.dtype]],
    in_place: int | None = None,
    **numbers: int,
) -> Arrays:
    """A call of the library, given shape and dtype of each result.

    The first result takes the memory of the argument `in_place`.
    """
    call = jax.ffi.ffi_call(
        _library.target(name),
        tuple(jax.ShapeDtypeStruct(*result) for result in results),
        input_output_aliases=None if in_place is None else {in_place: 0},
    )
    return tuple(call(*arguments, **{key: np.int64(number) for key, number in numbers.items()}))


_VERDICT = (VERDICT_WORDS,), jnp.int32


def _factor_local(place, a, **numbers):
    n, real = numbers["n"], _real(a.dtype)
    width = -(-n // numbers["ranks"])
    record = (FACTOR_WORDS,), jnp.int32
    results = ((width, n), a.dtype), ((width,), real), ((1,), real), record
    return _call_library("cholesky_factor", (place, a), results, in_place=1, **numbers)


def _solve_local(place, slab, diagonal, record, b, **numbers):
    # The library's right-hand sides are columns, and its matrix is conj(A).
    columns = jnp.conj(b.T)
    arguments = place, slab, diagonal, record, columns
    results = (columns.shape, columns.dtype), _VERDICT, ((1,), _real(b.dtype))
    x, verdict, error = _call_library("cholesky_solve", arguments, results, in_place=4, **numbers)
    return jnp.conj(x).T, verdict, error


def _inverse_local(place, slab, diagonal, record, **numbers):
    arguments = place, slab, diagonal, record
    results = (slab.shape, slab.dtype), _VERDICT, ((2,), _real(slab.dtype))
    return _call_library("cholesky_inverse", arguments, results, in_place=1, **numbers)


def _condition_local(place, slab, diagonal, record, **numbers):
    arguments = place, slab, diagonal, record
    results = ((1,), _real(slab.dtype)), _VERDICT
    return _call_library("cholesky_condition", arguments, results, **numbers)


FACTOR = Call(
    operands=("rows",),
    results=("rows", "rows", "small", "small"),
    number=0,
    local=_factor_local,
    rule="i j -> i j, i, l, m",
    empty=(0, 0, 0, EMPTY_FACTOR),
    from_columns=_factor_from_columns,
)
# Where a factor is used, the rows of its slab share no letter with anything (r is not i): Shardy
# brings operands that share one to a common sharding first, and a slab that b had moved would be
# used on other devices than it was made on. The diagonal still says where results are to lie.
_SOLVE = Call(
    operands=("rows", "rows", "small", "rows"),
    results=("rows", "small", "small"),
    number=1,
    local=_solve_local,
    rule="i j, r, m, r k -> r k, v, l",
    empty=(0, 0, 0),
)
_INVERSE = Call(
    operands=("rows", "rows", "small"),
    results=("rows", "small", "small"),
    number=2,
    local=_inverse_local,
    rule="i j, r, m -> r j, v, l",
    empty=(0, 0, (0, 1)),
)
_CONDITION = Call(
    operands=("rows", "rows", "small"),
    results=("small", "small"),
    number=3,
    local=_condition_local,
    rule="i j, r, m -> l, v",
    empty=(1, 0),
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


@functools.cache
def solve(cut: Cut | None) -> Callable[..., Arrays]:
    """Slab, diagonal, record, b (n, k) -> x (n, k), verdict, backward error (1,)."""

    @custom_vmap
    def call(slab: jax.Array, diagonal: jax.Array, record: jax.Array, b: jax.Array) -> Arrays:
        return _SOLVE(cut, slab, diagonal, record, b)

    @call.def_vmap
    def rule(axis_size, batched, slab, diagonal, record, b):
        if not any(batched[:3]):
            # Right-hand sides of one matrix: columns. The certificate is the worst of all.
            n, k = b.shape[1:]
            columns = jnp.moveaxis(b, 0, 1).reshape(n, axis_size * k)
            x, verdict, error = call(slab, diagonal, record, columns)
            return (jnp.moveaxis(x.reshape(n, axis_size, k), 1, 0), verdict, error), (
                True,
                False,
                False,
            )
        return map_batch(call, batched, (slab, diagonal, record, b)), (True,) * 3

    return call


def inverse(cut: Cut | None) -> Callable[..., Arrays]:
    """Slab, diagonal, record -> inverse (n, n), verdict, backward error and rcond (2,)."""
    return _of_factor(_INVERSE, cut)


def condition(cut: Cut | None) -> Callable[..., Arrays]:
    """Slab, diagonal, record -> reciprocal condition number (1,), verdict."""
    return _of_factor(_CONDITION, cut)


@functools.cache
def _of_factor(what: Call, cut: Cut | None) -> Callable[..., Arrays]:
    @custom_vmap
    def call(slab: jax.Array, diagonal: jax.Array, record: jax.Array) -> Arrays:
        return what(cut, slab, diagonal, record)

    @call.def_vmap
    def rule(axis_size, batched, *arguments):
        return map_batch(call, batched, arguments), (True,) * len(what.results)

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
