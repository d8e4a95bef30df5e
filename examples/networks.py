"""A wave from 75 small networks: run by `make demo`.

The user's own equation, by least squares, against the known solution and against finite
differences. Exit status: 0, or 1 if a check misses its bound.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np
from networks_picture import Course, draw
from report import Report

import shardsolve.fbpinn as fb

jax.config.update("jax_enable_x64", True)

OUT = Path(__file__).resolve().parent.parent / "out"
DOMAIN = [(-2, 2), (0, 1)]
COUNTS = (15, 5)
# Units of each network, and points along z and t: four or more rows a column.
SIZES = ((6, (90, 30)), (12, (120, 40)), (24, (165, 55)), (40, (210, 70)))
ERROR = 1e-4  # the last of them has to be better


def pulse(z: jax.Array) -> jax.Array:
    """What the wave is at t = 0: two humps at rest."""
    return jnp.exp(-(((z + 0.4) / 0.2) ** 2)) - 0.6 * jnp.exp(-(((z - 0.3) / 0.15) ** 2))


def exact(x) -> jax.Array:
    """After d'Alembert: a half goes to either side."""
    return (pulse(x.z - x.t) + pulse(x.z + x.t)) / 2


def wave(x, u) -> jax.Array:
    """u_tt = u_zz."""
    return u.tt - u.zz


def from_rest(x, u) -> jax.Array:
    """At t = 0 the value is the pulse and the speed 0, whatever the networks are."""
    return pulse(x.z) + jnp.tanh(4 * x.t) ** 2 * u


def problem(units: int, points: tuple[int, int]) -> fb.Problem:
    """The whole statement of the problem."""
    boxes = fb.Boxes(DOMAIN, counts=COUNTS, overlap=2.9)
    return fb.Problem(
        boxes,
        axes="z t",
        net=fb.Mlp([units], "tanh"),
        constrain=from_rest,
        terms=[
            fb.Interior(wave, points=points),
            fb.Boundary(lambda x, u: u.v - exact(x), (points[1],), where="z = -2", weight=10),
            fb.Boundary(lambda x, u: u.v - exact(x), (points[1],), where="z = 2", weight=10),
        ],
    )


def by_finite_differences(cells: int) -> tuple[float, float]:
    """The classical way, leapfrog of second order: error at t = 1, and seconds."""
    z = np.linspace(*DOMAIN[0], cells + 1)
    h = z[1] - z[0]
    steps = int(np.ceil(1 / (0.5 * h)))
    ratio = (1 / steps / h) ** 2
    start = np.asarray(pulse(z))
    begin = time.perf_counter()

    def second(u: np.ndarray) -> np.ndarray:
        return np.concatenate([[0], u[2:] - 2 * u[1:-1] + u[:-2], [0]])

    before, now = start, start + ratio / 2 * second(start)
    for _ in range(steps - 1):
        before, now = now, 2 * now - before + ratio * second(now)
    seconds = time.perf_counter() - begin
    true = np.asarray((pulse(z - 1) + pulse(z + 1)) / 2)
    return float(np.mean(np.abs(now - true)) / np.std(true)), seconds


def by_networks(report: Report) -> tuple[Course, fb.Run]:
    """Larger and larger networks: their errors, and the last run."""
    errors, seconds = [], []
    for units, points in SIZES:
        posed = problem(units, points)
        posed.train()  # compiles
        begin = time.perf_counter()
        run = posed.train()
        seconds.append(time.perf_counter() - begin)
        errors.append(run.error(exact))
        report.answer(
            f"{units:2} units: {run.outcome.rows} x {run.outcome.columns}, error {errors[-1]:.1e}, "
            f"{seconds[-1]:.2f} s"
        )
    return Course("75 networks", errors, seconds), run


def main() -> int:
    """Runs the demonstration. Returns the exit status."""
    report = Report()
    report.heading("5. The user's own equation: a wave from 75 small networks")
    report.say(
        "A wave in z and t, cut into 15 x 5 boxes that overlap. In each a small network times a "
        "window; the windows sum to 1. The equation is any JAX function of the point and of what u "
        "and its derivatives are there:"
    )
    report.formula(
        "def wave(x, u):",
        "    return u.tt - u.zz",
        "problem = fb.Problem(boxes, axes='z t', net=fb.Mlp([40]), constrain=from_rest,",
        "                     terms=[fb.Interior(wave, points=(210, 70)), ...])",
        "run = problem.train()      # one sparse least-squares problem, no gradient descent",
    )
    ours, run = by_networks(report)
    report.say(str(run.outcome))
    courses = [ours]
    found = [by_finite_differences(cells) for cells in (100, 400, 1600)]
    classical = Course(
        "finite differences of order 2",
        [error for error, _ in found],
        [seconds for _, seconds in found],
    )
    courses.append(classical)
    report.say(
        f"Finite differences of order 2 on 1600 cells: error {classical.errors[-1]:.1e} in "
        f"{classical.seconds[-1]:.2f} s. On a plain box with one known equation the classical way "
        "needs no network; data, unknown fields and odd domains are where networks pay."
    )
    OUT.mkdir(exist_ok=True)
    picture = OUT / "networks.png"
    draw(picture, run, exact, courses)
    report.say(f"The picture: out/{picture.name}")
    report.check(f"Error below {ERROR:g}: {ours.errors[-1]:.1e}", ours.errors[-1] < ERROR)
    report.check("Larger networks are better each time", ours.errors == sorted(ours.errors)[::-1])
    start = run.problem.boxes.grid((401,), {1: 0.0})
    off = float(np.abs(run.evaluate(start) - np.asarray(pulse(start[:, 0]))).max())
    speed = float(np.abs(run.evaluate(start, "t")).max())
    report.check(
        f"At t = 0 it is the pulse at rest: off by {off:.0e}, speed {speed:.0e}",
        max(off, speed) < 1e-12,
    )
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
