"""Poisson's equation by one deep network and natural gradients, to a relative error of 1e-6.

The problem of the papers on energy natural gradients (J. Mueller, M. Zeinhofer, ICML 2023): a
square, a network of two hidden layers of 32, u = 0 on the boundary as a term of the loss. Least
squares finds the last layer of such a network alone, which leaves an error of a few per cent;
natural gradients train all 1185 weights.

    python examples/deep_network.py              # some seconds
    python examples/deep_network.py --points 30  # more points: smaller error, three times as long

Exit status: 0, or 1 if the error is above --bound.
"""

from __future__ import annotations

import argparse
import sys

import jax
import jax.numpy as jnp
import numpy as np

import shardsolve.fbpinn as fb


def exact(x):
    return jnp.sin(jnp.pi * x.x) * jnp.sin(jnp.pi * x.y)


def equation(x, u):
    return u.xx + u.yy + 2 * jnp.pi**2 * exact(x)


def value(x, u):
    return u.v


def error(run: fb.Run) -> float:
    """Relative, in L2."""
    points = np.random.default_rng(0).uniform(0, 1, (10_000, 2))
    true = run.problem.values(exact, points)
    return float(np.linalg.norm(run.evaluate(points) - true) / np.linalg.norm(true))


def main() -> int:
    parser = argparse.ArgumentParser(description="Poisson's equation by natural gradients.")
    parser.add_argument("--points", type=int, default=20, help="along each axis")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--shift", type=float, default=1e-12)
    parser.add_argument("--momentum", type=float, default=0.0)
    parser.add_argument("--bound", type=float, default=1e-6, help="largest relative error in L2")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    n = options.points
    problem = fb.Problem(
        fb.Boxes([(0, 1), (0, 1)], counts=(1, 1)),
        axes="x y",
        net=fb.Mlp([32, 32]),
        terms=[
            fb.Interior(equation, points=(n, n)),
            *(
                fb.Boundary(value, points=(n,), where=side, weight=3)
                for side in ("x = 0", "x = 1", "y = 0", "y = 1")
            ),
        ],
    )
    how = fb.NaturalGradient(steps=options.steps, shift=options.shift, momentum=options.momentum)
    run = problem.train(how)
    print(run.outcome)
    for step in range(0, len(run.outcome.losses), 25):
        print(f"step {step:4d}: loss {run.outcome.losses[step]:.1e}")
    found = error(run)
    seconds = run.outcome.seconds
    print(
        f"relative error in L2 {found:.1e} after {seconds['steps']:.1f} s of steps and "
        f"{seconds['compile']:.1f} s to compile"
    )
    return 0 if found < options.bound else 1


if __name__ == "__main__":
    sys.exit(main())
