"""Burgers' equation by gradients and by least squares: error against time.

u_t + u u_x = nu u_xx, u = -sin(pi x) at t = 0, 0 at both ends, nu = 0.1 / pi: the solution becomes
steep at x = 0. The same 75 subdomains by

    Adam, points drawn anew at each step;  L-BFGS after it;  Gauss-Newton (least squares),

each against the known solution. Draws out/burgers.png if matplotlib is there. With --checkpoint a
killed run goes on from where it was. Exit status: 0, or 1 if a check misses its bound.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
from report import Report

import shardsolve.fbpinn as fb

jax.config.update("jax_enable_x64", True)

OUT = Path(__file__).resolve().parent.parent / "out"
NU = 0.1 / np.pi
LS_ERROR, ADAM_ERROR = 2e-3, 0.2  # relative L2 that has to be reached


def burgers(x, u):
    """The equation."""
    return u.t + u.v * u.x - NU * u.xx


def from_sine(x, u):
    """At t = 0 it is -sin(pi x), at both ends 0, whatever the networks are."""
    ends = jnp.tanh(4 * (1 + x.x)) * jnp.tanh(4 * (1 - x.x))
    return -jnp.sin(jnp.pi * x.x) + jnp.tanh(4 * x.t) * ends * u


def problem(units: int, points: tuple[int, int]) -> fb.Problem:
    """75 subdomains."""
    return fb.Problem(
        fb.Boxes([(-1, 1), (0, 1)], counts=(15, 5)),
        axes="x t",
        net=fb.Mlp([units]),
        constrain=from_sine,
        terms=[fb.Interior(burgers, points=points)],
    )


def exact(points: np.ndarray) -> np.ndarray:
    """After Cole and Hopf, by Gauss-Hermite quadrature."""
    nodes, weights = np.polynomial.hermite.hermgauss(120)
    x, t = points[:, :1], np.maximum(points[:, 1:], 1e-12)
    y = x - np.sqrt(4 * NU * t) * nodes
    logs = -np.cos(np.pi * y) / (2 * np.pi * NU)
    kernel = weights * np.exp(logs - logs.max(1, keepdims=True))
    return -(kernel * np.sin(np.pi * y)).sum(1) / kernel.sum(1)


GRID = fb.Boxes([(-1, 1), (0, 1)], counts=(15, 5)).grid((201, 51))
TRUE = exact(GRID)


def error_of(networks: fb.Networks) -> float:
    """Relative L2."""
    return float(np.linalg.norm(networks.evaluate(GRID) - TRUE) / np.linalg.norm(TRUE))


@dataclass
class Course:
    """Errors of one way, and after how many seconds, compiling left out."""

    name: str
    seconds: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)


def by_gradients(steps: int, checkpoint: Path | None, report: Report) -> list[Course]:
    """Adam, and L-BFGS after it."""
    posed = problem(16, (80, 60))
    course, run, spent = Course("Adam, then L-BFGS"), None, 0.0
    parts = 4

    def rate(step):
        return 5e-3 * 0.5 ** (3 * step / steps)

    for part in range(1, parts + 1):
        how = fb.Adam(steps=steps * part // parts, rate=rate, points="random", dtype=np.float32)
        where = OUT / "burgers.checkpoint" if checkpoint is None else checkpoint
        run = posed.train(how, checkpoint=fb.Checkpoint(where), callbacks=_every(10))
        spent += run.outcome.seconds.get("steps", 0.0)
        course.seconds.append(spent)
        course.errors.append(error_of(run))
        report.answer(f"Adam, step {run.outcome.steps}: error {course.errors[-1]:.2e}")
    assert run is not None
    if checkpoint is None:
        where.unlink()
    report.say(str(run.outcome))
    after = posed.train(fb.LBFGS(steps=max(1, steps // 4), dtype=np.float32), start=run)
    course.seconds.append(spent + after.outcome.seconds["steps"])
    course.errors.append(error_of(after))
    report.answer(f"L-BFGS after it: error {course.errors[-1]:.2e}")
    report.say(str(after.outcome))
    return [course]


def _every(blocks: int):
    """Prints every so many blocks."""
    return lambda progress: print(progress) if progress.step % (100 * blocks) == 0 else None


def by_least_squares(sizes: list[tuple[int, tuple[int, int]]], report: Report):
    """Gauss-Newton with more and more units."""
    course, run = Course("Gauss-Newton"), None
    for units, points in sizes:
        posed = problem(units, points)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fb.TrainingWarning)  # of one iteration alone
            posed.train(fb.LeastSquares(max_iterations=1))  # compiles
        begin = time.perf_counter()
        run = posed.train(fb.LeastSquares(max_iterations=60))
        course.seconds.append(time.perf_counter() - begin)
        course.errors.append(error_of(run))
        report.answer(f"Gauss-Newton, {units} units: error {course.errors[-1]:.2e}")
    assert run is not None
    report.say(str(run.outcome))
    return course, run


def draw(path: Path, run: fb.Run, courses: list[Course]) -> None:
    """The solution, its error, and error against seconds."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4.2), layout="constrained")
    axes = figure.subplots(1, 3)
    u = run.evaluate(GRID).reshape(201, 51)
    off = np.log10(np.abs(u - TRUE.reshape(201, 51)) + 1e-12)
    for one, values, title, colors in (
        (axes[0], u, "u, by Gauss-Newton", "RdBu_r"),
        (axes[1], off, "log10 of its error", "viridis"),
    ):
        image = one.imshow(
            values.T, origin="lower", aspect="auto", extent=(-1, 1, 0, 1), cmap=colors
        )
        figure.colorbar(image, ax=one)
        one.set_title(title)
        one.set_xlabel("x")
        one.set_ylabel("t")
    for course in courses:
        axes[2].loglog(course.seconds, course.errors, "o-", label=course.name)
    axes[2].set_title("error against time, 2 CPU cores")
    axes[2].set_xlabel("seconds, without compiling")
    axes[2].set_ylabel("relative L2 error")
    axes[2].grid(visible=True, color="#e6eaee")
    axes[2].legend(frameon=False)
    figure.savefig(path, dpi=110)


def main() -> int:
    """Runs the example. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=4000, help="of Adam")
    parser.add_argument("--checkpoint", type=Path, help="a file to go on from, and to keep")
    given = parser.parse_args()
    OUT.mkdir(exist_ok=True)
    report = Report()
    report.heading("Burgers' equation by gradients and by least squares")
    full = given.steps >= 1000
    sizes = [(8, (70, 35)), (16, (100, 50)), (32, (150, 70))] if full else [(4, (50, 25))]
    least, run = by_least_squares(sizes, report)
    courses = [*by_gradients(given.steps, given.checkpoint, report), least]
    try:
        draw(OUT / "burgers.png", run, courses)
        report.say("The picture: out/burgers.png")
    except ImportError:
        report.say("No picture: matplotlib is not there")
    gradients = courses[0].errors
    report.check("More steps are better", gradients[-1] < gradients[0])
    if full:
        report.check(f"Least squares below {LS_ERROR:g}", least.errors[-1] < LS_ERROR)
        report.check(f"Gradients below {ADAM_ERROR:g}", gradients[-1] < ADAM_ERROR)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
