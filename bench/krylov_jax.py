"""One iteration of cg in JAX: ours, jax.scipy's and lineax's, with the same function.

A matrix-free 7-point stencil on k^3 points in float64. Prints microseconds an iteration, with its
product, least of a few runs; and those of the product alone.

    python bench/krylov_jax.py [k...]      (12 64 256)
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from shardsolve import krylov

ITERATIONS, RUNS = 200, 5


def stencil(k: int) -> Callable[[jax.Array], jax.Array]:
    """A x for the matrix with 6.001 on its diagonal and -1 for each of six neighbours."""

    def product(x: jax.Array) -> jax.Array:
        grid = jnp.pad(x.reshape(k, k, k), 1)
        inside = slice(1, -1)
        total = 6.001 * grid[inside, inside, inside]
        for axis in range(3):
            for side in (slice(None, -2), slice(2, None)):
                at = [inside] * 3
                at[axis] = side
                total = total - grid[tuple(at)]
        return total.reshape(-1)

    return product


def least_seconds(call: Callable[[jax.Array], object], b: jax.Array) -> float:
    """Of several calls after one that compiles."""
    jax.block_until_ready(call(b))
    seconds = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        jax.block_until_ready(call(b))
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def main() -> None:
    """Prints a line for each size."""
    jax.config.update("jax_enable_x64", True)
    print(f"jax {jax.__version__} on {jax.devices()[0].device_kind}, us an iteration")
    for k in [int(size) for size in sys.argv[1:]] or (12, 64, 256):
        product = stencil(k)
        b = jnp.asarray(np.random.default_rng(0).standard_normal(k**3))
        limits = {"rtol": 1e-30, "max_iterations": ITERATIONS, "full_output": True}

        def ours(b, product=product, limits=limits):
            return krylov.solve(product, b, **limits)

        def theirs(b, product=product):
            return jax.scipy.sparse.linalg.cg(product, b, tol=0.0, maxiter=ITERATIONS)[0]

        def alone(b, product=product):
            return lax.fori_loop(0, ITERATIONS, lambda _, x: product(x) * 0.1, b)

        calls = {"ours": ours, "jax.scipy": theirs, "product": alone}
        if importlib.util.find_spec("lineax"):
            import lineax as lx

            shape = jax.ShapeDtypeStruct(b.shape, b.dtype)

            def lineax(b, product=product, shape=shape):
                operator = lx.FunctionLinearOperator(product, shape, lx.positive_semidefinite_tag)
                solver = lx.CG(rtol=1e-30, atol=1e-30, max_steps=ITERATIONS)
                return lx.linear_solve(operator, b, solver, throw=False).value

            calls["lineax"] = lineax
        figures = []
        for name, call in calls.items():
            run = jax.jit(call)
            done = int(run(b)[1].iterations) if name == "ours" else ITERATIONS
            figures.append(f"{name} {least_seconds(run, b) / done * 1e6:.1f}")
        print(f"{k}^3: " + ", ".join(figures), flush=True)


if __name__ == "__main__":
    main()
