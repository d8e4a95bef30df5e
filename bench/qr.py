"""QR, least squares and singular values from JAX: shardsolve beside LAPACK, or beside JAX on a GPU.

    PYTHONPATH=python python bench/qr.py [--platform cpu] [--devices 1] [--dtype float64] [--runs 3]
                                         [--shape 100000x64 20000x512] [--jobs qr lstsq svd]

Both have the same random matrix and right-hand side, one after the other, so that a machine that
changes its speed does so for both. Shardsolve's certificate and refinement are part of its time.
Prints the least seconds of each and the ratio. The other one is NumPy's routine of the same name on
CPU devices (`least_squares`: SciPy's lstsq by gelsy; `polar`: SciPy's) and `jax.numpy`'s, compiled,
on one GPU (`least_squares`: its lstsq; `polar`: jax.scipy's).
"""

from __future__ import annotations

import argparse
import os
import time

JOBS = ("qr", "least_squares", "lstsq", "svd", "svdvals", "polar")
OF_TALL_ONES = ("qr", "polar")


def shape_of(text: str) -> tuple[int, int]:
    rows, columns = text.split("x")
    return int(rows), int(columns)


def main() -> None:
    parser = argparse.ArgumentParser(description="Times QR, least squares and singular values.")
    parser.add_argument("--platform", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument(
        "--shape", type=shape_of, nargs="+", default=[(100000, 64), (20000, 512), (512, 20000)]
    )
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=JOBS)
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    os.environ["JAX_PLATFORMS"] = options.platform
    os.environ["JAX_ENABLE_X64"] = "1"
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={options.devices}"
    import jax
    import jax.numpy as jnp
    import jax.scipy
    import numpy as np
    import scipy.linalg
    from jax.sharding import NamedSharding, PartitionSpec

    import shardsolve

    rows = NamedSharding(jax.make_mesh((options.devices,), ("x",)), PartitionSpec("x", None))

    def seconds(run) -> float:
        begin = time.perf_counter()
        jax.block_until_ready(run())
        return time.perf_counter() - begin

    def ours(job: str, a, b):
        call = getattr(shardsolve, job)
        return (lambda: call(a, b)) if job in ("lstsq", "least_squares") else (lambda: call(a))

    def of_numpy(job: str, a, b):
        return {
            "qr": lambda: np.linalg.qr(a),
            "least_squares": lambda: scipy.linalg.lstsq(a, b, lapack_driver="gelsy"),
            "lstsq": lambda: np.linalg.lstsq(a, b, rcond=None),
            "svd": lambda: np.linalg.svd(a, full_matrices=False),
            "svdvals": lambda: np.linalg.svd(a, compute_uv=False),
            "polar": lambda: scipy.linalg.polar(a),
        }[job]

    def of_jax(job: str, a, b):
        run = {
            "qr": lambda a, b: jnp.linalg.qr(a),
            "least_squares": lambda a, b: jnp.linalg.lstsq(a, b),
            "lstsq": lambda a, b: jnp.linalg.lstsq(a, b),
            "svd": lambda a, b: jnp.linalg.svd(a, full_matrices=False),
            "svdvals": lambda a, b: jnp.linalg.svd(a, compute_uv=False),
            "polar": lambda a, b: jax.scipy.linalg.polar(a),
        }[job]
        compiled = jax.jit(run)
        return lambda: compiled(a, b)

    print(f"{'call':14s} {'shape':>14s} {'ours':>9s} {'theirs':>9s} {'ratio':>6s}")
    for m, n in options.shape:
        random = np.random.default_rng(1)
        a = random.standard_normal((m, n)).astype(options.dtype)
        b = random.standard_normal(m).astype(options.dtype)
        placed = jax.device_put(a, rows) if m % options.devices == 0 else jnp.asarray(a)
        sides = jnp.asarray(b)
        for job in options.jobs:
            if m < n and job in OF_TALL_ONES:
                continue
            our_run = ours(job, placed, b if options.platform == "cpu" else sides)
            on_cpu = options.platform == "cpu"
            their_run = of_numpy(job, a, b) if on_cpu else of_jax(job, jnp.asarray(a), sides)
            our_run(), their_run()  # compile
            pairs = [(seconds(our_run), seconds(their_run)) for _ in range(options.runs)]
            best = [min(side) for side in zip(*pairs, strict=True)]
            shape = f"{m} x {n}"
            ratio = best[0] / best[1]
            print(f"{job:14s} {shape:>14s} {best[0]:9.4f} {best[1]:9.4f} {ratio:6.2f}", flush=True)


if __name__ == "__main__":
    main()
