"""Networks in boxes, trained by least squares, beside classical methods on the same problems.

    python bench/fbpinn.py build/release/bench/shardsolve_bench_fbpinn [--ranks 4] [--rounds 5]
                           [--large]

Prints a table: the least seconds of several rounds, as the machine may be shared, the least CPU
seconds of all threads, and mean |error| / std(exact). Ours is a whole training, on points that are
not those of the error; classical ones have theirs on their own grid and use one thread. --large
adds 64 x 64 boxes (5 GB) and the wave.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np  # noqa: E402  (after the number of threads is set)
import scipy.fft  # noqa: E402
import scipy.sparse  # noqa: E402
import scipy.sparse.linalg  # noqa: E402

OURS = [  # what it is called, and the options of the program
    ("multiscale, 16 x 16, K=16", "--units 16 --side 8"),
    ("multiscale, 16 x 16, K=32", "--units 32 --side 12"),
    ("multiscale, 16 x 16, K=48", "--units 48 --side 14"),
    ("multiscale, 16 x 16, K=64", "--units 64 --side 17"),
    ("the same + u u_x, 16 x 16, K=16", "--problem nonlinear --units 16 --side 8"),
    ("oscillator, 20, K=8, 180 points", "--problem oscillator --boxes 20 --units 8 --side 9"),
    ("oscillator, 20, K=8, 360 points", "--problem oscillator --boxes 20 --units 8 --side 18"),
    ("oscillator, 20, K=8, 720 points", "--problem oscillator --boxes 20 --units 8 --side 36"),
]
LARGE = [
    ("multiscale to 64, 64 x 64, K=32", "--boxes 64 --frequency 64 --units 32 --side 12"),
    ("wave, 8 x 8 x 8, K=32", "--problem wave --boxes 8 --units 32 --side 5"),
]


def frequencies(largest: int) -> np.ndarray:
    return 2.0 ** np.arange(1, int(np.log2(largest)) + 1)


def solution(x: np.ndarray, y: np.ndarray, largest: int) -> np.ndarray:
    return np.mean([np.sin(w * np.pi * x) * np.sin(w * np.pi * y) for w in frequencies(largest)], 0)


def source(x: np.ndarray, y: np.ndarray, largest: int) -> np.ndarray:
    terms = [w**2 * np.sin(w * np.pi * x) * np.sin(w * np.pi * y) for w in frequencies(largest)]
    return 2 * np.pi**2 * np.mean(terms, 0)


def chebyshev(n: int, largest: int) -> tuple[np.ndarray, np.ndarray]:
    """Collocation on n + 1 Chebyshev points an axis, second derivatives diagonalised."""
    t = np.cos(np.pi * np.arange(n + 1) / n)
    c = np.hstack([2, np.ones(n - 1), 2]) * (-1.0) ** np.arange(n + 1)
    d = np.outer(c, 1 / c) / (t[:, None] - t[None, :] + np.eye(n + 1))
    d -= np.diag(d.sum(1))
    second = 4 * (d @ d)[1:-1, 1:-1]  # on [0, 1]
    x = (t[1:-1] + 1) / 2
    f = source(x[:, None], x[None, :], largest)
    values, vectors = np.linalg.eig(second)
    inverse = np.linalg.inv(vectors)
    u = inverse @ -f @ inverse.T / (values[:, None] + values[None, :])
    return np.real(vectors @ u @ vectors.T), solution(x[:, None], x[None, :], largest)


def sine_transform(n: int, largest: int) -> tuple[np.ndarray, np.ndarray]:
    """Finite differences with five points on a grid of n cells an axis, by fast sine transforms."""
    x = np.arange(1, n) / n
    f = source(x[:, None], x[None, :], largest)
    values = (2 * n * np.sin(np.pi * np.arange(1, n) / (2 * n))) ** 2
    u = scipy.fft.dstn(f, type=1) / (values[:, None] + values[None, :])
    return scipy.fft.idstn(u, type=1), solution(x[:, None], x[None, :], largest)


def sparse_lu(n: int, largest: int) -> tuple[np.ndarray, np.ndarray]:
    """The same differences by a sparse LU factorisation."""
    x = np.arange(1, n) / n
    one = (
        scipy.sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n - 1, n - 1)) * n**2
    )
    eye = scipy.sparse.eye_array(n - 1)
    a = scipy.sparse.csc_array(scipy.sparse.kron(one, eye) + scipy.sparse.kron(eye, one))
    f = source(x[:, None], x[None, :], largest)
    u = scipy.sparse.linalg.splu(a).solve(f.ravel())
    return u.reshape(f.shape), solution(x[:, None], x[None, :], largest)


CLASSICAL = [
    ("Chebyshev collocation, 48", chebyshev, 48, 16),
    ("Chebyshev collocation, 64", chebyshev, 64, 16),
    ("differences + FFT, 1024", sine_transform, 1024, 16),
    ("differences + sparse LU, 512", sparse_lu, 512, 16),
]
CLASSICAL_LARGE = [
    ("to 64: Chebyshev collocation, 160", chebyshev, 160, 64),
    ("to 64: differences + FFT, 2048", sine_transform, 2048, 64),
]


def print_row(name: str, seconds: float, cpu: float, error: float, more: str) -> None:
    print(f"| {name} | {seconds:.4g} | {cpu:.4g} | {error:.2e} | {more} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Networks in boxes beside classical methods.")
    parser.add_argument("program")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--large", action="store_true")
    options = parser.parse_args()
    print("| job | seconds | CPU seconds | error | |\n|---|---|---|---|---|")
    for name, arguments in OURS + (LARGE if options.large else []):
        rounds = 1 if (name, arguments) in LARGE else options.rounds
        command = [options.program, "--json", "--ranks", str(options.ranks)]
        command += ["--rounds", str(rounds), *arguments.split()]
        found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        rows = found["rows"] / found["columns"]
        print_row(
            name,
            found["seconds"],
            found["cpu_seconds"],
            found["error"],
            f"{found['columns']} columns, {rows:.1f} rows each, {found['solves']} solves",
        )
    for name, method, n, largest in CLASSICAL + (CLASSICAL_LARGE if options.large else []):
        seconds = cpu = float("inf")
        for _ in range(options.rounds):
            start = time.perf_counter(), time.process_time()
            u, exact = method(n, largest)
            seconds = min(seconds, time.perf_counter() - start[0])
            cpu = min(cpu, time.process_time() - start[1])
        print_row(name, seconds, cpu, np.mean(np.abs(u - exact)) / np.std(exact), "")


if __name__ == "__main__":
    main()
