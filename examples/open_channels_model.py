"""The waves of `open_channels.py`: a slab of thin layers between two mirrors, in NumPy alone.

Lengths are in wavelengths. Energy flows along x; the mirrors are at y = 0 and y = width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

WAVE_NUMBER = 2 * np.pi
# Of the layers, whose values are uniform at points a quarter of a wavelength apart.
ROUGHNESS = 9.0
DISTANCES = (1.0, 2.0)  # of layers that follow each other


@dataclass(frozen=True)
class Slab:
    """Layers where psi_xx + psi_yy + k^2 psi = V_j(y) delta(x - x_j) psi, psi = 0 on the mirrors.

    Between two layers psi = sum_n (a_n exp(i k_n x) + b_n exp(-i k_n x)) chi_n(y) / sqrt(k_n), so
    that |a_n|^2 is the energy that mode n carries forwards, and |b_n|^2 backwards. Modes that fade
    away from a layer are left out.
    """

    modes: int
    layers: int
    seed: int = 3

    @property
    def width(self) -> float:
        """Distance of the mirrors: so that there are as many modes."""
        return (self.modes + 0.5) / 2

    @cached_property
    def y(self) -> np.ndarray:
        """(points,): where the layers are given, and waves are shown."""
        points = 2 * self.modes + 1
        return np.arange(1, points + 1) * self.width / (points + 1)

    @cached_property
    def forward(self) -> np.ndarray:
        """(modes,): the wave number k_n of each mode along x."""
        across = np.arange(1, self.modes + 1) * np.pi / self.width
        return np.sqrt(WAVE_NUMBER**2 - across**2)

    @cached_property
    def shapes(self) -> np.ndarray:
        """(points, modes): chi_n, with orthonormal columns."""
        n = np.arange(1, self.modes + 1)
        sines = np.sin(np.outer(self.y, n) * np.pi / self.width)
        return np.sqrt(2 / (len(self.y) + 1)) * sines

    @cached_property
    def distances(self) -> np.ndarray:
        """(layers,): from each layer to the next; behind the last one to where the wave leaves."""
        return np.random.default_rng(self.seed).uniform(*DISTANCES, self.layers)

    @cached_property
    def places(self) -> np.ndarray:
        """(layers,): x of each layer; the first is at 0."""
        return np.cumsum(self.distances) - self.distances

    @property
    def thickness(self) -> float:
        """From the first layer to the last."""
        return float(self.places[-1])

    @cached_property
    def _roughness(self) -> np.ndarray:
        rng = np.random.default_rng([self.seed, 1])
        return rng.uniform(-ROUGHNESS, ROUGHNESS, (self.layers, len(self.y)))

    @cached_property
    def _weighted(self) -> np.ndarray:
        return self.shapes / np.sqrt(self.forward)

    def scattering(self, keep: Sequence[int] = ()) -> tuple[np.ndarray, np.ndarray, dict]:
        """Transmission t and reflection r, (modes, modes); t[m, n]: into mode m out of mode n.

        Layer by layer from the last: each is put in front of those behind it. Also returns t of the
        last j layers alone, for each j in `keep`.
        """
        one = np.eye(self.modes)
        t, r = one.astype(complex), np.zeros((self.modes, self.modes), complex)
        kept = {}
        for layer in reversed(range(self.layers)):
            run = np.exp(1j * self.forward * self.distances[layer])
            r = run[:, None] * r * run
            # psi is continuous and psi_x jumps by V psi: for what runs on behind the layer, f, and
            # what comes back from there, r f, (1 + i G) (f + r f) = a + r f.
            g = (self._weighted.T * self._roughness[layer]) @ self._weighted / 2
            behind = np.linalg.inv(one + 1j * (g @ (one + r)))
            t = (t * run) @ behind
            r = (one + r) @ behind - one
            if self.layers - layer in keep:
                kept[self.layers - layer] = t
        return t, r, kept

    def march_back(self, leaving: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Amplitudes a and b in front of each layer, and at the exit: (layers + 1, modes, waves).

        From what leaves, (modes, waves), by the wave equation alone, layer by layer; nothing of
        `scattering` is in it.
        """
        a, b = leaving.astype(complex), np.zeros(leaving.shape, complex)
        forwards, backwards = [a], [b]
        for layer in reversed(range(self.layers)):
            run = np.exp(1j * self.forward * self.distances[layer])[:, None]
            a, b = a / run, b * run
            psi = a + b
            jump = self._roughness[layer][:, None] * (self._weighted @ psi)
            slope = a - b + 1j * (self._weighted.T @ jump)
            a, b = (psi + slope) / 2, (psi - slope) / 2
            forwards.append(a)
            backwards.append(b)
        return np.array(forwards[::-1]), np.array(backwards[::-1])

    def beam(self, waist: float) -> np.ndarray:
        """(modes,): a beam that meets the slab in the middle, of energy 1."""
        shape = np.exp(-(((self.y - self.width / 2) / waist) ** 2))
        a = (self.shapes.T @ shape) * np.sqrt(self.forward)
        return a / np.linalg.norm(a)

    def density(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Energy in front of each layer, (layers + 1, waves), over that of the wave that comes."""
        energy = ((np.abs(a) ** 2 + np.abs(b) ** 2) / self.forward[:, None]).sum(axis=1)
        return energy / (np.abs(a[0]) ** 2 / self.forward[:, None]).sum(axis=0)

    def intensity(
        self, a: np.ndarray, b: np.ndarray, margin: float, step: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Places x, and |psi|^2, (x, y), of one wave; `margin` before and behind the slab, too."""
        x = np.arange(-margin + step / 2, self.thickness + margin, step)
        rows = [self._intensity_in(gap, x, a[gap], b[gap]) for gap in range(self.layers + 1)]
        return x, np.concatenate(rows)

    def _intensity_in(self, gap: int, x: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Between layers gap - 1 and gap, whose amplitudes are those in front of the latter."""
        inside = x[np.searchsorted(self.places, x) == gap]
        at = [*self.places, self.places[-1] + self.distances[-1]][gap]
        run = np.exp(1j * np.outer(self.forward, inside - at))
        psi = self._weighted @ (a[:, None] * run + b[:, None] / run)
        return (np.abs(psi) ** 2).T


def dorokhov(count: int, total: float) -> np.ndarray:
    """Transmissions of `count` channels of sum `total`: O. N. Dorokhov (1984)."""
    return 1 / np.cosh((np.arange(count) + 0.5) / total) ** 2


def shot_noise(transmissions: np.ndarray) -> float:
    """Sum of T (1 - T) over sum of T: noise of electrons, over that of independent ones."""
    return float((transmissions * (1 - transmissions)).sum() / transmissions.sum())


def random_waves(modes: int, count: int, seed: int) -> Iterator[np.ndarray]:
    """Waves of energy 1, all modes alike, with random phases and sizes."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        a = rng.standard_normal(modes) + 1j * rng.standard_normal(modes)
        yield a / np.linalg.norm(a)
