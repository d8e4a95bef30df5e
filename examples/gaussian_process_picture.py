"""The picture of `gaussian_process.py`: some digits, predictions against truth, and the climb."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from digits_picture import FAINT, INK, RIGHT, WRONG
from gaussian_process_model import DEVICES, NAMES, Data, Fit, Prediction

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.figure import SubFigure


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
