"""What a local call costs: the fixed-order dot product in a loop of XLA's, on one device.

    PYTHONPATH=python python bench/local_call.py [--platform cpu|cuda] [--steps 2000]

Prints microseconds a step of `lax.fori_loop`, the least of several runs: of the loop alone, of the
dot product of one number, which is the way to a local call and back, and by length those of
shardsolve and of `jnp.vdot`. Every step's operand depends on the step before.
"""

from __future__ import annotations

import argparse
import os
import time


def microseconds_a_step(jax, step, n: int, steps: int) -> float:
    jnp = jax.numpy
    x, y = jnp.linspace(1.0, 2.0, n), jnp.linspace(2.0, 3.0, n)

    @jax.jit
    def run(x, y):
        return jax.lax.fori_loop(0, steps, lambda _, value: step(x, y, value), jnp.float64(0))

    run(x, y).block_until_ready()
    best = float("inf")
    for _ in range(7):
        begin = time.perf_counter()
        run(x, y).block_until_ready()
        best = min(best, time.perf_counter() - begin)
    return best / steps * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description="Times a local call in a loop.")
    parser.add_argument("--platform", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--steps", type=int, default=2000)
    options = parser.parse_args()
    os.environ["JAX_PLATFORMS"] = options.platform
    os.environ["JAX_ENABLE_X64"] = "1"
    import jax
    import jax.numpy as jnp

    from shardsolve._local import dot

    # x is changed in one place, so that no product can leave the loop.
    steps = {
        "loop alone": lambda x, y, value: x.at[0].set(value)[0] * 0.5,
        "shardsolve": lambda x, y, value: dot(x.at[0].set(value), y) * 1e-9,
        "jnp.vdot": lambda x, y, value: jnp.vdot(x.at[0].set(value), y) * 1e-9,
    }
    print(f"{jax.devices()[0].device_kind}, jax {jax.__version__}, float64, us a step")
    print(f"{'n':>9}" + "".join(f"{name:>14}" for name in steps))
    for n in (1, 64, 1200, 10_000, 100_000, 1_000_000):
        count = max(20, min(options.steps, options.steps * 2000 // max(n, 1)))
        times = [microseconds_a_step(jax, step, n, count) for step in steps.values()]
        print(f"{n:>9}" + "".join(f"{value:14.2f}" for value in times), flush=True)


if __name__ == "__main__":
    main()
