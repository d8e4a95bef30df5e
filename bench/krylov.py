"""cg with Jacobi on the 7-point Laplacian: shardsolve on 1 and 2 ranks beside SciPy's, in turn.

    python bench/krylov.py [--program build/release/bench/shardsolve_bench_krylov] [--edge 128]
                           [--ranks 1 2] [--rounds 3]

Prints the time of an iteration, and the share of a triad's memory bandwidth that it makes by the
byte count in bench/krylov.cpp; the triad runs in the same process, on as many threads as there are
ranks. SciPy's cg solves the same system in float64, with the diagonal as an operator, and its
iteration too is what a long solve takes beyond a short one. The programs take turns, so that a
machine that changes its speed does so for all; figures are medians of all rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import numpy as np
import scipy
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, cg

FEW, MORE = 5, 45


def laplacian(edge: int) -> sp.csr_matrix:
    line = sp.diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(edge, edge))
    return sp.csr_matrix(sp.kronsum(sp.kronsum(line, line), line))


def scipy_iteration(a: sp.csr_matrix) -> float:
    """Seconds of one iteration."""
    inverse = 1.0 / a.diagonal()
    m = LinearOperator(a.shape, matvec=lambda r: inverse * r)
    b = np.ones(a.shape[0])

    def seconds(iterations: int) -> float:
        begin = time.perf_counter()
        _, info = cg(a, b, rtol=1e-14, maxiter=iterations, M=m)
        took = time.perf_counter() - begin
        if info != iterations:
            raise RuntimeError(f"SciPy ended early: info = {info}")
        return took

    return (seconds(MORE) - seconds(FEW)) / (MORE - FEW)


def our_rounds(options: argparse.Namespace, ranks: int) -> dict:
    command = [options.program, "--edge", options.edge, "--ranks", ranks, "--rounds", 2]
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description="Times iterations of cg beside SciPy's.")
    parser.add_argument("--program", default="build/release/bench/shardsolve_bench_krylov")
    parser.add_argument("--edge", type=int, default=128)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    a = laplacian(options.edge)
    scipy_times: list[float] = []
    ours: dict[int, list[dict]] = {ranks: [] for ranks in options.ranks}
    for _ in range(options.rounds):
        for ranks in options.ranks:
            ours[ranks].append(our_rounds(options, ranks))
        scipy_times.append(scipy_iteration(a))

    of_scipy = statistics.median(scipy_times)
    print(
        f"7-point Laplacian, {options.edge}^3, float64, cg with Jacobi; {os.cpu_count()} cores, "
        f"load {os.getloadavg()[0]:.1f}; SciPy {scipy.__version__}"
    )
    columns = {
        "ms": 8,
        "MB": 8,
        "GB/s": 8,
        "triad GB/s": 12,
        "share": 8,
        "x SciPy": 9,
        "x first": 9,
    }
    print(" " * 12 + "".join(f"{name:>{width}}" for name, width in columns.items()))
    first = None
    for ranks, results in ours.items():
        times = [t for one in results for t in one["iteration_seconds"]]
        seconds = statistics.median(times)
        first = first or seconds
        size = results[0]["iteration_bytes"]
        triad = statistics.median(one["triad_gb_per_s"] for one in results)
        print(
            f"{ranks:>6} ranks{1e3 * seconds:>8.2f}{size / 1e6:>8.0f}{size / seconds / 1e9:>8.1f}"
            f"{triad:>12.1f}{size / seconds / 1e9 / triad:>8.2f}{of_scipy / seconds:>9.2f}"
            f"{first / seconds:>9.2f}"
        )
    print(f"{'SciPy':>12}{1e3 * of_scipy:>8.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
