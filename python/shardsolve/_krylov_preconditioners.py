"""Preconditioners that a Krylov solve can be given by name or made of a matrix."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shardsolve._check import as_array
from shardsolve._cut import manual_axes
from shardsolve._krylov_arguments import (
    MADE,
    is_sparse,
    linear,
    require_fit,
    require_known,
    require_square,
)
from shardsolve._krylov_blocks import (
    INCOMPLETE_CHOLESKY,
    Blocks,
    chebyshev_bounds,
    inverse_of,
    largest_eigenvalue,
    plan_of,
)
from shardsolve._krylov_linear import Identity, Jacobi, Linear, Sparse
from shardsolve._krylov_multigrid import Chebyshev, Level, Multigrid
from shardsolve._krylov_of_host import in_own_precision
from shardsolve._sparse import CSR
from shardsolve._sparse_products import Pattern


@in_own_precision
def jacobi(a: Any) -> Jacobi:
    """The preconditioner D^-1.

    Args:
        a: A CSR or SciPy sparse matrix, whose diagonal D is; or D itself, (n,). A zero in it is
            found by the solve: nonfinite_preconditioner.
    """
    if isinstance(a, CSR) or is_sparse(a):
        return Jacobi(CSR.of(a).diagonal())
    diagonal = as_array(a, "the diagonal")
    if diagonal.ndim != 1:
        raise ValueError(f"the diagonal for jacobi has shape {diagonal.shape}; pass (n,), or a CSR")
    return Jacobi(diagonal)


@in_own_precision
def chebyshev(
    a: Any, low: float | None = None, high: float | None = None, degree: int = 6
) -> Chebyshev:
    """The preconditioner p(A): `degree` steps of the Chebyshev iteration, degree - 1 products.

    Args:
        a: A CSR or SciPy sparse matrix.
        low: Of the interval of eigenvalues, which are positive. Without low and high they are those
            that 60 Lanczos steps tell of a Hermitian matrix, whose values have to be known.
        high: No eigenvalue may be far above.
        degree: At least 1.
    """
    require_known(low=low, high=high, degree=degree)
    matrix = CSR.of(a)
    require_square(matrix)
    if low is None and high is None:
        if isinstance(matrix.data, jax.core.Tracer):
            raise TypeError("the values of the matrix are traced: pass low and high")
        values = np.asarray(jax.device_get(matrix.data))
        low, high = chebyshev_bounds(matrix.dtype.name, matrix._pattern, values)
        if low is None or high is None:
            raise ValueError(
                "no bounds of the eigenvalues were found, as products with this matrix leave the "
                f"range of {matrix.dtype.name}: multiply it by a power of two, or pass low and high"
            )
    if low is None or high is None or not (0 < low < high < math.inf) or degree < 1:
        raise ValueError(
            f"chebyshev from {low} to {high} of degree {degree} given; 0 < low < high and a degree "
            "of at least 1 are accepted"
        )
    return Chebyshev(Sparse(matrix.data, matrix._pattern), float(low), float(high), int(degree))


@in_own_precision
def block_jacobi(a: Any, blocks: Sequence[int] | int) -> Blocks:
    """The preconditioner whose blocks are the inverses of diagonal blocks of A.

    Factored by the library, as bands: by Cholesky where a block is Hermitian and positive
    definite, else by LU with pivoting. With bandwidths l and u a row takes 2 l + u numbers.
    Blocks belong to the problem and not to devices, so M is the same on any number of them. Made
    anew where the values of A are traced.

    Args:
        a: A CSR or SciPy sparse matrix, n x n.
        blocks: Where blocks begin, and n: whole numbers from 0 on that rise. Or how many there are
            to be, which are cut where the fewest entries join the rows on both sides. A singular
            block is found by the solve: nonfinite_preconditioner.
    """
    return _blocks("block_jacobi", a, blocks)


@in_own_precision
def incomplete_cholesky(a: Any, blocks: Sequence[int] | int | None = None) -> Blocks:
    """The preconditioner (L D L^H)^-1 with L where the lower triangle of A has entries: IC(0).

    Hermitian and positive definite, so for cg and minres; the upper triangle is not looked at.
    Where a pivot of a block is not positive, that block is factored anew with A + s diag(A), the
    least s of 1e-3, 2e-3, 4e-3, ... that does. Made anew where the values of A are traced.

    Args:
        a: A CSR or SciPy sparse matrix, n x n, all of whose diagonal is there and positive. Where
            its values are traced, one that is not is found by the solve: nonfinite_preconditioner.
        blocks: As for block_jacobi; one of all rows by default. More of them are solved for at the
            same time, and take more iterations.
    """
    return _blocks("incomplete_cholesky", a, blocks)


@in_own_precision
def incomplete_lu(a: Any, blocks: Sequence[int] | int | None = None) -> Blocks:
    """The preconditioner (L U)^-1 with L and U where A has entries: ILU(0).

    For bicgstab and fgmres. Made anew where the values of A are traced.

    Args:
        a: A CSR or SciPy sparse matrix, n x n, all of whose diagonal is there. A pivot of 0 is
            found by the solve: nonfinite_preconditioner.
        blocks: As for incomplete_cholesky.
    """
    return _blocks("incomplete_lu", a, blocks)


def _blocks(kind: str, a: Any, blocks: Sequence[int] | int | None) -> Blocks:
    """What the user calls such a preconditioner: blocks are boundaries, a number, or None: one."""
    matrix = CSR.of(a)
    require_square(matrix)
    require_known(blocks=blocks)
    n = matrix.shape[0]
    cut: Any
    is_number = isinstance(blocks, int | np.integer) and not isinstance(blocks, bool)
    if is_number:
        cut = int(np.asarray(blocks))
    else:
        cut = np.asarray([0, n] if blocks is None else blocks)
        rising = cut.ndim == 1 and len(cut) >= 2 and cut.dtype.kind in "iu"
        if not rising or cut[0] != 0 or cut[-1] != n or np.any(np.diff(cut) <= 0):
            raise ValueError(
                f"blocks is {blocks!r}; pass whole numbers that begin with 0, rise, and end with "
                f"{n}, or how many blocks there are to be"
            )
    values = None
    if not isinstance(matrix.data, jax.core.Tracer):
        if is_number or kind == INCOMPLETE_CHOLESKY:  # their values are looked at
            values = np.asarray(jax.device_get(matrix.data))
    elif is_number:
        raise TypeError(
            f"blocks is {blocks}, and where so many are cut depends on the values of the matrix, "
            "which are traced: pass where they begin, and n"
        )
    plan = plan_of(kind, matrix.dtype.name, matrix._pattern, values, cut)
    return Blocks.of(plan, matrix.data)


def from_pyamg(hierarchy: Any, *, degree: int = 3, smoothed: float = 0.1) -> Multigrid:
    """The V-cycle of a PyAMG hierarchy as a preconditioner, by products with CSR matrices.

    Symmetric if the hierarchy is, so one for cg; differentiable in what it is applied to. Smoothing
    is by the Chebyshev iteration with D^-1 A: no order of rows, so any device does it alike, and
    the bits are those of C++ and of the command for the same matrices.

    Args:
        hierarchy: What pyamg.smoothed_aggregation_solver or another of PyAMG's returned. The
            coarsest level is solved by its inverse; by its pseudoinverse if it is singular to
            rounding.
        degree: Of the smoother, before and after: degree - 1 products each.
        smoothed: Eigenvalues of D^-1 A from this share of the largest one on are damped.

    Example:
        ml = pyamg.smoothed_aggregation_solver(a, B=modes)
        x = krylov.solve(a, b, preconditioner=krylov.from_pyamg(ml))
    """
    if not hasattr(hierarchy, "levels") or not len(hierarchy.levels):
        raise TypeError(
            f"the hierarchy is a {type(hierarchy).__name__}; pass what a solver of PyAMG returned, "
            "for example pyamg.smoothed_aggregation_solver(A)"
        )
    require_known(degree=degree, smoothed=smoothed)
    if degree < 1 or not 0 < smoothed < 1:
        raise ValueError(f"degree {degree} and smoothed {smoothed} given; at least 1 and in (0, 1)")

    def sparse(a: Any) -> Sparse:
        matrix = CSR.of(a)
        return Sparse(matrix.data, matrix._pattern)

    def known(a: Sparse) -> tuple[str, Pattern, np.ndarray]:
        return a.data.dtype.name, a.pattern, np.asarray(jax.device_get(a.data))

    levels, bounds = [], []
    with jax.enable_x64(True):
        for level in hierarchy.levels[:-1]:
            a = sparse(level.A)
            levels.append(
                Level(a, sparse(level.P), sparse(level.R), jnp.asarray(level.A.diagonal()))
            )
            high = largest_eigenvalue(*known(a))
            bounds.append((smoothed * high, high))
        coarsest = hierarchy.levels[-1].A
        inverse = inverse_of(*known(sparse(coarsest)))
        if (
            not np.linalg.norm(inverse) * np.linalg.norm(coarsest.toarray())
            < 0.01 / np.finfo(inverse.dtype).eps
        ):
            inverse = np.linalg.pinv(coarsest.toarray())
        n = len(inverse)
        full = Pattern((n, n), np.arange(n + 1) * n, np.tile(np.arange(n), n))
        coarse = Sparse(jnp.asarray(inverse.reshape(-1)), full)
    return Multigrid(levels, coarse, tuple(bounds), int(degree))


def preconditioner_of(m: Any, a: Any, b_like: Any, b: jax.Array, unravel: Callable) -> Linear:
    """What the user calls a preconditioner, likewise."""
    if m is None:
        return Identity()
    if isinstance(m, str):
        if m != "jacobi":
            raise ValueError(
                f"preconditioner is {m!r}; by name there is 'jacobi' alone: pass what "
                "krylov.block_jacobi, incomplete_lu, ... returned, a function, or a matrix"
            )
        if not (isinstance(a, CSR) or is_sparse(a)):
            raise TypeError(
                f"preconditioner='jacobi' needs the diagonal of A, and A is a {type(a).__name__}: "
                "pass preconditioner=shardsolve.krylov.jacobi(diagonal), or A as a CSR"
            )
        m = jacobi(a)
    if isinstance(m, Jacobi):
        n, whole = len(m.diagonal), b.shape[0]
        if n != whole and not manual_axes():
            raise ValueError(
                f"b has shape ({whole},) and the diagonal for jacobi has shape ({n},); pass one of "
                f"({whole},)"
            )
        require_fit("the diagonal for jacobi", (n, n), m.diagonal.dtype, b.reshape(-1), b)
    for dtype in {leaf.dtype for leaf in jax.tree.leaves(m) if isinstance(m, MADE)}:
        if dtype != b.dtype and dtype.kind in "fc":
            raise TypeError(
                f"the preconditioner was made of a matrix of {dtype.name} and b is {b.dtype.name}: "
                f"make it of a.astype('{b.dtype.name}')"
            )
    return linear(m, b_like, b, unravel, "the preconditioner")
