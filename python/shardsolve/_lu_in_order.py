"""The LU factors of a matrix themselves, in natural order: `lu` and its derivatives."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh

from shardsolve import _words
from shardsolve._alone import EXACT
from shardsolve._calls import Arrays, AxisName, compiled, one_by_one
from shardsolve._check import as_array, check_tile
from shardsolve._cut import Cut, find_cut
from shardsolve._lu_dealt import IN_L, INDICES, MATRIX, call_of, inverse_of, verdict_words
from shardsolve._natural import LARGEST_TILE, solve_lower
from shardsolve._products import all_rows, axes_across, rows_in
from shardsolve._records import NOT_KNOWN, Info, Status, raise_if_failed
from shardsolve._words import accepts


@accepts(_words.DET)
def lu(
    a: jax.Array,
    permute_l: bool = False,
    *,
    p_indices: bool = False,
    mesh: Mesh | None = None,
    axis_name: AxisName | None = None,
    tile: int | None = None,
    full_output: bool = False,
) -> Arrays | tuple[jax.Array | Info, ...]:
    """The LU factors with row exchanges, a = p l u, in natural order: `jax.scipy.linalg.lu`.

    p permutes rows, l is lower triangular with ones on its diagonal, u upper triangular. Of each
    column the largest entry is divided by, by |re| + |im|, the first of equals, as in LAPACK. To
    solve, take `lu_factor`, which moves less, and certifies.

    A matrix that is singular has factors: u has a zero on its diagonal, and nothing is raised.

    One device has XLA's routine do it. So does each of several, with all of `a`, if that costs less
    than to share the work: if `a` has as many times more rows than columns, or columns than rows,
    as there are devices. Else the work is that of a square matrix of the larger size, and each
    device has up to six times its rows of that, `a` and the results among them.

    Args:
        a: (m, n), float32, float64, complex64 or complex128, its rows cut or not.
        permute_l: Whether to return p l in place of both.
        p_indices: Whether p is to be indices: a = l[p] @ u. As in SciPy it is of no weight with
            permute_l.
        mesh: As in `solve`.
        axis_name: As in `solve`; inside of `shard_map` a is whole on each device without it.
        tile: Columns of a block at most; by default 384. Of no weight where XLA's routine is taken.
        full_output: Whether to return an Info besides, last, and never raise. `backward_error` is
            ||a - p l u|| / ||a||, in the infinity norm, estimated by four vectors of random signs
            and sizes: a small multiple of eps / 2, unless entries have grown. `status` is SINGULAR
            for a zero on u's diagonal, `pivot` says which. There is no rcond: -1.

    Returns:
        (p, l, u), or (p l, u) with permute_l: p (m, m) of a's real dtype, or int32 (m,); l (m, k),
        u (k, n), where k is the smaller of m and n. Rows of p, l and u are cut as those of `a`; p
        as indices is whole on each device, and so is u where m > n. Under `jit` with Auto axes, if
        the rows of `a` are not cut, XLA decides. Inside of `jit`, if there is no answer, l and u
        are NaN, and indices are -1.

        Derivatives are those of `jax.scipy`, of any order: not finite if u has a zero among the
        first min(m, n) of its diagonal. They solve triangular systems by `jax.lax.linalg`, for
        which all of l and u may come to every device.

    Raises:
        LinAlgError: Outside of `jit`, if a holds NaN or infinities, or u does not fit the dtype, or
            all entries are so small that they lack digits.
        SolverError: As in `solve`.
        TypeError, ValueError: On arguments that do not fit.
    """
    a = as_array(a, "a")
    if a.ndim != 2:
        raise ValueError(
            f"a has shape {a.shape}; pass a matrix, (m, n); several go through jax.vmap"
        )
    form = IN_L if permute_l else INDICES if p_indices else MATRIX
    cut = find_cut(a, mesh, axis_name, square=False)
    *factors, info = _lu(a, cut, check_tile(tile) or LARGEST_TILE, form, bool(full_output))
    if full_output:
        return *factors, info
    _raise_unless_singular(info.verdict)
    return tuple(factors)


def _raise_unless_singular(verdict: jax.Array) -> None:
    known = not isinstance(verdict, jax.core.Tracer)
    if known and int(jax.device_get(verdict).ravel()[0]) != Status.SINGULAR:
        raise_if_failed(verdict)


# What follows is traced.


@functools.partial(compiled, static_argnums=(1, 2, 3, 4))
def _lu(
    a: jax.Array, cut: Cut | None, tile: int, form: str, certify: bool
) -> tuple[jax.Array | Info, ...]:
    real = jnp.finfo(a.dtype).dtype
    if 0 in a.shape:
        lower, upper, p = _nothing(a, cut, form)
        verdict, error = verdict_words(Status.OK), jnp.zeros(1, real)
    else:
        cut = cut and cut.by_rows
        is_tall = rows_in(a, cut) > a.shape[1]
        run = _factors_of(cut, is_tall, form, tile=tile, certify=certify)
        lower, upper, _, verdict, error, *rest = run(a if cut is None else cut.place(a))
        p = tuple(rest)
    info = Info(verdict, error[0], jnp.full((), NOT_KNOWN, real))
    return *p, lower, upper, info


def _nothing(a: jax.Array, cut: Cut | None, form: str) -> tuple[jax.Array, jax.Array, Arrays]:
    """L, U and p of a matrix without entries."""
    rows, n = a.shape
    axes = axes_across(cut)
    lower, upper = jnp.zeros((rows, 0), a.dtype), jnp.zeros((0, n), a.dtype)
    if form == IN_L:
        return lower, upper, ()
    numbers = jnp.arange(rows_in(a, cut), dtype=jnp.int32)
    if form == INDICES:
        return lower, upper, (numbers,)
    first = lax.axis_index(axes) * rows if axes else 0
    own = jnp.arange(rows, dtype=jnp.int32)[:, None] + first == numbers[None]
    return lower, upper, (own.astype(jnp.finfo(a.dtype).dtype),)


@functools.cache
def _factors_of(
    cut: Cut | None, tall: bool, form: str, **options: int
) -> Callable[[jax.Array], Arrays]:
    """A -> L or P L, U, the rows of A in the order of L U, verdict, error, and p if wanted."""
    call = one_by_one(call_of(tall, form), cut, **options)
    axes = axes_across(cut)

    @jax.custom_jvp
    def factors(a: jax.Array) -> Arrays:
        return call(a)

    def placed(change: jax.Array, like: jax.Array) -> jax.Array:
        """Of all rows those that are a device's, or all of them where `like` has them."""
        if axes and len(change) > len(like):
            first = lax.axis_index(axes) * len(like)
            return lax.dynamic_slice_in_dim(change, first, len(like))
        return change if cut is None else cut.place_like(change, like)

    @factors.defjvp
    def rule(primals, tangents):
        # de Hoog, Anderssen, Lukas, Math. Comp. 80 (2011) 1585: of square L U the
        # change is L M U with M = L^-1 P^T dA U^-1, of which L takes what is below the diagonal.
        own_lower, own_upper, order, *rest = factors(*primals)
        lower = all_rows(own_lower, cut)
        upper = own_upper if tall else all_rows(own_upper, cut)
        lower = lower[order] if form == IN_L else lower
        change = all_rows(tangents[0], cut)[order]
        k = len(upper)

        def behind_l(x: jax.Array) -> jax.Array:
            return solve_lower(lower[:k], x)

        def before_u(x: jax.Array) -> jax.Array:
            return solve_lower(upper[:, :k].T, x.T).T

        middle = before_u(behind_l(change[:k, :k]))
        of_lower = jnp.matmul(lower[:k], jnp.tril(middle, -1), precision=EXACT)
        of_upper = jnp.matmul(jnp.triu(middle), upper[:, :k], precision=EXACT)
        if len(lower) > k:
            below = change[k:] - jnp.matmul(lower[k:], of_upper, precision=EXACT)
            of_lower = jnp.concatenate([of_lower, before_u(below)])
        if upper.shape[1] > k:
            right = change[:, k:] - jnp.matmul(of_lower, upper[:, k:], precision=EXACT)
            of_upper = jnp.concatenate([of_upper, behind_l(right)], axis=1)
        if form == IN_L:
            of_lower = of_lower[inverse_of(order)]
        changes = placed(of_lower, own_lower), placed(of_upper, own_upper)
        found = own_lower, own_upper, order, *rest
        return found, (*changes, *map(_no_change, (order, *rest)))

    return factors


def _no_change(a: jax.Array) -> jax.Array | np.ndarray:
    if jnp.issubdtype(a.dtype, jnp.floating):
        return jnp.zeros_like(a)
    return np.zeros(a.shape, jax.dtypes.float0)
