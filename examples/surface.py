"""A surface from noisy readings: one large dense system, seen through the tool's progress bar."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
from report import Report
from shardsolve_tool import (
    ENVIRONMENT_ERROR,
    SOLVE_BOUND,
    Certificate,
    DemoError,
    Tool,
    backward_error,
)

SEED = 8192
# The surface below changes over about a third of the square; a shorter scale lets the model follow.
LENGTH_SCALE = 0.2
# Standard deviation of the noise in a reading; its square is the ridge on the diagonal.
NOISE = 0.1
# Averaging over many readings has to beat a single one by this factor at least.
GAIN = 4.0
BLOCK_ROWS = 512
GB = 1e9


def require_disk_space(folder: Path, n: int) -> None:
    """Refuses, before anything has run, if the matrix would not fit on the disk."""
    needed, free = 8 * n**2, shutil.disk_usage(folder).free
    # A tenth to spare: a full disk is somebody else's trouble too.
    if 1.1 * needed > free:
        raise DemoError(
            f"the system of {n} rows takes a file of {needed / GB:.2f} GB, and {folder} has "
            f"{free / GB:.2f} GB free. Free some space, or ask for a smaller one: --size 4096.",
            ENVIRONMENT_ERROR,
        )


def surface(points: np.ndarray) -> np.ndarray:
    """The true surface, which the solver never sees; points are (m, 2) in the unit square."""
    x, y = points.T
    return np.sin(5 * x) * np.cos(4 * y) + 0.5 * x * y


def kernel(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Gaussian kernel of points in the plane. Differences first: symmetric to the last bit."""
    exponent = np.zeros((len(p), len(q)))
    for axis in range(2):
        exponent -= np.square(p[:, axis, None] - q[:, axis]) / (2 * LENGTH_SCALE**2)
    return np.exp(exponent, out=exponent)


def write_matrix(path: Path, points: np.ndarray) -> None:
    """Writes kernel(points, points) + NOISE^2 I, a block of rows at a time."""
    n = len(points)
    matrix = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(n, n))
    for start in range(0, n, BLOCK_ROWS):
        rows = slice(start, min(start + BLOCK_ROWS, n))
        matrix[rows] = kernel(points[rows], points)
    matrix[np.diag_indices(n)] += NOISE**2
    matrix.flush()


def run(report: Report, tool: Tool, out: Path, n: int) -> Certificate:
    """Recovers a known surface from `n` noisy readings; returns the certificate of the solve."""
    rng = np.random.default_rng(SEED)
    points = rng.random((n, 2))
    readings = surface(points) + NOISE * rng.standard_normal(n)
    a, b, x = (out / f"surface_{name}.npy" for name in ("kernel", "readings", "weights"))

    report.heading(f"2. A larger one: a surface from {n} noisy readings")
    report.say(
        f"{n} random places, at each a reading of a surface with noise of {NOISE:g}. "
        "Gaussian-process regression solves (K + noise^2 I) w = readings, where K(i, j) is a "
        f"Gaussian of the distance of two places: a dense {n} x {n} matrix, a file of "
        f"{8 * n**2 / GB:.2f} GB (deleted afterwards). Each device reads only its own slab of it."
    )
    try:
        write_matrix(a, points)
        np.save(b, readings)
        certificate = tool.solve(a, b, x, f"surface, n = {n}", progress=True)
        weights = np.load(x)
        error = backward_error(np.load(a, mmap_mode="r"), weights[:, None], readings[:, None])
    finally:
        a.unlink(missing_ok=True)

    error /= certificate.unit_roundoff
    report.check(
        f"backward error recomputed by NumPy from the file: {error:.2g} u (< {SOLVE_BOUND:g} u)",
        error < SOLVE_BOUND,
    )
    check_prediction(report, rng.random((1000, 2)), points, weights)
    return certificate


def check_prediction(
    report: Report, places: np.ndarray, points: np.ndarray, weights: np.ndarray
) -> None:
    """Compares the fitted surface with the true one at places that were not read."""
    wrong = kernel(places, points) @ weights - surface(places)
    rms = float(np.sqrt(np.mean(wrong**2)))
    report.check(
        f"at {len(places)} new places the surface is off by {rms:.4f} rms, a single reading by "
        f"{NOISE:g} (< {NOISE / GAIN:g})",
        rms < NOISE / GAIN,
    )
