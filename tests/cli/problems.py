"""Matrices, right-hand sides and the gates that answers have to pass."""

from __future__ import annotations

from pathlib import Path

import numpy as np

DTYPES = ("float32", "float64", "complex64", "complex128")
ORDERS = ("C", "F")


def hermitian(n: int, dtype: str = "float64", order: str = "C", seed: int = 0) -> np.ndarray:
    """A random positive definite matrix with a condition number of about 100."""
    rng = np.random.default_rng(seed)
    a = normal(rng, (n, n), dtype)
    a = a @ a.conj().T / max(n, 1) + 0.05 * np.eye(n)
    a = ((a + a.conj().T) / 2).astype(dtype)
    return np.array(a, order=order)


def normal(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    values = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


def sides(n: int, k: int | None, dtype: str = "float64", order: str = "C") -> np.ndarray:
    """Right-hand sides of shape (n, k), or (n,) if k is None."""
    shape = (n,) if k is None else (n, k)
    return np.array(normal(np.random.default_rng(1), shape, dtype), order=order)


def unit_roundoff(dtype) -> float:
    return float(np.finfo(dtype).eps) / 2


def infinity_norm(a: np.ndarray) -> float:
    return float(np.abs(a).sum(axis=1).max(initial=0.0))


def solves(a: np.ndarray, x: np.ndarray, b: np.ndarray) -> bool:
    """The gate for a solve: its backward error, in the infinity norm and column by column."""
    wide = np.result_type(a.dtype, np.float64)
    a_norm = infinity_norm(a)
    columns = 1 if b.ndim == 1 else b.shape[1]
    for i in range(columns):
        xi, bi = (v.reshape(len(v), columns)[:, i].astype(wide) for v in (x, b))
        residual = np.abs(bi - a.astype(wide) @ xi).max(initial=0.0)
        size = a_norm * np.abs(xi).max(initial=0.0) + np.abs(bi).max(initial=0.0)
        ratio = residual / (size * unit_roundoff(a.dtype)) if size else residual
        assert not np.isnan(ratio)
        assert ratio < 10, f"column {i}: {ratio} u"
    return True


def inverts(a: np.ndarray, x: np.ndarray) -> bool:
    """The gate for an inverse, in the 1-norm; the inverse is Hermitian to the last bit."""
    assert np.array_equal(x, x.conj().T)
    wide = np.result_type(a.dtype, np.float64)
    residual = np.eye(len(a)) - a.astype(wide) @ x.astype(wide)
    ratio = infinity_norm(residual.T) / (infinity_norm(a) * infinity_norm(x))
    ratio /= unit_roundoff(a.dtype)
    assert ratio < 30, f"{ratio} u"
    return True


def indefinite(n: int, dtype: str = "float64", order: str = "C", seed: int = 0) -> np.ndarray:
    """A random Hermitian matrix with eigenvalues of both signs."""
    a = normal(np.random.default_rng(seed), (n, n), dtype)
    return np.array((a + a.conj().T) / 2, order=order)


def one_norm(a: np.ndarray) -> float:
    return float(np.abs(a).sum(axis=0).max(initial=0.0))


def are_eigenpairs(a: np.ndarray, values: np.ndarray, vectors: np.ndarray) -> bool:
    """The gates for eigenpairs, in the 1-norm and not divided by n.

    At most four times what LAPACK leaves, or 10 u; the values are LAPACK's up to 20 u ||A||.
    """
    u = unit_roundoff(a.dtype)
    wide = a.astype(np.result_type(a.dtype, np.float64))  # numpy has no other LAPACK
    w, z = np.linalg.eigh(wide)
    ours, theirs = _gates_of(a, values, vectors), _gates_of(wide, w, z)
    for name, limit in theirs.items():
        assert ours[name] < max(10.0, 4 * limit), f"{name} {ours[name]} u, LAPACK {limit} u"
    nearest = np.abs(w[:, None] - values).min(axis=0, initial=np.inf)
    assert not nearest.max(initial=0.0) > 20 * u * one_norm(a)
    return True


def _gates_of(a: np.ndarray, values: np.ndarray, vectors: np.ndarray) -> dict[str, float]:
    wide = np.result_type(a.dtype, np.float64)
    u, z = unit_roundoff(a.dtype), vectors.astype(wide)
    residual = one_norm(a.astype(wide) @ z - z * values) / (one_norm(a) * u or 1.0)
    return {
        "residual": residual,
        "orthogonality": one_norm(z.conj().T @ z - np.eye(z.shape[1])) / u,
    }


def save(path: Path, array: np.ndarray, version: tuple[int, int] = (1, 0)) -> Path:
    with path.open("wb") as file:
        np.lib.format.write_array(file, array, version=version)
    return path


def save_system(directory: Path, n: int = 50, k: int | None = 3, dtype: str = "float64") -> None:
    """A.npy and b.npy of a small system that can be solved."""
    save(directory / "A.npy", hermitian(n, dtype))
    save(directory / "b.npy", sides(n, k, dtype))


def save_sparse(path: Path, n: int, dtype: str = "<f8") -> Path:
    """A zero matrix that takes no space on the disk."""
    with path.open("wb") as file:
        header = {"descr": dtype, "fortran_order": False, "shape": (n, n)}
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(file.tell() + n * n * np.dtype(dtype).itemsize)
    return path
