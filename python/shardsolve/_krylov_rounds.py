"""The loop of a Krylov solve: local calls of the library, and products that JAX makes.

What a round does is the library's table of the method (src/krylov/method_table.hpp). The stages
between two products are one call, on several devices one before and one after each sum that they
gather. Everything that decides is in the state, which is the same on all devices.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from shardsolve import _library, _local
from shardsolve._cut import Cut

EXTERNAL, IDENTITY, JACOBI = range(3)  # InnerPreconditioner of src/krylov/local_call.hpp
SOLVE, TANGENT, ADJOINT = range(3)  # roles, for the table of failures


def default_rtol(dtype: np.dtype) -> float:
    """That of a solve which is asked for none."""
    return _library.description()["krylov"]["default_rtol"][np.dtype(dtype).name]


@dataclass(frozen=True)
class Asked:
    """What is asked of a solve; known when it is traced."""

    method: str
    rtol: float
    atol: float
    max_iterations: int
    restart: int
    log: bool

    def for_derivative(self, dtype: np.dtype) -> Asked:
        """Of its tangents and adjoints: relative to their own right-hand sides."""
        rtol = self.rtol if self.rtol > 0 else default_rtol(dtype)
        return Asked(self.method, rtol, 0.0, self.max_iterations, self.restart, False)

    @property
    def is_hermitian(self) -> bool:
        """Whether A and M have to be Hermitian."""
        return self.method in ("cg", "minres")


@dataclass(frozen=True)
class Place:
    """Where the rows of vectors lie: along the axes of a `Cut`, evenly, or whole on each device.

    `ahead`: rounds between two looks at whether a solve is done. A look costs a GPU that the host
    waits for it, and a round too many its products.
    """

    cut: Cut | None
    ahead: int = 1

    @property
    def axes(self) -> tuple[str, ...]:
        """Along which the rows are cut."""
        return self.cut.axes if self.cut is not None else ()

    def ranks_of(self, n: int) -> int:
        """Of how many devices each has rows of its own."""
        if self.cut is None or not self.axes:
            return 1
        return lax.axis_size(self.axes) if self.cut.inside else self.cut.parts

    def run(self, function: Callable, operands: Sequence[Any], kinds: str, results: str) -> Any:
        """function(*operands) with a device's own rows, by a letter for each operand and result.

        v: a vector; m: a matrix whose rows are vectors; r: the same on all devices.
        """
        if self.cut is None or self.cut.inside or not self.axes:
            return function(*operands)
        specs = _specs_along(self.axes)
        if self.cut.explicit:
            typed = _specs_along(self.cut.explicit_axes)
            operands = [
                jax.sharding.reshard(operand, NamedSharding(self.cut.known_mesh, typed[kind]))
                for operand, kind in zip(operands, kinds, strict=True)
            ]
        return jax.shard_map(
            function,
            mesh=self.cut.mesh,
            in_specs=tuple(specs[kind] for kind in kinds),
            out_specs=tuple(specs[kind] for kind in results),
            check_vma=False,
        )(*operands)


def _specs_along(axes: tuple[str, ...]) -> dict[str, PartitionSpec]:
    """By the letters of Place.run."""
    return {
        "v": PartitionSpec(axes or None),
        "m": PartitionSpec(None, axes or None),
        "r": PartitionSpec(),
    }


class Carry(NamedTuple):
    """What goes from round to round."""

    state: jax.Array  # int32 words: SolveState
    room: jax.Array  # int32 words: StateRoom
    parts: jax.Array  # a device's own sums
    hidden: jax.Array  # (vectors, rows)
    shown: tuple[jax.Array, ...]  # (rows,) each: what products take and give


@functools.cache
def _table(method: str) -> dict:
    return _library.description()["krylov"]["methods"][method]


@functools.cache
def _words(name: str) -> int:
    return _library.description()["krylov"][name]


class _Lengths(NamedTuple):
    room: int
    record: int
    parts: int
    begin: tuple[int, ...]
    length: tuple[int, ...]


@functools.cache
def _lengths(asked: Asked, n: int, rows: int, ranks: int) -> _Lengths:
    found = np.zeros(9, np.int64)
    _library.library().shardsolve_krylov_lengths(
        _table(asked.method)["number"],
        n,
        asked.restart,
        asked.max_iterations,
        asked.log,
        rows,
        ranks,
        found.ctypes.data,
    )
    room, record, parts, *pairs = (int(length) for length in found)
    return _Lengths(room, record, parts, tuple(pairs[::2]), tuple(pairs[1::2]))


class _Rounds:
    """The calls of one solve on one device, which has `rows` of n."""

    def __init__(
        self,
        asked: Asked,
        n: int,
        axes: tuple[str, ...],
        inner: int,
        ranks: int,
        *,
        operator: Any,
    ):
        self.asked, self.axes, self.inner, self.ranks = asked, axes, inner, ranks
        self.table = _table(asked.method)
        self.n, self.rows = n, n // ranks
        self.lengths = _lengths(asked, n, self.rows, ranks)
        self.cycle = asked.restart if asked.method == "fgmres" else 0
        self.vectors = self.table["hidden"] + self.cycle * self.table["matrices"]
        self.options = {
            "method": self.table["number"],
            "n": n,
            "restart": asked.restart,
            "rtol": asked.rtol,
            "atol": asked.atol,
            "max_iterations": asked.max_iterations,
            "log": asked.log,
            "products": operator.products,
            "rows": self.rows,
            "ranks": ranks,
        }

    @property
    def cut(self) -> jax.Array:
        """Boundaries, zeros, and where each rank's parts of each reduction begin; int64 words."""
        ranks = np.arange(self.ranks + 1)
        offsets = [ranks * length for length in self.lengths.length[: self.table["reductions"]]]
        table = np.array([ranks * self.rows, 0 * ranks, *offsets], np.int64)
        return jnp.asarray(table.ravel().view(np.int32))

    @property
    def rank(self) -> jax.Array:
        """int32[1]."""
        index = lax.axis_index(self.axes) if self.axes else 0
        return jnp.full(1, index, jnp.int32)

    def gather(self, own: jax.Array) -> jax.Array:
        """What all devices have, one after the other."""
        if self.ranks == 1:
            return own
        return lax.all_gather(own, self.axes, axis=own.ndim - 1, tiled=True)

    def scan(self, x: jax.Array) -> jax.Array:
        """What a look at all entries finds, on all devices."""
        lengths = (_words("scan_words"), _words("scan_work_words"))
        return self.gather(_local.call("krylov_scan", x, lengths=lengths)[0])

    def begin(self, b: jax.Array, x0: jax.Array | None) -> tuple[jax.Array, ...]:
        """From a device's own rows to a carry, flat."""
        none = jnp.zeros(0, b.dtype)
        guess = (none, jnp.zeros(0, jnp.int32)) if x0 is None else (x0, self.scan(x0))
        state, room, parts, hidden, *shown = _local.call(
            f"krylov_begin_{self.asked.method}",
            b,
            guess[0],
            self.scan(b),
            guess[1],
            self.cut,
            self.rank,
            lengths=(
                _words("state_words"),
                self.lengths.room,
                self.lengths.parts,
                (self.vectors, self.rows),
                *[self.rows] * self.table["shown"],
            ),
            strided=True,
            **self.options,
        )
        return state, room, parts, hidden, *shown

    def stages(
        self, which: Sequence[int], diagonal: jax.Array, *carry: jax.Array
    ) -> tuple[jax.Array, ...]:
        """Stages between two products, on a device's own rows."""
        pieces: list[list[int]] = [[]]
        for stage in which:
            if self.ranks > 1 and self.table["stages"][stage]["kind"] == "reduce":
                pieces.append([])
            pieces[-1].append(stage)
        state, room, parts, hidden, *shown = carry
        for piece in pieces:
            if not piece:
                continue
            gathered = jnp.zeros(0, hidden.dtype)
            first = self.table["stages"][piece[0]]
            if self.ranks > 1 and first["kind"] == "reduce":
                at = first["reduction"]
                begin = self.lengths.begin[at]
                own = lax.slice_in_dim(parts, begin, begin + self.lengths.length[at])
                gathered = self.gather(own)
            state, room, parts, hidden, *shown = _local.call(
                f"krylov_stages_{self.asked.method}",
                state,
                room,
                parts,
                hidden,
                diagonal,
                gathered,
                self.cut,
                self.rank,
                *shown,
                lengths=(
                    state.shape[-1],
                    self.lengths.room,
                    self.lengths.parts,
                    (self.vectors, self.rows),
                    *[self.rows] * len(shown),
                ),
                recorded=True,
                strided=True,
                aliases={0: 0, 1: 1, 2: 2, 3: 3, **{8 + v: 4 + v for v in range(len(shown))}},
                first=piece[0],
                count=len(piece),
                inner=self.inner,
                **self.options,
            )
        return state, room, parts, hidden, *shown

    def end(self, role: int, state: jax.Array, hidden: jax.Array) -> tuple[jax.Array, ...]:
        """A device's own rows of x, report with the cycle of the solve behind it, figures."""
        scans = self.scan(hidden[self.table["x"]])
        x, report, figures = _local.call(
            "krylov_end",
            hidden,
            state,
            scans,
            self.cut,
            self.rank,
            lengths=(self.rows, _words("report_words"), _words("report_figures")),
            strided=True,
            role=role,
            **self.options,
        )
        # krylov::cycle_of() of src/krylov/statuses.hpp.
        cycle = self.cycle if self.cycle < self.n else 0
        return x, jnp.append(report, jnp.int32(cycle)), figures


class Answer(NamedTuple):
    """x and what KrylovInfo is made of."""

    x: jax.Array
    report: jax.Array
    figures: jax.Array
    records: jax.Array
    written: jax.Array


def solve(
    operator: Any, preconditioner: Any, b: jax.Array, x0: Any, asked: Asked, place: Place, role: int
) -> Answer:
    """Solves A x = b for one vector; see _krylov_linear.py for the operators. No derivative."""
    n = b.shape[0]
    if place.cut is not None and place.cut.inside and place.axes:
        n *= lax.axis_size(place.axes)
    ranks = place.ranks_of(n)
    axes = place.axes if ranks > 1 else ()
    operator = operator.with_bounds()
    rounds = _Rounds(asked, n, axes, preconditioner.inner, ranks, operator=operator)
    table = rounds.table
    shown = "v" * table["shown"]
    by_diagonal = preconditioner.inner == JACOBI

    def begin() -> Carry:
        operands = (b,) if x0 is None else (b, x0)
        flat = place.run(
            lambda b, x0=None: rounds.begin(b, x0), operands, "v" * len(operands), "rrrm" + shown
        )
        state, room, parts, hidden, *vectors = flat
        return Carry(state, room, parts, hidden, tuple(vectors))

    def stages(which: Sequence[int], carry: Carry) -> Carry:
        # XLA for GPUs (of jax 0.11.2) crashes where an operand of a shard_map has no entries: what
        # stands for no diagonal is made inside.
        def own_rows(*operands: jax.Array) -> tuple[jax.Array, ...]:
            none = () if by_diagonal else (preconditioner.diagonal_or_none(b.dtype),)
            return rounds.stages(which, *none, *operands)

        diagonal = (preconditioner.diagonal_or_none(b.dtype),) if by_diagonal else ()
        flat = place.run(
            own_rows,
            (*diagonal, *carry[:4], *carry.shown),
            "v" * by_diagonal + "rrrm" + shown,
            "rrrm" + shown,
        )
        state, room, parts, hidden, *vectors = flat
        return Carry(state, room, parts, hidden, tuple(vectors))

    def product(stage: dict, carry: Carry) -> Carry:
        vectors = list(carry.shown)
        x, before = vectors[stage["input"]], vectors[stage["output"]]
        skip = carry.state[stage["skip"]]
        if stage["kind"] == "multiply":
            # What was there before a product with A that is left out is not needed any more.
            y = operator.multiply_into(x, before, skip, place)
        else:
            y = preconditioner.apply_into(x, before, skip, place)
        vectors[stage["output"]] = y
        return carry._replace(shown=tuple(vectors))

    # A round from its first product on; what comes before that belongs to the round before.
    count = len(table["stages"])
    external = [
        at
        for at, stage in enumerate(table["stages"])
        if stage["kind"] == "multiply"
        or (stage["kind"] == "precondition" and preconditioner.inner == EXTERNAL)
    ]
    ends = [*external[1:], external[0] + count]

    def one_round(carry: Carry) -> Carry:
        for at, end in zip(external, ends, strict=True):
            carry = product(table["stages"][at], carry)
            between = [stage % count for stage in range(at + 1, end)]
            carry = stages(between, carry) if between else carry
        return carry

    def several(carry: Carry) -> Carry:
        if place.ahead == 1:
            return one_round(carry)
        return lax.fori_loop(0, place.ahead, lambda _, carry: one_round(carry), carry)

    first = begin()
    if external[0] > 0:
        first = stages(range(external[0]), first)
    done = _words("done_word")
    last = lax.while_loop(lambda carry: carry.state[done] == 0, several, first)
    x, report, figures = place.run(
        functools.partial(rounds.end, role), (last.state, last.hidden), "rm", "vrr"
    )
    records = last.room[rounds.lengths.record :] if asked.log else jnp.zeros(0, jnp.int32)
    return Answer(x, report, figures, records, last.state[_words("records_word")])
