"""Preconditioners that a Krylov solve can be given by name or made of a matrix."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shardsolve._check import as_array
from shardsolve._krylov_arguments import (
    MADE,
    is_sparse,
    linear,
    require_fit,
    require_known,
    require_square,
)
from shardsolve._krylov_linear import Identity, Jacobi, Linear, Sparse
from shardsolve._krylov_multigrid import Chebyshev, Level, Multigrid
from shardsolve._krylov_of_host import in_own_precision
from shardsolve._sparse import CSR


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
def chebyshev(a: Any, low: float, high: float, degree: int) -> Chebyshev:
    """The preconditioner p(A): `degree` steps of the Chebyshev iteration, degree - 1 products.

    Args:
        a: A CSR or SciPy sparse matrix.
        low: Of the interval of eigenvalues, which are positive.
        high: No eigenvalue may be far above.
        degree: At least 1.
    """
    require_known(low=low, high=high, degree=degree)
    if not (0 < low < high < math.inf) or degree < 1:
        raise ValueError(
            f"chebyshev from {low} to {high} of degree {degree} given; 0 < low < high and a degree "
            "of at least 1 are accepted"
        )
    matrix = CSR.of(a)
    return Chebyshev(Sparse(matrix.data, matrix._pattern), float(low), float(high), int(degree))


@in_own_precision
def block_jacobi(a: Any, blocks: Sequence[int]) -> Sparse:
    """The preconditioner whose blocks are the inverses of diagonal blocks of A.

    They belong to the problem and not to devices, so that it is the same on any number of them. A
    block of k rows is kept as k^2 numbers, and computed anew where the values of A are traced.

    Args:
        a: A CSR or SciPy sparse matrix, n x n.
        blocks: Where blocks begin, and n: whole numbers from 0 on that rise. A singular block is
            found by the solve: nonfinite_preconditioner.
    """
    matrix = CSR.of(a)
    n = matrix.shape[0]
    require_square(matrix)
    require_known(blocks=blocks)
    bounds = np.asarray(blocks)
    rising = bounds.ndim == 1 and len(bounds) >= 2 and bounds.dtype.kind in "iu"
    if not rising or bounds[0] != 0 or bounds[-1] != n or np.any(np.diff(bounds) <= 0):
        raise ValueError(
            f"blocks is {blocks!r}; pass whole numbers that begin with 0, rise, and end with {n}"
        )
    rows, columns = matrix._pattern.rows, matrix.indices
    values, places = [], []
    for begin, end in itertools.pairwise(bounds):
        inside = np.flatnonzero(
            (rows >= begin) & (rows < end) & (columns >= begin) & (columns < end)
        )
        block = jnp.zeros((end - begin, end - begin), matrix.dtype)
        block = block.at[rows[inside] - begin, columns[inside] - begin].set(matrix.data[inside])
        values.append(jnp.linalg.inv(block).ravel())
        places.append(np.indices(block.shape).reshape(2, -1) + begin)
    rows, columns = np.concatenate(places, axis=1)
    pointers = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))])
    inverse = CSR(jnp.concatenate(values), columns, pointers, (n, n))
    return Sparse(inverse.data, inverse._pattern)


def from_pyamg(hierarchy: Any, *, degree: int = 3, share: float = 0.25) -> Multigrid:
    """The V-cycle of a PyAMG hierarchy as a preconditioner, by products with CSR matrices.

    Symmetric if the hierarchy is, so one for cg; differentiable in what it is applied to. Smoothing
    is by the Chebyshev iteration with D^-1 A: no order of rows, so any device does it alike.

    Args:
        hierarchy: What pyamg.smoothed_aggregation_solver or another of PyAMG's returned.
        degree: Of the smoother, before and after: degree - 1 products each.
        share: Of the largest eigenvalue of D^-1 A, from where on the smoother works.

    Example:
        ml = pyamg.smoothed_aggregation_solver(a, B=modes)
        x = krylov.solve(a, b, preconditioner=krylov.from_pyamg(ml))
    """
    if not hasattr(hierarchy, "levels") or not len(hierarchy.levels):
        raise TypeError(
            f"the hierarchy is a {type(hierarchy).__name__}; pass what a solver of PyAMG returned, "
            "for example pyamg.smoothed_aggregation_solver(A)"
        )
    require_known(degree=degree, share=share)
    if degree < 1 or not 0 < share < 1:
        raise ValueError(f"degree {degree} and share {share} given; at least 1 and in (0, 1)")

    def sparse(a: Any) -> Sparse:
        matrix = CSR.of(a)
        return Sparse(matrix.data, matrix._pattern)

    levels, bounds = [], []
    with jax.enable_x64(True):
        for level in hierarchy.levels[:-1]:
            diagonal = level.A.diagonal()
            levels.append(
                Level(sparse(level.A), sparse(level.P), sparse(level.R), jnp.asarray(1 / diagonal))
            )
            high = 1.1 * _largest_eigenvalue(level.A, diagonal)
            bounds.append((share * high, high))
        coarse = sparse(np.linalg.pinv(hierarchy.levels[-1].A.toarray()))
    return Multigrid(levels, coarse, tuple(bounds), int(degree))


def _largest_eigenvalue(a: Any, diagonal: np.ndarray) -> float:
    """Of D^-1 A, by 30 steps of the power method."""
    x = np.random.default_rng(0).standard_normal(a.shape[0]).astype(a.dtype)
    value = 1.0
    for _ in range(30):
        x = (a @ x) / diagonal
        value = float(np.linalg.norm(x))
        x /= value
    return value


def preconditioner_of(m: Any, a: Any, b_like: Any, b: jax.Array, unravel: Callable) -> Linear:
    """What the user calls a preconditioner, likewise."""
    if m is None:
        return Identity()
    if isinstance(m, str):
        if m != "jacobi":
            raise ValueError(
                f"preconditioner is {m!r}; by name there is 'jacobi' alone: pass what jacobi or "
                "chebyshev returned, a function, or a matrix"
            )
        if not (isinstance(a, CSR) or is_sparse(a)):
            raise TypeError(
                f"preconditioner='jacobi' needs the diagonal of A, and A is a {type(a).__name__}: "
                "pass preconditioner=shardsolve.krylov.jacobi(diagonal), or A as a CSR"
            )
        m = jacobi(a)
    if isinstance(m, Jacobi):
        require_fit(
            "the diagonal for jacobi", (len(m.diagonal),) * 2, m.diagonal.dtype, b.reshape(-1), b
        )
    for dtype in {leaf.dtype for leaf in jax.tree.leaves(m) if isinstance(m, MADE)}:
        if dtype != b.dtype:
            raise TypeError(
                f"the preconditioner was made of a matrix of {dtype.name} and b is {b.dtype.name}: "
                f"make it of a.astype('{b.dtype.name}')"
            )
    return linear(m, b_like, b, unravel, "the preconditioner")
