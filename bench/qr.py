"""QR and least squares from JAX: shardsolve beside NumPy's, in turn.

    PYTHONPATH=python python bench/qr.py [--devices 1] [--shape 100000x64 20000x512]
                                         [--dtype float64] [--runs 3]

On CPU devices. Both have the same random matrix and right-hand side, one after the other, so that a
machine that changes its speed does so for both. Shardsolve's certificate and refinement are part of
its time. Prints the least seconds of each and the ratio: `qr` beside `numpy.linalg.qr`,
`least_squares` beside `scipy.linalg.lstsq` by gelsy, `lstsq` beside `numpy.linalg.lstsq`.
"""

from __future__ import annotations

import argparse
import os
import time


def shape_of(text: str) -> tuple[int, int]:
    rows, columns = text.split("x")
    return int(rows), int(columns)


def main() -> None:
    parser = argparse.ArgumentParser(description="Times QR and least squares.")
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument(
        "--shape", type=shape_of, nargs="+", default=[(100000, 64), (20000, 512), (512, 20000)]
    )
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["JAX_ENABLE_X64"] = "1"
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={options.devices}"
    import jax
    import numpy as np
    import scipy.linalg
    from jax.sharding import NamedSharding, PartitionSpec

    import shardsolve

    rows = NamedSharding(jax.make_mesh((options.devices,), ("x",)), PartitionSpec("x", None))

    def seconds(run) -> float:
        begin = time.perf_counter()
        jax.block_until_ready(run())
        return time.perf_counter() - begin

    print(f"{'call':14s} {'shape':>14s} {'ours':>9s} {'theirs':>9s} {'ratio':>6s}")
    for m, n in options.shape:
        random = np.random.default_rng(1)
        a = random.standard_normal((m, n)).astype(options.dtype)
        b = random.standard_normal(m).astype(options.dtype)
        placed = jax.device_put(a, rows) if m % options.devices == 0 else jax.numpy.asarray(a)
        calls = {
            "least_squares": (
                lambda placed=placed, b=b: shardsolve.least_squares(placed, b),
                lambda a=a, b=b: scipy.linalg.lstsq(a, b, lapack_driver="gelsy"),
            ),
            "lstsq": (
                lambda placed=placed, b=b: shardsolve.lstsq(placed, b),
                lambda a=a, b=b: np.linalg.lstsq(a, b, rcond=None),
            ),
        }
        if m >= n:
            calls["qr"] = (lambda placed=placed: shardsolve.qr(placed), lambda a=a: np.linalg.qr(a))
        for name, (ours, theirs) in calls.items():
            ours()  # compiles
            pairs = [(seconds(ours), seconds(theirs)) for _ in range(options.runs)]
            best = [min(side) for side in zip(*pairs, strict=True)]
            shape = f"{m} x {n}"
            print(f"{name:14s} {shape:>14s} {best[0]:9.4f} {best[1]:9.4f} {best[0] / best[1]:6.2f}")


if __name__ == "__main__":
    main()
