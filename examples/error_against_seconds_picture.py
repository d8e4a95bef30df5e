"""Draws what error_against_seconds.py has measured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from error_against_seconds_problems import PROBLEMS
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

COLORS = {"gradients": "#c2572b", "natural": "#2a7f62", "least squares": "#2b5fa8"}
LABELS = {
    "gradients": "Adam, then L-BFGS (dashed)",
    "natural": "natural gradients",
    "least squares": "least squares (each point a training)",
}


def pieces(curve: dict[str, Any]) -> Iterator[tuple[str, list[float], list[float]]]:
    """Of gradients a line for each optimiser, else one for all."""
    if curve["method"] != "gradients":
        yield "-", curve["seconds"], curve["errors"]
        return
    first = curve["parts"].count("Adam")
    yield "-", curve["seconds"][:first], curve["errors"][:first]
    yield "--", curve["seconds"][max(first - 1, 0) :], curve["errors"][max(first - 1, 0) :]


def draw(path: Path, report: dict[str, Any]) -> None:
    """A panel for each problem."""
    curves = report["curves"]
    names = [name for name in PROBLEMS if any(curve["problem"] == name for curve in curves)]
    figure = Figure(figsize=(4.6 * min(len(names), 2), 3.7 * -(-len(names) // 2)), dpi=110)
    panels = figure.subplots(-(-len(names) // 2), min(len(names), 2), squeeze=False).ravel()
    for axes, name in zip(panels, names, strict=False):
        for curve in (one for one in curves if one["problem"] == name):
            color, label = COLORS[curve["method"]], LABELS[curve["method"]]
            mark = "o" if curve["method"] == "least squares" else "."
            for line, seconds, errors in pieces(curve):
                style = {"color": color, "marker": mark, "markersize": 5, "linewidth": 1.5}
                axes.loglog(seconds, errors, line, label=label, **style)
                label = None
        for error, words in PROBLEMS[name].published:
            axes.axhline(error, color="#8a939b", linestyle=":", linewidth=1.2)
            where = {"xy": (0.02, error), "xycoords": ("axes fraction", "data")}
            axes.annotate(words, **where, fontsize=7, color="#5c656d", va="bottom")
        axes.set_title(PROBLEMS[name].title, fontsize=10)
        axes.grid(visible=True, color="#e6eaee")
        axes.set_xlabel("seconds of training, without compiling", fontsize=8)
        axes.set_ylabel("relative L2 error", fontsize=8)
        axes.tick_params(labelsize=8)
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_minor_formatter(NullFormatter())
    for axes in panels[len(names) :]:
        axes.remove()
    figure.suptitle(f"Error against seconds, {report['device']}, float64", fontsize=11)
    lines, labels = panels[0].get_legend_handles_labels()
    columns = 3 if len(names) > 1 else 1
    rows = -(-len(labels) // columns)
    figure.tight_layout(rect=(0, 0.25 * rows / figure.get_figheight(), 1, 1))
    figure.legend(lines, labels, loc="lower center", ncols=columns, fontsize=8)
    figure.savefig(path)
