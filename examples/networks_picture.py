"""The picture of `networks.py`: the boxes, the wave, its error, and error against time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np
from digits_picture import FAINT, INK, RIGHT, WRONG

import shardsolve.fbpinn as fb

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

FINE = (321, 121)


@dataclass(frozen=True)
class Course:
    """One way to solve the problem, with more and more work."""

    name: str
    errors: list[float]
    seconds: list[float]


def draw(path: Path, run: fb.Run, exact: Callable, courses: list[Course]) -> None:
    """Draws who owns what, the solution, its error, and error against time."""
    figure, axes = plt.subplots(2, 2, figsize=(13, 8.6), dpi=110, facecolor="white")
    figure.subplots_adjust(left=0.06, right=0.97, top=0.86, bottom=0.08, hspace=0.42, wspace=0.16)
    figure.text(0.03, 0.95, "A wave from 75 small networks", fontsize=20, weight="bold", color=INK)
    figure.text(
        0.03,
        0.915,
        f"Two humps at rest run apart. {run.outcome.rows} equations for {run.outcome.columns} "
        "weights, solved once.",
        fontsize=12,
        color=FAINT,
    )
    boxes = run.problem.boxes
    points = boxes.grid(FINE)
    u = run.evaluate(points).reshape(FINE)
    true = run.problem.values(exact, points).reshape(FINE)
    _draw_boxes(axes[0, 0], boxes)
    limit = float(np.abs(u).max())
    _draw_field(axes[0, 1], boxes, u, "The wave", "RdBu_r", (-limit, limit))
    _draw_field(
        axes[1, 0], boxes, np.log10(np.abs(u - true) + 1e-9), "log10 of its error", "viridis"
    )
    _draw_courses(axes[1, 1], courses)
    figure.savefig(path)
    plt.close(figure)


def _title(axes: Axes, text: str) -> None:
    axes.set_title(text, fontsize=13, weight="bold", color=INK, loc="left")


def _draw_boxes(axes: Axes, boxes: fb.Boxes) -> None:
    _title(axes, f"{boxes.count} boxes; one of them is shaded")
    middle = boxes.count // 2
    for number, (center, half) in enumerate(zip(boxes.centers, boxes.half_widths, strict=True)):
        marked = number == middle
        axes.add_patch(
            Rectangle(
                center - half,
                *(2 * half),
                facecolor=RIGHT if marked else "none",
                alpha=0.35 if marked else 0.5,
                edgecolor=INK if marked else "#b8c2cc",
                linewidth=1.4 if marked else 0.6,
            )
        )
    axes.plot(*boxes.centers.T, ".", color=INK, markersize=3)
    axes.set_xlim(*boxes.domain[0])
    axes.set_ylim(*boxes.domain[1])
    _label(axes)


def _label(axes: Axes) -> None:
    axes.set_xlabel("z", color=FAINT)
    axes.set_ylabel("t", color=FAINT)


def _draw_field(
    axes: Axes,
    boxes: fb.Boxes,
    values: np.ndarray,
    title: str,
    colors: str,
    limits: tuple[float, float] | None = None,
) -> None:
    _title(axes, title)
    image = axes.imshow(
        values.T,
        origin="lower",
        aspect="auto",
        extent=(*boxes.domain[0], *boxes.domain[1]),
        cmap=colors,
        vmin=limits and limits[0],
        vmax=limits and limits[1],
    )
    axes.figure.colorbar(image, ax=axes, pad=0.02)
    _label(axes)


def _draw_courses(axes: Axes, courses: list[Course]) -> None:
    _title(axes, "Error against time")
    for course, color in zip(courses, (RIGHT, WRONG), strict=True):
        axes.loglog(course.seconds, course.errors, "o-", color=color, label=course.name)
    axes.set_xlabel("seconds", color=FAINT)
    axes.set_ylabel("mean error / deviation", color=FAINT)
    axes.grid(True, which="major", color="#e6eaee")
    axes.legend(frameon=False)
