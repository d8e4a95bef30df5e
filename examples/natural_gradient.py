"""A step of natural gradient, or of minSR: a Gram matrix built and solved inside of one `jit`.

N samples, each with n derivatives, come in blocks: O is (N, n). The step x solves

    (O^T O / N + eps I) x = g

`scan` adds up the products of the blocks, each device for the rows of S that it holds, and
shardsolve solves with S where it lies. For minSR (more derivatives than samples) pass O^T and the
residuals. Without the sharding constraint XLA keeps S whole on every device: see the times.
Exit status: 0, or 1 if a check misses its bound.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import time

# Read when JAX starts: the processor poses as four devices.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + (
    " --xla_force_host_platform_device_count=4"
)

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import shardsolve

jax.config.update("jax_enable_x64", True)
EPS = 1e-3
UNIT_ROUNDOFF = 2.0**-53


@functools.partial(jax.jit, static_argnames=("rows",))
def step(blocks: jax.Array, g: jax.Array, rows: NamedSharding | None):
    """The step and its certificate, of samples (blocks, samples of each, n)."""
    count, each, n = blocks.shape

    def constrained(s: jax.Array) -> jax.Array:
        return s if rows is None else jax.lax.with_sharding_constraint(s, rows)

    def add(s: jax.Array, o: jax.Array) -> tuple[jax.Array, None]:
        return constrained(s + jnp.conj(o.T) @ o), None

    start = constrained(jnp.zeros((n, n), blocks.dtype))
    total, _ = jax.lax.scan(add, start, blocks)
    s = constrained(total / (count * each) + EPS * jnp.eye(n, dtype=blocks.dtype))
    s = (s + jnp.conj(s.T)) / 2  # shardsolve refuses what rounding leaves
    return shardsolve.solve(constrained(s), g, assume_a="pos", full_output=True)


def fastest(run, times: int = 3) -> float:
    def once() -> float:
        start = time.perf_counter()
        jax.block_until_ready(run())
        return time.perf_counter() - start

    once()  # compiles
    return min(once() for _ in range(times))


def main() -> int:
    parser = argparse.ArgumentParser(description="One step of natural gradient on four devices.")
    parser.add_argument("--n", type=int, default=1024, help="derivatives, a multiple of 4")
    parser.add_argument("--samples", type=int, default=4096, help="a multiple of 8")
    options = parser.parse_args()
    n, blocks = options.n, 8

    mesh = jax.make_mesh((4,), ("x",), axis_types=(AxisType.Auto,))
    rows = NamedSharding(mesh, P("x", None))
    rng = np.random.default_rng(0)
    o = rng.standard_normal((options.samples, n)) / np.arange(1, n + 1) ** 0.25
    g = rng.standard_normal(n)
    whole = NamedSharding(mesh, P())
    given = jax.device_put((o.reshape(blocks, -1, n), g), whole)

    x, info = step(*given, rows)
    error, rcond = float(info.backward_error) / UNIT_ROUNDOFF, float(info.rcond)
    print(f"certificate: backward error {error:.2g} u, rcond {rcond:.1e}")
    s = o.T @ o / options.samples + EPS * np.eye(n)
    expected = np.linalg.solve(s, g)
    difference = np.abs(np.asarray(x) - expected).max() / np.abs(expected).max()
    bound = 100 * UNIT_ROUNDOFF / rcond  # S itself is rounded, there and here
    print(f"numpy.linalg.solve differs by {difference:.1e} relative (< {bound:.1e})")
    for name, where in (("with the constraint", rows), ("without", None)):
        print(f"{name}: {1e3 * fastest(lambda w=where: step(*given, w)):.0f} ms")
    return 0 if error < 30 and difference < bound else 1


if __name__ == "__main__":
    sys.exit(main())
