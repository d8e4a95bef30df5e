"""Pictures of the runs of `beam`: tips, deformed beams, and what the linear solves took.

build/release/beam linear stvk-alpha --solver cg --output out/beam
python examples/beam/picture.py out/beam      # writes out/beam/beam.png
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK = "#22303c"
FAINT = "#7b8794"
COLOURS = ("#2a7f62", "#c8372d", "#2f6db3", "#d08a1d", "#7a4fa3")
LOAD_END = 0.2
FIRST_SWING = 0.7


@dataclass(frozen=True)
class Run:
    """What `beam` has written about one case.

    Attributes:
        name: Of the case.
        history: Structured array with a row for each step; fields as in history.csv.
        reference: The same of the tips of reference; None if the case has none.
        nodes: (nodes along x, along y, along z, 3), positions at rest.
        frame_times: (frames,).
        frames: (frames, nodes along x, along y, along z, 3), displacements.
        first_solve: Structured array with a row for each record of the first linear solve; None
            for LU.
    """

    name: str
    history: np.ndarray
    reference: np.ndarray | None
    nodes: np.ndarray
    frame_times: np.ndarray
    frames: np.ndarray
    first_solve: np.ndarray | None


def read(folder: Path) -> Run:
    """Reads the folder of a case. Raises OSError or ValueError if a file is missing or damaged."""
    return Run(
        folder.name,
        _table(folder / "history.csv"),
        _table_if_there(folder / "reference.csv"),
        *(np.load(folder / f"{name}.npy") for name in ("nodes", "frame_times", "frames")),
        _table_if_there(folder / "first_solve.csv"),
    )


def draw(path: Path, runs: list[Run]) -> None:
    """Draws all runs into one picture, the deformed beams of the last one.

    Args:
        path: The `.png` file to write.
        runs: At least one.
    """
    figure = plt.figure(figsize=(13, 13.5), dpi=110, facecolor="white")
    grid = figure.add_gridspec(
        3, 2, left=0.07, right=0.97, top=0.89, bottom=0.06, hspace=0.42, wspace=0.2
    )
    _draw_header(figure, runs)
    _draw_tips(figure.add_subplot(grid[0, :]), runs)
    _draw_beam(figure.add_subplot(grid[1, 0]), runs[-1], axis=1)
    _draw_beam(figure.add_subplot(grid[1, 1]), runs[-1], axis=2)
    _draw_residuals(figure.add_subplot(grid[2, 0]), runs)
    _draw_iterations(figure.add_subplot(grid[2, 1]), runs)
    figure.savefig(path)
    plt.close(figure)


def _table(path: Path) -> np.ndarray:
    return np.atleast_1d(np.genfromtxt(path, delimiter=",", names=True))


def _table_if_there(path: Path) -> np.ndarray | None:
    return _table(path) if path.exists() else None


def _draw_header(figure: Figure, runs: list[Run]) -> None:
    title = "A cantilever is pushed sideways for 0.2, then swings"
    figure.text(0.03, 0.965, title, fontsize=20, weight="bold", color=INK, va="center")
    unknowns = runs[-1].nodes.size
    steps = sum(len(run.history) for run in runs)
    newton = int(sum(run.history["newton_iterations"].sum() for run in runs))
    note = f"{unknowns} unknowns; {steps} time steps took {newton} linear solves."
    figure.text(0.03, 0.935, note, fontsize=12, color=FAINT, va="center")


def _finish(axes: Axes, title: str, x: str, y: str) -> None:
    axes.set_title(title, fontsize=13, weight="bold", color=INK, loc="left")
    axes.set_xlabel(x, color=INK)
    axes.set_ylabel(y, color=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=INK)


def _legend(axes: Axes) -> None:
    """With room for it above the curves."""
    bottom, top = axes.get_ylim()
    axes.set_ylim(bottom, top * 1.3 if axes.get_yscale() == "linear" else top * 1e3)
    axes.legend(frameon=False, fontsize=9.5, ncols=2, labelcolor=INK, loc="upper left")


def _draw_tips(axes: Axes, runs: list[Run]) -> None:
    axes.axvspan(0, LOAD_END, color=FAINT, alpha=0.12, linewidth=0)
    for run, colour in zip(runs, COLOURS, strict=False):
        t = run.history["t"]
        axes.plot(t, run.history["tip_y"], color=colour, label=f"{run.name}, along y")
        axes.plot(t, run.history["tip_z"], "--", color=colour, label=f"{run.name}, along z")
        if run.reference is not None:
            reached = run.reference[run.reference["t"] < t[-1] + 1e-9]
            for name in ("tip_y", "tip_z"):
                axes.plot(reached["t"], reached[name], "o", color=colour, fillstyle="none")
    axes.axhline(0, color=FAINT, linewidth=0.8)
    _finish(axes, "Displacement of the tip; circles: reference; grey: the load is on", "t", "")
    axes.legend(
        frameon=False, fontsize=9.5, labelcolor=INK, loc="center left", bbox_to_anchor=(0.995, 0.5)
    )
    box = axes.get_position()
    axes.set_position((box.x0, box.y0, box.width * 0.84, box.height))


def _draw_beam(axes: Axes, run: Run, axis: int) -> None:
    """The middle plane of the beam in frames of its first swing, seen along the other axis."""
    swing = np.flatnonzero(run.frame_times < FIRST_SWING + 1e-9)
    shown = np.unique(np.linspace(0, len(swing) - 1, 8).round().astype(int))
    colours = plt.get_cmap("viridis")(np.linspace(0, 0.9, len(shown)))
    middle = run.nodes.shape[3 - axis] // 2  # across the plane of the picture
    for frame, colour in zip(shown, colours, strict=True):
        places = run.nodes + run.frames[frame]
        plane = places[:, :, middle] if axis == 1 else places[:, middle, :]
        outline = np.concatenate([plane[:, 0], plane[::-1, -1], plane[:1, 0]])
        axes.fill(outline[:, 0], outline[:, axis], color=colour, alpha=0.85, linewidth=0)
        tip = plane[-1, plane.shape[1] // 2]
        label = f"{run.frame_times[frame]:.2f}"
        axes.annotate(
            label,
            (tip[0], tip[axis]),
            xytext=(5, 0),
            textcoords="offset points",
            fontsize=8.5,
            color=colour,
            va="center",
        )
    name = "xyz"[axis]
    _finish(axes, f"{run.name}: the beam in x and {name}, at times t", "x", name)
    axes.margins(x=0.08)


def _draw_residuals(axes: Axes, runs: list[Run]) -> None:
    for run, colour in zip(runs, COLOURS, strict=False):
        if run.first_solve is None:
            continue
        recomputed = run.first_solve["recomputed"] > 0
        iteration, residual = run.first_solve["iteration"], run.first_solve["residual"]
        axes.semilogy(
            iteration[~recomputed], residual[~recomputed], color=colour, label=run.name, alpha=0.8
        )
        axes.semilogy(iteration[recomputed], residual[recomputed], ".", color=colour)
    if axes.lines:
        _finish(
            axes,
            "Residual of the first linear solve; dots: recomputed",
            "iteration",
            "||b - A x|| / ||b||",
        )
        _legend(axes)
    else:
        _draw_energy(axes, runs)


def _draw_energy(axes: Axes, runs: list[Run]) -> None:
    for run, colour in zip(runs, COLOURS, strict=False):
        total = run.history["elastic_energy"] + run.history["kinetic_energy"]
        axes.plot(run.history["t"], total, color=colour, label=run.name)
    axes.set_ylim(bottom=0)
    _finish(axes, "Elastic and kinetic energy", "t", "")
    _legend(axes)


def _draw_iterations(axes: Axes, runs: list[Run]) -> None:
    is_krylov = any(run.history["linear_iterations"].any() for run in runs)
    name = "max_linear_iterations" if is_krylov else "newton_iterations"
    for run, colour in zip(runs, COLOURS, strict=False):
        axes.plot(run.history["t"], run.history[name], color=colour, label=run.name)
    title = "Iterations of the longest linear solve of a step" if is_krylov else "Newton iterations"
    axes.set_ylim(bottom=0)
    _finish(axes, title, "t", "")
    _legend(axes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="what was given to beam as --output")
    folder = parser.parse_args().folder
    folders = sorted(path.parent for path in folder.glob("*/history.csv"))
    if not folders:
        print(
            f"picture: no run of beam in {folder}; make one with beam --output {folder}",
            file=sys.stderr,
        )
        return 2
    try:
        draw(folder / "beam.png", [read(one) for one in folders])
    except (OSError, ValueError) as error:
        print(f"picture: {error}", file=sys.stderr)
        return 3
    print(f"written to {folder / 'beam.png'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
