"""Eigenvalues and eigenvectors of Hermitian matrices: the public functions."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh

from shardsolve import _calls, _words
from shardsolve._calls import Compiled, compiled
from shardsolve._check import (
    check_indices,
    check_interval,
    check_matrix,
    check_second_matrix,
    refuse_shared,
)
from shardsolve._cholesky import Factor, factor_traced
from shardsolve._cut import Cut, beside, find_cut, inside_shard_map
from shardsolve._eigh_change import Change
from shardsolve._records import NOT_KNOWN, OF_B, EighInfo, raise_if_failed
from shardsolve._words import accepts

AxisName = str | Sequence[str]
Arrays = tuple[jax.Array, ...]
Pairs = tuple[jax.Array, jax.Array, EighInfo]


@accepts(_words.EIGH)
def eigh(
    a: jax.Array,
    b: jax.Array | None = None,
    *,
    mesh: Mesh | None = None,
    axis_name: AxisName | None = None,
    eigvals_only: bool = False,
    subset_by_index: tuple[int, int] | None = None,
    subset_by_value: tuple[float, float] | None = None,
    overwrite_a: bool = False,
    full_output: bool = False,
) -> jax.Array | tuple[jax.Array | EighInfo, ...]:
    """Eigenvalues and eigenvectors of a Hermitian matrix: a v = v diag(w), v^H v = I.

    Or with b: a v = b v diag(w), v^H b v = I. Of each eigenvector the largest component by its
    absolute value, of several the first, is real and positive. Vectors of equal or nearly equal
    eigenvalues are one of many bases, which may be another on another number of devices.
    Derivatives that w and v do not tell there are NaN; `matrix_function` has those of f(a).

    Args:
        a: (n, n), float32, float64, complex64 or complex128; both triangles are needed. Where its
            rows or columns are cut over devices, as in `solve`.
        b: (n, n), of the same dtype, Hermitian positive definite; kept. It is factored.
        mesh: As in `solve`.
        axis_name: As in `solve`.
        eigvals_only: Return no vectors, which takes less time and memory.
        subset_by_index: (first, last), both included and counted from 0: only these eigenvalues of
            all n, in ascending order, as in SciPy.
        subset_by_value: (low, high): only eigenvalues low < w <= high. Not where JAX traces, as in
            `jit`, `vmap` or `grad`, since it is not known then how many there are. Not both.
        overwrite_a: As in `solve`.
        full_output: Also return what is known of the answer.

    Returns:
        w, (k,), real, ascending, whole on all devices, and v, (n, k), of a's dtype, the vector of
        w[j] in column j: its rows cut as those of `a`. With eigvals_only w alone. With full_output
        an EighInfo comes last. k is n, or the number of eigenvalues in the subset.

    Raises:
        LinAlgError: Outside of `jit` and without full_output, if there is no answer; it says why.
            Otherwise w and v are then NaN, or empty with subset_by_value.
        SolverError: Likewise, for lack of memory or a device that fails.
        TypeError, ValueError: On arguments that do not fit.
    """
    if overwrite_a and b is not None:
        refuse_shared(a, b)
    a = check_matrix(a, inside_shard_map())
    b = None if b is None else check_second_matrix(a.shape, a.dtype, b)
    cut = find_cut(a, mesh, axis_name, b)
    n = a.shape[1]
    if subset_by_value is None:
        run = _eigvalsh if eigvals_only else _eigh
        found = run(overwrite_a, a, b, cut, Wanted(*check_indices(subset_by_index, n)))
    else:
        interval = check_interval(subset_by_value, subset_by_index, a, b)
        found = _in_interval(overwrite_a, a, b, interval, cut, not eigvals_only)
    *found, info = found[: 2 if eigvals_only else 3]
    info = jax.lax.stop_gradient(info)  # numbers, also where JAX differentiates outside of `jit`
    if full_output:
        return *found, info
    if not isinstance(info.verdict, jax.core.Tracer):
        raise_if_failed(info.verdict, OF_B if jax.device_get(info.of_b) else "")
        if info.warning:
            warnings.warn(f"eigenvalues: {info.warning}", stacklevel=3)
    return found[0] if eigvals_only else tuple(found)


@accepts(_words.EIGH)
def eigvalsh(
    a: jax.Array,
    b: jax.Array | None = None,
    *,
    mesh: Mesh | None = None,
    axis_name: AxisName | None = None,
    subset_by_index: tuple[int, int] | None = None,
    subset_by_value: tuple[float, float] | None = None,
    overwrite_a: bool = False,
    full_output: bool = False,
) -> jax.Array | tuple[jax.Array | EighInfo, ...]:
    """Eigenvalues of a Hermitian matrix: `eigh` with eigvals_only.

    Arguments and errors as in `eigh`; returns w, or with full_output (w, EighInfo).
    """
    return eigh(
        a,
        b,
        mesh=mesh,
        axis_name=axis_name,
        eigvals_only=True,
        subset_by_index=subset_by_index,
        subset_by_value=subset_by_value,
        overwrite_a=overwrite_a,
        full_output=full_output,
    )


class Wanted(NamedTuple):
    """Eigenvalues first <= i < last of all n."""

    first: int
    last: int

    def of(self, a: jax.Array, axis: int = 0) -> jax.Array:
        """These of what is there for all n."""
        return lax.slice_in_dim(a, self.first, self.last, axis=axis)


# What follows is traced. Every public function runs one compiled program.


def _call(
    a: jax.Array,
    factor: Factor | None,
    cut: Cut | None,
    vectors: bool,
    wanted: Wanted,
    interval: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array, jax.Array, EighInfo]:
    """The library's: vectors and values in arrays for all n, how many there are, info."""
    options = {"vectors": vectors, "by_value": interval is not None, **wanted._asdict()}
    if interval is None:
        interval = jnp.zeros(2, jnp.finfo(a.dtype).dtype)
    a = a if cut is None or cut.columns else cut.place(a)
    if factor is None:
        v, w, count, figures, verdict = _calls.eigh(cut, **options)(a, interval)
        of_b = jnp.zeros((), bool)
    else:
        of_factor = factor._slab, factor._diagonal, factor._record
        call = _calls.generalised_eigh(cut and cut.by_rows, **options)
        v, w, count, figures, verdict = call(*of_factor, a, interval)
        of_b = factor._record[0] != 0
    if not vectors:
        figures = jnp.full_like(figures, NOT_KNOWN)
    return v, w, count, EighInfo(verdict, figures[0], figures[1], of_b)


def _first(count: int, w: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array]:
    return lax.slice_in_dim(w, 0, count), lax.slice_in_dim(v, 0, count, axis=1)


@functools.cache
def _eigh_of(
    cut: Cut | None, wanted: Wanted, strict: bool = False
) -> Callable[[jax.Array, Factor | None], Pairs]:
    """Some pairs; `strict`: see Change."""

    @jax.custom_jvp
    def eigh(a: jax.Array, factor: Factor | None) -> Pairs:
        v, w, _, info = _call(a, factor, cut, True, wanted)
        w, v = _first(wanted.last - wanted.first, w, v)
        return w, v, info

    @eigh.defjvp
    def rule(primals, tangents):
        # A vector's change is made of all the others.
        w, v, info = _eigh_of(cut, Wanted(0, primals[0].shape[1]), strict=True)(*primals)
        of_w, of_v = Change(tangents, w, v, cut and cut.by_rows).of_pairs(
            strict, lax.stop_gradient(primals[1])
        )
        return (wanted.of(w), wanted.of(v, axis=1), info), (
            wanted.of(of_w),
            wanted.of(of_v, axis=1),
            _no_change(info),
        )

    return eigh


@functools.cache
def _eigvalsh_of(
    cut: Cut | None, wanted: Wanted
) -> Callable[[jax.Array, Factor | None], tuple[jax.Array, EighInfo]]:
    @jax.custom_jvp
    def eigvalsh(a: jax.Array, factor: Factor | None) -> tuple[jax.Array, EighInfo]:
        _, w, _, info = _call(a, factor, cut, False, wanted)
        return lax.slice_in_dim(w, 0, wanted.last - wanted.first), info

    @eigvalsh.defjvp
    def rule(primals, tangents):
        w, v, info = _eigh_of(cut, wanted, strict=True)(*primals)
        not_known = (jnp.full_like(w, NOT_KNOWN, shape=()) for _ in range(2))
        info = EighInfo(info.verdict, *not_known, info.of_b)
        change = Change(tangents, w, v, cut and cut.by_rows)
        return (w, info), (change.of_values(), _no_change(info))

    return eigvalsh


def _no_change(info: EighInfo) -> EighInfo:
    no_verdict: Any = np.zeros(info.verdict.shape, jax.dtypes.float0)
    no_flag: Any = np.zeros(info.of_b.shape, jax.dtypes.float0)
    zero, other = jnp.zeros_like(info.residual), jnp.zeros_like(info.orthogonality)
    return EighInfo(no_verdict, zero, other, no_flag)


def _factor_of(b: jax.Array | None, cut: Cut | None) -> Factor | None:
    return None if b is None else factor_traced(b, cut, 0)


def _eigh_traced(a: jax.Array, b: jax.Array | None, cut: Cut | None, wanted: Wanted) -> Pairs:
    return _eigh_of(cut, wanted)(a, _factor_of(b, cut))


def _eigvalsh_traced(
    a: jax.Array, b: jax.Array | None, cut: Cut | None, wanted: Wanted
) -> tuple[jax.Array, EighInfo]:
    return _eigvalsh_of(cut, wanted)(a, _factor_of(b, cut))


def _eigh_keeping(
    a: jax.Array, b: jax.Array | None, cut: Cut | None, wanted: Wanted
) -> tuple[object, ...]:
    """The same with the library's vectors as a result: only then may they take the memory of a."""
    v, w, _, info = _call(a, _factor_of(b, cut), cut, True, wanted)
    return *_first(wanted.last - wanted.first, w, v), info, v


def _eigvalsh_keeping(
    a: jax.Array, b: jax.Array | None, cut: Cut | None, wanted: Wanted
) -> tuple[object, ...]:
    v, w, _, info = _call(a, _factor_of(b, cut), cut, False, wanted)
    return lax.slice_in_dim(w, 0, wanted.last - wanted.first), info, v


_eigh = Compiled(_eigh_traced, 2, 3, overwriting=_eigh_keeping)
_eigvalsh = Compiled(_eigvalsh_traced, 2, 3, overwriting=_eigvalsh_keeping)


def _interval_traced(
    a: jax.Array, b: jax.Array | None, interval: jax.Array, cut: Cut | None, vectors: bool
) -> tuple[jax.Array, jax.Array, jax.Array, EighInfo]:
    return _call(a, _factor_of(b, cut), cut, vectors, Wanted(0, -1), interval)


_interval = Compiled(_interval_traced, 3, 4)


@functools.partial(compiled, static_argnums=0)
def _cut_off(count: int, w: jax.Array, v: jax.Array) -> Arrays:
    return _first(count, w, v)


def _in_interval(
    overwrite_a: bool,
    a: jax.Array,
    b: jax.Array | None,
    interval: np.ndarray,
    cut: Cut | None,
    vectors: bool,
) -> tuple[object, ...]:
    """Not traced: waits until it is known how many there are."""
    there = beside((a,), cut, interval, interval.dtype)
    v, w, count, info = _interval(overwrite_a, a, b, there, cut, vectors)
    w, v = _cut_off(int(jax.device_get(count)[0]), w, v)
    return (w, v, info) if vectors else (w, info)
