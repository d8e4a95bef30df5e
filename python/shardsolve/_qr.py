"""Matrices of any shape, cut by rows: QR, least squares, ridge; and their derivatives."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.linalg import solve_triangular
from jax.sharding import Mesh

from shardsolve import _calls, _words
from shardsolve._alone import lift, lifted, size_of, times_power
from shardsolve._calls import AxisName, compiled
from shardsolve._check import check_any_matrix, check_right_hand_side, number_or_nan, rounded_down
from shardsolve._cut import Cut, beside, find_cut
from shardsolve._products import (
    adjoint,
    all_rows,
    along_rows,
    axes_across,
    down_rows,
    over_triangle,
    rows_in,
)
from shardsolve._records import EighInfo, Info, Status, raise_if_failed
from shardsolve._svd import change_of_values, info_of
from shardsolve._words import accepts

Arrays = tuple[jax.Array, ...]

# Which solution is wanted: as jax/qr_calls.cpp has it.
_OF_FULL_RANK, _SHORTEST, _DAMPED = 0, 1, 2
_UNSET = 0.0


class _Which(NamedTuple):
    """The solution that is wanted."""

    wanted: int
    rcond: float = _UNSET


class _Found(NamedTuple):
    """What a solve gives, of b (m, k)."""

    x: jax.Array  # (n, k)
    residuals: jax.Array  # (k,): sums of squares
    rank: jax.Array  # int32
    values: jax.Array  # (min(m, n),): singular values
    figures: jax.Array  # (2,): backward error and rcond
    verdict: jax.Array


@accepts(_words.QR)
def qr(
    a: jax.Array,
    mode: str = "reduced",
    *,
    mesh: Mesh | None = None,
    axis_name: AxisName | None = None,
    full_output: bool = False,
) -> jax.Array | Arrays:
    """Factors a = q r for at least as many rows as columns.

    The diagonal of r is real and not negative, so that with independent columns there is one such
    pair, whatever the devices. q^H q = 1 to rounding for any a. No device has all of a.

    Args:
        a: (m, n), m >= n >= 1, float32, float64, complex64 or complex128, its rows cut or not.
        mode: "reduced" for (q, r), "r" for r alone, which takes as long but no memory for q.
        mesh: As in `solve`.
        axis_name: As in `solve`; inside of `shard_map` a is whole on each device without it.
        full_output: Whether to return (q, r, info), or (r, info), and never raise. `info` is an
            EighInfo: `residual` is ||a - q r|| / ||a||, `orthogonality` a row of
            q^H q - 1; -1 for mode="r".

    Returns:
        q (m, n), cut as a is, and r (n, n): cut as a is where m < 2 n, so that no device has all of
        it; else, and inside of `shard_map`, the same on all devices. Derivatives are NaN where
        columns depend on each other to working precision.

    Raises:
        LinAlgError: Outside of `jit`, if a holds NaN or infinities, or r does not fit the dtype.
        SolverError: As in `solve`.
        TypeError, ValueError: On arguments that do not fit.
    """
    a = check_any_matrix(a)
    if mode not in ("reduced", "r"):
        raise ValueError(
            f"mode is {mode!r}; pass 'reduced' for q (m, n) and r, or 'r' for r alone; a square q "
            "has jax.numpy.linalg.qr with mode='complete', on one device"
        )
    cut = find_cut(a, mesh, axis_name, square=False)
    rows = a.shape[0] * (lax.axis_size(cut.axes) if cut and cut.inside and cut.axes else 1)
    if rows < a.shape[1]:
        raise ValueError(
            f"a has shape {a.shape}; qr takes at least as many rows as columns: pass a.conj().T, "
            "whose q and r give a = r^H q^H; least_squares, lstsq and ridge take any shape"
        )
    # A device's rows of r inside of a shard_map would be no (n, n).
    in_rows = rows < 2 * a.shape[1] and not (cut and cut.inside)
    q, r, info = _qr(a, cut, mode == "reduced", in_rows)
    found = (q, r) if mode == "reduced" else (r,)
    if full_output:
        return *found, info
    raise_if_failed(info.verdict)
    return found if mode == "reduced" else r


@accepts(_words.LEAST_SQUARES)
def least_squares(
    a: jax.Array,
    b: jax.Array,
    *,
    mesh: Mesh | None = None,
    axis_name: AxisName | None = None,
    full_output: bool = False,
) -> jax.Array | tuple[jax.Array, Info]:
    """Finds x with the least ||b - a x||, of a with independent columns.

    With fewer rows than columns, which are to be independent then: the shortest x with a x = b.
    Columns (rows) may be of very different sizes. An unknown whose column adds little to a x has as
    many digits fewer, whatever rcond says.

    Args:
        a: (m, n), float32, float64, complex64 or complex128, its rows cut or not.
        b: (m,) or (m, k), of the same dtype.
        mesh: As in `solve`.
        axis_name: As in `solve`; inside of `shard_map` a is whole on each device without it.
        full_output: Whether to return (x, info) and never raise. `info.backward_error` is the
            least change of a, relative, for which x is exact, as far as it is known; `info.rcond`
            that of r of a's columns, scaled to equal size.

    Returns:
        x (n,) or (n, k), the same on all devices.

    Raises:
        LinAlgError: Outside of `jit`, if columns depend on each other to working precision
            (`status` RANK_DEFICIENT: `lstsq` and `ridge` take any a), if a or b holds NaN or
            infinities, or x does not fit the dtype.
        SolverError: As in `solve`.
        TypeError, ValueError: On arguments that do not fit.
    """
    x, *_, info = _found(a, b, None, mesh, axis_name, _Which(_OF_FULL_RANK))
    return _with_info(x, info, full_output)


@accepts(_words.LSTSQ)
def lstsq(
    a: jax.Array,
    b: jax.Array,
    rcond: float | None = None,
    *,
    mesh: Mesh | None = None,
    axis_name: AxisName | None = None,
    full_output: bool = False,
) -> Arrays:
    """Finds the shortest x of those with the least ||b - a x||, for any a: `numpy.linalg.lstsq`.

    For a whose columns are known to be independent `least_squares` is cheaper.

    Args:
        a: As in `least_squares`.
        b: As in `least_squares`.
        rcond: Singular values of at most rcond times the largest count as 0: a number between 0
            and 1, known before JAX traces; None for eps max(m, n), as in NumPy.
        mesh: As in `least_squares`.
        axis_name: As in `least_squares`.
        full_output: Whether to return (x, resid, rank, s, info) and never raise.

    Returns:
        x (n,) or (n, k); resid (k,), the sums of squares of b - a x, whatever the rank; the rank,
        -1 where there is none, inside of `jit`;
        and the singular values (min(m, n),), descending. Derivatives are those at full rank, and
        NaN where the rank is less.

    Raises:
        LinAlgError, SolverError, TypeError, ValueError: As in `least_squares`, whatever the rank.
    """
    which = _Which(_SHORTEST, _checked_rcond(rcond))
    *results, info = _found(a, b, None, mesh, axis_name, which)
    if full_output:
        return *results, info
    raise_if_failed(info.verdict)
    return tuple(results)


@accepts(_words.RIDGE)
def ridge(
    o: jax.Array,
    f: jax.Array,
    eps: float,
    *,
    mesh: Mesh | None = None,
    axis_name: AxisName | None = None,
    full_output: bool = False,
) -> jax.Array | tuple[jax.Array, Info]:
    """Finds x with the least ||f - o x||^2 + eps ||x||^2, for any o.

    x = (o^H o + eps)^-1 o^H f = o^H (o o^H + eps)^-1 f, by QR of o above sqrt(eps) 1, which
    loses half as many digits as o^H o. x itself is as sensitive as its problem: where eps is
    small and columns of o nearly depend on each other, a part of f that o does not reach moves it,
    and with eps of rounding it is `NEARLY_SINGULAR`.

    Args:
        o: (m, n), as `a` in `least_squares`.
        f: (m,) or (m, k), of the same dtype.
        eps: Positive; may be traced.
        mesh: As in `least_squares`.
        axis_name: As in `least_squares`.
        full_output: As in `least_squares`; figures are those of o above sqrt(eps) 1.

    Returns:
        x (n,) or (n, k), the same on all devices.

    Raises:
        LinAlgError, SolverError, TypeError, ValueError: As in `least_squares`, for any o; and if
            eps is not positive.
    """
    x, *_, info = _found(o, f, eps, mesh, axis_name, _Which(_DAMPED))
    return _with_info(x, info, full_output)


@accepts(_words.LSTSQ)
def pinv(
    a: jax.Array,
    rcond: float | None = None,
    *,
    mesh: Mesh | None = None,
    axis_name: AxisName | None = None,
) -> jax.Array:
    """The pseudo-inverse of any a, as `numpy.linalg.pinv`.

    By `qr` and the singular values of r.

    Args:
        a: As in `least_squares`.
        rcond: As in `lstsq`.
        mesh: As in `least_squares`.
        axis_name: As in `least_squares`.

    Returns:
        (n, m), its columns cut as the rows of a are, or where m < n its rows. Derivatives are those
        of a constant rank, and NaN where rcond cuts singular values that are not rounding alone.

    Raises:
        LinAlgError, SolverError, TypeError, ValueError: As in `lstsq`.
    """
    a = check_any_matrix(a)
    limit = _checked_rcond(rcond)
    cut = find_cut(a, mesh, axis_name, square=False)
    if limit == _UNSET:
        limit = float(jnp.finfo(a.dtype).eps) * max(rows_in(a, cut), a.shape[1])
    inverse, verdict = _pinv(a, cut, rounded_down(limit, jnp.finfo(a.dtype).dtype))
    raise_if_failed(verdict)
    return inverse


def _checked_rcond(rcond: Any) -> float:
    if rcond is None:
        return _UNSET
    if isinstance(rcond, jax.core.Tracer):
        raise TypeError("rcond is traced; pass a number that is known before JAX traces")
    if not 0 < number_or_nan(rcond) < 1:
        raise ValueError(
            f"rcond is {rcond!r}; pass a number between 0 and 1, or None for eps max(m, n), as in "
            "NumPy (whose rcond=-1, eps, is rcond=jnp.finfo(a.dtype).eps)"
        )
    return float(rcond)


def _found(
    a: object,
    b: object,
    eps: object | None,
    mesh: Mesh | None,
    axis_name: AxisName | None,
    which: _Which,
) -> tuple[Any, ...]:
    """x, sums of squares, the rank, singular values and an Info."""
    a = check_any_matrix(a)
    b = check_right_hand_side(a.shape, a.dtype, b)
    real = jnp.finfo(a.dtype).dtype
    is_known = which.wanted == _DAMPED and not isinstance(eps, jax.core.Tracer)
    if is_known and (jnp.iscomplexobj(eps) or not 0 < number_or_nan(eps) < math.inf):
        raise ValueError(f"eps is {eps!r}; pass a positive number")
    cut = find_cut(a, mesh, axis_name, b, square=False)
    eps = None if eps is None else beside((a, b), cut, eps, real)
    return _solve(a, b, eps, cut, which)


def _with_info(x: jax.Array, info: Info, full_output: bool) -> jax.Array | tuple[jax.Array, Info]:
    if full_output:
        return x, info
    raise_if_failed(info.verdict)
    return x


# What follows is traced. Every public function runs one compiled program.


def _rows(a: jax.Array, cut: Cut | None) -> jax.Array:
    return a if cut is None else cut.place(a)


@functools.cache
def _qr_of(cut: Cut | None, vectors: bool) -> Callable[[jax.Array], Arrays]:
    @jax.custom_jvp
    def factor(a: jax.Array) -> Arrays:
        return _calls.qr(cut, vectors=vectors)(a)

    @factor.defjvp
    def rule(primals, tangents):
        (a,), (da,) = primals, tangents
        q, r, figures, verdict = _qr_of(cut, True)(a)
        dq, dr = _change_of_factors(q, r, da, cut)
        found = factor(a) if not vectors else (q, r, figures, verdict)
        return found, (dq, dr, jnp.zeros_like(figures), _no_tangent(verdict))

    return factor


@functools.cache
def _qr_in_rows_of(cut: Cut | None, vectors: bool) -> Callable[[jax.Array], Arrays]:
    """With [r; 0], cut as a is, for r."""

    @jax.custom_jvp
    def factor(a: jax.Array) -> Arrays:
        return _calls.qr_in_rows(cut, vectors=vectors)(a)

    @factor.defjvp
    def rule(primals, tangents):
        (a,), (da,) = primals, tangents
        m, n = a.shape
        q, rows, figures, verdict = _qr_in_rows_of(cut, True)(a)
        dq, dr = _change_of_factors(q, all_rows(rows, cut)[:n], da, cut)
        found = factor(a) if not vectors else (q, rows, figures, verdict)
        drows = _rows(jnp.pad(dr, [(0, m - n), (0, 0)]), cut)
        return found, (dq, drows, jnp.zeros_like(figures), _no_tangent(verdict))

    return factor


def _change_of_factors(q: jax.Array, r: jax.Array, da: jax.Array, cut: Cut | None) -> Arrays:
    """Dq, cut as q is, and dr; r is whole. NaN where columns depend on each other."""
    quotient = over_triangle(da, r, cut) * _one_or_nan(r, max(rows_in(da, cut), len(r)))
    inside = down_rows(q, quotient, cut)
    lower = jnp.tril(inside, -1)
    turn = lower - adjoint(lower)
    turn += jnp.eye(len(r), dtype=r.dtype) * (inside - jnp.real(inside).astype(r.dtype))
    dq = along_rows(q, turn - inside, cut) + quotient
    return dq, jnp.matmul(inside - turn, r, precision=lax.Precision.HIGHEST)


def _one_or_nan(r: jax.Array, size: int) -> jax.Array:
    """NaN if r, its columns at equal size, is singular to working precision, as least_squares."""
    r = lax.stop_gradient(r)
    scaled = r / jnp.linalg.norm(r, axis=0, keepdims=True).astype(r.dtype)
    inverse = solve_triangular(scaled, jnp.eye(len(r), dtype=r.dtype))
    rcond = 1 / (jnp.linalg.norm(scaled, 1) * jnp.linalg.norm(inverse, 1))
    return jnp.where(rcond > jnp.finfo(r.dtype).eps * size, 1, jnp.nan).astype(r.dtype)


def _no_tangent(a: jax.Array) -> np.ndarray:
    return np.zeros(a.shape, jax.dtypes.float0)


@functools.partial(compiled, static_argnums=(1, 2, 3))
def _qr(
    a: jax.Array, cut: Cut | None, vectors: bool, in_rows: bool
) -> tuple[jax.Array, jax.Array, EighInfo]:
    by_rows = cut and cut.by_rows
    find = _qr_in_rows_of if in_rows else _qr_of
    q, r, figures, verdict = find(by_rows, vectors)(_rows(a, by_rows))
    m, n = a.shape
    if in_rows and m > n:
        r = _rows(_typed_whole(r, by_rows)[:n], by_rows)
    return q, r, info_of(verdict, figures)


def _typed_whole(rows: jax.Array, cut: Cut | None) -> jax.Array:
    """For a slice of rows: where types say where arrays lie, they do so of even parts alone."""
    return all_rows(rows, cut) if cut is not None and cut.explicit else rows


@functools.cache
def _solve_of(cut: Cut | None, which: _Which) -> Callable[..., _Found]:
    @jax.custom_jvp
    def solve(a: jax.Array, b: jax.Array, eps: jax.Array) -> _Found:
        call = _calls.least_squares(cut, wanted=which.wanted, rcond=which.rcond)
        x, residuals, rank, values, figures, verdict = call(a, b, eps[None])
        least = min(rows_in(a, cut), a.shape[1])
        return _Found(x, residuals**2, rank[0], values[:least], figures, verdict)

    @solve.defjvp
    def rule(primals, tangents):
        found = solve(*primals)
        a, _, eps = primals
        if rows_in(a, cut) >= a.shape[1]:
            change = _tall_change(primals, tangents, found, cut, which)
        else:
            change = _wide_change(primals, tangents, found, cut, which)
        # a factor, which gradients meet, too
        is_full = found.rank == min(rows_in(a, cut), a.shape[1])
        known = jnp.where(is_full, 1, jnp.nan).astype(eps.dtype)
        dx, dresiduals, dvalues = (known.astype(one.dtype) * one for one in change)
        return found, _Found(
            dx,
            dresiduals,
            _no_tangent(found.rank),
            dvalues,
            jnp.zeros_like(found.figures),
            _no_tangent(found.verdict),
        )

    return solve


def _change_of_residuals(r: jax.Array, change: jax.Array, cut: Cut | None) -> jax.Array:
    """Of ||r||^2 by columns."""
    changes = 2 * jnp.sum(jnp.real(jnp.conj(r) * change), axis=0)
    axes = axes_across(cut)
    return lax.psum(changes, axes) if axes else changes


def _change_of_values(r: jax.Array, dr: jax.Array, found: _Found, which: _Which) -> jax.Array:
    if which.wanted != _SHORTEST:
        return jnp.zeros_like(found.values)
    return change_of_values(r, dr)


def _damped(r: jax.Array, eps: jax.Array) -> jax.Array:
    """The triangle t with t^H t = r^H r + eps."""
    root = jnp.sqrt(eps).astype(r.dtype) * jnp.eye(len(r), dtype=r.dtype)
    return jnp.linalg.qr(jnp.concatenate([r, root]), mode="r")


def _normal_solve(t: jax.Array, v: jax.Array) -> jax.Array:
    """(t^H t)^-1 v."""
    return solve_triangular(t, solve_triangular(t, v, trans="C"))


def _damped_solve(
    a: jax.Array, r: jax.Array, eps: jax.Array, v: jax.Array, up: Any, cut: Cut | None
) -> jax.Array:
    """(a^H a + eps)^-1 v of 2^up a and 2^(2 up) eps, where r^H r = a^H a.

    Its derivatives are by a and eps: r has none where columns depend on each other.
    """
    t = times_power(_damped(lax.stop_gradient(r), lax.stop_gradient(eps)), up)
    scaled, shift = times_power(a, up), times_power(eps, 2 * up)

    def product(x: jax.Array) -> jax.Array:
        return down_rows(scaled, along_rows(scaled, x, cut), cut) + shift.astype(x.dtype) * x

    return lax.custom_linear_solve(
        product,
        v,
        lambda _, y: _normal_solve(t, y),
        transpose_solve=lambda _, y: jnp.conj(_normal_solve(t, jnp.conj(y))),
    )


def _power_to_one(t: jax.Array) -> jax.Array:
    """The exponent of a power of two that brings the largest number of t to 1: squares fit then."""
    largest = jnp.max(size_of(lax.stop_gradient(t)))
    usable = (largest > 0) & jnp.isfinite(largest)
    return jnp.where(usable, -jnp.frexp(jnp.where(usable, largest, 1))[1], 0)


def _tall_change(primals, tangents, found: _Found, cut: Cut | None, which: _Which) -> Arrays:
    """For m >= n: dx = a^+ (db - da x) + (a^H a)^-1 da^H r, r = b - a x; with eps likewise."""
    (a, b, eps), (da, db, deps) = primals, tangents
    x = found.x
    residual = b - along_rows(a, x, cut)
    moved = db - along_rows(da, x, cut)
    if which.wanted == _DAMPED:
        r = _qr_of(cut, True)(lax.stop_gradient(a))[1]
        dr = jnp.zeros_like(r)
        up = _power_to_one(_damped(r, lax.stop_gradient(eps)))
        right = down_rows(da, times_power(residual, up), cut)
        right += down_rows(a, times_power(moved, up), cut)
        right -= deps.astype(x.dtype) * times_power(x, up)
        dx = times_power(_damped_solve(a, r, eps, right, up, cut), up)
    else:
        (q, r, *_), (_, dr, *_) = jax.jvp(_qr_of(cut, True), (a,), (da,))
        up = _power_to_one(r)
        right = down_rows(da, times_power(residual, up), cut)
        dx = solve_triangular(r, down_rows(q, moved, cut))
        dx += times_power(_normal_solve(times_power(r, up), right), up)
    return (
        dx,
        _change_of_residuals(residual, moved, cut),
        _change_of_values(r, dr, found, which),
    )


def _wide_change(primals, tangents, found: _Found, cut: Cut | None, which: _Which) -> Arrays:
    """Of the shortest x: x = a^H y with (a a^H + eps) y = b."""
    (a, b, eps), (da, db, deps) = primals, tangents
    if cut is not None and axes_across(cut):
        # a^H would have to be dealt out anew: few rows, so each device takes all.
        a, b, da, db = (all_rows(one, cut) for one in (a, b, da, db))
        cut = Cut(None, (), (*cut.axes, *cut.others))
    high = functools.partial(jnp.matmul, precision=lax.Precision.HIGHEST)
    if cut is not None and not cut.inside:
        a, b, da, db = (cut.whole(one, len(one)) for one in (a, b, da, db))
    ah, dah = _rows(adjoint(a), cut), _rows(adjoint(da), cut)
    x = found.x
    moved = db - high(da, x)
    if which.wanted == _DAMPED:
        r = _qr_of(cut, True)(lax.stop_gradient(ah))[1]
        dr = jnp.zeros_like(r)
        solve = functools.partial(_damped_solve, ah, r, eps, up=0, cut=cut)
        y = solve(b)
        change = high(adjoint(da), y)
        dx = change + high(adjoint(a), solve(moved - high(a, change) - deps.astype(y.dtype) * y))
    else:
        (q, r, *_), (_, dr, *_) = jax.jvp(_qr_of(cut, True), (ah,), (dah,))
        if cut is not None and not cut.inside:
            q = cut.whole(q, len(q))
        y = _normal_solve(r, b)
        change = high(adjoint(da), y)
        along = solve_triangular(r, moved, trans="C") - high(adjoint(q), change)
        dx = high(q, along) + change
    nothing = jnp.zeros_like(found.residuals)
    return dx, nothing, _change_of_values(r, dr, found, which)


@functools.partial(compiled, static_argnums=(3, 4))
def _solve(
    a: jax.Array, b: jax.Array, eps: jax.Array | None, cut: Cut | None, which: _Which
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array, Info]:
    by_rows = cut and cut.by_rows
    columns = b[:, None] if b.ndim == 1 else b
    eps = jnp.ones((), jnp.finfo(a.dtype).dtype) if eps is None else eps
    found = _solve_of(by_rows, which)(_rows(a, by_rows), _rows(columns, by_rows), eps)
    x = found.x.reshape(a.shape[1], *b.shape[1:])
    rank = jnp.where(found.verdict[0] == Status.OK, found.rank, -1)
    info = Info(found.verdict, found.figures[0], found.figures[1])
    return x, found.residuals, rank, found.values, info


@functools.cache
def _pinv_of(cut: Cut | None, rcond: float) -> Callable[[jax.Array], Arrays]:
    """P^H, (m, n) as a is and cut like it; of at least as many rows as columns."""

    @jax.custom_jvp
    def adjoint_of_pinv(a: jax.Array) -> Arrays:
        q, r, _, verdict = _calls.qr(cut, vectors=True)(a)
        # Of numbers of size 1: XLA takes subnormal ones for zeros, and what is made may be some.
        lifts = jnp.max(size_of(r)) <= 1
        r = jnp.where(lifts, lifted(jnp.where(lifts, r, 0)), r)
        up = -jnp.frexp(jnp.max(size_of(r)))[1]
        u, s, vh = jnp.linalg.svd(times_power(r, up))
        inverse = jnp.where(s > rcond * s[0], 1 / s, 0)
        zero = jnp.finfo(s.dtype).eps * max(rows_in(a, cut), a.shape[1])
        cuts_more = jnp.any((s <= rcond * s[0]) & (s > zero * s[0]))
        found = along_rows(q, (u * inverse[None, :].astype(u.dtype)) @ vh, cut)
        up += jnp.where(lifts, lift(r.dtype), 0)
        made = times_power(found, up)
        norm = jnp.frexp(jnp.max(inverse))[1] + up  # its exponent
        verdict = _of_range(verdict, found, made, norm, cut)
        return jnp.where(verdict[0] == Status.OK, made, jnp.nan), verdict, cuts_more

    @adjoint_of_pinv.defjvp
    def rule(primals, tangents):
        # G. H. Golub, V. Pereyra, SIAM J. Numer. Anal. 10 (1973) 413; of constant rank, so that
        # a P a = a
        (a,), (da,) = primals, tangents
        ph, verdict, cuts_more = adjoint_of_pinv(a)  # P^H
        square = down_rows(ph, ph, cut)  # P P^H
        change = along_rows(da, square, cut) - along_rows(
            ph, down_rows(a, along_rows(da, square, cut), cut), cut
        )
        moved = down_rows(da, ph, cut)  # da^H P^H
        change -= along_rows(ph, moved, cut)
        outside = jnp.eye(a.shape[1], dtype=a.dtype) - down_rows(a, ph, cut)  # 1 - P a, Hermitian
        change += along_rows(ph, down_rows(ph, along_rows(da, outside, cut), cut), cut)
        change *= jnp.where(cuts_more, jnp.nan, 1).astype(ph.dtype)
        none = _no_tangent(verdict), _no_tangent(cuts_more)
        return (ph, verdict, cuts_more), (change, *none)

    return adjoint_of_pinv


def _of_range(
    verdict: jax.Array, scaled: jax.Array, made: jax.Array, norm: jax.Array, cut: Cut | None
) -> jax.Array:
    """The verdict, or that the range does not hold `made`, whose norm has this exponent.

    Subnormal numbers, which XLA may take for zeros, are a loss where no others are large.
    """
    real = jnp.finfo(made.dtype)
    is_low = norm < real.minexp + real.nmant

    def looked() -> jax.Array:
        sizes = size_of(made)
        too_large, too_small = ~(sizes <= real.max), (sizes < real.tiny) & (size_of(scaled) > 0)
        flags = jnp.concatenate([too_large, too_small & is_low], 1).astype(real.dtype)
        return jnp.any(down_rows(flags, jnp.ones_like(flags[:, :1]), cut).reshape(2, -1) > 0, 1)

    # Only there: it reads all of it.
    is_near = is_low | (norm >= real.maxexp - 1)
    large, small = lax.cond(is_near, looked, lambda: jnp.zeros(2, bool))
    nowhere = jnp.array([Status.OVERFLOW, -1, -1, -1, 0], jnp.int32)
    left = jnp.where(large, nowhere, nowhere.at[0].set(Status.UNDERFLOW))
    return jnp.where((verdict[0] == Status.OK) & (large | small), left, verdict)


@functools.partial(compiled, static_argnums=(1, 2))
def _pinv(a: jax.Array, cut: Cut | None, rcond: float) -> Arrays:
    by_rows = cut and cut.by_rows
    if rows_in(a, by_rows) < a.shape[1]:
        if by_rows is not None and axes_across(by_rows):
            a = all_rows(a, by_rows)
            by_rows = Cut(None, (), (*by_rows.axes, *by_rows.others))
        return _pinv_of(by_rows, rcond)(_rows(adjoint(a), by_rows))[:2]
    ph, verdict, _ = _pinv_of(by_rows, rcond)(_rows(a, by_rows))
    return adjoint(ph), verdict
