"""Hyperparameters of a Gaussian process: tinygp's model, its covariance factored over devices.

Draws noisy values of a process whose parameters are known at n points in a plane, and finds the
parameters again, by Newton's method with the expected curvature (Fisher scoring) on tinygp's
log-probability, of which `shardsolve.tinygp.ShardedSolver` does the linear algebra. Before, the
gradient is compared with that of tinygp's own solver.

    pip install '.[tinygp]'
    python examples/gp_hyperparameters.py              # n = 600
    python examples/gp_hyperparameters.py --n 8192     # some minutes a step on two cores, 8 GB

Exit status: 0, or 1 if the gradients differ by more than 1e-10, or the search does not end.
"""

from __future__ import annotations

import argparse
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
import tinygp
from jax.sharding import AxisType

from shardsolve.tinygp import ShardedSolver

NAMES = ("variance", "length", "noise")
TRUE = np.log([1.5, 0.4, 0.05])
START = np.log([0.8, 0.6, 0.1])


def process(theta: jax.Array, x: jax.Array, **solver) -> tinygp.GaussianProcess:
    """The model; theta has the logarithms of NAMES."""
    variance, length, noise = jnp.exp(theta)
    kernel = variance * tinygp.kernels.Matern52(
        length, distance=tinygp.kernels.distance.L2Distance()
    )
    return tinygp.GaussianProcess(kernel, x, diag=noise, **solver)


def main() -> int:
    parser = argparse.ArgumentParser(description="Hyperparameters of a Gaussian process.")
    parser.add_argument("--n", type=int, default=600, help="points")
    parser.add_argument("--max-steps", type=int, default=12)
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    mesh = jax.make_mesh((len(jax.devices()),), ("x",), axis_types=(AxisType.Auto,))
    ours = {"solver": ShardedSolver, "mesh": mesh}

    keys = jax.random.split(jax.random.key(0))
    x = jax.random.uniform(keys[0], (options.n, 2)) * np.sqrt(options.n) / 8
    y = process(TRUE, x, **ours).sample(keys[1])

    def loss(theta: jax.Array, x: jax.Array, y: jax.Array, **solver) -> jax.Array:
        return -process(theta, x, **solver).log_probability(y) / options.n

    value_and_gradient = jax.jit(jax.value_and_grad(lambda t, x, y: loss(t, x, y, **ours)))
    # One after the other, tinygp's own on one device: each takes a dozen times the covariance.
    alone = jax.device_put((x, y), jax.devices()[0])
    _, own = jax.block_until_ready(jax.jit(jax.value_and_grad(loss))(START, *alone))
    own = np.asarray(own)
    value, gradient = jax.block_until_ready(value_and_gradient(START, x, y))
    begin = time.perf_counter()
    jax.block_until_ready(value_and_gradient(START, x, y))
    seconds = time.perf_counter() - begin
    difference = float(jnp.abs(gradient - own).max() / jnp.abs(own).max())
    print(f"n = {options.n}: gradient in {seconds:.2f} s, {difference:.1e} from tinygp's own")

    @jax.jit
    def curvature(theta: jax.Array, x: jax.Array) -> jax.Array:
        """Expected second derivatives of the loss: tr(K^-1 K_i K^-1 K_j) / (2 n)."""
        solver = process(theta, x, **ours).solver

        def covariance(theta: jax.Array) -> jax.Array:
            return process(theta, x, **ours).covariance

        def whitened(direction: jax.Array) -> jax.Array:
            """F^-1 K_i F^-T."""
            _, change = jax.jvp(covariance, (theta,), (direction,))
            half = solver.solve_triangular(change)
            return solver.solve_triangular(half.T)

        parts = jax.lax.map(whitened, jnp.eye(len(theta)))  # one after the other
        return jnp.einsum("iab,jab->ij", parts, parts) / (2 * options.n)

    theta = jnp.asarray(START)
    for step in range(options.max_steps):
        print(f"{step:2d}  {value:.8f}", *(f"{np.exp(one):.4f}" for one in theta))
        size = float(jnp.abs(gradient).max())
        if size < 1e-6:
            break
        change = jnp.linalg.solve(curvature(theta, x), gradient)
        length = 1.0
        while True:
            trial = theta - length * change
            trial_value, trial_gradient = value_and_gradient(trial, x, y)
            if trial_value < value + 1e-12 or length < 1e-3:
                break
            length /= 2
        theta, value, gradient = trial, trial_value, trial_gradient
    for name, found, true in zip(NAMES, np.exp(theta), np.exp(TRUE), strict=True):
        print(f"{name:8s} {found:.4f}, the data were drawn with {true:.4f}")
    return 0 if difference < 1e-10 and size < 1e-6 else 1


if __name__ == "__main__":
    sys.exit(main())
