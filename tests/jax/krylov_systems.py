"""Systems for the tests of Krylov solves: matrices, right-hand sides, and what has to hold."""

from __future__ import annotations

import jax
import numpy as np
import scipy.sparse as sp
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from systems import DEVICES, normal

from shardsolve import CSR, krylov

METHODS = krylov.METHODS
N = 48 * DEVICES  # leaves of 64 rows are cut by the devices


def bits(value) -> bytes:
    return np.asarray(value).tobytes()


def laplacian(n: int = N, dtype: str = "float64", d: float = 2.3) -> CSR:
    """Hermitian positive definite."""
    side = np.full(n - 1, 1j if np.dtype(dtype).kind == "c" else -1.0)
    return CSR.of(sp.diags([side.conj(), np.full(n, d), side], [-1, 0, 1]).astype(dtype))


def convection(n: int = N, dtype: str = "float64") -> CSR:
    """Far from symmetric."""
    return CSR.of(sp.diags([-1.8, 2.3, -0.2], [-1, 0, 1], (n, n)).astype(dtype))


def matrix(method: str, dtype: str = "float64", n: int = N) -> CSR:
    return laplacian(n, dtype) if method in ("cg", "minres") else convection(n, dtype)


def host(a: CSR) -> sp.csr_matrix:
    return sp.csr_matrix((np.asarray(a.data), a.indices, a.indptr), a.shape)


def grid(method: str, dtype: str = "float64", rows: int = 18, columns: int = 20) -> CSR:
    """The same on a grid in two dimensions."""
    one, other = (host(matrix(method, dtype, n)) for n in (rows, columns))
    return CSR.of(sp.kronsum(one, other).astype(dtype))


def right(n: int = N, dtype: str = "float64", seed: int = 3) -> np.ndarray:
    return normal(np.random.default_rng(seed), (n,), dtype)


def solve(a, b, method="cg", **options):
    """(x, info), with the log."""
    return krylov.solve(a, b, method=method, full_output=True, log=True, **options)


def residual(a: CSR, x, b) -> float:
    a = np.asarray(a.todense())
    return float(np.linalg.norm(b - a @ np.asarray(x)) / np.linalg.norm(b))


def on_mesh(b, kind: AxisType = AxisType.Auto, devices: int = DEVICES):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:devices]), ("x",), axis_types=(kind,))
    return jax.device_put(b, NamedSharding(mesh, PartitionSpec("x")))


def same(ours, theirs) -> bool:
    """(x, info) to the bit, log and all."""
    (x, info), (y, other) = ours, theirs
    return (
        bits(x) == bits(y)
        and info.message == other.message
        and bits(info.figures) == bits(other.figures)
        and info.log.tobytes() == other.log.tobytes()
    )
