"""Times shardsolve from JAX: `solve` under `jit`, A's rows cut over the GPUs; started by run.py."""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

SOLVE_LIMIT = 10.0
SHIFT = 2.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, required=True)
    parser.add_argument("--dtype", required=True)
    parser.add_argument("--matrix", required=True)
    parser.add_argument("--columns", type=int)
    parser.add_argument("--devices", required=True)
    options = parser.parse_args()
    os.environ["CUDA_VISIBLE_DEVICES"] = options.devices
    # The other programs need memory too.
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    serve(options)


def serve(options: argparse.Namespace) -> None:
    """Answers one line for each line, as bench/support/serve.hpp says."""
    begin = time.perf_counter()
    import jax

    import shardsolve

    jax.config.update("jax_enable_x64", True)
    able = options.dtype in ("float64", "complex128") and options.matrix == "well_conditioned"
    program = f"shardsolve {shardsolve.__version__} in jax {jax.__version__}"
    jax.devices()
    hello = {
        "program": program,
        "jobs": ["one_call"] if able else [],
        "setup_seconds": time.perf_counter() - begin,
        "tile": 0,
    }
    print(json.dumps(hello), flush=True)
    run = functools.cache(lambda: system(options.n, options.dtype))
    first = True
    for line in sys.stdin:
        if line.strip() == "release":
            run.cache_clear()
            print("{}", flush=True)
            continue
        answer = {**run()(), "first": first, "certificate": None}
        first = False
        print(json.dumps(answer), flush=True)


def system(n: int, dtype: str) -> Callable[[], dict[str, Any]]:
    """Makes the system of bench/cuda/matrices.hpp; what it returns solves it once."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    import shardsolve

    mesh = Mesh(np.array(jax.devices()), ("x",))
    rows = NamedSharding(mesh, P("x") if n % mesh.size == 0 else P())
    is_complex = dtype == "complex128"

    def mix(key: jax.Array) -> jax.Array:
        key = key + jnp.uint64(0x9E3779B97F4A7C15)
        key = (key ^ (key >> 30)) * jnp.uint64(0xBF58476D1CE4E5B9)
        key = (key ^ (key >> 27)) * jnp.uint64(0x94D049BB133111EB)
        return key ^ (key >> 31)

    def uniform_pair(seed: int, row: jax.Array, column: jax.Array) -> tuple[jax.Array, jax.Array]:
        bits = mix(mix(jnp.uint64(seed)) ^ (row << 32 | column))
        scale = 1.0 / 2**31
        parts = (bits >> 32).astype(jnp.uint32), bits.astype(jnp.uint32)
        return tuple(part.astype(jnp.int32) * scale for part in parts)

    @functools.partial(jax.jit, out_shardings=rows)
    def matrix() -> jax.Array:
        i = jnp.arange(n, dtype=jnp.uint64)
        row, column = i[:, None], i[None, :]
        real, imag = uniform_pair(1, jnp.maximum(row, column), jnp.minimum(row, column))
        shift = SHIFT * math.sqrt((2 if is_complex else 1) / 3 * n)
        real = real + jnp.where(row == column, shift, 0.0)
        sign = jnp.sign(row.astype(jnp.int64) - column.astype(jnp.int64))
        return real + 1j * sign * imag if is_complex else real

    @functools.partial(jax.jit, out_shardings=rows)
    def right_hand_side() -> jax.Array:
        real, imag = uniform_pair(2, jnp.arange(n, dtype=jnp.uint64), jnp.uint64(0))
        return real + 1j * imag if is_complex else real

    @jax.jit
    def residual(a: jax.Array, x: jax.Array, b: jax.Array) -> jax.Array:
        off = jnp.abs(b - jnp.matmul(a, x, precision="highest")).max()
        norm = jnp.abs(a).sum(axis=1).max()
        return off / (norm * jnp.abs(x).max() + jnp.abs(b).max()) / (jnp.finfo(dtype).eps / 2)

    solve = jax.jit(functools.partial(shardsolve.solve, assume_a="pos"))
    a, b = jax.block_until_ready((matrix(), right_hand_side()))

    def once() -> dict[str, Any]:
        begin = time.perf_counter()
        x = jax.block_until_ready(solve(a, b))
        seconds = time.perf_counter() - begin
        value = float(residual(a, x, b))
        held = max(device.memory_stats()["peak_bytes_in_use"] for device in jax.devices())
        return {
            "seconds": seconds,
            "bytes": held,
            "residuals": [
                {
                    "name": "solve",
                    "value": value if math.isfinite(value) else None,
                    "limit": SOLVE_LIMIT,
                }
            ],
        }

    return once


if __name__ == "__main__":
    main()
