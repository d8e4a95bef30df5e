"""Linear solvers for NetKet: one argument of a driver, the rest of the program stays.

    import shardsolve.netket

    driver = netket.driver.VMC_SR(..., linear_solver=shardsolve.netket.cholesky())

For `VMC_SR`, `SR` and `TDVP`, in the place of `netket.optimizer.solver`'s. The matrix is solved
where it lies, its rows over the devices of NetKet's mesh, any number of rows.

A solver is called as solver(A, b, *, x0=None) with A an array or an operator that has `to_dense()`,
as every geometric tensor of NetKet, and b an array or a pytree; it returns x, like b, and a
dictionary that drivers log as "info". Where there is no answer x is NaN, never an exception, so
that `netket.optimizer.solver.nan_fallback` works. Solvers are hashable; equal ones are the same
program. Each may be called at once as well, `cholesky(A, b)`.

NetKet is not needed to import this; pip install 'shardsolve[netket]' brings it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree

from shardsolve import _eigh, _shifted
from shardsolve._calls import compiled
from shardsolve._check import as_array, check_matrix
from shardsolve._cut import Cut, find_cut
from shardsolve._products import everywhere, times

__all__ = ["Cholesky", "PinvSmooth", "cholesky", "pinv_smooth", "shift_ladder"]

Found = tuple[Any, dict[str, jax.Array]]


@dataclass(frozen=True)
class Cholesky:
    """Solves by Cholesky's method; what `cholesky` and `shift_ladder` return.

    Attributes:
        start: See `shift_ladder`.
        steps: Likewise; 0: no ladder.
        estimate_rcond: See `cholesky`.
    """

    start: float | None = None
    steps: int = 0
    estimate_rcond: bool = False

    def __call__(self, A: Any, b: Any, *, x0: Any = None) -> Found:
        """Solves A x = b. `x0` is what NetKet passes to iterative solvers."""
        return _solved(_by_factor, self, A, b)


@dataclass(frozen=True)
class PinvSmooth:
    """Solves by a smoothed pseudo-inverse; what `pinv_smooth` returns.

    Attributes:
        rtol: See `pinv_smooth`.
        rtol_smooth: Likewise.
    """

    rtol: float = 1e-14
    rtol_smooth: float = 1e-14

    def __call__(self, A: Any, b: Any, *, x0: Any = None) -> Found:
        """Solves A x = b. `x0` is what NetKet passes to iterative solvers."""
        return _solved(_by_eigenvalues, self, A, b)


def cholesky(
    A: Any = None, b: Any = None, *, estimate_rcond: bool = False, x0: Any = None
) -> Cholesky | Found:
    """A solver for a Hermitian positive definite matrix: a shift must be on its diagonal.

    Args:
        A: Leave it out to get a solver; with it the system is solved at once.
        b: Likewise.
        estimate_rcond: Also estimate the condition number, which takes as long as five solves.
        x0: Not needed; accepted.

    Returns:
        A solver, or (x, info): info has "status" (0, or the number of a `Status`; NEARLY_SINGULAR
        where a pivot is rounding, and with it digits of x), "pivot" (the row whose pivot was not
        positive, else -1), "backward_error", and "rcond" if it was asked for.
    """
    return _made_or_called(Cholesky(estimate_rcond=bool(estimate_rcond)), A, b)


def shift_ladder(
    A: Any = None,
    b: Any = None,
    *,
    start: float | None = None,
    steps: int = _shifted.LADDER_STEPS,
    estimate_rcond: bool = False,
    x0: Any = None,
) -> Cholesky | Found:
    """`cholesky`, with more on the diagonal where a pivot is not positive, or rounding.

    First the system as it is, then with s = start times the largest diagonal entry added to the
    diagonal, with 10 s, 100 s, ... All of it inside of `jit`, without asking the host.

    Args:
        A: As in `cholesky`.
        b: As in `cholesky`.
        start: Positive; by default sqrt(n) eps for n rows.
        steps: How often at most.
        estimate_rcond: As in `cholesky`.
        x0: Not needed; accepted.

    Returns:
        As `cholesky`; info has also "shift", what was added, 0 if nothing was needed.
    """
    if start is not None and not (isinstance(start, float | int | np.number) and 0 < start < 1):
        raise ValueError(
            f"start is {start!r}; pass a number between 0 and 1, relative to the largest diagonal "
            "entry, or leave it out"
        )
    if isinstance(steps, bool) or not isinstance(steps, int | np.integer) or steps < 1:
        raise ValueError(f"steps is {steps!r}; pass a positive whole number")
    solver = Cholesky(None if start is None else float(start), int(steps), bool(estimate_rcond))
    return _made_or_called(solver, A, b)


def pinv_smooth(
    A: Any = None,
    b: Any = None,
    *,
    rtol: float = 1e-14,
    rtol_smooth: float = 1e-14,
    x0: Any = None,
) -> PinvSmooth | Found:
    """A solver by eigenvalues w, which leaves small ones out, as NetKet's of the same name.

    For 1 / w it takes 1 / (w (1 + (rtol_smooth w_max / w)^6)), and 0 where |w| <= rtol w_max
    (Medvidovic and Sels, 2023, https://doi.org/10.1103/PRXQuantum.4.040302).

    Args:
        A: As in `cholesky`; Hermitian, no shift is needed.
        b: As in `cholesky`.
        rtol: See above; not negative.
        rtol_smooth: See above; not negative.
        x0: Not needed; accepted.

    Returns:
        A solver, or (x, info): info has "status" as in `cholesky`, "rank" (how many eigenvalues
        were kept), and "residual" and "orthogonality" of the eigenpairs.
    """
    for name, value in (("rtol", rtol), ("rtol_smooth", rtol_smooth)):
        if not isinstance(value, float | int | np.number) or not 0 <= value < 1:
            raise ValueError(f"{name} is {value!r}; pass a number from 0 to 1")
    return _made_or_called(PinvSmooth(float(rtol), float(rtol_smooth)), A, b)


def _made_or_called(solver: Any, A: Any, b: Any) -> Any:
    if A is None and b is None:
        return solver
    if A is None or b is None:
        raise TypeError("pass A and b to solve a system, or neither to get a solver")
    return solver(A, b)


def _solved(work: Callable[..., Found], solver: Cholesky | PinvSmooth, A: Any, b: Any) -> Found:
    """X like b, and what is known of it, of A and b in the forms that NetKet has."""
    if not isinstance(A, jax.Array | np.ndarray):
        if not hasattr(A, "to_dense"):
            raise TypeError(
                f"A is a {type(A).__name__}; pass an array, or an operator that has to_dense()"
            )
        A = A.to_dense()
    flat, unravel = ravel_pytree(b)
    dtype = jnp.result_type(A, flat)
    a = check_matrix(jnp.asarray(A, dtype), inside=False)
    right = as_array(flat.astype(dtype), "b")
    if right.shape != a.shape[:1]:
        raise ValueError(
            f"A has shape {a.shape} and b has {right.size} numbers: pass as many as A has rows"
        )
    # Under jit NetKet's own mesh is set, and is the only one that can be known.
    around = jax.sharding.get_abstract_mesh()
    traced = isinstance(a, jax.core.Tracer)
    cut = find_cut(a, around if traced and not around.empty else None, None, right)
    x, info = work(a, right, cut and cut.by_rows, solver)
    return unravel(x), info


# What follows is traced.


@functools.partial(compiled, static_argnames=("cut", "solver"))
def _by_factor(
    a: jax.Array, right: jax.Array, cut: Cut | None, solver: Cholesky
) -> tuple[jax.Array, dict[str, jax.Array]]:
    if cut is not None:
        a, right = cut.place(a), cut.place(right)
    n, real = len(a), jnp.finfo(a.dtype)
    matrix = _shifted.shifted(a, cut, n)
    start = float(np.sqrt(n)) * float(real.eps) if solver.start is None else solver.start
    numbers = jnp.arange(n)
    diagonal = jnp.where(numbers[:, None] == numbers[None], a.real, 0)
    first = (start * jnp.max(diagonal)).astype(real.dtype)
    none = jnp.zeros((), real.dtype)
    x, shift, info = _shifted.solve(
        matrix, right, none, first, cut, solver.steps, solver.estimate_rcond
    )
    known = {
        "status": info.verdict[0],
        "pivot": info.pivot,
        "backward_error": info.backward_error,
    }
    if solver.steps:
        known["shift"] = shift
    if solver.estimate_rcond:
        known["rcond"] = info.rcond
    return everywhere(x, cut), known


@functools.partial(compiled, static_argnames=("cut", "solver"))
def _by_eigenvalues(
    a: jax.Array, right: jax.Array, cut: Cut | None, solver: PinvSmooth
) -> tuple[jax.Array, dict[str, jax.Array]]:
    if cut is not None:
        a, right = cut.place(a), cut.place(right)
    w, v, info = _eigh._eigh_of(cut, _eigh.Wanted(0, len(a)))(a, None)
    size = jnp.abs(w / w[-1])
    kept = size > solver.rtol
    smooth = 1 / (1 + (solver.rtol_smooth / size) ** 6)
    inverse = jnp.where(kept, smooth / w, 0)
    inverse = jnp.where(jnp.isnan(w), w, inverse)
    z = inverse * times(jnp.conj(v.T), right, cut)
    x = jnp.matmul(v, z, precision=lax.Precision.HIGHEST)
    known = {
        "status": info.verdict[0],
        "rank": jnp.sum(kept, dtype=jnp.int32),
        "residual": info.residual,
        "orthogonality": info.orthogonality,
    }
    return everywhere(x, cut), known
