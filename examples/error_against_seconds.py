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

The file has each point as soon as it is known, so a run that is killed leaves its curves. With
--total all of it ends after about so many seconds: each way gets its share of what is left.
Exit status: 0, or 1 if a way failed; the others are trained all the same.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np
from error_against_seconds_problems import PROBLEMS, Size, relative

import shardsolve.fbpinn as fb

METHODS = ("gradients", "natural", "least squares")


@dataclass
class Curve:
    """Errors of one way on one problem.

    Attributes:
        seconds, errors, parts: Of each point: seconds of training until then, error, and what was
            trained.
        compile_seconds: Of all of it.
        wall_seconds: All it took: compiling, and looking at errors too.
        size: Of the networks.
        devices: Where it ran.
        failed: Why it ended early; empty if it did not.
        on_point: Called after each point.
    """

    problem: str
    method: str
    size: str
    devices: str = ""
    seconds: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    compile_seconds: float = 0.0
    wall_seconds: float = 0.0
    failed: str = ""
    on_point: Callable[[], None] = field(default=lambda: None, repr=False)

    def plain(self) -> dict[str, Any]:
        """For a file."""
        return {name: value for name, value in vars(self).items() if name != "on_point"}

    def add(self, seconds: float, error: float, part: str) -> None:
        """One more point."""
        self.seconds.append(seconds)
        self.errors.append(error)
        self.parts.append(part)
        print(f"  {self.problem}, {part}: {seconds:8.2f} s, error {error:.2e}", flush=True)
        self.on_point()


@dataclass(frozen=True)
class Limit:
    """When a way ends.

    Attributes:
        seconds: Of training.
        at: What `time.perf_counter()` says then, whatever is done until.
    """

    seconds: float
    at: float = np.inf

    @property
    def left(self) -> float:
        """Seconds by the clock."""
        return self.at - time.perf_counter()


class Watch:
    """A callback: looks at the error now and then, and ends a training when its time is over."""

    def __init__(
        self, curve: Curve, error: Callable[[fb.Networks], float], part: str, limit: Limit
    ):
        self.curve, self.error, self.part, self.limit = curve, error, part, limit
        self.spent = curve.seconds[-1] if curve.seconds else 0.0
        self._next, self._step = 1.2 * self.spent, 0

    def __call__(self, progress: fb.Progress) -> bool:
        """Whether it was the last."""
        self.spent += (progress.step - self._step) / progress.steps_a_second
        self._step = progress.step
        is_last = self.spent >= self.limit.seconds or self.limit.left < 0
        if is_last or self.spent >= self._next:
            self._next = 1.2 * self.spent
            self.curve.add(self.spent, self.error(progress.networks()), self.part)
        return is_last

    def end(self, run: fb.Run) -> None:
        """The last point, where training ended by itself."""
        self.curve.compile_seconds += run.outcome.seconds["compile"]
        self.curve.devices = run.outcome.devices
        if self.curve.seconds[-1] < self.spent:
            self.curve.add(self.spent, self.error(run), self.part)
        if run.outcome.ended != "callback":
            print(f"  {self.curve.problem}, {self.part}: ended by {run.outcome.ended}", flush=True)


def by_gradients(posed: Any, size: Size, curve: Curve, error: Callable, limit: Limit) -> None:
    """Adam for a third of the time, with a rate that is halved now and then, then L-BFGS."""
    problem, run = posed.problem(size), None
    many, stages = 10**7, 6
    for stage in range(stages):  # a number for a rate is none to compile anew
        part = Limit(limit.seconds / 3 * (stage + 1) / stages, limit.at)
        watch = Watch(curve, error, "Adam", part)
        how = fb.Adam(steps=many, rate=5e-3 * 0.5**stage, points="random")
        run = problem.train(how, start=run, callbacks=watch)
        watch.end(run)
        if limit.left < 0:
            return
    watch = Watch(curve, error, "L-BFGS", limit)
    run = problem.train(fb.LBFGS(steps=many, memory=50), start=run, callbacks=watch)
    watch.end(run)


def by_natural(posed: Any, size: Size, curve: Curve, error: Callable, limit: Limit) -> None:
    """Natural gradients, with the shift that suits these networks."""
    watch = Watch(curve, error, "natural gradients", limit)
    how = fb.NaturalGradient(steps=10**7, **posed.shift, trials=16, block=2)
    watch.end(posed.problem(size).train(how, callbacks=watch))


def by_least_squares(
    posed: Any, sizes: Sequence[Size], curve: Curve, error: Callable, limit: Limit
) -> None:
    """Each size by itself; the next one only if there seems to be time for it."""
    begin, spent, seconds = time.perf_counter(), 0.0, limit.seconds
    once, parts, flops = 0.0, 0.0, 1.0  # of the size before: all of one iteration, its work
    for size in sizes:
        problem = posed.problem(size)
        before, flops = flops, problem.plan().costs["nested_dissection"].flops
        if once + parts * (flops / before - 1) > limit.left:
            print(f"  {curve.problem}: no time left to begin {size}", flush=True)
            return
        since = time.perf_counter()
        first = problem.train(fb.LeastSquares(max_iterations=1))  # compiles
        once = time.perf_counter() - since
        # Of an equation that is not linear it has ten iterations or so. Other parts compile.
        parts = sum(first.outcome.seconds[part] for part in ("rows", "factor", "solve"))
        longest = parts * (1 if first.outcome.is_linear else 12)
        spent += longest
        all_of_it = time.perf_counter() - begin + longest
        is_over = spent > seconds or all_of_it > 2 * seconds or longest > limit.left
        if curve.seconds and is_over:
            print(f"  {curve.problem}: no time left for {size}", flush=True)
            return
        took = np.inf
        for _ in range(3 if longest < 1 else 1):  # short ones by the least of three
            since = time.perf_counter()
            run = problem.train(fb.LeastSquares(max_iterations=60))
            took = min(took, time.perf_counter() - since)
        spent += took - longest
        curve.compile_seconds += max(0.0, once - took / max(len(run.outcome.losses) - 1, 1))
        curve.add(took, error(run), str(size))
        curve.devices = run.outcome.devices


def trained(
    posed: Any,
    method: str,
    limit: Limit,
    is_tiny: bool,
    kept: Callable[[Curve], None] = lambda curve: None,
) -> Curve:
    """One way on one problem; what goes wrong is written down. `kept` gets it after each point."""
    points, true, _ = reference_of(posed.name)

    def error(networks: fb.Networks) -> float:
        return relative(networks.evaluate(points), true)

    size = getattr(posed, method.replace(" ", "_"))
    if is_tiny:
        size = (posed.tiny,) if method == "least squares" else posed.tiny
    curve = Curve(posed.name, method, str(size) if isinstance(size, Size) else "")
    curve.on_point = functools.partial(kept, curve)
    ways = dict(zip(METHODS, (by_gradients, by_natural, by_least_squares), strict=True))
    begin = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fb.TrainingWarning)  # errors say more here
            ways[method](posed, size, curve, error, limit)
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
        "curves": [curve.plain() for curve in curves],
    }
    beside = path.with_suffix(".part")  # so that there is always a whole file
    beside.write_text(json.dumps(report, indent=1) + "\n")
    beside.replace(path)


def main() -> int:
    """Trains, prints, writes and draws. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--problem", nargs="+", choices=PROBLEMS, default=[*PROBLEMS])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=[*METHODS])
    parser.add_argument("--seconds", type=float, default=60, help="of each method on each problem")
    parser.add_argument("--total", type=float, default=np.inf, help="seconds of all of it")
    parser.add_argument("--json", type=Path, help="a file for all numbers, written as they come")
    parser.add_argument("--plot", type=Path, help="a file for the picture: .png or .svg")
    parser.add_argument("--draw", type=Path, help="draw what --json wrote, and train nothing")
    parser.add_argument("--tiny", action="store_true", help="very small networks, as a test")
    given = parser.parse_args()
    if given.draw is not None:
        from error_against_seconds_picture import draw

        draw(given.plot or given.draw.with_suffix(".png"), json.loads(given.draw.read_text()))
        return 0
    jax.config.update("jax_enable_x64", True)
    curves: list[Curve] = []

    def kept(curve: Curve) -> None:
        written(given.json, [*curves, curve], given.seconds)

    begin, ways = time.perf_counter(), len(given.problem) * len(given.methods)
    for name in given.problem:
        print(f"{PROBLEMS[name].title}: the reference is known to {reference_of(name)[2]:.0e}")
        for method in given.methods:
            now = time.perf_counter()
            left = begin + given.total - now  # many ways need less than their share
            if left < 0:
                print(f"  {name}, {method}: no time left of {given.total:.0f} s", flush=True)
                continue
            share = min(left, 1.5 * left / (ways - len(curves)))
            limit = Limit(min(given.seconds, 0.7 * share), now + share)
            curve = trained(PROBLEMS[name], method, limit, given.tiny, kept)
            curves.append(curve)
            written(given.json, curves, given.seconds)
    for curve in curves:
        best = f"{min(curve.errors):.2e}" if curve.errors else "no point"
        print(
            f"{curve.problem}, {curve.method}: {best}, {curve.compile_seconds:.1f} s to compile, "
            f"{curve.wall_seconds:.1f} s in all, on {curve.devices} {curve.failed}"
        )
    if given.plot is not None:
        from error_against_seconds_picture import draw

        report = {"device": jax.devices()[0].device_kind, "curves": [one.plain() for one in curves]}
        draw(given.plot, report)
    return 1 if any(curve.failed for curve in curves) else 0


if __name__ == "__main__":
    sys.exit(main())
