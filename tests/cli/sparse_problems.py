"""Sparse matrices and files of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp
from problems import normal, save


def laplacian(n: int, dtype: str = "float64") -> sp.csr_matrix:
    """The second difference of n points: symmetric positive definite."""
    return sp.diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(n, n), dtype=dtype, format="csr")


def free_line(n: int) -> sp.csr_matrix:
    """Likewise with free ends: constants are in the null space."""
    a = laplacian(n).tolil()
    a[0, 0] = a[n - 1, n - 1] = 1.0
    return sp.csr_matrix(a)


def hermitian(n: int, dtype: str = "float64") -> sp.csr_matrix:
    """Positive definite, complex where the dtype is."""
    a = laplacian(n, dtype)
    if np.dtype(dtype).kind == "c":
        a = a + 0.4j * neighbours(n) + 0.2 * sp.identity(n)
    return sp.csr_matrix(a, dtype=dtype)


def convection(n: int, speed: float = 0.5) -> sp.csr_matrix:
    """Not symmetric."""
    return sp.csr_matrix(laplacian(n) + speed * neighbours(n))


def neighbours(n: int) -> sp.csr_matrix:
    """Skew: the difference of the points beside each one."""
    return sp.diags([-1.0, 1.0], [-1, 1], shape=(n, n), format="csr")


def save_matrix(path: Path, a: sp.spmatrix, *, compressed: bool = True) -> Path:
    sp.save_npz(path, a, compressed=compressed)
    return path


def save_sparse_system(
    directory: Path, a: sp.spmatrix | None = None, dtype: str = "float64"
) -> None:
    """A.npz and b.npy, of 60 rows if no matrix is given."""
    a = hermitian(60, dtype) if a is None else a
    save_matrix(directory / "A.npz", a)
    save(directory / "b.npy", normal(np.random.default_rng(0), (a.shape[0],), str(a.dtype)))


def residual(a: sp.spmatrix, x: np.ndarray, b: np.ndarray) -> float:
    """||b - A x|| / ||b||."""
    wide = np.result_type(a.dtype, np.float64)
    b = b.astype(wide).ravel()
    return float(np.linalg.norm(b - a.astype(wide) @ x.astype(wide).ravel()) / np.linalg.norm(b))
