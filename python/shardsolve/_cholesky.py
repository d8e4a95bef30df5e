"""Hermitian positive definite systems: the public functions and their derivatives."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh

from shardsolve import _calls, _half, _lu, _svd, _words
from shardsolve._calls import AxisName, Compiled, compiled
from shardsolve._check import (
    check_factor,
    check_matrix,
    check_right_hand_side,
    check_tile,
    kind_of_matrix,
    refuse_for_factor,
    refuse_shared,
)
from shardsolve._cut import Cut, find_cut, inside_shard_map
from shardsolve._products import hermitian_part, multiply
from shardsolve._records import NOT_KNOWN, VERDICT_WORDS, Info, judged_again, raise_if_failed
from shardsolve._words import accepts

Arrays = tuple[jax.Array, ...]


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)  # of arrays: neither compared nor hashed by value
class Factor:
    """A Cholesky factor, kept to be used again: made by `cho_factor`, opaque otherwise.

    A pytree: it goes through `jit`, into containers and out again. It is used with the sharding
    that it was made on. Its tangent is the tangent of the matrix, held where the slab is.

    It has a half of the matrix, F with a = F F^H. F is P^T L P with the library's elimination order
    P, in which devices take turns: lower triangular in that order, and on one device the Cholesky
    factor itself. Row i of F belongs to row i of `a` and lies there. Another number of devices, or
    another tile, gives another F; a solve with both halves gives the same x. The four methods take
    (n,) or (n, k), cost n^2 operations a column, and have no certificate. Where there is no factor,
    or the argument holds NaN, the result is NaN, outside of `jit` a `LinAlgError`.
    """

    _slab: jax.Array  # (n, n): L in elimination order, and the entries of A that it leaves
    _diagonal: jax.Array  # (n,): of A
    _log_determinant: jax.Array  # (1,)
    _record: jax.Array  # int32: see jax/records.hpp

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
        return _info_of(self._record, self._log_determinant)

    def half_solve(
        self, y: jax.Array, *, mesh: Mesh | None = None, axis_name: AxisName | None = None
    ) -> jax.Array:
        """F^-1 y: white noise, if `a` is the covariance of y. Arguments as in `cho_solve`."""
        return self._half(y, "y", mesh, axis_name, adjoint=False, product=False)

    def half_solve_adjoint(
        self, y: jax.Array, *, mesh: Mesh | None = None, axis_name: AxisName | None = None
    ) -> jax.Array:
        """F^-H y; of F^-1 b it is a^-1 b. Arguments as in `cho_solve`."""
        return self._half(y, "y", mesh, axis_name, adjoint=True, product=False)

    def half_product(
        self, z: jax.Array, *, mesh: Mesh | None = None, axis_name: AxisName | None = None
    ) -> jax.Array:
        """F z: has the covariance `a`, if z is white noise. Arguments as in `cho_solve`."""
        return self._half(z, "z", mesh, axis_name, adjoint=False, product=True)

    def half_product_adjoint(
        self, z: jax.Array, *, mesh: Mesh | None = None, axis_name: AxisName | None = None
    ) -> jax.Array:
        """F^H z. Arguments as in `cho_solve`."""
        return self._half(z, "z", mesh, axis_name, adjoint=True, product=True)

    def _half(
        self,
        b: jax.Array,
        name: str,
        mesh: Mesh | None,
        axis_name: AxisName | None,
        *,
        adjoint: bool,
        product: bool,
    ) -> jax.Array:
        factor = check_factor(self, Factor)
        b = check_right_hand_side(factor.shape, factor.dtype, b, name)
        cut = find_cut(factor._slab, mesh, axis_name, b)
        x, verdict = _half.half(factor, b, cut, adjoint, product)
        raise_if_failed(verdict)
        return x


@accepts(_words.SOLVE, {"assume_a": _words.ASSUME_A})
def solve(
    a: jax.Array,
    b: jax.Array,
    *,
    assume_a: str = "gen",
    mesh: Mesh | None = None,
    axis_name: AxisName | None = None,
    tile: int | None = None,
    overwrite_a: bool = False,
    full_output: bool = False,
    estimate_rcond: bool = True,
) -> jax.Array | tuple[jax.Array, Info]:
    """Solves a x = b for a general square matrix, or for a Hermitian positive definite one.

    Args:
        a: (n, n), float32, float64, complex64 or complex128; both triangles are needed. Solved
            where it lies if its rows are cut over devices, as by `P("x", None)`, or its columns;
            any other sharding is brought to that (a general matrix by columns, too).
        b: (n,) or (n, k), of the same dtype.
        assume_a: "gen" or "general" for any square matrix, by LU with row exchanges, as in
            `jax.scipy.linalg.solve`; "pos" or "positive definite", in half the time and memory. A
            matrix that is Hermitian positive definite is taken for one only if this says so.
        mesh: Devices to use, all its axes; by default those that hold `a`. Not in a `shard_map`.
        axis_name: Inside a `shard_map` only: the axes along which the rows of `a` and `b` are cut,
            evenly; by default all of them, or none if `a` is square: every device then solves a
            system of its own. That shard_map needs check_vma=False.
        tile: Columns of a block; by default what `shardsolve tune` has found for these devices, or
            else the library's choice.
        overwrite_a: Give up `a`: its memory is used, and it cannot be used afterwards. Has no
            meaning inside `jit`; donate the argument there. Of a general matrix it halves the
            memory; x is then not refined, and info.backward_error is that in the Frobenius norm,
            ||a x - b|| / (||a||_F ||x|| + ||b||), estimated: for one right-hand side in some 8000
            the residual is more than four times as large as is said.
        full_output: Also return what is known of the answer.
        estimate_rcond: With full_output also estimate the condition number, which takes as long
            as five solves; info.rcond is -1 otherwise. Under `jit` XLA leaves out an estimate that
            the program does not use.

    Returns:
        x, of b's shape; with full_output (x, Info), where Info has backward error and rcond. If
        rcond is below eps the status is then NEARLY_SINGULAR, and x is there; but OK if x has
        digits all the same: units of equations and unknowns that differ make rcond small, and cost
        none. Without full_output neither is looked at, as the estimate takes its time.

    Raises:
        LinAlgError: Outside of `jit` and without full_output, if there is no answer; it says why.
            Otherwise x is then NaN.
        SolverError: Likewise, for lack of memory or a device that fails.
        TypeError, ValueError: On arguments that do not fit.
    """
    kind = kind_of_matrix(assume_a)
    if overwrite_a:
        refuse_shared(a, b)
    a = check_matrix(a, inside_shard_map())
    b = check_right_hand_side(a.shape, a.dtype, b)
    cut = find_cut(a, mesh, axis_name, b)
    with_rcond = full_output and estimate_rcond
    if kind == "gen":
        x, info = _lu.solve_general(overwrite_a, a, b, cut, check_tile(tile), with_rcond)
    else:
        x, info = _solve(overwrite_a, a, b, cut, check_tile(tile), with_rcond)[:2]
    if full_output:
        return x, info
    raise_if_failed(info.verdict)
    return x


@accepts(_words.CHO_FACTOR)
def cho_factor(
    a: jax.Array,
    *,
    mesh: Mesh | None = None,
    axis_name: AxisName | None = None,
    tile: int | None = None,
    overwrite_a: bool = False,
) -> Factor:
    """Factors a Hermitian positive definite matrix, for `cho_solve`, `inv`, `logdet` and `cond`.

    Arguments and errors as in `solve`.
    """
    a = check_matrix(a, inside_shard_map())
    factor = _factor(overwrite_a, a, find_cut(a, mesh, axis_name), check_tile(tile))
    raise_if_failed(factor._record)
    return factor


@accepts(_words.CHO_SOLVE)
def cho_solve(
    factor: Factor,
    b: jax.Array,
    *,
    mesh: Mesh | None = None,
    axis_name: AxisName | None = None,
    full_output: bool = False,
    estimate_rcond: bool = True,
) -> jax.Array | tuple[jax.Array, Info]:
    """Solves a x = b with the factor of a. Arguments, results and errors as in `solve`."""
    factor = check_factor(factor, Factor)
    b = check_right_hand_side(factor.shape, factor.dtype, b)
    cut = find_cut(factor._slab, mesh, axis_name, b)
    x, info = _cho_solve(factor, b, cut, full_output and estimate_rcond)
    if full_output:
        return x, info
    raise_if_failed(info.verdict)
    return x


@accepts(_words.INV)
def inv(
    a: jax.Array | Factor | _lu.LuFactor,
    *,
    assume_a: str = "pos",
    mesh: Mesh | None = None,
    axis_name: AxisName | None = None,
    tile: int | None = None,
    overwrite_a: bool = False,
    full_output: bool = False,
) -> jax.Array | tuple[jax.Array, Info]:
    """The inverse of a matrix or of one that was factored.

    Of a Hermitian positive definite matrix (assume_a="pos", the default) Hermitian to the last bit,
    and the backward error is that of a probe vector. Of any square matrix (assume_a="gen", or a
    LuFactor) as accurate as LAPACK's: it is the product x a that is the identity up to rounding
    (on one device, where XLA's routines do the work, a x), and the backward error is the worst
    row's (column's) of that, as vectors of random signs see it; where elimination
    grows too large for that, x is solved for, row by row, and refined. With overwrite_a, or of a
    factor that has overwritten its matrix, there is then no x (INACCURATE).
    info.rcond is exact, also where the inverse has few digits: below eps it need have none.
    Arguments, results and errors as in `solve`, but that a factor takes neither `tile` nor
    `overwrite_a`.
    """
    if isinstance(a, _lu.LuFactor) or (
        not isinstance(a, Factor) and kind_of_matrix(assume_a) == "gen"
    ):
        x, info = _lu.general_inv(a, mesh, axis_name, tile, overwrite_a)
    elif isinstance(a, Factor):
        a = check_factor(a, Factor)
        refuse_for_factor(tile=tile, overwrite_a=overwrite_a)
        x, info = _inverse(a, find_cut(a._slab, mesh, axis_name))
    else:
        a = check_matrix(a, inside_shard_map())
        x, info = _inv(overwrite_a, a, find_cut(a, mesh, axis_name), check_tile(tile))
    if full_output:
        return x, info
    raise_if_failed(info.verdict)
    return x


@accepts(_words.DENSE)
def logdet(
    a: jax.Array | Factor,
    *,
    mesh: Mesh | None = None,
    axis_name: AxisName | None = None,
    tile: int | None = None,
) -> jax.Array:
    """log(det(a)) of a Hermitian positive definite matrix, or of one that was factored.

    Arguments and errors as in `solve`; a Factor takes no `tile`. Its gradient is the inverse, for
    a complex `a` the conjugate of it, by JAX's convention.
    """
    factor = _factor_or_made(a, mesh, axis_name, tile)
    raise_if_failed(factor._record)
    return _logdet(factor, find_cut(factor._slab, mesh, axis_name))


@accepts(_words.DENSE)
def slogdet(
    a: jax.Array | Factor | _lu.LuFactor,
    *,
    assume_a: str = "pos",
    mesh: Mesh | None = None,
    axis_name: AxisName | None = None,
    tile: int | None = None,
) -> tuple[jax.Array, jax.Array]:
    """Sign and logarithm of the modulus of the determinant, in this order: a plain tuple.

    Args:
        a: As in `solve`, or a factor.
        assume_a: "pos": Hermitian positive definite, and the sign is 1. "gen": any square matrix,
            (0, -inf) if it is singular. A factor knows what it is of.
        mesh: As in `solve`.
        axis_name: As in `solve`.
        tile: As in `solve`; not with a factor.
    """
    if isinstance(a, _lu.LuFactor) or (
        not isinstance(a, Factor) and kind_of_matrix(assume_a) == "gen"
    ):
        return _lu.general_slogdet(a, mesh, axis_name, tile)
    factor = _factor_or_made(a, mesh, axis_name, tile)
    raise_if_failed(factor._record)
    return _slogdet(factor, find_cut(factor._slab, mesh, axis_name))


@accepts(_words.DENSE)
def cond(
    a: jax.Array | Factor | _lu.LuFactor,
    p: int,
    *,
    assume_a: str = "pos",
    mesh: Mesh | None = None,
    axis_name: AxisName | None = None,
    tile: int | None = None,
) -> jax.Array:
    """Condition number in the 1-norm, an estimate from the factor, or in the 2-norm.

    In the 1-norm it takes about five solves. In the 2-norm a may have any shape: it is the largest
    singular value by the least, of `svdvals`.

    Args:
        a: As in `solve`, or a factor; for p = 2 a matrix.
        p: 1 or 2. It must be given, as `jnp.linalg.cond` means the 2-norm by default.
        assume_a: As in `slogdet`.
        mesh: As in `solve`.
        axis_name: As in `solve`.
        tile: As in `solve`; not with a factor.

    Returns:
        ||a|| est(||a^-1||): never above the true number but for rounding, rarely a third of it.
        Of a general matrix whose elimination has let numbers grow that of R of a QR factor, columns
        scaled, which may also be above.
        Infinite where it exceeds the dtype's range, or a general matrix is singular. Has no
        derivative: its gradient is zero. In the 2-norm it has, and is infinite for a singular a.

    Raises:
        NotImplementedError: If p is neither, or is 2 for a factor. Others as in `solve`, or
            `svdvals`.
    """
    if p == 2 and not isinstance(a, Factor | _lu.LuFactor):
        return _svd.cond_in_2_norm(a, mesh, axis_name)
    if p != 1:
        raise NotImplementedError(
            f"p = {p!r} was given; there are p=1, and for a matrix p=2, by its singular values"
        )
    if isinstance(a, _lu.LuFactor) or (
        not isinstance(a, Factor) and kind_of_matrix(assume_a) == "gen"
    ):
        return _lu.general_cond(a, mesh, axis_name, tile)
    factor = _factor_or_made(a, mesh, axis_name, tile)
    value, verdict = _cond(factor, find_cut(factor._slab, mesh, axis_name))
    raise_if_failed(verdict)
    return value


def _factor_or_made(
    a: jax.Array | Factor, mesh: Mesh | None, axis_name: AxisName | None, tile: int | None
) -> Factor:
    """A Factor as it is, of a matrix its own."""
    if not isinstance(a, Factor):
        return cho_factor(a, mesh=mesh, axis_name=axis_name, tile=tile)
    refuse_for_factor(tile=tile)
    return check_factor(a, Factor)


# What follows is traced. Every public function runs one compiled program.


@functools.cache
def _factor_of(cut: Cut | None, tile: int) -> Callable[[jax.Array], Factor]:
    @jax.custom_jvp
    def factor(a: jax.Array) -> Factor:
        return Factor(*_calls.factor(cut, tile)(a))

    @factor.defjvp
    def rule(primals, tangents):
        made = factor(*primals)
        return made, Factor(
            hermitian_part(tangents[0], cut),
            jnp.zeros_like(made._diagonal),
            jnp.zeros_like(made._log_determinant),
            np.zeros(made._record.shape, jax.dtypes.float0),
        )

    return factor


def _solve_with(factor: Factor, b: jax.Array, cut: Cut | None) -> tuple[jax.Array, Arrays]:
    """X, and (verdict, backward error)."""
    call = _calls.solve(cut)
    frozen = lax.stop_gradient(factor)

    def forward(_: Callable, right: jax.Array) -> tuple[jax.Array, Arrays]:
        columns = right[:, None] if right.ndim == 1 else right
        x, verdict, error = call(frozen._slab, frozen._diagonal, frozen._record, columns)
        return x.reshape(right.shape), (verdict, error)

    def transposed(_: Callable, right: jax.Array) -> tuple[jax.Array, Arrays]:
        x, rest = forward(_, jnp.conj(right))
        return jnp.conj(x), rest

    # JAX only differentiates the product, with respect to what stands for the matrix in it, and
    # the slab's tangent is the matrix's. It never computes it.
    x, rest = lax.custom_linear_solve(
        lambda x: multiply(factor._slab, x, cut),
        b if cut is None else cut.place(b),
        forward,
        transpose_solve=transposed,
        has_aux=True,
    )
    return x if cut is None else cut.place_like(x, b), rest


@functools.partial(compiled, static_argnames=("cut", "with_rcond"))
def _cho_solve(
    factor: Factor, b: jax.Array, cut: Cut | None, with_rcond: bool
) -> tuple[jax.Array, Info]:
    x, (verdict, error) = _solve_with(factor, b, cut)
    if not with_rcond:
        return x, Info(verdict, error[0], jnp.full_like(error[0], NOT_KNOWN))
    columns = x[:, None] if x.ndim == 1 else x
    rcond, judged = _judge(factor, columns, error, cut)
    return x, Info(judged_again(verdict, judged), error[0], rcond)


def _solve_traced(
    a: jax.Array, b: jax.Array, cut: Cut | None, tile: int, with_rcond: bool
) -> tuple[jax.Array, Info]:
    return _cho_solve(factor_traced(a, cut, tile), b, cut and cut.by_rows, with_rcond)


def _solve_keeping(
    a: jax.Array, b: jax.Array, cut: Cut | None, tile: int, with_rcond: bool
) -> tuple[jax.Array, Info, jax.Array]:
    """The same with the factor as a result: only then may it take the memory of `a`."""
    factor = factor_traced(a, cut, tile)
    return *_cho_solve(factor, b, cut and cut.by_rows, with_rcond), factor._slab


def factor_traced(a: jax.Array, cut: Cut | None, tile: int) -> Factor:
    return _factor_of(cut, tile)(a if cut is None or cut.columns else cut.place(a))


def _inv_traced(a: jax.Array, cut: Cut | None, tile: int) -> tuple[jax.Array, Info]:
    return _inverse(factor_traced(a, cut, tile), cut and cut.by_rows)


_solve = Compiled(_solve_traced, 2, 3, 4, overwriting=_solve_keeping)
_factor = Compiled(factor_traced, 1, 2)
_inv = Compiled(_inv_traced, 1, 2)


@functools.cache
def _inverse_of(cut: Cut | None) -> Callable[[Factor], tuple[jax.Array, Info]]:
    @jax.custom_jvp
    def inverse(factor: Factor) -> tuple[jax.Array, Info]:
        x, verdict, numbers = _calls.inverse(cut)(factor._slab, factor._diagonal, factor._record)
        return x, Info(verdict, numbers[0], numbers[1])

    @inverse.defjvp
    def rule(primals, tangents):
        x, info = inverse(*primals)
        change = tangents[0]._slab
        return (x, info), (
            -multiply(multiply(x, change, cut), x, cut),
            Info(
                np.zeros(info.verdict.shape, jax.dtypes.float0),
                jnp.zeros_like(info.backward_error),
                jnp.zeros_like(info.rcond),
            ),
        )

    return inverse


@functools.partial(compiled, static_argnames=("cut",))
def _inverse(factor: Factor, cut: Cut | None) -> tuple[jax.Array, Info]:
    return _inverse_of(cut)(factor)


@functools.cache
def _logdet_of(cut: Cut | None) -> Callable[[Factor], jax.Array]:
    @jax.custom_jvp
    def logdet(factor: Factor) -> jax.Array:
        return factor._log_determinant[0]

    @logdet.defjvp
    def rule(primals, tangents):
        x, _ = _inverse(primals[0], cut)
        change = jnp.sum(jnp.real(jnp.conj(x) * tangents[0]._slab))
        if cut is not None and cut.inside and cut.axes:
            change = lax.psum(change, cut.axes)
        return logdet(*primals), change

    return logdet


@functools.partial(compiled, static_argnames=("cut",))
def _logdet(factor: Factor, cut: Cut | None) -> jax.Array:
    return _logdet_of(cut)(factor)


@functools.partial(compiled, static_argnames=("cut",))
def _slogdet(factor: Factor, cut: Cut | None) -> tuple[jax.Array, jax.Array]:
    value = _logdet(factor, cut)
    return jnp.where(jnp.isnan(value), value, 1).astype(factor.dtype), value


@jax.jit
def _info_of(record: jax.Array, log_determinant: jax.Array) -> Info:
    unknown = jnp.full(log_determinant.shape[:-1], NOT_KNOWN, log_determinant.dtype)
    return Info(record[..., :VERDICT_WORDS], unknown, unknown)


def _judge(
    factor: Factor, x: jax.Array, error: jax.Array, cut: Cut | None
) -> tuple[jax.Array, jax.Array]:
    """Reciprocal condition number, the verdict on x (n, k) with this backward error (1,)."""
    frozen, x, error = lax.stop_gradient((factor, x, error))
    rcond, verdict = _calls.condition(cut)(frozen._slab, frozen._diagonal, frozen._record, x, error)
    return rcond[0], verdict


@functools.partial(compiled, static_argnames=("cut",))
def _cond(factor: Factor, cut: Cut | None) -> tuple[jax.Array, jax.Array]:
    no_x = jnp.zeros_like(factor._slab[:, :1])
    no_error = jnp.full_like(factor._log_determinant, NOT_KNOWN)
    rcond, verdict = _judge(factor, no_x, no_error, cut)
    return 1 / rcond, verdict
