"""Seconds of the parts of least squares from JAX, and its answer beside that of the CPU.

    PYTHONPATH=python python bench/fbpinn_jax.py [--rounds 3] [--chunk N] [--no-cpu] [--small]

Laplace's equation with waves of many lengths on a square, 64 x 64 boxes of 32 units (589,824
points, frequencies to 64) and 16 x 16 of 64 (73,984 points, to 16), on JAX's default device. The
first training compiles; of the others the one with the least seconds counts. --chunk: points of a
call of the function. --small: 4 x 4 boxes of 8, to try the program on any machine.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import shardsolve.fbpinn as fb


class Job(NamedTuple):
    """A training; boxes along each axis."""

    boxes: int
    units: int
    side: int  # points along an axis for each box
    largest: int  # frequency


JOBS = [Job(64, 32, 12, 64), Job(16, 64, 17, 16)]
SMALL = [Job(4, 8, 12, 4)]


def problem_of(job: Job) -> fb.Problem:
    waves = 2.0 ** np.arange(1, int(np.log2(job.largest)) + 1)

    def equation(x, u):
        sines = jnp.sin(waves * jnp.pi * x.x) * jnp.sin(waves * jnp.pi * x.y)
        return (u.xx + u.yy + 2 * jnp.pi**2 * jnp.mean(waves**2 * sines)) / job.largest**2

    def hold(x, u):
        sides = [x.x, 1 - x.x, x.y, 1 - x.y]
        product = u
        for side in sides:
            product = jnp.tanh(job.largest * side) * product
        return product

    count = job.boxes * job.side
    return fb.Problem(
        fb.Boxes([(0, 1), (0, 1)], (job.boxes, job.boxes), 2.9),
        axes="x y",
        net=fb.Mlp([job.units]),
        constrain=hold,
        terms=[fb.Interior(equation, points=(count, count))],
    )


def exact(points: np.ndarray, job: Job) -> np.ndarray:
    waves = 2.0 ** np.arange(1, int(np.log2(job.largest)) + 1)
    x, y = points.T
    return np.mean([np.sin(w * np.pi * x) * np.sin(w * np.pi * y) for w in waves], 0)


def trained(problem: fb.Problem, chunk: int | None) -> tuple[float, fb.Run]:
    start = time.perf_counter()
    run = problem.train(fb.LeastSquares(chunk=chunk))
    return time.perf_counter() - start, run


def main() -> None:
    parser = argparse.ArgumentParser(description="Least squares of networks in boxes from JAX.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--chunk", type=int)
    parser.add_argument("--no-cpu", action="store_true")
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    warnings.simplefilter("ignore", fb.TrainingWarning)
    points = np.random.default_rng(1).uniform(0, 1, (4000, 2))
    for job in SMALL if options.small else JOBS:
        start = time.perf_counter()
        problem = problem_of(job)
        made = time.perf_counter() - start
        first, _ = trained(problem, options.chunk)
        seconds, run = min(
            (trained(problem, options.chunk) for _ in range(options.rounds)), key=lambda one: one[0]
        )
        outcome = run.outcome
        values, wanted = run.evaluate(points), exact(points, job)
        parts = ", ".join(f"{name} {value:.4f}" for name, value in outcome.seconds.items())
        print(f"{job.boxes} x {job.boxes}, K={job.units}, {outcome.rows} rows: {outcome.devices}")
        print(f"  seconds: {seconds:.4f} (the problem {made:.2f}, the first training {first:.2f})")
        print(f"  of them: {parts}; the rest {seconds - sum(outcome.seconds.values()):.4f}")
        error = np.mean(np.abs(values - wanted)) / np.std(wanted)
        print(f"  certificate {outcome.certificate:.1e}, error {error:.2e}")
        for warning in outcome.warnings:
            print(f"  {warning}")
        if not options.no_cpu:
            with jax.default_device(jax.devices("cpu")[0]):
                seconds, of_cpu = trained(problem, options.chunk)
            there = of_cpu.evaluate(points)
            difference = np.max(np.abs(values - there)) / np.max(np.abs(there))
            print(f"  the CPU: {seconds:.2f} s; largest difference of u {difference:.1e}")


if __name__ == "__main__":
    main()
