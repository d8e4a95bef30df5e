"""Error against seconds: four equations, and every way to train networks on each.

    burgers     u_t + u u_x = 0.01/pi u_xx, u(0, x) = -sin(pi x), 0 at both ends
    helmholtz   u_xx + u_yy + u = f on a square, where u = sin(pi x) sin(4 pi y)
    allen-cahn  u_t = 1e-4 u_xx + 5 u - 5 u^3, u(0, x) = x^2 cos(pi x), periodic
    poisson     u_xx + u_yy = f on a square by one network, where u = sin(pi x) sin(pi y)

    gradients      Adam, then L-BFGS from where it is
    natural        natural gradients
    least squares  Gauss-Newton (one solve if the equation is linear) with more and more units

Errors are relative, in L2, on points that training has not seen, against Cole and Hopf's formula
(Burgers), a spectral solution (Allen-Cahn), or the u of which f was made. Seconds are those of
training, all it takes of the host included; compiling is told beside them. The first two ways go
on from point to point of their curves, each point of least squares is a training by itself.

    python examples/error_against_seconds.py --seconds 60 --json errors.json --plot errors.png
    python examples/error_against_seconds.py --draw errors.json --plot errors.png  # trains nothing

Exit status: 0, or 1 if a way failed; the others are trained all the same.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erfc

import shardsolve.fbpinn as fb

METHODS = ("gradients", "natural", "least squares")
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
    published = ((8e-9, "SSBroyden, 8e-9 (Kiyani et al. 2025)"), (8e-5, "Adam, 8e-5"))
    gradients = Size((10, 4), (16,), (90, 40))
    natural = Size((10, 4), (8,), (100, 48))
    shifts = (1e-9,)
    least_squares = (
        Size((12, 6), (16,), (72, 40)),
        Size((16, 8), (24,), (120, 64)),
        Size((20, 10), (32,), (200, 100)),
        Size((24, 12), (48,), (280, 140)),
        Size((24, 16), (48,), (280, 190)),
        Size((24, 16), (64,), (330, 220)),
    )
    tiny = Size((6, 3), (4,), (30, 14))

    def problem(self, size: Size) -> fb.Problem:
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
        """u as the quotient of two integrals with the kernel of heat, by Gauss and Hermite."""
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
    natural = Size((2, 4), (16,), (30, 60))
    shifts = (1e-9,)
    least_squares = (
        Size((4, 8), (16,), (30, 60)),
        Size((4, 8), (32,), (40, 80)),
        Size((4, 8), (64,), (60, 110)),
        Size((5, 10), (100,), (80, 160)),
        Size((5, 10), (140,), (90, 190)),
    )
    tiny = Size((2, 4), (6,), (16, 32))

    def problem(self, size: Size) -> fb.Problem:
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
        return jnp.sin(jnp.pi * x.x) * jnp.sin(4 * jnp.pi * x.y)

    def reference(self) -> tuple[np.ndarray, np.ndarray, float]:
        points = lattice([np.linspace(-1, 1, 157), np.linspace(-1, 1, 157)])
        return points, np.asarray(self.exact(fb_point("x y", points))), 0.0


class AllenCahn:
    """On half of [-1, 1], as the solution is even and periodic: so its slope at 0 and 1 is 0.

    At t = 0 the slope at 1 is not: heat that flows out there is a summand of the solution, and
    networks have the smooth rest. Subdomains are narrow there and where u comes to jump.
    """

    name, title = "allen-cahn", "Allen-Cahn"
    published = ((1.9e-6, "1.9e-6 (Kiyani et al. 2025)"),)
    gradients = Size((16, 6), (16,), (140, 60))
    natural = Size((10, 4), (8,), (100, 44))
    shifts = (1e-9,)
    least_squares = (
        Size((20, 6), (16,), (140, 50)),
        Size((24, 8), (24,), (180, 80)),
        Size((32, 10), (32,), (260, 100)),
        Size((40, 12), (40,), (340, 140)),
        Size((48, 14), (48,), (440, 160)),
    )
    tiny = Size((8, 3), (4,), (40, 14))

    def problem(self, size: Size) -> fb.Problem:
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
            for modes, steps in ((1024, 1000), (512, 500))
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
    natural = Size((1, 1), (32, 32), (24, 24))
    shifts = (1e-12,)
    least_squares = (
        Size((1, 1), (32,), (20, 20)),
        Size((1, 1), (64,), (24, 24)),
        Size((1, 1), (128,), (30, 30)),
        Size((1, 1), (256,), (40, 40)),
    )
    tiny = Size((1, 1), (6,), (10, 10))

    def problem(self, size: Size) -> fb.Problem:
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
        return jnp.sin(jnp.pi * x.x) * jnp.sin(jnp.pi * x.y)

    def reference(self) -> tuple[np.ndarray, np.ndarray, float]:
        points = lattice([np.linspace(0, 1, 151), np.linspace(0, 1, 151)])
        return points, np.asarray(self.exact(fb_point("x y", points))), 0.0


PROBLEMS = {one.name: one for one in (Burgers(), Helmholtz(), AllenCahn(), Poisson())}


def fb_point(names: str, points: np.ndarray) -> Any:
    """All points as one, as residuals see it."""
    return argparse.Namespace(**dict(zip(names.split(), points.T, strict=True)))


def relative(found: np.ndarray, true: np.ndarray) -> float:
    """The error in L2, as a share."""
    return float(np.linalg.norm(found - true) / np.linalg.norm(true))


# Ways to train


@dataclass
class Curve:
    """Errors of one way on one problem.

    Attributes:
        seconds, errors, parts: Of each point: seconds of training until then, error, and what was
            trained.
        compile_seconds: Of all of it.
        wall_seconds: All it took: compiling, and looking at errors too.
        size: Of the networks.
        failed: Why it ended early; empty if it did not.
    """

    problem: str
    method: str
    size: str
    seconds: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    compile_seconds: float = 0.0
    wall_seconds: float = 0.0
    failed: str = ""

    def add(self, seconds: float, error: float, part: str) -> None:
        """One more point."""
        self.seconds.append(seconds)
        self.errors.append(error)
        self.parts.append(part)
        print(f"  {self.problem}, {part}: {seconds:8.2f} s, error {error:.2e}", flush=True)


class Watch:
    """A callback: looks at the error now and then, and ends a training when its time is over."""

    def __init__(self, curve: Curve, error: Callable[[fb.Networks], float], part: str):
        self.curve, self.error, self.part = curve, error, part
        self.spent = curve.seconds[-1] if curve.seconds else 0.0
        self.limit, self._next, self._step = np.inf, 0.0, 0

    def until(self, limit: float) -> Watch:
        """The same, for training that ends after so many seconds of the curve."""
        self.limit = limit
        return self

    def __call__(self, progress: fb.Progress) -> bool:
        self.spent += (progress.step - self._step) / progress.steps_a_second
        self._step = progress.step
        is_last = self.spent >= self.limit
        if is_last or self.spent >= self._next:
            self._next = 1.2 * self.spent
            self.curve.add(self.spent, self.error(progress.networks()), self.part)
        return is_last

    def end(self, run: fb.Run) -> None:
        """The last point, where training ended by itself."""
        self.curve.compile_seconds += run.outcome.seconds["compile"]
        if self.curve.seconds[-1] < self.spent:
            self.curve.add(self.spent, self.error(run), self.part)
        print(f"  {self.curve.problem}, {self.part}: ended by {run.outcome.ended}", flush=True)


def rate(step):
    """Of Adam: halved every 3000 steps."""
    return 5e-3 * 0.5 ** (step / 3000)


def by_gradients(posed: Any, size: Size, curve: Curve, error: Callable, seconds: float) -> None:
    """Adam for a third of the time, then L-BFGS."""
    problem = posed.problem(size)
    many = 10**7
    how = fb.Adam(steps=many, rate=rate, points="random", block=50)
    watch = Watch(curve, error, "Adam").until(seconds / 3)
    run = problem.train(how, callbacks=watch)
    watch.end(run)
    watch = Watch(curve, error, "L-BFGS").until(seconds)
    run = problem.train(fb.LBFGS(steps=many, memory=50, block=50), start=run, callbacks=watch)
    watch.end(run)


def by_natural(posed: Any, size: Size, curve: Curve, error: Callable, seconds: float) -> None:
    """Natural gradients, with a smaller shift from part to part."""
    problem, run = posed.problem(size), None
    for part, shift in enumerate(posed.shifts, 1):
        watch = Watch(curve, error, f"shift {shift:.0e}").until(seconds * part / len(posed.shifts))
        how = fb.NaturalGradient(steps=10**7, shift=shift, block=2)
        run = problem.train(how, start=run, callbacks=watch)
        watch.end(run)


def by_least_squares(
    posed: Any, sizes: Sequence[Size], curve: Curve, error: Callable, seconds: float
) -> None:
    """Each size by itself; the next one only if there seems to be time for it."""
    begin = time.perf_counter()
    for size in sizes:
        problem = posed.problem(size)
        since = time.perf_counter()
        problem.train(fb.LeastSquares(max_iterations=1))  # compiles
        once = time.perf_counter() - since
        # A training has ten iterations or so, of which one was done, with compiling.
        if curve.seconds and time.perf_counter() - begin + 8 * (once - 1) > seconds:
            print(f"  {curve.problem}: no time left for {size}", flush=True)
            return
        since = time.perf_counter()
        run = problem.train(fb.LeastSquares(max_iterations=60))
        took = time.perf_counter() - since
        curve.compile_seconds += max(0.0, once - took / max(len(run.outcome.losses) - 1, 1))
        curve.add(took, error(run), str(size))


def trained(posed: Any, method: str, seconds: float, is_tiny: bool) -> Curve:
    """One way on one problem; what goes wrong is written down."""
    points, true, _ = reference_of(posed.name)

    def error(networks: fb.Networks) -> float:
        return relative(networks.evaluate(points), true)

    size = getattr(posed, method.replace(" ", "_"))
    if is_tiny:
        size = (posed.tiny,) if method == "least squares" else posed.tiny
    curve = Curve(posed.name, method, str(size) if isinstance(size, Size) else "")
    ways = dict(zip(METHODS, (by_gradients, by_natural, by_least_squares), strict=True))
    begin = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fb.TrainingWarning)  # errors say more here
            ways[method](posed, size, curve, error, seconds)
    except Exception as failure:  # the other ways are to be trained all the same
        curve.failed = f"{type(failure).__name__}: {failure}"
        print(f"  {posed.name}, {method}, failed: {curve.failed}", flush=True)
    curve.wall_seconds = time.perf_counter() - begin
    return curve


@functools.cache
def reference_of(name: str) -> tuple[np.ndarray, np.ndarray, float]:
    """Points, the solution there, and how well it is known."""
    return PROBLEMS[name].reference()


# What is kept and drawn


def written(path: Path | None, curves: Sequence[Curve], seconds: float) -> None:
    """All curves until now."""
    if path is None:
        return
    device = jax.devices()[0]
    report = {
        "device": device.device_kind,
        "jax": jax.__version__,
        "seconds": seconds,
        "references": {one: reference_of(one)[2] for one in {curve.problem for curve in curves}},
        "curves": [asdict(curve) for curve in curves],
    }
    path.write_text(json.dumps(report, indent=1) + "\n")


COLORS = {"gradients": "#c2572b", "natural": "#2a7f62", "least squares": "#2b5fa8"}
LABELS = {
    "gradients": "Adam, then L-BFGS (dashed)",
    "natural": "natural gradients",
    "least squares": "least squares",
}


def pieces(curve: Curve) -> Iterator[tuple[str, list[float], list[float]]]:
    """Of gradients a line for each optimiser, else one for all."""
    if curve.method != "gradients":
        yield "-", curve.seconds, curve.errors
        return
    first = curve.parts.count("Adam")
    yield "-", curve.seconds[:first], curve.errors[:first]
    yield "--", curve.seconds[max(first - 1, 0) :], curve.errors[max(first - 1, 0) :]


def draw(path: Path, report: dict[str, Any]) -> None:
    """A panel for each problem."""
    from matplotlib.figure import Figure

    curves = [Curve(**one) for one in report["curves"]]
    names = [name for name in PROBLEMS if any(curve.problem == name for curve in curves)]
    figure = Figure(figsize=(4.6 * min(len(names), 2), 3.7 * -(-len(names) // 2)), dpi=110)
    panels = figure.subplots(-(-len(names) // 2), min(len(names), 2), squeeze=False).ravel()
    for axes, name in zip(panels, names, strict=False):
        for curve in (one for one in curves if one.problem == name):
            color, label = COLORS[curve.method], LABELS[curve.method]
            mark = "o" if curve.method == "least squares" else "."
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
    for axes in panels[len(names) :]:
        axes.remove()
    panels[0].legend(frameon=False, fontsize=8)
    figure.suptitle(f"Error against seconds, {report['device']}, float64", fontsize=11)
    figure.tight_layout()
    figure.savefig(path)


def main() -> int:
    """Trains, prints, writes and draws. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--problem", nargs="+", choices=PROBLEMS, default=[*PROBLEMS])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=[*METHODS])
    parser.add_argument("--seconds", type=float, default=60, help="of each method on each problem")
    parser.add_argument("--json", type=Path, help="a file for all numbers, written as they come")
    parser.add_argument("--plot", type=Path, help="a file for the picture: .png or .svg")
    parser.add_argument("--draw", type=Path, help="draw what --json wrote, and train nothing")
    parser.add_argument("--tiny", action="store_true", help="very small networks, as a test")
    given = parser.parse_args()
    if given.draw is not None:
        draw(given.plot or given.draw.with_suffix(".png"), json.loads(given.draw.read_text()))
        return 0
    jax.config.update("jax_enable_x64", True)
    curves: list[Curve] = []
    for name in given.problem:
        print(f"{PROBLEMS[name].title}: the reference is known to {reference_of(name)[2]:.0e}")
        for method in given.methods:
            curves.append(trained(PROBLEMS[name], method, given.seconds, given.tiny))
            written(given.json, curves, given.seconds)
    for curve in curves:
        best = f"{min(curve.errors):.2e}" if curve.errors else "no point"
        print(
            f"{curve.problem}, {curve.method}: {best}, {curve.compile_seconds:.1f} s to compile, "
            f"{curve.wall_seconds:.1f} s in all {curve.failed}"
        )
    if given.plot is not None:
        report = {"device": jax.devices()[0].device_kind, "curves": list(map(asdict, curves))}
        draw(given.plot, report)
    return 1 if any(curve.failed for curve in curves) else 0


if __name__ == "__main__":
    sys.exit(main())
