"""The picture of the digits demonstration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure
from shardsolve_tool import Certificate

INK = "#22303c"
FAINT = "#7b8794"
RIGHT = "#2a7f62"
WRONG = "#c8372d"
COLUMNS = 12
SHOWN = 24
SEED = 1


def draw(
    path: Path,
    images: np.ndarray,
    labels: np.ndarray,
    readings: np.ndarray,
    margins: np.ndarray,
    holdout: float,
    certificates: Sequence[Certificate],
) -> None:
    """Draws digits at random, the hardest ones, all margins, and the certificates.

    Args:
        path: The `.png` file to write.
        images: (n, 8, 8), 0 is paper and 1 is ink.
        labels: (n,), the digits that were meant.
        readings: (n,), the digits that were read, each by a model that never saw the image.
        margins: (n,), score of the true digit less the best other; negative is wrong.
        holdout: Accuracy on the images that were held out.
        certificates: What the tool said about each answer.
    """
    figure = plt.figure(figsize=(13, 10.4), dpi=110, facecolor="white")
    header, sample, hardest, bottom = figure.subfigures(4, 1, height_ratios=[0.9, 2.6, 2.6, 3.6])
    _draw_header(header, labels, readings, holdout)
    some = np.random.default_rng(SEED).choice(len(labels), SHOWN, replace=False)
    _draw_digits(
        sample,
        f"{SHOWN} taken at random (8 x 8 pixels, smoothed for the eye)",
        some,
        images,
        labels,
        readings,
    )
    _draw_digits(
        hardest,
        f"The {SHOWN} hardest: smallest margin first",
        np.argsort(margins)[:SHOWN],
        images,
        labels,
        readings,
    )
    left, right = bottom.subfigures(1, 2, width_ratios=[1, 1.15])
    _draw_margins(left.add_axes((0.11, 0.2, 0.83, 0.58)), left, margins)
    _draw_certificates(right, certificates)
    figure.savefig(path)
    plt.close(figure)


def _draw_header(
    figure: SubFigure, labels: np.ndarray, readings: np.ndarray, holdout: float
) -> None:
    wrong = int((labels != readings).sum())
    figure.text(
        0.03,
        0.62,
        f"{len(labels)} handwritten digits, read by solving one dense linear system",
        fontsize=20,
        weight="bold",
        color=INK,
        va="center",
    )
    figure.text(
        0.03,
        0.2,
        f"Leave-one-out: {1 - wrong / len(labels):.2%} right, {wrong} wrong. "
        f"Last 360, held out: {holdout:.2%} right. "
        "Each digit below was read by a model that never saw it.",
        fontsize=12,
        color=FAINT,
        va="center",
    )


def _draw_digits(
    figure: SubFigure,
    title: str,
    which: np.ndarray,
    images: np.ndarray,
    labels: np.ndarray,
    readings: np.ndarray,
) -> None:
    figure.text(0.03, 0.94, title, fontsize=13, weight="bold", color=INK, va="center")
    grid = figure.add_gridspec(
        -(-len(which) // COLUMNS),
        COLUMNS,
        left=0.03,
        right=0.97,
        top=0.86,
        bottom=0.1,
        wspace=0.25,
        hspace=0.42,
    )
    for place, image in enumerate(which):
        axes = figure.add_subplot(grid[place // COLUMNS, place % COLUMNS])
        _draw_digit(axes, images[image], int(labels[image]), int(readings[image]))


def _draw_digit(axes: Axes, image: np.ndarray, label: int, reading: int) -> None:
    right = label == reading
    axes.imshow(image, cmap="gray_r", vmin=0, vmax=1, interpolation="bicubic")
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_color("#d5dbe1" if right else WRONG)
        spine.set_linewidth(1 if right else 3)
    axes.set_xlabel(
        f"read {reading}" if right else f"read {reading}, is {label}",
        fontsize=10.5 if right else 9.5,
        labelpad=4,
        color=RIGHT if right else WRONG,
        weight="normal" if right else "bold",
    )


def _draw_margins(axes: Axes, figure: SubFigure, margins: np.ndarray) -> None:
    figure.text(0.06, 0.93, "How clear was each decision?", fontsize=13, weight="bold", color=INK)
    figure.text(
        0.06,
        0.84,
        "Score of the true digit less the best other one, all images",
        fontsize=10.5,
        color=FAINT,
    )
    width = 0.1
    edges = np.arange(np.floor(margins.min() / width), np.ceil(margins.max() / width) + 1) * width
    axes.hist(margins[margins > 0], bins=edges, color=RIGHT, label="right")
    axes.hist(margins[margins <= 0], bins=edges, color=WRONG, label="wrong")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.axvline(0, color=INK, linewidth=1)
    axes.set_xlabel("margin", color=INK)
    axes.set_ylabel("images (log scale)", color=INK)
    axes.legend(frameon=False, loc="upper left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=INK)


def _draw_certificates(figure: SubFigure, certificates: Sequence[Certificate]) -> None:
    figure.text(0.04, 0.93, "Why trust the answers", fontsize=13, weight="bold", color=INK)
    figure.text(
        0.04,
        0.84,
        "The tool's certificate: one rounding is u = 1.1e-16",
        fontsize=10.5,
        color=FAINT,
    )
    columns = (0.04, 0.55, 0.69, 0.80, 0.95)
    heads = ("", "backward\nerror", "rcond", "time", "GFLOP/s")
    for x, head in zip(columns, heads, strict=True):
        figure.text(x, 0.69, head, fontsize=10.5, color=FAINT, ha="right")
    for row, certificate in enumerate(certificates):
        y = 0.58 - 0.15 * row
        cells = (
            certificate.title,
            f"{certificate.error_in_u:.2g} u",
            f"{certificate.rcond:.0e}",
            f"{certificate.seconds:.2f} s",
            f"{certificate.gflops:.0f}",
        )
        for x, cell in zip(columns, cells, strict=True):
            side = "left" if x == columns[0] else "right"
            figure.text(x, y, cell, fontsize=11, color=INK, ha=side)
        figure.text(
            columns[0],
            y - 0.06,
            f"n = {certificate.n}, {certificate.devices} CPU devices, "
            f"bound {certificate.bound:g} u: {'holds' if certificate.holds else 'MISSED'}",
            fontsize=9.5,
            color=RIGHT if certificate.holds else WRONG,
        )
