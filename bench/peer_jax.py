"""Times jax.scipy.linalg.cho_factor and cho_solve; started by run.py with the problem's folder."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import jax.scipy.linalg
from python_peer import load_problem, serve_solver


@jax.jit
def solve(a: jax.Array, b: jax.Array) -> jax.Array:
    return jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(a, lower=True), b)


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    a, b = load_problem()
    on_device = jnp.asarray(a), jnp.asarray(b)
    serve_solver(f"jax {jax.__version__}", lambda: solve(*on_device).block_until_ready(), a, b)


if __name__ == "__main__":
    main()
