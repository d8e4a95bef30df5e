"""Pictures of the NetKet examples: what was found, and the exact answer."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK, FAINT, MARK = "#26323a", "#9aa5ac", "#c8372d"


def training(
    path: Path, sites: int, energies: np.ndarray, errors: np.ndarray, exact: float
) -> None:
    """Energy and its distance from the exact one, step by step.

    Args:
        path: The `.png` file to write.
        sites: Of the ring.
        energies: (steps,), of all sites.
        errors: (steps,), of the mean over samples.
        exact: What Bethe's equations give.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.6), dpi=110)
    steps = np.arange(len(energies))
    left.plot(steps, energies / sites, color=INK, lw=1.4, label="minSR")
    left.axhline(exact / sites, color=MARK, lw=1.2, ls="--", label="exact (Bethe)")
    span = (energies.max() - exact) / sites
    left.set_ylim(exact / sites - 0.06 * span, energies.max() / sites + 0.04 * span)
    _label(left, f"Heisenberg ring of {sites} spins", "step", "energy of a site")
    left.legend(frameon=False)
    distance = np.abs(energies - exact) / abs(exact)
    right.semilogy(steps, distance, color=INK, lw=1.4, label="distance from exact")
    right.semilogy(steps, errors / abs(exact), color=FAINT, lw=1.0, label="error of the mean")
    _label(right, "Distance of the energy", "step", "relative")
    right.legend(frameon=False)
    _save(figure, path)


def quench(path: Path, times: np.ndarray, found: np.ndarray, exact: tuple) -> None:
    """The magnetisation along the field after a quench.

    Args:
        path: The `.png` file to write.
        times: (k,), at which t-VMC was asked.
        found: (k,), what it said.
        exact: Times and values of a fine line, and values at `times`.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.6), dpi=110)
    fine, line, there = exact
    left.plot(fine, line, color=MARK, lw=1.4, label="exact, by shardsolve.eigh")
    left.plot(times, found, "o", color=INK, ms=5, label="t-VMC")
    _label(left, "Ising chain after a quench", "time", "magnetisation along the field")
    left.legend(frameon=False)
    right.semilogy(times[1:], np.abs(found - there)[1:], "o-", color=INK, lw=1.2, ms=5)
    _label(right, "Difference", "time", "t-VMC beside exact")
    _save(figure, path)


def _label(axes: Axes, title: str, x: str, y: str) -> None:
    axes.set_title(title, fontsize=11, color=INK, loc="left")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.spines[["top", "right"]].set_visible(False)


def _save(figure: Figure, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)
    print(f"picture {path}")
