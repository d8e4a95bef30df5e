"""The picture of `open_channels.py`: two waves in a slab, and what its singular values say."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from digits_picture import FAINT, INK, RIGHT, WRONG
from open_channels_model import Slab, dorokhov, shot_noise

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure

MARGIN = 26.0  # of the picture around the slab, in wavelengths
STEP = 0.25  # of its points; two by two of them are averaged
AT_MOST = 99.8  # percent of the points are below the brightest colour
BEAM, BEST = 0, 1  # which wave is which


def draw(
    path: Path,
    slab: Slab,
    a: np.ndarray,
    b: np.ndarray,
    s: np.ndarray,
    noise: dict[int, np.ndarray],
    notes: tuple[str, str],
) -> None:
    """Draws the beam and the first singular vector, and three curves.

    Args:
        path: The `.png` file to write.
        slab: What they run through.
        a: (layers + 1, modes, waves), forward amplitudes: beam, first vector, and random waves.
        b: The same, backward.
        s: (modes,), the singular values.
        noise: s^2 of so many layers of the slab.
        notes: Where t lay, and the certificate.
    """
    figure = plt.figure(figsize=(13, 11.2), dpi=110, facecolor="white")
    header, waves, bottom = figure.subfigures(3, 1, height_ratios=[1.15, 5.5, 4.4])
    title = "A slab that reflects nearly every wave, and the wave that goes through"
    header.text(0.03, 0.72, title, fontsize=20, weight="bold", color=INK, va="center")
    words = (
        f"The first right singular vector of the transmission matrix t, complex {len(s)} x {len(s)}"
        f", {notes[0]}, by shardsolve.svd.\nCertificate: {notes[1]} (u = 1.1e-16). "
        "Pictures: energy of the waves, each in its own scale."
    )
    header.text(0.03, 0.26, words, fontsize=12, color=FAINT, va="center", linespacing=1.5)
    parts = (np.abs(a[-1]) ** 2).sum(axis=0)
    left, right = waves.subfigures(1, 2)
    _draw_wave(left, slab, a, b, BEAM, "A beam", parts, WRONG)
    _draw_wave(right, slab, a, b, BEST, "The first singular vector", parts, RIGHT)
    depth, channels, wires = bottom.subfigures(1, 3)
    _draw_depth(depth, slab, slab.density(a, b))
    _draw_channels(channels, s)
    _draw_noise(wires, slab, noise)
    figure.savefig(path)
    plt.close(figure)


def _draw_wave(
    figure: SubFigure,
    slab: Slab,
    a: np.ndarray,
    b: np.ndarray,
    which: int,
    name: str,
    parts: np.ndarray,
    color: str,
) -> None:
    x, energy = slab.intensity(a[:, :, which], b[:, :, which], MARGIN, STEP)
    rows, columns = (size // 2 for size in energy.shape)
    energy = energy[: 2 * rows, : 2 * columns].reshape(rows, 2, columns, 2).mean(axis=(1, 3))
    bright = np.percentile(energy, AT_MOST)
    axes = figure.add_axes((0.06, 0.03, 0.91, 0.86))
    axes.imshow(
        (energy / bright).clip(0, 1) ** 0.6,
        cmap="inferno",
        extent=(0, slab.width, x[-1], x[0]),
        aspect="auto",
        interpolation="antialiased",
    )
    for edge in (0, slab.thickness):
        axes.axhline(edge, color="white", linewidth=0.8, alpha=0.55, linestyle=(0, (6, 5)))
    box = {"facecolor": "black", "alpha": 0.55, "edgecolor": "none", "pad": 2.5}
    labels = (
        (-MARGIN / 2, "↓ comes"),
        (slab.thickness / 2, f"{slab.layers} layers"),
        (slab.thickness + MARGIN / 2, "↓ leaves"),
    )
    for at, words in labels:
        axes.text(3, at, words, color="white", fontsize=11, va="center", bbox=box)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    figure.text(0.06, 0.945, name, fontsize=13, weight="bold", color=INK, va="center")
    through = f"{_percent(parts[which])} goes through"
    style = {"fontsize": 14, "weight": "bold", "va": "center", "ha": "right"}
    figure.text(0.97, 0.945, through, color=color, **style)


def _percent(part: float) -> str:
    """With so many digits that a part below 1 is not shown as all."""
    digits = next(digits for digits in range(1, 15) if part <= 1 - 0.5 * 10.0 ** (-digits - 2))
    return f"{part:.{digits}%}"


def _draw_title(figure: SubFigure, title: str, note: str) -> None:
    figure.text(0.09, 0.95, title, fontsize=13, weight="bold", color=INK, va="center")
    figure.text(0.09, 0.905, note, fontsize=10, color=FAINT, va="top", linespacing=1.4)


def _axes(figure: SubFigure) -> Axes:
    axes = figure.add_axes((0.15, 0.135, 0.81, 0.585))
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def _draw_depth(figure: SubFigure, slab: Slab, density: np.ndarray) -> None:
    _draw_title(
        figure,
        "Energy in the slab",
        "1 is the wave that comes. On average waves\nfade along a line, as diffusion says; the\n"
        "singular vector is strongest in the middle.",
    )
    axes = _axes(figure)
    x = np.append(slab.places, slab.thickness + slab.distances[-1])
    axes.plot(x, density[:, BEST], color=RIGHT, linewidth=2)
    axes.plot(x, density[:, 2:].mean(axis=1), color=INK, linewidth=2)
    axes.text(
        0.5, 0.93, "first singular vector", color=RIGHT, transform=axes.transAxes, ha="center"
    )
    axes.text(13, 2.1, "average of random waves", color=INK)
    axes.set_ylim(0, 1.15 * density[:, BEST].max())
    axes.set_xlabel("depth, in wavelengths", color=INK)


def _draw_channels(figure: SubFigure, s: np.ndarray) -> None:
    total = (s**2).sum()
    _draw_title(
        figure,
        "Open and closed channels",
        f"What goes through of each singular vector.\nDots: s² of t. Line: Dorokhov (1984),\nfrom "
        f"the sum {total:.1f} of s² alone.",
    )
    axes = _axes(figure)
    shown = min(len(s), int(4 * total))
    number = np.arange(1, shown + 1)
    axes.plot(number, s[:shown] ** 2, "o", color=INK, markersize=6, fillstyle="none", alpha=0.6)
    axes.plot(number, dorokhov(shown, total), color=WRONG, linewidth=1.6)
    axes.axhline((s**2).mean(), color=FAINT, linewidth=1.2, linestyle=(0, (4, 3)))
    axes.text(shown, (s**2).mean() + 0.02, "the average wave", color=FAINT, ha="right")
    axes.set_xlabel("number of the singular vector", color=INK)


def _draw_noise(figure: SubFigure, slab: Slab, noise: dict[int, np.ndarray]) -> None:
    # The line: M. J. M. de Jong, C. W. J. Beenakker (1992), whose 1 / (1 + length) is T.
    _draw_title(
        figure,
        "A known limit: 1/3",
        "Noise of electrons in such a wire, over that of\nindependent ones. Line: (1 - T³) / 3, "
        "T the\nmean of s²; it takes all modes for equal.",
    )
    axes = _axes(figure)
    layers = sorted(noise)
    t = np.array([noise[j].mean() for j in layers])
    axes.axhline(1 / 3, color=FAINT, linewidth=1.2, linestyle=(0, (4, 3)))
    axes.plot(layers, (1 - t**3) / 3, color=WRONG, linewidth=1.6)
    axes.plot(layers, [shot_noise(noise[j]) for j in layers], "o", color=INK, markersize=5)
    axes.set_ylim(0, 0.38)
    axes.set_xlim(0, slab.layers * 1.03)
    axes.set_xlabel("layers of the slab", color=INK)
