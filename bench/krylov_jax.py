"""One iteration of cg in JAX: ours, jax.scipy's and lineax's, with the same function.

A matrix-free 7-point stencil on k^3 points in float64. Solvers take turns; the least of several
runs counts. Prints microseconds an iteration, and what is left of them without its products, whose
time is that of a loop of products alone. Then whether the targets are met: on a CPU, without
products, half of lineax at 10^6 points and 60 us at 1000; on a GPU, with products, jax.scipy at
12^3 and 64^3 and 0.9 of it at 256^3.

On a machine that is busy with other work `--clock processor` counts the time that all threads of
the process had a core: less is then of no use to a caller who waits, but it can be compared.

    python bench/krylov_jax.py [--sizes 10 100] [--runs 5] [--clock wall] [--output figures.json]

Exit status: 0, or 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from shardsolve import krylov

ITERATIONS = 200
CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}
SIZES = {"cpu": (10, 100), "gpu": (12, 64, 256)}
# Of a size: whether without products, of which solver, how many times it; or microseconds.
TARGETS: dict[str, dict[int, tuple[str, float]]] = {
    "cpu": {10: ("us", 60.0), 100: ("lineax", 0.5)},
    "gpu": {12: ("jax.scipy", 1.0), 64: ("jax.scipy", 1.0), 256: ("jax.scipy", 0.9)},
}


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


def solvers(product: Callable, b: jax.Array) -> dict[str, Callable[[jax.Array], Any]]:
    """Each makes ITERATIONS of them; ours returns what it made as well."""
    limits = {"rtol": 1e-30, "max_iterations": ITERATIONS, "full_output": True}
    made = {
        "ours": lambda b: krylov.solve(product, b, **limits),
        "jax.scipy": lambda b: jax.scipy.sparse.linalg.cg(product, b, tol=0.0, maxiter=ITERATIONS)[
            0
        ],
        "product": lambda b: lax.fori_loop(0, ITERATIONS, lambda _, x: product(x), b),
    }
    if importlib.util.find_spec("lineax"):
        import lineax as lx

        shape = jax.ShapeDtypeStruct(b.shape, b.dtype)

        def lineax(b: jax.Array) -> jax.Array:
            operator = lx.FunctionLinearOperator(product, shape, lx.positive_semidefinite_tag)
            solver = lx.CG(rtol=1e-30, atol=1e-30, max_steps=ITERATIONS)
            return lx.linear_solve(operator, b, solver, throw=False).value

        made["lineax"] = lineax
    return {name: jax.jit(call) for name, call in made.items()}


def measure(k: int, runs: int, clock: Callable[[], float]) -> dict[str, Any]:
    """Microseconds of an iteration of each solver, and without its products."""
    product = stencil(k)
    b = jnp.asarray(np.random.default_rng(0).standard_normal(k**3))
    calls = solvers(product, b)
    info = calls["ours"](b)[1]
    iterations = dict.fromkeys(calls, ITERATIONS) | {"ours": int(info.iterations)}
    # lineax makes one more in each tenth iteration.
    products = {"ours": int(info.matvecs) / int(info.iterations), "jax.scipy": 1.0, "lineax": 1.1}
    seconds = dict.fromkeys(calls, np.inf)
    for call in calls.values():
        jax.block_until_ready(call(b))
    for _ in range(runs):
        for name, call in calls.items():
            begin = clock()
            jax.block_until_ready(call(b))
            seconds[name] = min(seconds[name], clock() - begin)
    whole = {name: seconds[name] / iterations[name] * 1e6 for name in calls}
    alone = whole.pop("product")
    rest = {name: value - products[name] * alone for name, value in whole.items()}
    return {"k": k, "n": k**3, "product": alone, "iteration": whole, "without_products": rest}


def is_met(platform: str, figures: dict[str, Any]) -> bool:
    """Prints whether the target of this size is met; True if there is none."""
    kind, limit = TARGETS.get(platform, {}).get(figures["k"], ("", 0.0))
    if not kind or (kind != "us" and kind not in figures["iteration"]):
        return True
    of = figures["without_products" if platform == "cpu" else "iteration"]
    found = of["ours"] if kind == "us" else of["ours"] / of[kind]
    what = f"{found:.1f} us" if kind == "us" else f"{found:.2f} of {kind}"
    print(f"  {'ok  ' if found <= limit else 'MISS'} {what}, to reach: {limit}")
    return found <= limit


def main() -> int:
    """Prints a few lines for each size; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", help="points along an axis")
    parser.add_argument("--runs", type=int, default=5, help="of each solver")
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="what is counted")
    parser.add_argument("--output", type=Path, help="a file for the figures, JSON")
    given = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    platform = jax.default_backend()
    print(
        f"jax {jax.__version__} on {jax.devices()[0].device_kind}; us an iteration, {given.clock}"
    )
    found, is_good = [], True
    for k in given.sizes or SIZES.get(platform, SIZES["cpu"]):
        figures = measure(k, given.runs, CLOCKS[given.clock])
        found.append(figures)
        for name in figures["iteration"]:
            print(
                f"{k}^3: {name} {figures['iteration'][name]:.1f}, "
                f"{figures['without_products'][name]:.1f} without products of "
                f"{figures['product']:.1f}",
                flush=True,
            )
        is_good = is_met(platform, figures) and is_good
        if given.output is not None:
            given.output.write_text(json.dumps(found, indent=1) + "\n")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
