"""Layers of the ground from what a few receivers hear: an inverse problem, with its uncertainty.

A pulse at rest runs through three layers, in each of which waves have another speed:

    p_tt = c(z)^2 p_zz,   p = 0 at the surface z = 0 and at the bottom z = 1

Three speeds and the depths of two interfaces are unknown. Receivers at a few depths write down p,
with noise of 1 % of what they hear at most. Readings come from finite differences, so that nothing
of the networks is in them. The field and the five numbers are found together by least squares
(Gauss-Newton), and each number comes with its standard deviation.

    python examples/layers.py --picture layers.png
    python examples/layers.py --depths 0.15 0.45 0.8 --seed 3  # other receivers, other noise
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import shardsolve.fbpinn as fb

jax.config.update("jax_enable_x64", True)

TRUE = {"upper": 1.0, "middle": 1.5, "lower": 1.2, "first": 0.35, "second": 0.65}
LONG, WIDE = 0.9, 0.04  # how long is listened; half of the zone in which a speed becomes another
DEPTHS = (0.1, 0.3, 0.5, 0.7, 0.9)


def speed(z, upper, middle, lower, first, second):
    """Of waves at a depth."""

    def below(depth):
        return (1 + jnp.tanh((z - depth) / WIDE)) / 2

    return upper + (middle - upper) * below(first) + (lower - middle) * below(second)


def pulse(z):
    """The field at t = 0."""
    bumps = jnp.exp(-(((z - 0.2) / 0.12) ** 2)) - jnp.exp(-(((z - 0.8) / 0.14) ** 2))
    return 4 * z * (1 - z) * bumps


def field(cells: int = 1600) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Depths, times and p by finite differences of the second order."""
    z = np.linspace(0, 1, cells + 1)
    c = np.asarray(speed(z, **TRUE))
    steps = int(np.ceil(LONG / (0.5 / cells / c.max())))
    dt = LONG / steps
    courant = (c[1:-1] * dt * cells) ** 2

    def bent(p: np.ndarray) -> np.ndarray:
        return courant * (p[2:] - 2 * p[1:-1] + p[:-2])

    now = np.asarray(pulse(z)) * (z > 0) * (z < 1)
    before = now.copy()
    before[1:-1] += bent(now) / 2  # at rest
    found = [now]
    for _ in range(steps):
        behind = 2 * now - before
        behind[1:-1] += bent(now)
        before, now = now, behind
        now[[0, -1]] = 0
        found.append(now)
    return z, np.linspace(0, LONG, steps + 1), np.array(found)


def readings(
    depths: Sequence[float], times: int, noise: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Where and when, (readings, 2), and what was heard."""
    z, t, p = field()
    when = np.linspace(0, LONG, times)
    points, heard = [], []
    for depth in depths:
        column = np.array([np.interp(depth, z, row) for row in p])
        points += [(depth, one) for one in when]
        heard.append(np.interp(when, t, column))
    heard = np.concatenate(heard)
    luck = np.random.default_rng(seed).normal(size=len(heard))
    return np.array(points), heard + noise * np.abs(heard).max() * luck


def ground(points: np.ndarray, heard: np.ndarray, small: bool = False) -> fb.Problem:
    """The field and the layers as one problem."""

    def wave(x, u, c):
        return u.tt - speed(x.z, c.upper, c.middle, c.lower, c.first, c.second) ** 2 * u.zz

    def from_rest(x, u):
        return pulse(x.z) * jnp.exp(-((3 * x.t) ** 2)) + x.t**2 * x.z * (1 - x.z) * u

    return fb.Problem(
        fb.Boxes([(0, 1), (0, LONG)], counts=(8, 6) if small else (10, 7)),
        axes="z t",
        net=fb.Mlp([24] if small else [32]),
        constrain=from_rest,
        terms=[
            fb.Interior(wave, points=(72, 54) if small else (120, 90), weight=0.1),
            fb.Data(points, heard, lambda x, u: u.v, weight=3),
        ],
        coefficients={
            "upper": fb.Scalar(1.2, positive=True),
            "middle": fb.Scalar(1.2, positive=True),
            "lower": fb.Scalar(1.2, positive=True),
            "first": fb.Scalar(0.4),
            "second": fb.Scalar(0.6),
        },
    )


def off(run: fb.Run) -> float:
    """The largest error of a speed, as a share of it."""
    found = run.coefficients
    return max(abs(found[name] / TRUE[name] - 1) for name in ("upper", "middle", "lower"))


def main() -> None:
    """Finds the layers, prints and draws them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--depths", type=float, nargs="+", default=DEPTHS)
    parser.add_argument("--times", type=int, default=60, help="readings of each receiver")
    parser.add_argument("--noise", type=float, default=0.01, help="a share of the loudest reading")
    parser.add_argument("--seed", type=int, default=0, help="of the noise")
    parser.add_argument("--small", action="store_true", help="fewer and coarser networks")
    parser.add_argument("--bound", type=float, default=0.02, help="that errors have to keep")
    parser.add_argument("--picture", type=Path, help="a PNG file (needs matplotlib)")
    given = parser.parse_args()
    points, heard = readings(given.depths, given.times, given.noise, given.seed)
    problem = ground(points, heard, given.small)
    begin = time.perf_counter()
    run = problem.train(fb.LeastSquares(max_iterations=40))
    print(run.outcome)
    seconds = time.perf_counter() - begin
    print(f"{len(heard)} readings at {len(given.depths)} depths, {seconds:.1f} s")
    for name, value in run.coefficients.items():
        deviation = run.coefficient_deviations[name]
        print(f"{name:8} {value:.4f} +- {deviation:.4f}, true {TRUE[name]:.4f}")
    error = off(run)
    print(f"speeds are right to {100 * error:.2f} %")
    if given.picture is not None:
        draw(given.picture, run, given.depths)
    if error > given.bound:
        raise SystemExit(f"that is more than {100 * given.bound:g} %")


def draw(path: Path, run: fb.Run, depths: Sequence[float]) -> None:
    """The field with its receivers, and the speeds that were found beside the true ones."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 5), layout="constrained")
    shape = (200, 160)
    p = run.evaluate(run.problem.boxes.grid(shape)).reshape(shape)
    limit = np.abs(p).max()
    left.imshow(p, extent=(0, LONG, 1, 0), aspect="auto", cmap="RdBu_r", vmin=-limit, vmax=limit)
    for depth in depths:
        left.axhline(depth, color="#22303c", linewidth=0.8, linestyle=":")
    left.set(xlabel="time", ylabel="depth", title="the field; dotted: receivers")
    z = np.linspace(0, 1, 400)
    right.plot(speed(z, **TRUE), z, color="#7b8794", linewidth=4, alpha=0.5, label="true")
    right.plot(speed(z, **run.coefficients), z, color="#c8372d", label="found")
    luck = np.random.default_rng(0)
    deviations = run.coefficient_deviations
    drawn = [
        speed(z, **{k: v + deviations[k] * luck.normal() for k, v in run.coefficients.items()})
        for _ in range(200)
    ]
    low, high = np.percentile(drawn, [2.5, 97.5], axis=0)
    right.fill_betweenx(z, low, high, color="#c8372d", alpha=0.2, label="95 %")
    right.set(xlabel="speed", ylim=(1, 0), title="how fast waves run")
    right.legend()
    figure.savefig(path, dpi=75)


if __name__ == "__main__":
    main()
