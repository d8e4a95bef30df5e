"""Singular values and vectors and polar factors of matrices that are cut by rows."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh

from shardsolve import _calls, _words
from shardsolve._alone import lifted, times_power
from shardsolve._calls import AxisName, compiled
from shardsolve._check import check_any_matrix, number_or_nan, rounded_down
from shardsolve._cut import Cut, beside, find_cut
from shardsolve._products import (
    NEIGHBOURS,
    adjoint,
    all_rows,
    along_rows,
    axes_across,
    down_rows,
    rows_in,
)
from shardsolve._records import EighInfo, raise_if_failed
from shardsolve._words import accepts

Arrays = tuple[jax.Array, ...]


class _Vectors(NamedTuple):
    """Of a (m, n) with m >= n."""

    u: jax.Array  # (m, n), cut as a is
    s: jax.Array  # (n,)
    v: jax.Array  # (n, n), the same on all devices
    figures: jax.Array  # (2,): residual and orthogonality
    verdict: jax.Array


class _Polar(NamedTuple):
    """Likewise."""

    u: jax.Array
    h: jax.Array
    figures: jax.Array
    verdict: jax.Array


@accepts(_words.SVD)
def svd(
    a: jax.Array,
    full_matrices: bool = False,
    compute_uv: bool = True,
    *,
    mesh: Mesh | None = None,
    axis_name: AxisName | None = None,
    full_output: bool = False,
) -> jax.Array | tuple[jax.Array | EighInfo, ...]:
    """Singular values and vectors, a = u diag(s) vh, of a of any shape and rank.

    With k = min(m, n), u^H u = 1 and vh vh^H = 1 to rounding, also where singular values are 0. Of
    each right singular vector (left, if m < n) the largest component by its absolute value is real
    and positive. Vectors of equal values are one of many bases.

    Args:
        a: (m, n), float32, float64, complex64 or complex128, its rows cut or not.
        full_matrices: False. Square u and vh have `jax.numpy.linalg.svd`, on one device.
        compute_uv: False for s alone, as `svdvals` has it.
        mesh: As in `solve`.
        axis_name: As in `solve`; inside of `shard_map` a is whole on each device without it.
        full_output: Whether to return (u, s, vh, info) and never raise. `info` is an EighInfo:
            `residual` is ||a - u diag(s) vh|| / ||a||, `orthogonality` that of u or of vh, the
            larger.

    Returns:
        u (m, k), s (k,) and vh (k, n), s descending. The larger one of u and vh is cut as a is, and
        the other, k x k, is the same on all devices, as s is. Derivatives are NaN where they need
        vectors whose values are equal but for rounding, or quotients by a value that is 0.

    Raises:
        LinAlgError: Outside of `jit`, if a holds NaN or infinities, or s does not fit the dtype.
        SolverError: As in `solve`.
        TypeError, ValueError: On arguments that do not fit.
    """
    if full_matrices and min(np.shape(a)[-2:], default=0) != max(np.shape(a)[-2:], default=0):
        raise ValueError(
            f"full_matrices=True was given for a of shape {np.shape(a)}; pass False for u (m, k) "
            "and vh (k, n), k = min(m, n); square ones have jax.numpy.linalg.svd, on one device"
        )
    if not compute_uv:
        return svdvals(a, mesh=mesh, axis_name=axis_name)
    a = check_any_matrix(a)
    u, s, vh, info = _svd(a, find_cut(a, mesh, axis_name, square=False))
    if full_output:
        return u, s, vh, info
    raise_if_failed(info.verdict)
    return u, s, vh


@accepts(_words.SVD)
def svdvals(
    a: jax.Array, *, mesh: Mesh | None = None, axis_name: AxisName | None = None
) -> jax.Array:
    """The singular values of a alone, in less time and memory.

    Args:
        a: As in `svd`.
        mesh: As in `svd`.
        axis_name: As in `svd`.

    Returns:
        (min(m, n),), descending, the same on all devices. Of values that are equal, sums and other
        functions that do not tell them apart have the right derivative; that of one of them alone
        is one of several (of 0: of either sign). Second derivatives are NaN where values are equal
        but for rounding.

    Raises:
        LinAlgError, SolverError, TypeError, ValueError: As in `svd`.
    """
    a = check_any_matrix(a)
    s, verdict = _svdvals(a, find_cut(a, mesh, axis_name, square=False))
    raise_if_failed(verdict)
    return s


@accepts(_words.MATRIX_RANK)
def matrix_rank(
    a: jax.Array,
    rtol: float | None = None,
    *,
    mesh: Mesh | None = None,
    axis_name: AxisName | None = None,
) -> jax.Array:
    """How many singular values are above rtol times the largest.

    Args:
        a: As in `svd`.
        rtol: None for eps max(m, n), as in NumPy; may be traced.
        mesh: As in `svd`.
        axis_name: As in `svd`.

    Returns:
        int32; -1 where there are no singular values, or a traced rtol is none, inside of `jit`.

    Raises:
        LinAlgError, SolverError, TypeError: As in `svd`.
        ValueError: Likewise, and if rtol is negative or NaN.
    """
    a = check_any_matrix(a)
    cut = find_cut(a, mesh, axis_name, square=False)
    if rtol is None:
        rtol = float(jnp.finfo(a.dtype).eps) * max(rows_in(a, cut), a.shape[1])
    elif not isinstance(rtol, jax.core.Tracer):
        if not number_or_nan(rtol) >= 0:
            raise ValueError(
                f"rtol is {rtol!r}; pass a number from 0 on, or None for eps max(m, n)"
            )
        rtol = rounded_down(number_or_nan(rtol), jnp.finfo(a.dtype).dtype)
    s, verdict = _svdvals(a, cut)
    raise_if_failed(verdict)
    return _rank(s, beside((a,), cut, rtol, s.dtype))


def cond_in_2_norm(a: object, mesh: Mesh | None, axis_name: AxisName | None) -> jax.Array:
    """The largest singular value by the least: infinite where that is 0."""
    return _condition(svdvals(a, mesh=mesh, axis_name=axis_name))


@jax.custom_jvp
def _condition(s: jax.Array) -> jax.Array:
    return _ratio(s)


@_condition.defjvp
def _change_of_condition(primals: Arrays, tangents: Arrays) -> tuple[jax.Array, jax.Array]:
    (s,), (ds,) = primals, tangents
    ratio = _condition(s)
    return ratio, (ds[0] - ratio * ds[-1]) / s[-1]


@accepts(_words.POLAR)
def polar(
    a: jax.Array,
    *,
    mesh: Mesh | None = None,
    axis_name: AxisName | None = None,
    full_output: bool = False,
) -> Arrays | tuple[jax.Array | EighInfo, ...]:
    """The polar factors of a = u h, of any rank: u^H u = 1, h = (a^H a)^(1/2).

    u is the nearest matrix with orthonormal columns. `scipy.linalg.polar` with side="right".

    Args:
        a: (m, n), m >= n, float32, float64, complex64 or complex128, its rows cut or not.
        mesh: As in `svd`.
        axis_name: As in `svd`.
        full_output: Whether to return (u, h, info) and never raise; `info` as in `svd`.

    Returns:
        u (m, n), cut as a is, and h (n, n), Hermitian, the same on all devices. Derivatives are
        those of full rank; without it they are NaN, infinite, or of rounding alone.

    Raises:
        LinAlgError, SolverError, TypeError: As in `svd`.
        ValueError: Likewise, and if a has fewer rows than columns.
    """
    a = check_any_matrix(a)
    cut = find_cut(a, mesh, axis_name, square=False)
    if rows_in(a, cut) < a.shape[1]:
        raise ValueError(
            f"a has shape {a.shape}; polar takes at least as many rows as columns: pass "
            "a.conj().T, whose u and h give a = h u^H"
        )
    u, h, info = _polar(a, cut)
    if full_output:
        return u, h, info
    raise_if_failed(info.verdict)
    return u, h


# What follows is traced.


def info_of(verdict: jax.Array, figures: jax.Array) -> EighInfo:
    """Of a residual and an orthogonality."""
    return EighInfo(verdict, figures[0], figures[1], jnp.zeros((), bool))


@compiled
def _rank(s: jax.Array, rtol: jax.Array) -> jax.Array:
    # XLA on CPUs takes subnormal numbers for zeros, but not once they are lifted.
    lifts = s[0] < 1
    s = jnp.where(lifts, lifted(jnp.where(lifts, s, 0)), s)
    rank = jnp.sum(s > rtol * s[0]).astype(jnp.int32)
    return jnp.where(jnp.isnan(s[0]) | ~(rtol >= 0), -1, rank)


@compiled
def _ratio(s: jax.Array) -> jax.Array:
    """s_0 / s_n, also of subnormal numbers, which XLA may take for zeros."""
    lifts = s[0] <= 1
    s = jnp.where(lifts, lifted(jnp.where(lifts, s, 0)), s)
    largest, least = s[0], s[-1]
    return jnp.where(least == 0, jnp.inf, largest / jnp.where(least == 0, 1, least))


def _high(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)


def _no_tangent(a: jax.Array) -> np.ndarray:
    return np.zeros(a.shape, jax.dtypes.float0)


def _quotients(s: jax.Array) -> jax.Array:
    """1 / (s_j^2 - s_i^2) in row i; NaN for pairs that are equal but for rounding, 0 for i = j."""
    n, u = len(s), jnp.finfo(s.dtype).eps / 2
    group = jnp.cumsum(jnp.abs(jnp.diff(s, prepend=s[:1])) > NEIGHBOURS * u * s[0])
    itself = jnp.eye(n, dtype=bool)
    gaps = (s[None, :] - s[:, None]) * (s[None, :] + s[:, None])
    equal = group[None, :] == group[:, None]
    return jnp.where(itself, 0, jnp.where(equal, jnp.nan, 1 / jnp.where(equal, 1, gaps)))


@functools.cache
def _vectors_of(cut: Cut | None) -> Callable[[jax.Array], _Vectors]:
    return _with_derivatives(lambda a: _Vectors(*_calls.svd(cut)(a)), cut)


@functools.cache
def _vectors_of_few_rows() -> Callable[[jax.Array], _Vectors]:
    def find(a: jax.Array) -> _Vectors:
        u, s, vh = jnp.linalg.svd(a, full_matrices=False)
        nothing = jnp.zeros((), jnp.int32)
        return _Vectors(u, s, adjoint(vh), jnp.zeros_like(s), nothing)

    return _with_derivatives(find, None)


def change_of_values(a: jax.Array, da: jax.Array) -> jax.Array:
    """Of the singular values of a matrix that all devices have, not of more columns than rows.

    Its own derivatives are NaN where values are equal.
    """
    found = _vectors_of_few_rows()(a)
    return jnp.real(jnp.diagonal(_high(adjoint(found.u), _high(da, found.v))))


def _with_derivatives(
    find: Callable[[jax.Array], _Vectors], cut: Cut | None
) -> Callable[[jax.Array], _Vectors]:
    find = jax.custom_jvp(find)

    @find.defjvp
    def rule(primals, tangents):
        # With P = u^H da v: P = Wu S + dS - S Wv for the skew-Hermitian Wu = u^H du, Wv = v^H dv
        (a,), (da,) = primals, tangents
        found = find(a)
        u, s, v = found.u, found.s, found.v
        moved = along_rows(da, v, cut)
        inner = down_rows(u, moved, cut)
        turned = adjoint(inner)
        ds = jnp.real(jnp.diagonal(inner))
        # From here on of a matrix whose largest singular value is about 1: squares are in range.
        down = -jnp.frexp(lax.stop_gradient(s[0]))[1]
        s, moved, inner, turned = (times_power(one, down) for one in (s, moved, inner, turned))
        quotients = _quotients(s).astype(v.dtype)
        s = s.astype(v.dtype)
        of_u = quotients * (inner * s[None, :] + s[:, None] * turned)
        of_v = quotients * (s[:, None] * inner + turned * s[None, :])
        dv = _high(v, of_v)
        if jnp.iscomplexobj(v):
            # the largest component of each vector stays real; u gets the phase of v and its own
            at = jnp.argmax(jnp.abs(v), axis=0)[None, :]
            size = jnp.real(jnp.take_along_axis(v, at, axis=0)).astype(v.dtype)
            moved_by = jnp.imag(jnp.take_along_axis(dv, at, axis=0)).astype(v.dtype)
            phase = -1j * moved_by / size
            dv = dv + v * phase
            own = jnp.imag(jnp.diagonal(inner)).astype(v.dtype)
            of_u = of_u + jnp.diag(phase[0] + 1j * own / s)
        du = along_rows(u, of_u, cut)
        if rows_in(a, cut) > a.shape[1]:
            du = du + (moved - along_rows(u, inner, cut)) / s[None, :]
        return found, _Vectors(
            du, ds, dv, jnp.zeros_like(found.figures), _no_tangent(found.verdict)
        )

    return find


@functools.cache
def _values_of(cut: Cut | None) -> Callable[[jax.Array], Arrays]:
    @jax.custom_jvp
    def find(a: jax.Array) -> Arrays:
        return _calls.svdvals(cut)(a)

    @find.defjvp
    def rule(primals, tangents):
        (a,), (da,) = primals, tangents
        found = _vectors_of(cut)(a)
        inner = down_rows(found.u, along_rows(da, found.v, cut), cut)
        ds = jnp.real(jnp.diagonal(inner))
        return (found.s, found.verdict), (ds, _no_tangent(found.verdict))

    return find


@functools.cache
def _polar_of(cut: Cut | None) -> Callable[[jax.Array], _Polar]:
    @jax.custom_jvp
    def find(a: jax.Array) -> _Polar:
        return _Polar(*_calls.polar(cut)(a))

    @find.defjvp
    def rule(primals, tangents):
        # With P = u^H da: h W + W h = P - P^H for the skew-Hermitian W = u^H du, and dh = P - W h
        (a,), (da,) = primals, tangents
        found = find(a)
        u, h = found.u, found.h
        inner = down_rows(u, da, cut)
        turn = _solve_sum(h, inner - adjoint(inner))
        dh = inner - _high(turn, h)
        du = along_rows(u, turn, cut)
        if rows_in(a, cut) > a.shape[1]:
            du = du + along_rows(da - along_rows(u, inner, cut), _inverse(h), cut)
        return found, _Polar(
            du,
            (dh + adjoint(dh)) / 2,
            jnp.zeros_like(found.figures),
            _no_tangent(found.verdict),
        )

    return find


# Both know their own derivatives by h alone. Those of eigenvectors are not there where eigenvalues
# are equal, which does no harm here.


def _solve_sum(h: jax.Array, right: jax.Array) -> jax.Array:
    """X with h x + x h = right, for positive definite h."""
    w, z = jnp.linalg.eigh(lax.stop_gradient(h), symmetrize_input=False)

    def solve(y: jax.Array) -> jax.Array:
        parts = _high(adjoint(z), _high(y, z)) / (w[:, None] + w[None, :]).astype(y.dtype)
        return _high(_high(z, parts), adjoint(z))

    return _linear_solve(lambda x: _high(h, x) + _high(x, h), right, solve)


def _inverse(h: jax.Array) -> jax.Array:
    w, z = jnp.linalg.eigh(lax.stop_gradient(h), symmetrize_input=False)
    one = jnp.eye(len(h), dtype=h.dtype)
    over = z / w[None, :].astype(z.dtype)
    return _linear_solve(lambda x: _high(h, x), one, lambda y: _high(over, _high(adjoint(z), y)))


def _linear_solve(
    product: Callable[[jax.Array], jax.Array],
    right: jax.Array,
    solve: Callable[[jax.Array], jax.Array],
) -> jax.Array:
    """Of a Hermitian map: its transpose is its conjugate."""
    return lax.custom_linear_solve(
        product,
        right,
        lambda _, y: solve(y),
        transpose_solve=lambda _, y: jnp.conj(solve(jnp.conj(y))),
    )


def _placed(a: jax.Array, cut: Cut | None) -> jax.Array:
    return a if cut is None else cut.place(a)


def _upright(a: jax.Array, cut: Cut | None) -> tuple[jax.Array, Cut | None, bool]:
    """The matrix, or its conjugate transpose if it has fewer rows than columns; and whether."""
    by_rows = cut and cut.by_rows
    wide = rows_in(a, by_rows) < a.shape[1]
    if wide:
        if by_rows is not None and axes_across(by_rows):
            a = all_rows(a, by_rows)  # few rows: each device takes all
            by_rows = Cut(None, (), (*by_rows.axes, *by_rows.others))
        a = adjoint(a)
    return _placed(a, by_rows), by_rows, wide


@functools.partial(compiled, static_argnums=(1,))
def _svd(a: jax.Array, cut: Cut | None) -> tuple[jax.Array, jax.Array, jax.Array, EighInfo]:
    a, by_rows, wide = _upright(a, cut)
    u, s, v, figures, verdict = _vectors_of(by_rows)(a)
    if wide:
        u, v = v, u
    return u, s, adjoint(v), info_of(verdict, figures)


@functools.partial(compiled, static_argnums=(1,))
def _svdvals(a: jax.Array, cut: Cut | None) -> Arrays:
    a, by_rows, _ = _upright(a, cut)
    return _values_of(by_rows)(a)


@functools.partial(compiled, static_argnums=(1,))
def _polar(a: jax.Array, cut: Cut | None) -> tuple[jax.Array, jax.Array, EighInfo]:
    by_rows = cut and cut.by_rows
    found = _polar_of(by_rows)(_placed(a, by_rows))
    return found.u, found.h, info_of(found.verdict, found.figures)
