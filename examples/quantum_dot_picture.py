"""The picture of `quantum_dot.py`: waves with their phase in colour, and energies in a field."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib
import numpy as np
from digits_picture import FAINT, INK
from shardsolve_tool import EigenCertificate

if TYPE_CHECKING:
    from quantum_dot import Dot

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure

COLUMNS = 8
PIXELS = 160
HALF_WIDTH = 4.4  # of what is shown, in oscillator lengths
MARK = "#c8372d"
LINEAR_FROM_CONES = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.7076147010],
    ]
)


def draw(
    path: Path,
    dot: Dot,
    energies: np.ndarray,
    waves: np.ndarray,
    fields: np.ndarray,
    levels: list[np.ndarray],
    fan: list[list[tuple[float, int, int]]],
    certificate: EigenCertificate,
) -> None:
    """Draws the lowest waves, and energies against the field.

    Args:
        path: The `.png` file to write.
        dot: Of the waves.
        energies: (k,), ascending.
        waves: (points^2, k), the eigenvectors.
        fields: (m,), where energies were found.
        levels: m arrays, the energies found.
        fan: The formula's energy, n and l of all states, at fields from the first to the last.
        certificate: What the tool said about the waves.
    """
    figure = plt.figure(figsize=(13, 12.4), dpi=110, facecolor="white")
    header, upper, lower = figure.subfigures(3, 1, height_ratios=[1.15, 5.6, 5.2])
    title = "One electron in a quantum dot, turned by a magnetic field"
    header.text(0.03, 0.72, title, fontsize=20, weight="bold", color=INK, va="center")
    note = (
        f"Eigenvectors of a dense complex {certificate.n} x {certificate.n} matrix: its lowest "
        f"{certificate.count}, by shardsolve eigh in {certificate.seconds:.1f} s.\nCertificate: "
        f"residual {certificate.residual_in_u:.2g} u, orthogonality "
        f"{certificate.orthogonality_in_u:.2g} u (u = 1.1e-16)."
    )
    header.text(0.03, 0.26, note, fontsize=12, color=FAINT, va="center", linespacing=1.5)
    _draw_waves(upper, dot, energies, waves)
    left, right = lower.subfigures(1, 2, width_ratios=[1.75, 1])
    _draw_fan(left, dot, fields, levels, fan)
    _draw_errors(right, dot, energies, certificate)
    figure.savefig(path)
    plt.close(figure)


def _draw_waves(figure: SubFigure, dot: Dot, energies: np.ndarray, waves: np.ndarray) -> None:
    figure.text(
        0.03,
        0.975,
        "The waves, from the lowest energy on",
        fontsize=13,
        weight="bold",
        color=INK,
        va="center",
    )
    figure.text(
        0.37,
        0.975,
        "brightness: where the electron is; colour: the phase. "
        "n counts rings, l turns of the phase",
        fontsize=10.5,
        color=FAINT,
        va="center",
    )
    rows = -(-len(energies) // COLUMNS)
    grid = figure.add_gridspec(
        rows, COLUMNS, left=0.03, right=0.97, top=0.945, bottom=0.065, wspace=0.07, hspace=0.23
    )
    places = np.linspace(-HALF_WIDTH, HALF_WIDTH, PIXELS)
    # Between grid points a wave is a sum of sinc functions: this is no interpolation.
    sinc = np.sinc((places[:, None] - dot.x) / dot.spacing)
    truth = dot.lowest(len(energies))
    for number, energy in enumerate(energies):
        axes = figure.add_subplot(grid[number // COLUMNS, number % COLUMNS])
        wave = waves[:, number].reshape(dot.points, dot.points)
        axes.imshow(_colour(sinc @ wave @ sinc.T), origin="lower", interpolation="bilinear")
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_visible(False)
        _, n, k = truth[number]
        axes.set_xlabel(f"n {n}, l {k}     E {energy:.3f}", fontsize=9.5, labelpad=4, color=INK)


def _colour(wave: np.ndarray) -> np.ndarray:
    """Pixels of a wave: the phase as hue, the magnitude as brightness, all hues equally bright."""
    size, phase = np.abs(wave).T / np.abs(wave).max(), np.angle(wave).T
    lightness, chroma = 0.8 * size**0.55, 0.155 * size**0.55
    a, b = chroma * np.cos(phase), chroma * np.sin(phase)
    # From Oklab (B. Ottosson, 2020) to sRGB.
    cones = np.stack(
        [
            lightness + 0.3963377774 * a + 0.2158037573 * b,
            lightness - 0.1055613458 * a - 0.0638541728 * b,
            lightness - 0.0894841775 * a - 1.2914855480 * b,
        ]
    )
    linear = np.einsum("ij,jkl->kli", LINEAR_FROM_CONES, cones**3).clip(0, 1)
    return np.where(linear < 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)


def _draw_title(figure: SubFigure, at: float, title: str, note: str) -> None:
    figure.text(at, 0.965, title, fontsize=13, weight="bold", color=INK, va="center")
    figure.text(at, 0.925, note, fontsize=10.5, color=FAINT, va="top", linespacing=1.4)


def _draw_fan(
    figure: SubFigure,
    dot: Dot,
    fields: np.ndarray,
    levels: list[np.ndarray],
    fan: list[list[tuple[float, int, int]]],
) -> None:
    count = sum(map(len, levels))
    _draw_title(
        figure,
        0.052,
        "Energies in a growing field",
        f"Lines: the formula of Fock and Darwin. Dots: {count} eigenvalues, one file a field.\n"
        "The field gathers the levels in bundles: the Landau levels.",
    )
    axes = figure.add_axes((0.085, 0.105, 0.895, 0.715))
    lines: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for field, states in zip(np.linspace(fields[0], fields[-1], len(fan)), fan, strict=True):
        for energy, n, k in states:
            lines.setdefault((n, k), []).append((field, energy))
    colours = ("#2a7f62", "#3b6fb6", "#8a5fb0", "#c98a2b", "#7b8794", "#7b8794", "#7b8794")
    for (n, k), points in lines.items():
        landau = n + max(-k, 0)  # the Landau level that it ends in
        axes.plot(*np.transpose(points), color=colours[min(landau, 6)], linewidth=1.3, alpha=0.8)
    for field, energies in zip(fields, levels, strict=True):
        axes.plot(np.full(len(energies), field), energies, ".", color=INK, markersize=6)
    axes.axvline(dot.field, color=MARK, linewidth=1.2, linestyle=(0, (4, 3)))
    axes.text(dot.field + 0.03, 0.72, "the waves above", color=MARK, fontsize=10.5)
    axes.set_xlim(-0.04, fields[-1] + 0.04)
    axes.set_ylim(0.5, 6.12)
    axes.set_xlabel(r"magnetic field: $\omega_c$, in units of the dot's frequency", color=INK)
    axes.set_ylabel("energy", color=INK)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_errors(
    figure: SubFigure, dot: Dot, energies: np.ndarray, certificate: EigenCertificate
) -> None:
    _draw_title(
        figure,
        0.08,
        "How right are they?",
        "Distance of each energy from the formula, and\nwhat the certificate allows.",
    )
    axes: Axes = figure.add_axes((0.16, 0.105, 0.8, 0.715))
    truth = np.array([state[0] for state in dot.lowest(len(energies))])
    bound = certificate.error_estimate * dot.norm()
    error = np.maximum(np.abs(energies - truth), 1e-16)
    axes.semilogy(np.arange(len(energies)), error, "o", color="#2a7f62", markersize=5)
    axes.axhline(bound, color=MARK, linewidth=1.2, linestyle=(0, (4, 3)))
    axes.text(0, 1.5 * bound, r"residual $\times\,\Vert H\Vert_1$", color=MARK, fontsize=10.5)
    axes.set_ylim(2e-17, 1e-11)
    axes.set_xlabel("number of the state", color=INK)
    axes.spines[["top", "right"]].set_visible(False)
