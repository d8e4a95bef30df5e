"""Gaussian-process regression learned through the sharded solve: run by `make demo`.

The lower half of a handwritten digit is hidden: how much ink is in it? The kernel matrix lies in
rows over four CPU devices, and `jax.grad` goes through `shardsolve` to learn its hyperparameters.
The same model in plain `jax.scipy` on one device has to come to the same end. Exit status: 0, or 1
if a check misses its bound, 3 if something is missing on this machine.
"""

from __future__ import annotations

import functools
import math
import os
import re
import sys
import time
import timeit
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# Both are read when JAX starts: the processor poses as four devices.
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + (
    " --xla_force_host_platform_device_count=4"
)

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from digits_picture import FAINT, INK, RIGHT, WRONG
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from report import Report
from shardsolve_tool import ENVIRONMENT_ERROR, SOLVE_BOUND, backward_error
from sklearn.datasets import load_digits

import shardsolve

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.figure import SubFigure

jax.config.update("jax_enable_x64", True)

OUT = Path(__file__).resolve().parent.parent / "out"
DEVICES = 4  # as above
TRAIN = 1000  # divides by DEVICES, as the rows of an array cut with P("x", None) must
SEED = 0  # of the split
UNIT_ROUNDOFF = np.finfo(np.float64).eps / 2
NORMAL_95 = 1.96

# The logarithms of these are learned: length scale, then standard deviation of signal and noise
# (ink is scaled to mean 0 and standard deviation 1). The start is a plain guess.
NAMES = ("length scale", "signal", "noise")
START = np.log([3.0, 1.0, 1.0])
STEPS = 40
# Three well-scaled unknowns: with less memory than Adam's usual 0.9 and 0.999, and a rate that
# falls to 0, it stands still at the optimum after 30 steps instead of circling it.
RATE, MOMENTUM, MOMENTUM_OF_SQUARES = 0.2, 0.7, 0.9

Terms = Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]


@dataclass(frozen=True)
class Data:
    """Upper halves of images, one a row of 32 pixels in 0..1, and the ink below, scaled."""

    images: np.ndarray  # (m, 8, 8), of those held out
    x: np.ndarray
    y: np.ndarray
    x_new: np.ndarray
    y_new: np.ndarray
    mean: float
    deviation: float

    def ink(self, y: np.ndarray) -> np.ndarray:
        """In pixels of full black, from 0 to 32."""
        return self.mean + self.deviation * y


@dataclass(frozen=True)
class Prediction:
    """Mean and half width of the 95 % interval for each image held out, scaled as the targets."""

    mean: np.ndarray
    half_width: np.ndarray

    def error(self, truth: np.ndarray) -> float:
        """Root mean square error."""
        return float(np.sqrt(np.mean((self.mean - truth) ** 2)))

    def coverage(self, truth: np.ndarray) -> float:
        """The part of the truth that lies within its interval."""
        return float(np.mean(np.abs(self.mean - truth) < self.half_width))


@dataclass(frozen=True)
class Fit:
    """What gradient descent did, and how long a step takes where nothing disturbs it."""

    hyper: np.ndarray  # (3,) logarithms
    values: np.ndarray  # (STEPS + 1,) log marginal likelihoods, the last at `hyper`
    gradients: np.ndarray  # (STEPS + 1, 3)
    step_seconds: float
    value_seconds: float  # without the gradient


def read_data() -> Data:
    images = load_digits().images / 16
    # At random. With the last 797 of the file held out, which look less like the rest, the error
    # is 1.54 pixels (linear model 1.84), and the 95 % intervals hold 90.7 % (92.2 %).
    order = np.random.default_rng(SEED).permutation(len(images))
    top = images[:, :4].reshape(len(images), -1)[order]
    ink = images[:, 4:].sum(axis=(1, 2))[order]
    mean, deviation = ink[:TRAIN].mean(), ink[:TRAIN].std()
    y = (ink - mean) / deviation
    held_out = images[order[TRAIN:]]
    return Data(held_out, top[:TRAIN], y[:TRAIN], top[TRAIN:], y[TRAIN:], mean, deviation)


def squared_distances(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    """|x_i - z_j|^2; shape (len(x), len(z))."""
    squares = (x**2).sum(axis=1)[:, None] + (z**2).sum(axis=1) - 2 * (x @ z.T)
    return np.maximum(squares, 0)


# The model.


def kernel(hyper: jax.Array, distances: jax.Array) -> jax.Array:
    length, signal, _ = jnp.exp(hyper)
    return signal**2 * jnp.exp(-distances / (2 * length**2))


def covariance(hyper: jax.Array, distances: jax.Array) -> jax.Array:
    """A = K + noise^2 I, its rows where those of the distances are."""
    return kernel(hyper, distances) + jnp.exp(2 * hyper[2]) * jnp.eye(len(distances))


def sharded_terms(a: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A^-1 y and log det A by shardsolve: one factorisation, used for both."""
    factor = shardsolve.cho_factor(a)
    return shardsolve.cho_solve(factor, y), shardsolve.logdet(factor)


def plain_terms(a: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The same by jax.scipy."""
    factor = jax.scipy.linalg.cho_factor(a, lower=True)
    logdet = 2 * jnp.log(jnp.diagonal(factor[0])).sum()
    return jax.scipy.linalg.cho_solve(factor, y), logdet


def loss(terms: Terms, hyper: jax.Array, distances: jax.Array, y: jax.Array) -> jax.Array:
    """The negative log marginal likelihood."""
    alpha, logdet = terms(covariance(hyper, distances), y)
    return (y @ alpha + logdet + len(y) * jnp.log(2 * jnp.pi)) / 2


def maximise(step: jax.stages.Compiled, value: jax.stages.Compiled, *data: jax.Array) -> Fit:
    """Adam from START; `step` gives the loss and its gradient, `value` the loss alone."""
    hyper, first, second = START, np.zeros(3), np.zeros(3)
    values, gradients, seconds = [], [], []
    for count in range(STEPS + 1):
        began = time.perf_counter()
        at_hyper, gradient = step(hyper, *data)
        values.append(-float(at_hyper))  # waits for the step
        gradients.append(np.asarray(gradient))
        seconds.append(time.perf_counter() - began)
        if count == STEPS:
            break
        first = MOMENTUM * first + (1 - MOMENTUM) * gradients[-1]
        second = MOMENTUM_OF_SQUARES * second + (1 - MOMENTUM_OF_SQUARES) * gradients[-1] ** 2
        unbiased = first / (1 - MOMENTUM ** (count + 1))
        scale = np.sqrt(second / (1 - MOMENTUM_OF_SQUARES ** (count + 1)))
        rate = RATE * (1 + np.cos(np.pi * count / STEPS)) / 2
        hyper = hyper - rate * unbiased / (scale + 1e-8)
    alone = min(timeit.repeat(lambda: float(value(hyper, *data)), number=1, repeat=10))
    return Fit(hyper, np.array(values), np.array(gradients), min(seconds), alone)


def linear_prediction(data: Data) -> Prediction:
    """Ordinary least squares on the same 32 pixels, with its textbook interval."""
    x = np.column_stack([np.ones(len(data.x)), data.x])
    x_new = np.column_stack([np.ones(len(data.x_new)), data.x_new])
    inverse = np.linalg.pinv(x.T @ x, rcond=1e-12, hermitian=True)
    weights = inverse @ (x.T @ data.y)
    freedom = len(x) - np.linalg.matrix_rank(x)
    variance = ((data.y - x @ weights) ** 2).sum() / freedom
    spread = 1 + ((x_new @ inverse) * x_new).sum(axis=1)
    return Prediction(x_new @ weights, NORMAL_95 * np.sqrt(variance * spread))


# What is run and said.


def explain_problem(report: Report, data: Data) -> None:
    report.heading("3. The JAX way: a Gaussian process learned through the solver")
    report.say(
        f"Of {len(data.y) + len(data.y_new)} handwritten digits only the upper half is shown: 32 "
        "pixels. How much ink is in the lower half, and how sure can one be? A Gaussian process "
        f"answers both, from {len(data.y)} digits drawn at random; the other {len(data.y_new)} are "
        "held out. It has three unknowns of its own: length scale l, signal s and noise e. They "
        "are learned by climbing, along the gradient, the log marginal likelihood of the targets y"
    )
    report.formula(
        "log p(y) = -(y^T A^-1 y + log det A + n log 2 pi) / 2",
        "A(i, j) = s^2 exp(-|x_i - x_j|^2 / (2 l^2)) + e^2 (i = j)",
    )
    report.say("The whole of it, where a is a jax.Array whose rows lie on four devices:")
    report.formula(
        "factor = shardsolve.cho_factor(a)",
        "alpha, logdet = shardsolve.cho_solve(factor, y), shardsolve.logdet(factor)",
        "loss = (y @ alpha + logdet + n * jnp.log(2 * jnp.pi)) / 2",
        "step = jax.jit(jax.value_and_grad(...))    # nobody wrote a derivative",
    )


def check_program(report: Report, program: str, n: int) -> None:
    """Reads in the compiled program what a step does, and how large its arrays are."""
    report.say("What JAX made of it, read from the compiled program of one device:")
    calls = re.findall(r'custom_call_target="shardsolve_cholesky_(\w+)"', program)
    counts = ", ".join(f"{name} {calls.count(name)}" for name in ("factor", "solve", "inverse"))
    report.check(
        f"value and gradient together call shardsolve's {counts}: one factorisation a step",
        calls.count("factor") == 1,
    )
    shapes = [tuple(map(int, shape.split(","))) for shape in re.findall(r"f64\[([\d,]+)]", program)]
    largest = max(shapes, key=math.prod)
    report.check(
        f"its largest array is {' x '.join(map(str, largest))}, a slab of the matrix: none is "
        f"{n} x {n}",
        math.prod(largest) == n * n // DEVICES,
    )


def fit_both(report: Report, distances: np.ndarray, y: np.ndarray) -> tuple[Fit, Fit, jax.Array]:
    """Learns with both; returns what they did, and the distances with their rows cut."""
    mesh = jax.make_mesh((DEVICES,), ("x",), axis_types=(AxisType.Auto,))
    cut = jax.device_put(distances, NamedSharding(mesh, P("x", None)))
    whole = jax.device_put(distances, jax.devices()[0])
    sharded = fit(sharded_terms, cut, y, lambda program: check_program(report, program, len(y)))
    return sharded, fit(plain_terms, whole, y), cut


def fit(
    terms: Terms, distances: jax.Array, y: np.ndarray, inspect: Callable[[str], None] | None = None
) -> Fit:
    """Compiles the objective with its gradient, shows the program to `inspect`, and climbs."""
    objective = functools.partial(loss, terms)
    data = (distances, jnp.asarray(y))
    step = jax.jit(jax.value_and_grad(objective)).lower(START, *data).compile()
    if inspect is not None:
        inspect(step.as_text())
    return maximise(step, jax.jit(objective).lower(START, *data).compile(), *data)


def compare_fits(report: Report, sharded: Fit, plain: Fit) -> None:
    report.say(
        f"{STEPS} steps of Adam from the same start, by shardsolve on {DEVICES} devices, and by "
        "jax.scipy.linalg on one:"
    )
    rows = [("", "shardsolve", "jax.scipy", "difference")]
    rows.append(
        (
            "log p(y)",
            f"{sharded.values[-1]:.6f}",
            f"{plain.values[-1]:.6f}",
            f"{abs(sharded.values[-1] - plain.values[-1]):.0e}",
        )
    )
    for name, ours, theirs in zip(NAMES, np.exp(sharded.hyper), np.exp(plain.hyper), strict=True):
        rows.append((name, f"{ours:.6f}", f"{theirs:.6f}", f"{abs(ours - theirs):.0e}"))
    for name, times in (
        ("log p(y) alone", (sharded.value_seconds, plain.value_seconds)),
        ("with gradient", (sharded.step_seconds, plain.step_seconds)),
    ):
        rows.append((name, *(f"{1e3 * t:.0f} ms" for t in times), ""))
    report.formula(*(f"{a:16}{b:>14}{c:>14}{d:>13}" for a, b, c, d in rows))
    say_times(report, sharded, plain)

    value = abs(sharded.values[-1] - plain.values[-1])
    report.check(f"same log p(y): they differ by {value:.0e} (< 1e-8)", value < 1e-8)
    hyper = float(np.abs(sharded.hyper - plain.hyper).max())
    report.check(f"same hyperparameters: {hyper:.0e} relative (< 1e-8)", hyper < 1e-8)
    sizes = np.abs(plain.gradients).max(axis=1)
    gradient = float((np.abs(sharded.gradients - plain.gradients).max(axis=1) / sizes).max())
    report.check(
        f"same gradient at each of {len(sizes)} points: at most {gradient:.0e} relative (< 1e-6)",
        gradient < 1e-6,
    )
    final = float(np.abs(sharded.gradients[-1]).max() / np.abs(sharded.gradients[0]).max())
    report.check(
        f"and an optimum: the gradient has fallen to {final:.0e} of what it was (< 1e-2)",
        final < 1e-2,
    )


def say_times(report: Report, sharded: Fit, plain: Fit) -> None:
    slower = sharded.value_seconds > plain.value_seconds
    # The reference: EPYC (Zen 4), load average below 2. At 5, jax.scipy took 30 and 330 ms or more,
    # with OPENBLAS_NUM_THREADS=1 only 15 and 163 ms; shardsolve 16 to 20 and 48 to 65 ms always.
    report.say(
        f"Times are the fastest of several; for the value alone shardsolve was the "
        f"{'slower' if slower else 'faster'}. Do not read more into them: other programs on the "
        "machine hold up jax.scipy's BLAS threads far more (on 2 cores with little else to do: 15 "
        "ms against 10 for the value, 47 against 99 with the gradient). For the gradient "
        "jax.scipy goes back through its factorisation, by more triangular solves and products, "
        f"where shardsolve calls one inverse. And four devices are no more than one here: they "
        f"share {os.cpu_count()} cores. Rows over devices pay where a matrix does not fit one."
    )
    report.say("Do they agree?")


def predict(
    report: Report, data: Data, hyper: np.ndarray, cut: jax.Array
) -> tuple[Prediction, str]:
    """Answers for the images held out, from one certified solve; also the certificate in words."""
    a = covariance(hyper, cut)
    cross = np.asarray(kernel(hyper, squared_distances(data.x_new, data.x)))
    right = np.column_stack([data.y, cross.T])
    solution, info = shardsolve.cho_solve(shardsolve.cho_factor(a), right, full_output=True)
    x = np.asarray(solution)
    error, rcond = float(info.backward_error) / UNIT_ROUNDOFF, float(info.rcond)
    report.say(
        f"The prediction is one more solve, with the targets and {len(cross)} columns of "
        "covariances on the right. It comes with a certificate: backward error, how far A and "
        "the right-hand side would have to be moved for the answer to be exact, in units of u = "
        "1.1e-16, the rounding of one number; and rcond, how much A magnifies such a change."
    )
    report.check(
        f"its certificate: backward error {error:.2g} u (< {SOLVE_BOUND:g} u), rcond {rcond:.1e}",
        error < SOLVE_BOUND and rcond > UNIT_ROUNDOFF,
    )
    again = backward_error(np.asarray(a), x, right) / UNIT_ROUNDOFF
    report.check(
        f"backward error recomputed by NumPy: {again:.2g} u (< {SOLVE_BOUND:g} u)",
        again < SOLVE_BOUND,
    )
    theirs = np.linalg.solve(np.asarray(a), right)
    difference = float(np.abs(x - theirs).max() / np.abs(theirs).max())
    bound = 4 * max(error, 1.0) * UNIT_ROUNDOFF / rcond  # either may be off by half of that
    report.check(
        f"numpy.linalg.solve differs by {difference:.1e} relative (< {bound:.1e}, from rcond)",
        difference < bound,
    )
    variance = np.exp(2 * hyper[1]) + np.exp(2 * hyper[2]) - (cross.T * x[:, 1:]).sum(axis=0)
    words = f"backward error {error:.2g} u (u = 1.1e-16), rcond {rcond:.0e}"
    return Prediction(cross @ x[:, 0], NORMAL_95 * np.sqrt(variance)), words


def compare_predictions(report: Report, data: Data, ours: Prediction, linear: Prediction) -> None:
    report.say(
        f"How good is it on the {len(data.y_new)} digits that it never saw? Against a linear model "
        "(least squares on the same 32 pixels), ink in pixels of full black:"
    )
    rows = [("", "error (RMS)", "in 95 % interval", "its mean width")]
    for name, it in (("Gaussian process", ours), ("linear model", linear)):
        width = 2 * data.deviation * it.half_width.mean()
        error = data.deviation * it.error(data.y_new)
        rows.append((name, f"{error:.2f}", f"{it.coverage(data.y_new):.1%}", f"{width:.2f}"))
    spread = data.deviation * data.y_new.std()
    rows.append(("always the mean", f"{spread:.2f}", "", ""))
    report.formula(*(f"{a:18}{b:>12}{c:>19}{d:>17}" for a, b, c, d in rows))
    report.say(
        "Both know how unsure they are; the Gaussian process is less so. (The split is at random. "
        "With the last digits of the file held out, which look less like the rest, both models get "
        "worse, and their intervals too narrow.)"
    )
    gain = 1 - ours.error(data.y_new) / linear.error(data.y_new)
    report.check(f"error {gain:.0%} below that of the linear model (>= 15 %)", gain >= 0.15)
    coverage = ours.coverage(data.y_new)
    report.check(
        f"{coverage:.1%} of the truth in the 95 % intervals (93 to 97 %)", 0.93 <= coverage <= 0.97
    )


# The picture.


def draw(
    path: Path,
    data: Data,
    ours: Prediction,
    linear: Prediction,
    fits: dict[str, Fit],
    certificate: str,
) -> None:
    """Draws some digits, predictions against truth, and the climb of both fits."""
    figure = plt.figure(figsize=(13, 10.4), dpi=110, facecolor="white")
    header, row, bottom = figure.subfigures(3, 1, height_ratios=[1.25, 2.0, 6])
    title = "How much ink is in the half that is hidden?"
    header.text(0.03, 0.72, title, fontsize=20, weight="bold", color=INK, va="center")
    note = (
        f"A Gaussian process, trained on {len(data.y)} digits through JAX; its kernel matrix lies "
        f"in rows on {DEVICES} devices.\nCertificate of the solve behind the predictions: "
        f"{certificate}."
    )
    header.text(0.03, 0.3, note, fontsize=12, color=FAINT, va="center", linespacing=1.5)
    _draw_digits(row, data, ours)
    left, right = bottom.subfigures(1, 2, width_ratios=[1.1, 1])
    _draw_predictions(left, data, ours, linear)
    _draw_climb(right, fits)
    figure.savefig(path)
    plt.close(figure)


def _draw_digits(figure: SubFigure, data: Data, ours: Prediction) -> None:
    title = "Ten that it never saw: shown the upper half, it says how much ink is in the shaded one"
    figure.text(0.03, 0.95, title, fontsize=13, weight="bold", color=INK, va="center")
    grid = figure.add_gridspec(1, 10, left=0.03, right=0.97, top=0.84, bottom=0.25, wspace=0.3)
    for place in range(10):
        axes = figure.add_subplot(grid[0, place])
        axes.imshow(data.images[place], cmap="gray_r", vmin=0, vmax=1)
        axes.axhspan(3.5, 7.5, color=RIGHT, alpha=0.22)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_color("#d5dbe1")
        mean, truth = data.ink(ours.mean[place]), data.ink(data.y_new[place])
        bar = data.deviation * ours.half_width[place]
        color = RIGHT if abs(mean - truth) < bar else WRONG
        label = f"{mean:.1f} ± {bar:.1f}\nis {truth:.1f}"
        axes.set_xlabel(label, fontsize=10.5, labelpad=5, color=color)


def _draw_title(figure: SubFigure, title: str, note: str) -> None:
    figure.text(0.07, 0.95, title, fontsize=13, weight="bold", color=INK, va="center")
    figure.text(0.07, 0.92, note, fontsize=10.5, color=FAINT, va="top", linespacing=1.4)


def _draw_predictions(figure: SubFigure, data: Data, ours: Prediction, linear: Prediction) -> None:
    errors = [data.deviation * it.error(data.y_new) for it in (ours, linear)]
    _draw_title(
        figure,
        f"Prediction against truth, {len(data.y_new)} digits held out",
        f"Every tenth with its 95 % interval; {ours.coverage(data.y_new):.1%} of all lie in theirs."
        f"\nError (RMS) {errors[0]:.2f}; of a linear model {errors[1]:.2f}.",
    )
    axes = figure.add_axes((0.11, 0.1, 0.83, 0.73))
    truth, mean, bar = data.ink(data.y_new), data.ink(ours.mean), data.deviation * ours.half_width
    axes.plot(truth, mean, ".", color=FAINT, alpha=0.45, markersize=6, markeredgewidth=0)
    shown = np.arange(len(truth)) % 10 == 0
    inside = np.abs(mean - truth) < bar
    for which, color, label in (
        (shown & inside, RIGHT, "truth is in the interval"),
        (shown & ~inside, WRONG, "truth is outside"),
    ):
        points = (truth[which], mean[which], bar[which])
        axes.errorbar(
            *points, fmt="o", color=color, label=label, alpha=0.85, markersize=4, elinewidth=1
        )
    axes.axline((10, 10), slope=1, color=INK, linewidth=1)
    axes.set_xlabel("ink in the hidden half, in pixels of full black (of 32)", color=INK)
    axes.set_ylabel("predicted", color=INK)
    axes.legend(frameon=False, loc="upper left")
    axes.spines[["top", "right"]].set_visible(False)


def _draw_climb(figure: SubFigure, fits: dict[str, Fit]) -> None:
    ours, theirs = fits.values()
    learned = zip(NAMES, np.exp(ours.hyper), strict=True)
    _draw_title(
        figure,
        "Learning: the same climb by both",
        f"Log marginal likelihood; the ends differ by {abs(ours.values - theirs.values)[-1]:.0e}."
        "\nLearned: " + ", ".join(f"{name} {value:.3f}" for name, value in learned),
    )
    axes = figure.add_axes((0.13, 0.1, 0.82, 0.73))
    styles = ({"color": RIGHT, "linewidth": 3}, {"color": INK, "marker": "o", "linestyle": ""})
    for (name, fit), style in zip(fits.items(), styles, strict=True):
        axes.plot(fit.values, label=name, fillstyle="none", **style)
    axes.set_xlabel("step of Adam", color=INK)
    axes.set_ylabel("log p(y)", color=INK)
    axes.legend(frameon=False, loc="lower right")
    axes.spines[["top", "right"]].set_visible(False)


def main() -> int:
    report = Report()
    OUT.mkdir(exist_ok=True)
    data = read_data()
    explain_problem(report, data)
    distances = squared_distances(data.x, data.x)
    # Rounding may differ between (i, j) and (j, i).
    distances = (distances + distances.T) / 2
    try:
        sharded, plain, cut = fit_both(report, distances, data.y)
    except ImportError as error:  # its compiled library is missing, or JAX is of another version
        print(f"demo: {error}", file=sys.stderr)
        return ENVIRONMENT_ERROR
    compare_fits(report, sharded, plain)
    ours, certificate = predict(report, data, sharded.hyper, cut)
    linear = linear_prediction(data)
    compare_predictions(report, data, ours, linear)
    picture = OUT / "gaussian_process.png"
    fits = {"shardsolve, four devices": sharded, "jax.scipy, one device": plain}
    draw(picture, data, ours, linear, fits, certificate)
    report.say(f"Picture of predictions and the climb: {picture.relative_to(OUT.parent)}")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
