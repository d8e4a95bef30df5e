"""Burgers' equation by Adam on all devices of all processes: a job that can be stopped and goes on.

u_t + u u_x = nu u_xx, u = -sin(pi x) at t = 0, 0 at both ends, nu = 0.1 / pi, on 75 subdomains.
Under Slurm, where a step has several tasks, they join by jax.distributed (slurm_networks.sh);
otherwise one process takes all devices that it sees. A checkpoint is written every five minutes, on
SIGUSR1 and at SIGTERM, which ends the training; the same command goes on from it, on any number of
devices.

    python examples/networks_job.py --checkpoint out/job.checkpoint --output out/job.run

Exit status: 0, also if a signal has ended it; 1 if the loss is not finite.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import shardsolve.fbpinn as fb

NU = 0.1 / np.pi


def burgers(x, u):
    """The equation."""
    return u.t + u.v * u.x - NU * u.xx


def from_sine(x, u):
    """At t = 0 it is -sin(pi x), at both ends 0, whatever the networks are."""
    ends = jnp.tanh(4 * (1 + x.x)) * jnp.tanh(4 * (1 - x.x))
    return -jnp.sin(jnp.pi * x.x) + jnp.tanh(4 * x.t) * ends * u


def join() -> None:
    """With the other tasks of a step of Slurm, if there are any: each has the GPU of its number."""
    if int(os.environ.get("SLURM_STEP_NUM_TASKS", "1")) > 1:
        jax.distributed.initialize()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--checkpoint", type=Path, required=True, help="where all processes see it")
    parser.add_argument("--output", type=Path, help="a file for the run, which it replaces")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--points", type=int, nargs=2, default=(150, 100), metavar=("X", "T"))
    options = parser.parse_args()
    join()
    problem = fb.Problem(
        fb.Boxes([(-1, 1), (0, 1)], counts=(15, 5)),
        axes="x t",
        net=fb.Mlp([16]),
        constrain=from_sine,
        terms=[fb.Interior(burgers, points=tuple(options.points))],
    )
    devices = jax.devices()
    how = fb.Adam(
        steps=options.steps,
        rate=lambda step: 5e-3 * 0.5 ** (3 * step / options.steps),
        points="random",
        dtype=np.float32,
    )
    run = problem.train(
        how,
        mesh=jax.make_mesh((len(devices),), ("x",), devices=devices) if len(devices) > 1 else None,
        checkpoint=fb.Checkpoint(options.checkpoint, minutes=5),
        callbacks=[print] if jax.process_index() == 0 else [],
    )
    if jax.process_index() == 0:
        print(run.outcome)
        if options.output:
            run.save(options.output, overwrite=True)  # that of the training so far
    return 0 if run.outcome.ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
