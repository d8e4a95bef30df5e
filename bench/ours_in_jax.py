"""Times shardsolve from JAX on CPU devices; started by front.py.

With the problem's folder: `shardsolve.solve`, A's rows cut over the devices and its memory used,
backward error and rcond included. With `--latency N`: prints seconds of N calls of a 4 x 4 solve
under `jit`, as a JSON list.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import time
from pathlib import Path

import numpy as np
from protocol import Run, serve
from python_peer import solve_residual


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", type=int, required=True)
    parser.add_argument("--latency", type=int, metavar="CALLS")
    parser.add_argument("folder", type=Path, nargs="?")
    options = parser.parse_args()
    flags = os.environ.get("XLA_FLAGS", "")
    os.environ["XLA_FLAGS"] = (
        f"{flags} --xla_force_host_platform_device_count={options.devices}".strip()
    )
    import jax

    jax.config.update("jax_enable_x64", True)
    if options.latency:
        print(json.dumps(latency(options.latency)))
    else:
        serve_solve(options.folder)


def latency(calls: int) -> list[float]:
    import jax

    import shardsolve

    solve = jax.jit(functools.partial(shardsolve.solve, assume_a="pos"))
    a, b = on_devices(np.eye(4) + 0.25), on_devices(np.ones(4))
    np.testing.assert_allclose(solve(a, b), 0.5)
    seconds = []
    for _ in range(calls):
        begin = time.perf_counter()
        solve(a, b).block_until_ready()
        seconds.append(time.perf_counter() - begin)
    return seconds


def serve_solve(folder: Path) -> None:
    import jax

    import shardsolve

    a, b = np.load(folder / "a.npy"), np.load(folder / "b.npy")
    right = on_devices(b)

    def run() -> Run:
        given = on_devices(a)
        begin = time.perf_counter()
        x, info = jax.block_until_ready(
            shardsolve.solve(given, right, assume_a="pos", overwrite_a=True, full_output=True)
        )
        seconds = time.perf_counter() - begin
        if info.status != shardsolve.Status.OK:
            raise RuntimeError(info.message)
        return Run(seconds, (solve_residual(a, np.asarray(x), b),))

    program = f"shardsolve {shardsolve.__version__} in jax {jax.__version__}"
    serve({"program": program, "blas": {"file": "its own"}}, {"solve": run})


def on_devices(a: np.ndarray):
    """`a` with its rows cut over all devices."""
    import jax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(np.array(jax.devices()), ("x",))
    return jax.block_until_ready(jax.device_put(a, NamedSharding(mesh, PartitionSpec("x"))))


if __name__ == "__main__":
    main()
