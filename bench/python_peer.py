"""What the contestants that are Python libraries have in common."""

from __future__ import annotations

import importlib
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from protocol import Residual, Run, serve
from threadpoolctl import threadpool_info

SOLVE_LIMIT = 10.0
BLOCK_ROWS = 1024


def solve_residual(a: np.ndarray, x: np.ndarray, b: np.ndarray) -> Residual:
    """||b - A x|| / ((||A|| ||x|| + ||b||) u) in the infinity norm.

    Args:
        a: (n, n).
        x: (n, 1).
        b: (n, 1).
    """
    wide = np.result_type(a, np.float64)
    unit_roundoff = np.finfo(a.dtype).eps / 2
    residual = norm = 0.0
    for start in range(0, len(a), BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        block = a[rows].astype(wide)
        residual = np.maximum(residual, np.abs(b[rows] - block @ x.astype(wide)).max())
        norm = max(norm, np.abs(block).sum(axis=1).max())
    value = float(residual / (norm * np.abs(x).max() + np.abs(b).max()) / unit_roundoff)
    return Residual("solve", value if math.isfinite(value) else None, SOLVE_LIMIT)


def blas_of_scipy() -> dict[str, Any]:
    """The BLAS that scipy.linalg calls (and jax on CPU through it), as this process loaded it."""
    # JAX loads it only when it needs it.
    importlib.import_module("scipy.linalg.cython_lapack")
    loaded = [library for library in threadpool_info() if library["user_api"] == "blas"]
    # NumPy's wheel brings another one, under the same file name.
    own = [library for library in loaded if "scipy" in Path(library["filepath"]).parent.name]
    library = (own or loaded)[0]
    name = {"openblas": "OpenBLAS", "mkl": "MKL"}.get(library["internal_api"], "BLAS")
    return {
        "file": library["filepath"],
        "config": f"{name} {library['version']}",
        "core": library.get("architecture", "?"),
        "threads": library["num_threads"],
    }


def load_problem() -> tuple[np.ndarray, np.ndarray]:
    """A (n, n) and b (n, 1) from the folder that the command line names."""
    folder = Path(sys.argv[1])
    return np.load(folder / "a.npy"), np.load(folder / "b.npy")


def serve_solver(
    program: str, solve: Callable[[], np.ndarray], a: np.ndarray, b: np.ndarray
) -> None:
    """Times one solver of A x = b, one run for each request.

    Args:
        program: Name and version.
        solve: Makes x, shape (n, 1), and has finished when it returns; leaves A and b alone.
        a: (n, n).
        b: (n, 1).
    """

    def run() -> Run:
        begin = time.perf_counter()
        x = solve()
        seconds = time.perf_counter() - begin
        return Run(seconds, (solve_residual(a, np.asarray(x), b),))

    serve({"program": program, "blas": blas_of_scipy()}, {"solve": run})
