"""General square systems: the public functions and their derivatives."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh

from shardsolve import _calls, _words
from shardsolve._calls import AxisName, Compiled, compiled
from shardsolve._check import (
    check_factor,
    check_matrix,
    check_right_hand_side,
    check_tile,
    refuse_for_factor,
)
from shardsolve._cut import Cut, find_cut, inside_shard_map
from shardsolve._products import multiply, transpose
from shardsolve._records import (
    NOT_KNOWN,
    VERDICT_WORDS,
    Info,
    Status,
    judged_again,
    raise_if_failed,
)
from shardsolve._words import accepts

Arrays = tuple[jax.Array, ...]


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)  # of arrays: neither compared nor hashed by value
class LuFactor:
    """An LU factor, kept to be used again: made by `lu_factor`, opaque otherwise.

    A pytree: it goes through `jit`, into containers and out again. It is used with the sharding
    that it was made on. It keeps the matrix, with which each solve is certified and refined; its
    tangent is the matrix's. Or, where it has overwritten that, a sketch, which certifies solves.
    """

    _slab: jax.Array  # (n, n): L and U of the transpose, in the order of the row exchanges
    _matrix: jax.Array | None  # (n, n)
    _rows: jax.Array  # int32 (n,): the row exchanges
    _sign: jax.Array  # (1,): of the determinant
    _log_modulus: jax.Array  # (1,)
    _record: jax.Array  # int32: see jax/records.hpp
    _sketch: jax.Array | None = None  # (n, 16): sums of the matrix that it has overwritten

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, n), or with leading batch dimensions."""
        return self._slab.shape

    @property
    def dtype(self) -> np.dtype:
        """Of the matrix."""
        return self._slab.dtype

    @property
    def info(self) -> Info:
        """How the factorisation ended; backward error and rcond are those of a solve: -1 here."""
        return _info_of(self._record, self._log_modulus)


class Which(NamedTuple):
    """Which system is solved with the factor of a: adjoint or not, and of the conjugate."""

    adjoint: bool
    conjugate: bool

    @property
    def transposed(self) -> Which:
        """Its transpose's."""
        return Which(not self.adjoint, not self.conjugate)


_SKETCH = 16  # columns of a sketch: src/dense/lu/sketch.hpp

PLAIN = Which(False, False)
_WHICH = {0: PLAIN, 1: Which(True, True), 2: Which(True, False)}


@accepts(_words.LU_FACTOR)
def lu_factor(
    a: jax.Array,
    *,
    mesh: Mesh | None = None,
    axis_name: AxisName | None = None,
    tile: int | None = None,
    overwrite_a: bool = False,
) -> LuFactor:
    """Factors a general square matrix, for `lu_solve`, `inv`, `slogdet`, `det` and `cond`.

    By rows exchanged so that the largest entry is divided by. The factor is not
    `jax.scipy.linalg`'s pair (lu, piv): the order is the library's. `a` is kept in it.

    Args:
        a: (n, n), float32, float64, complex64 or complex128.
        mesh: As in `solve`.
        axis_name: As in `solve`.
        tile: As in `solve`.
        overwrite_a: Give up `a`: the factor takes its memory, and 16 numbers a row beside it. Then
            solves are not refined, backward errors are those of `solve` with overwrite_a=True, and
            nothing has a derivative by `a`. Has no meaning inside `jit`.

    Raises:
        LinAlgError: Outside of `jit`, if a pivot is exactly 0 (`status` SINGULAR, `pivot` which) or
            the matrix holds NaN or infinities.
        SolverError: Likewise, for lack of memory or a device that fails.
        TypeError, ValueError: On arguments that do not fit.
    """
    factor = _made(a, mesh, axis_name, tile, overwrite_a)
    raise_if_failed(factor._record)
    return factor


@accepts(_words.CHO_SOLVE)
def lu_solve(
    factor: LuFactor,
    b: jax.Array,
    trans: int = 0,
    *,
    mesh: Mesh | None = None,
    axis_name: AxisName | None = None,
    full_output: bool = False,
    estimate_rcond: bool = True,
) -> jax.Array | tuple[jax.Array, Info]:
    """Solves a x = b with the factor of a; with trans=1 a^T x = b, with trans=2 a^H x = b.

    Arguments, results and errors as in `solve`; the backward error is that of the system solved,
    rcond that of a.
    """
    factor = check_factor(factor, LuFactor, "lu_factor")
    which = _WHICH.get(trans) if isinstance(trans, int | np.integer) else None
    if which is None or isinstance(trans, bool):
        raise ValueError(
            f"trans is {trans!r}; pass 0 for a x = b, 1 for a^T x = b, 2 for a^H x = b"
        )
    b = check_right_hand_side(factor.shape, factor.dtype, b)
    cut = find_cut(factor._slab, mesh, axis_name, b)
    x, info = _lu_solve(factor, b, cut, which, full_output and estimate_rcond)
    if full_output:
        return x, info
    raise_if_failed(info.verdict)
    return x


def solve_general(
    overwrite_a: bool, a: jax.Array, b: jax.Array, cut: Cut | None, tile: int, with_rcond: bool
) -> tuple[jax.Array, Info]:
    """What `solve` does with assume_a="gen", its arguments checked."""
    return _solve(overwrite_a, a, b, cut, tile, with_rcond)[:2]


@accepts(_words.DET)
def det(
    a: jax.Array | LuFactor,
    *,
    mesh: Mesh | None = None,
    axis_name: AxisName | None = None,
    tile: int | None = None,
) -> jax.Array:
    """The determinant of a general square matrix, or of one that `lu_factor` has factored.

    sign * exp(log|det|), as of `slogdet`, whose digits it has: it overflows where that does not.
    0 for a singular matrix, whose derivatives are NaN: they go by the inverse. Arguments and errors
    as in `lu_factor`, but that a singular matrix is none; a LuFactor takes no `tile`.
    """
    sign, log = general_slogdet(a, mesh, axis_name, tile)
    return _det(sign, log)


def general_slogdet(
    a: jax.Array | LuFactor, mesh: Mesh | None, axis_name: AxisName | None, tile: int | None
) -> tuple[jax.Array, jax.Array]:
    """What `slogdet` does with a LuFactor, or a general matrix: (0, -inf) if it is singular."""
    factor = _factor_or_made(a, mesh, axis_name, tile)
    _raise_unless_singular(factor)
    return _slogdet(factor, find_cut(factor._slab, mesh, axis_name))


def general_inv(
    a: jax.Array | LuFactor,
    mesh: Mesh | None,
    axis_name: AxisName | None,
    tile: int | None,
    overwrite_a: bool,
) -> tuple[jax.Array, Info]:
    """What `inv` does with a LuFactor, or a general matrix."""
    if isinstance(a, LuFactor):
        refuse_for_factor("lu_factor", tile=tile, overwrite_a=overwrite_a)
        factor = check_factor(a, LuFactor, "lu_factor")
        return _inverse(factor, find_cut(factor._slab, mesh, axis_name))
    a = check_matrix(a, inside_shard_map())
    return _inv(overwrite_a, a, find_cut(a, mesh, axis_name), check_tile(tile))


def general_cond(
    a: jax.Array | LuFactor, mesh: Mesh | None, axis_name: AxisName | None, tile: int | None
) -> jax.Array:
    """What `cond` does with a LuFactor, or a general matrix: infinite if it is singular."""
    factor = _factor_or_made(a, mesh, axis_name, tile)
    _raise_unless_singular(factor)
    value, verdict = _cond(factor, find_cut(factor._slab, mesh, axis_name))
    # A condition number is no answer to doubt.
    numbers = (Status.SINGULAR, Status.NEARLY_SINGULAR)
    if isinstance(verdict, jax.core.Tracer) or jax.device_get(verdict)[0] not in numbers:
        raise_if_failed(verdict)
    return value


def _made(
    a: jax.Array,
    mesh: Mesh | None,
    axis_name: AxisName | None,
    tile: int | None,
    overwrite_a: bool = False,
) -> LuFactor:
    a = check_matrix(a, inside_shard_map())
    return _factor(overwrite_a, a, find_cut(a, mesh, axis_name), check_tile(tile))


def _factor_or_made(
    a: jax.Array | LuFactor, mesh: Mesh | None, axis_name: AxisName | None, tile: int | None
) -> LuFactor:
    """A LuFactor as it is, of a matrix its own."""
    if not isinstance(a, LuFactor):
        return _made(a, mesh, axis_name, tile)
    refuse_for_factor("lu_factor", tile=tile)
    return check_factor(a, LuFactor, "lu_factor")


def _raise_unless_singular(factor: LuFactor) -> None:
    """Raises why there is no factor, if it can be read. A singular matrix has one."""
    record = factor._record
    if isinstance(record, jax.core.Tracer) or int(jax.device_get(record)[0]) == Status.SINGULAR:
        return
    raise_if_failed(record)


# What follows is traced. Every public function runs one compiled program.


def factor_traced(a: jax.Array, cut: Cut | None, tile: int) -> LuFactor:
    """The factor, whose matrix alone has a tangent."""
    placed = a if cut is None else cut.place(a)
    slab, *rest = _calls.lu_factor(cut and cut.by_rows, tile)(lax.stop_gradient(placed))
    return LuFactor(slab, placed, *rest)


def _factor_in_place(a: jax.Array, cut: Cut | None, tile: int) -> LuFactor:
    by_rows = cut and cut.by_rows
    a = a if by_rows is None else by_rows.place(a)
    room = jnp.zeros((len(a), _SKETCH), a.dtype)
    room = room if by_rows is None else by_rows.place(room)
    slab, sketch, *rest = _calls.lu_factor_in_place(by_rows, tile)(a, room)
    rows, sign, log_modulus, record = rest
    return LuFactor(slab, None, rows, sign, log_modulus, record, sketch)


_factor = Compiled(factor_traced, 1, 2, overwriting=_factor_in_place)


def _solve_with(
    factor: LuFactor, b: jax.Array, cut: Cut | None, which: Which, *, is_identity: bool = False
) -> tuple[jax.Array, Arrays]:
    """X, and (verdict, backward errors by the norm and, if the matrix is kept, by components)."""
    frozen = lax.stop_gradient(factor)

    def run(right: jax.Array, which: Which, is_identity: bool = False) -> tuple[jax.Array, Arrays]:
        columns = right[:, None] if right.ndim == 1 else right
        turned = jnp.conj(columns) if which.conjugate else columns
        kept = frozen._matrix is not None
        of_kept = _calls.lu_solve_identity if is_identity else _calls.lu_solve
        solve = (of_kept if kept else _calls.lu_solve_in_place)(cut, which.adjoint)
        judge = frozen._matrix if kept else frozen._sketch
        x, verdict, errors = solve(frozen._slab, judge, frozen._rows, frozen._record, turned)
        x = jnp.conj(x) if which.conjugate else x
        return x.reshape(right.shape), (verdict, errors)

    def product(x: jax.Array) -> jax.Array:
        if factor._matrix is None:
            return x  # nothing to differentiate with respect to
        a = transpose(factor._matrix, cut) if which.adjoint else factor._matrix
        return multiply(jnp.conj(a) if which.adjoint != which.conjugate else a, x, cut)

    # JAX only differentiates the product, with respect to the matrix in it. It never computes it.
    x, rest = lax.custom_linear_solve(
        product,
        b if cut is None else cut.place(b),
        lambda _, right: run(right, which, is_identity),
        transpose_solve=lambda _, right: run(right, which.transposed),
        has_aux=True,
    )
    return x if cut is None else cut.place_like(x, b), rest


@functools.partial(compiled, static_argnames=("cut", "which", "with_rcond"))
def _lu_solve(
    factor: LuFactor, b: jax.Array, cut: Cut | None, which: Which, with_rcond: bool
) -> tuple[jax.Array, Info]:
    x, (verdict, errors) = _solve_with(factor, b, cut, which)
    if not with_rcond:
        return x, Info(verdict, errors[0], jnp.full_like(errors[0], NOT_KNOWN))
    columns = x[:, None] if x.ndim == 1 else x
    rcond, judged = _judge(factor, columns, errors, cut, which.adjoint)
    return x, Info(judged_again(verdict, judged), errors[0], rcond)


def _solve_traced(
    a: jax.Array, b: jax.Array, cut: Cut | None, tile: int, with_rcond: bool
) -> tuple[jax.Array, Info]:
    factor = factor_traced(a, cut, tile)
    return _lu_solve(factor, b, cut and cut.by_rows, _WHICH[0], with_rcond)


def _solve_in_place(
    a: jax.Array, b: jax.Array, cut: Cut | None, tile: int, with_rcond: bool
) -> tuple[jax.Array, Info, jax.Array]:
    """Also the slab: XLA gives the memory of `a` to a result of its size alone."""
    factor = _factor_in_place(a, cut, tile)
    x, info = _lu_solve(factor, b, cut and cut.by_rows, _WHICH[0], with_rcond)
    return x, info, factor._slab


_solve = Compiled(_solve_traced, 2, 3, 4, overwriting=_solve_in_place)


def _identity_like(factor: LuFactor, cut: Cut | None) -> jax.Array:
    """The rows of an identity that lie where those of the matrix do."""
    rows, n = factor._slab.shape
    first = lax.axis_index(cut.axes) * rows if cut is not None and cut.inside and cut.axes else 0
    numbers = jnp.arange(n, dtype=jnp.int32)
    diagonal = numbers[:rows, None] + first == numbers[None, :]
    return diagonal.astype(factor.dtype)


@functools.cache
def _inverse_of(cut: Cut | None) -> Callable[[LuFactor], tuple[jax.Array, Info]]:
    @jax.custom_jvp
    def inverse(factor: LuFactor) -> tuple[jax.Array, Info]:
        kept = factor._matrix is not None
        x, verdict, numbers = (_calls.lu_inverse if kept else _calls.lu_inverse_in_place)(cut)(
            factor._slab, factor._matrix if kept else factor._sketch, factor._rows, factor._record
        )
        return x, Info(verdict, numbers[0], numbers[1])

    @inverse.defjvp
    def rule(primals, tangents):
        x, info = inverse(*primals)
        change = tangents[0]._matrix
        if change is None:  # of a matrix that is gone
            tangent = jnp.zeros_like(x)
        else:
            tangent, _ = _solve_with(primals[0], multiply(change, x, cut), cut, PLAIN)
        return (x, info), (
            -tangent,
            Info(
                np.zeros(info.verdict.shape, jax.dtypes.float0),
                jnp.zeros_like(info.backward_error),
                jnp.zeros_like(info.rcond),
            ),
        )

    return inverse


@functools.partial(compiled, static_argnames=("cut",))
def _inverse(factor: LuFactor, cut: Cut | None) -> tuple[jax.Array, Info]:
    return _inverse_of(cut)(factor)


def _inv_traced(a: jax.Array, cut: Cut | None, tile: int) -> tuple[jax.Array, Info]:
    return _inverse(factor_traced(a, cut, tile), cut and cut.by_rows)


def _inv_in_place(a: jax.Array, cut: Cut | None, tile: int) -> tuple[jax.Array, Info]:
    return _inverse(_factor_in_place(a, cut, tile), cut and cut.by_rows)


_inv = Compiled(_inv_traced, 1, 2, overwriting=_inv_in_place)


@functools.cache
def _slogdet_of(cut: Cut | None) -> Callable[[LuFactor], tuple[jax.Array, jax.Array]]:
    @jax.custom_jvp
    def slogdet(factor: LuFactor) -> tuple[jax.Array, jax.Array]:
        return factor._sign[0], factor._log_modulus[0]

    @slogdet.defjvp
    def rule(primals, tangents):
        # d log det = tr(A^-1 dA); where there is no inverse, X is NaN
        sign, log = slogdet(*primals)
        identity = _identity_like(primals[0], cut)
        x, _ = _solve_with(primals[0], identity, cut, _WHICH[1], is_identity=True)
        tangent = tangents[0]._matrix
        change = jnp.sum(jnp.zeros_like(x) if tangent is None else x * tangent)
        if cut is not None and cut.inside and cut.axes:
            change = lax.psum(change, cut.axes)
        of_log = jnp.real(change)
        return (sign, log), ((change - of_log.astype(change.dtype)) * sign, of_log)

    return slogdet


@functools.partial(compiled, static_argnames=("cut",))
def _slogdet(factor: LuFactor, cut: Cut | None) -> tuple[jax.Array, jax.Array]:
    return _slogdet_of(cut)(factor)


@compiled
def _det(sign: jax.Array, log: jax.Array) -> jax.Array:
    size = jnp.exp(log)

    def part(of_sign: jax.Array) -> jax.Array:  # 0 is 0 where the size overflows
        is_none = (of_sign == 0) & jnp.isinf(size)
        return jnp.where(is_none, of_sign, of_sign * size)

    if jnp.iscomplexobj(sign):
        return lax.complex(part(sign.real), part(sign.imag))
    return part(sign)


@jax.jit
def _info_of(record: jax.Array, log_modulus: jax.Array) -> Info:
    unknown = jnp.full(log_modulus.shape[:-1], NOT_KNOWN, log_modulus.dtype)
    return Info(record[..., :VERDICT_WORDS], unknown, unknown)


def _judge(
    factor: LuFactor, x: jax.Array, errors: jax.Array, cut: Cut | None, adjoint: bool
) -> tuple[jax.Array, jax.Array]:
    """Reciprocal condition number, the verdict on x (n, k) with these errors."""
    frozen, x, errors = lax.stop_gradient((factor, x, errors))
    if frozen._matrix is None:
        condition = _calls.lu_condition_in_place(cut)
        figures, verdict = condition(frozen._slab, frozen._sketch, frozen._rows, frozen._record)
        return figures[0], verdict
    figures, verdict = _calls.lu_condition(cut, adjoint)(
        frozen._slab, frozen._matrix, frozen._rows, frozen._record, x, errors
    )
    return figures[0], verdict


@functools.partial(compiled, static_argnames=("cut",))
def _cond(factor: LuFactor, cut: Cut | None) -> tuple[jax.Array, jax.Array]:
    nothing = jnp.zeros_like(factor._slab[:, :1])
    errors = jnp.zeros(2, factor._log_modulus.dtype)
    rcond, verdict = _judge(factor, nothing, errors, cut, adjoint=False)
    return jnp.where(verdict[0] == Status.SINGULAR, jnp.inf, 1 / rcond), verdict
