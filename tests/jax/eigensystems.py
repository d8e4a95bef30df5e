"""Hermitian matrices, and the gates that their eigenvalues and eigenvectors have to pass."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from systems import normal, unit_roundoff


def random_hermitian(n: int, dtype: str = "float64", seed: int = 0) -> np.ndarray:
    """Neither positive nor negative definite."""
    a = normal(np.random.default_rng(seed), (n, n), dtype)
    return ((a + a.conj().T) / 2).astype(dtype)


def with_eigenvalues(w, dtype: str = "float64", seed: int = 0) -> np.ndarray:
    """A matrix with these eigenvalues, up to rounding, and random vectors."""
    q, _ = np.linalg.qr(normal(np.random.default_rng(seed), (len(w), len(w)), dtype))
    a = q * np.asarray(w) @ q.conj().T
    return ((a + a.conj().T) / 2).astype(dtype)


def one_norm(a: np.ndarray) -> float:
    return float(np.abs(a).sum(axis=0).max(initial=0.0))


def residual(a: np.ndarray, w: np.ndarray, v: np.ndarray, b: np.ndarray | None = None) -> float:
    """||A V - B V W||_1 in units of u ||A||_1, or of u (||A||_1 + |w| ||B||_1) ||V||_1."""
    u, (a, w, v) = unit_roundoff(a.dtype), (_wide(value) for value in (a, w, v))
    if b is None:
        return one_norm(a @ v - v * w) / (u * one_norm(a) or 1)
    size = (one_norm(a) + float(np.abs(w).max()) * one_norm(b)) * one_norm(v)
    return one_norm(a @ v - _wide(b) @ v * w) / (u * size or 1)


def orthogonality(v: np.ndarray, b: np.ndarray | None = None) -> float:
    """||V^H B V - I||_1 in units of u."""
    u, v = unit_roundoff(v.dtype), _wide(v)
    product = v if b is None else _wide(b) @ v
    return one_norm(v.conj().T @ product - np.eye(v.shape[1])) / u


def _wide(a: np.ndarray) -> np.ndarray:
    return a.astype(np.result_type(a.dtype, np.longdouble))


def are_eigenvalues(a: np.ndarray, w, wanted: slice = slice(None), b=None) -> bool:
    """Within 20 u ||A||_2 of those of LAPACK, and of their type.

    With b, of which the condition number is about 100, a hundred times that.
    """
    expected = np.linalg.eigh(a)[0] if b is None else scipy.linalg.eigh(a, b)[0]
    w = np.asarray(w)
    assert w.dtype == np.finfo(a.dtype).dtype
    assert w.shape == expected[wanted].shape
    error = np.abs(w - expected[wanted]).max(initial=0)
    limit = (20 if b is None else 2000) * unit_roundoff(a.dtype)
    assert error <= limit * np.abs(expected).max(initial=0), error
    return True


def are_eigenpairs(a: np.ndarray, w, v, wanted: slice = slice(None), b=None) -> bool:
    """As good as LAPACK's but for a factor of 4, and of the phase that is promised."""
    assert are_eigenvalues(a, w, wanted, b)
    w, v = np.asarray(w), np.asarray(v)
    assert (v.shape, v.dtype) == ((len(a), len(w)), a.dtype)
    if v.size == 0:
        return True
    of_lapack, by_lapack = scipy.linalg.eigh(a, b)
    found = residual(a, w, v, b)
    assert found <= max(10, 4 * residual(a, of_lapack, by_lapack, b)), found
    found = orthogonality(v, b)
    assert found <= max(10, 4 * orthogonality(by_lapack, b)), found
    largest = v[np.abs(v).argmax(axis=0), np.arange(v.shape[1])]
    assert (largest.real > 0).all()
    assert (largest.imag == 0).all()
    return True
