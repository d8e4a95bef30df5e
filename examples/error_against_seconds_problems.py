"""Four equations, their solutions, and networks for each way to train: error_against_seconds.py.

Solutions are Cole and Hopf's formula (Burgers), a spectral one (Allen-Cahn), or what the equation
was made from. Subdomains and points are narrow where a solution is steep.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erfc

import shardsolve.fbpinn as fb

ADAPTS = {"shift": 1e-3, "adapt": True}  # of natural gradients, for deep networks
VISCOSITY = 0.01 / np.pi
DIFFUSION = 1e-4


# Subdomains and points where the solution needs them


@dataclass(frozen=True)
class Axis:
    """An axis on which subdomains and points are the closer, the larger a density is.

    Attributes:
        low, high: Its ends.
        density: Of a coordinate, positive; traced by JAX where residuals are divided by it.
    """

    low: float
    high: float
    density: Callable[[Any], Any] = lambda x: 1 + 0 * x

    def at(self, share: np.ndarray) -> np.ndarray:
        """Coordinates below which this share of the density lies; beyond the ends it stays."""
        x, below, total = self._integral
        inside = np.interp(np.clip(share, 0, 1), below, x)
        ends = total / np.asarray(self.density(x[[0, -1]]))
        return inside + np.minimum(share, 0) * ends[0] + np.maximum(share - 1, 0) * ends[1]

    @functools.cached_property
    def _integral(self) -> tuple[np.ndarray, np.ndarray, float]:
        x = np.linspace(self.low, self.high, 20_001)
        density = np.asarray(self.density(x))
        pieces = (density[1:] + density[:-1]) / 2 * np.diff(x)
        below = np.concatenate([[0], np.cumsum(pieces)])
        return x, below / below[-1], float(below[-1])


def lattice(along: Sequence[np.ndarray]) -> np.ndarray:
    """(points, axes): all combinations of coordinates."""
    return np.stack([one.ravel() for one in np.meshgrid(*along, indexing="ij")], 1)


def boxes_on(axes: Sequence[Axis], counts: Sequence[int]) -> fb.Boxes:
    """Overlapping subdomains, as `fb.Boxes` of counts has them where densities are 1."""
    centers, halves = [], []
    for axis, count in zip(axes, counts, strict=True):
        middle = np.linspace(0, 1, count) if count > 1 else np.array([0.5])
        reach = 1.45 / (count - 1) if count > 1 else 0.55
        low, high = axis.at(middle - reach), axis.at(middle + reach)
        centers.append((low + high) / 2)
        halves.append((high - low) / 2)
    domain = [(axis.low, axis.high) for axis in axes]
    return fb.Boxes.from_arrays(lattice(centers), lattice(halves), domain)


def points_on(axes: Sequence[Axis], counts: Sequence[int]) -> np.ndarray:
    """A lattice that follows the densities."""
    shares = (np.linspace(0, 1, count) for count in counts)
    return lattice([axis.at(share) for axis, share in zip(axes, shares, strict=True)])


# Equations


@dataclass(frozen=True)
class Size:
    """What networks there are, and at how many points the equation is to hold.

    Attributes:
        counts: Subdomains along each axis.
        widths: Units of the hidden layers in each.
        points: Along each axis.
        scale: Of the hidden weights at the beginning.
    """

    counts: tuple[int, int]
    widths: tuple[int, ...]
    points: tuple[int, int]
    scale: float = 1.0

    def __str__(self) -> str:
        counts, points = (" x ".join(map(str, two)) for two in (self.counts, self.points))
        return f"{counts} networks of {' x '.join(map(str, self.widths))}, {points} points"


class Burgers:
    """On half of [-1, 1], as the solution is odd; all is narrow where the shock comes to be."""

    name, title = "burgers", "Burgers, nu = 0.01/pi"
    published = ((8e-9, "SSBroyden, 8e-9"), (8e-5, "Adam, 8e-5"))
    gradients = Size((10, 4), (16,), (90, 40))
    natural, shift = Size((1, 1), (20, 20, 20), (80, 48)), ADAPTS
    least_squares = (
        Size((12, 6), (16,), (72, 40)),
        Size((16, 8), (24,), (120, 64)),
        Size((20, 10), (32,), (200, 100)),
        Size((24, 12), (48,), (280, 140)),
        Size((24, 16), (48,), (280, 190)),
        Size((24, 16), (64,), (330, 220)),
        Size((32, 20), (64,), (440, 280)),
    )
    tiny = Size((6, 3), (4,), (30, 14))

    def problem(self, size: Size) -> fb.Problem:
        """The equation for networks of a size."""

        def width(x):
            return jnp.sqrt(x**2 + 0.0135**2)

        def equation(x, u):
            return 5 * width(x.x) * (u.t + u.v * u.x - VISCOSITY * u.xx)

        def from_sine(x, u):
            return -jnp.sin(jnp.pi * x.x) + x.t * x.x * (1 - x.x) / width(x.x) * u

        axes = Axis(0, 1, lambda x: 1 / width(x)), Axis(0, 1)
        return fb.Problem(
            boxes_on(axes, size.counts),
            axes="x t",
            net=fb.Mlp(size.widths, scale=size.scale),
            constrain=from_sine,
            terms=[fb.Interior(equation, points=points_on(axes, size.points))],
        )

    def reference(self) -> tuple[np.ndarray, np.ndarray, float]:
        """Points, the solution there, and how far a coarser quadrature is from it."""
        points = lattice([np.linspace(0, 1, 401), np.linspace(0, 1, 101)])
        found, coarser = self.by_cole_and_hopf(points, 160), self.by_cole_and_hopf(points, 120)
        return points, found, relative(coarser, found)

    @staticmethod
    def by_cole_and_hopf(points: np.ndarray, nodes: int) -> np.ndarray:
        """The quotient of two integrals with the kernel of heat, by Gauss and Hermite."""
        at, weights = np.polynomial.hermite.hermgauss(nodes)
        x, t = points[:, :1], points[:, 1:]
        y = x - np.sqrt(4 * VISCOSITY * t) * at
        logarithms = -np.cos(np.pi * y) / (2 * np.pi * VISCOSITY)
        kernel = weights * np.exp(logarithms - logarithms.max(1, keepdims=True))
        return -(kernel * np.sin(np.pi * y)).sum(1) / kernel.sum(1)


class Helmholtz:
    """With wave number 1 and a solution that waves four times as fast along y."""

    name, title = "helmholtz", "Helmholtz"
    published = ()
    gradients = Size((4, 8), (16,), (40, 80))
    natural, shift = Size((1, 1), (30, 30), (36, 60)), ADAPTS
    least_squares = (
        Size((4, 8), (16,), (30, 60)),
        Size((4, 8), (32,), (40, 80)),
        Size((4, 8), (64,), (60, 110)),
        Size((5, 10), (100,), (80, 160)),
        Size((5, 10), (140,), (90, 190)),
    )
    tiny = Size((2, 4), (6,), (16, 32))

    def problem(self, size: Size) -> fb.Problem:
        """The equation for networks of a size."""

        def equation(x, u):
            return (u.xx + u.yy + u.v) / (17 * jnp.pi**2 - 1) + self.exact(x)

        return fb.Problem(
            boxes_on((Axis(-1, 1), Axis(-1, 1)), size.counts),
            axes="x y",
            net=fb.Mlp(size.widths, scale=size.scale),
            constrain=lambda x, u: (1 - x.x**2) * (1 - x.y**2) * u,
            terms=[fb.Interior(equation, points=size.points)],
        )

    @staticmethod
    def exact(x):
        """The solution."""
        return jnp.sin(jnp.pi * x.x) * jnp.sin(4 * jnp.pi * x.y)

    def reference(self) -> tuple[np.ndarray, np.ndarray, float]:
        """Points, and the solution there, which is known."""
        points = lattice([np.linspace(-1, 1, 157), np.linspace(-1, 1, 157)])
        return points, np.asarray(self.exact(as_one("x y", points))), 0.0


class AllenCahn:
    """On half of [-1, 1], as the solution is even and periodic: so its slope at 0 and 1 is 0.

    At t = 0 the slope at 1 is not: heat that flows out there is a summand of the solution, and
    networks have the smooth rest. Subdomains are narrow there and where u comes to jump.
    """

    name, title = "allen-cahn", "Allen-Cahn"
    published = ((1.9e-6, "published best, 1.9e-6"),)
    gradients = Size((16, 6), (16,), (140, 60))
    natural, shift = Size((10, 4), (10,), (110, 48)), {"shift": 1e-9}
    least_squares = (
        Size((20, 6), (16,), (140, 50)),
        Size((24, 8), (24,), (180, 80)),
        Size((32, 10), (32,), (260, 100)),
        Size((40, 12), (40,), (340, 140)),
        Size((48, 14), (48,), (440, 160)),
        Size((56, 16), (64,), (580, 220)),
    )
    tiny = Size((8, 3), (4,), (40, 14))

    def problem(self, size: Size) -> fb.Problem:
        """The equation for networks of a size."""

        def density(x):
            jump, wall = jnp.sqrt((x - 0.5) ** 2 + 0.02**2), jnp.sqrt((1 - x) ** 2 + 0.01**2)
            return 1 + 0.1 / jump + 0.1 / wall

        def equation(x, u):
            return (u.t - DIFFUSION * u.xx - 5 * u.v + 5 * u.v**3) / density(x.x)

        def slope(x, u):
            return u.x

        def from_start(x, u):
            return x.x**2 * jnp.cos(jnp.pi * x.x) + 2 * self.flow(1 - x.x, x.t) + x.t * u

        axes = Axis(0, 1, density), Axis(0, 1, lambda t: 1 + 0.3 / (t + 0.02))
        times = axes[1].at(np.linspace(0, 1, size.points[1]))[1:]
        return fb.Problem(
            boxes_on(axes, size.counts),
            axes="x t",
            net=fb.Mlp(size.widths, scale=size.scale),
            constrain=from_start,
            terms=[
                fb.Interior(equation, points=points_on(axes, size.points)),
                fb.Boundary(slope, points=lattice([np.zeros(1), times]), weight=0.5),
                fb.Boundary(slope, points=lattice([np.ones(1), times]), weight=0.5),
            ],
        )

    @staticmethod
    def flow(distance, t):
        """Heat from a wall with the slope -1, 0 at t = 0."""
        reach = jnp.sqrt(4 * DIFFUSION * jnp.where(t > 0, t, 1.0))
        z = distance / reach
        return jnp.where(t > 0, reach * (jnp.exp(-(z**2)) / jnp.sqrt(jnp.pi) - z * erfc(z)), 0.0)

    def reference(self) -> tuple[np.ndarray, np.ndarray, float]:
        """Points, the solution there, and how far half the steps and modes are from it."""
        x, times = np.linspace(0, 1, 401), 100
        found, coarser = (
            self.by_cosines(modes, steps, times) @ np.cos(np.pi * np.outer(np.arange(modes), x))
            for modes, steps in ((2048, 1000), (1024, 500))
        )
        difference = relative(coarser[1:], found[1:])
        found[0] = x**2 * np.cos(np.pi * x)
        return lattice([x, np.linspace(0, 1, times + 1)]), found.T.ravel(), difference

    @staticmethod
    def by_cosines(modes: int, steps: int, times: int) -> np.ndarray:
        """(times + 1, modes): coefficients of cos(k pi x).

        Exponential time differencing of the fourth order: S. Cox, P. Matthews, J. Comput. Phys.
        176, 2002, with the contour integrals of A.-K. Kassam, L. Trefethen, SIAM J. Sci. Comput.
        26, 2005.
        """
        k = np.arange(modes)

        def moment(m):  # of x^2 cos(m pi x) over [0, 1]
            return np.where(m == 0, 1 / 3, 2 * (-1.0) ** m / (np.pi * np.maximum(m, 1)) ** 2)

        v = moment(k + 1) + moment(np.abs(k - 1))
        v[0] /= 2

        def reaction(v: np.ndarray) -> np.ndarray:  # twice the points, so that cubes are exact
            padded = np.zeros(2 * modes + 1)
            padded[:modes] = v
            padded[1:] /= 2
            u = np.fft.irfft(4 * modes * padded, 4 * modes)
            found = np.fft.rfft(5 * u - 5 * u**3).real[:modes] / (4 * modes)
            found[1:] *= 2
            return found

        step = 1 / steps
        linear = -step * DIFFUSION * (np.pi * k) ** 2
        z = linear[:, None] + np.exp(1j * np.pi * (np.arange(32) + 0.5) / 32)
        whole, half = np.exp(linear), np.exp(linear / 2)
        q, f1, f2, f3 = (
            step * np.real(np.mean(values, 1))
            for values in (
                (np.exp(z / 2) - 1) / z,
                (-4 - z + np.exp(z) * (4 - 3 * z + z**2)) / z**3,
                2 * (2 + z + np.exp(z) * (z - 2)) / z**3,
                (-4 - 3 * z - z**2 + np.exp(z) * (4 - z)) / z**3,
            )
        )
        found = [v]
        for number in range(1, steps + 1):
            n = reaction(v)
            a = half * v + q * n
            na = reaction(a)
            nb = reaction(half * v + q * na)
            nc = reaction(half * a + q * (2 * nb - n))
            v = whole * v + n * f1 + (na + nb) * f2 + nc * f3
            if number % (steps // times) == 0:
                found.append(v)
        return np.array(found)


class Poisson:
    """The problem of the papers on natural gradients, by one network."""

    name, title = "poisson", "Poisson, one network"
    published = ((1e-6, "ENGD, 1e-6 to 1e-7 (Mueller, Zeinhofer 2023)"),)
    gradients = Size((1, 1), (32, 32), (24, 24))
    natural, shift = Size((1, 1), (32, 32), (24, 24)), {"shift": 1e-12}
    least_squares = (
        Size((1, 1), (32,), (20, 20)),
        Size((1, 1), (64,), (24, 24)),
        Size((1, 1), (128,), (30, 30)),
        Size((1, 1), (256,), (40, 40)),
    )
    tiny = Size((1, 1), (6,), (10, 10))

    def problem(self, size: Size) -> fb.Problem:
        """The equation for networks of a size."""

        def equation(x, u):
            return (u.xx + u.yy) / (2 * jnp.pi**2) + self.exact(x)

        return fb.Problem(
            boxes_on((Axis(0, 1), Axis(0, 1)), size.counts),
            axes="x y",
            net=fb.Mlp(size.widths, scale=size.scale),
            constrain=lambda x, u: 16 * x.x * (1 - x.x) * x.y * (1 - x.y) * u,
            terms=[fb.Interior(equation, points=size.points)],
        )

    @staticmethod
    def exact(x):
        """The solution."""
        return jnp.sin(jnp.pi * x.x) * jnp.sin(jnp.pi * x.y)

    def reference(self) -> tuple[np.ndarray, np.ndarray, float]:
        """Points, and the solution there, which is known."""
        points = lattice([np.linspace(0, 1, 151), np.linspace(0, 1, 151)])
        return points, np.asarray(self.exact(as_one("x y", points))), 0.0


PROBLEMS = {one.name: one for one in (Burgers(), Helmholtz(), AllenCahn(), Poisson())}


def as_one(names: str, points: np.ndarray) -> Any:
    """All points as one, as residuals see it."""
    return argparse.Namespace(**dict(zip(names.split(), points.T, strict=True)))


def relative(found: np.ndarray, true: np.ndarray) -> float:
    """The error in L2, as a share."""
    return float(np.linalg.norm(found - true) / np.linalg.norm(true))
