"""Training by gradients: which optimisers there are, at which points, and what can be asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from shardsolve.fbpinn._cells import KINDS
from shardsolve.fbpinn._given import choice, described, real, whole

POINTS = ("given", *KINDS)


@dataclass(frozen=True)
class Refined:
    """Points that are drawn anew where the residual is large (residual-based refinement).

    Some candidates for each point are drawn, a Latin hypercube each, and of all that lie in the
    same subdomains so many are kept as there were points, with a probability in proportion to
    |residual|^power / mean + floor. So each subdomain keeps its number of points: work stays
    balanced, and nothing is compiled again.

    Attributes:
        every: Steps from one draw to the next.
        candidates: For each point.
        power: Larger ones gather points nearer to where the residual is largest.
        floor: The share of points that go anywhere; must be above 0.
    """

    every: int = 500
    candidates: int = 4
    power: float = 1.0
    floor: float = 1.0

    def __post_init__(self) -> None:
        words = "a whole number of steps from 1 on is accepted"
        object.__setattr__(self, "every", whole("every", self.every, words))
        words = "a whole number from 2 on is accepted: there is nothing to choose from one"
        object.__setattr__(self, "candidates", whole("candidates", self.candidates, words, 2))
        for name in ("power", "floor"):
            words = "a number above 0 is accepted"
            real(name, getattr(self, name), words, lambda value: 0 < value < np.inf)


@dataclass(frozen=True, kw_only=True)
class ByGradients:
    """What all of them have.

    Attributes:
        steps: How many at most. They need be no multiple of `block`: the last block is shorter.
        points: "given": those of the terms, at every step. "random", "latin": drawn anew at every
            step, each in its own cell of the lattice that the points of its term lie on (as
            `points=(60, 60)` does); "latin" is a Latin hypercube besides. `Refined()`: where the
            residual is large. Measurements stay, and so do points on no lattice.
        accumulate: A step takes the mean of so many gradients, each at its own points. That is one
            step with less noise, for so many times the work, and not so many steps.
        balance: None: terms count by their weights. A number: every so many steps each term's part
            of the loss gets the factor that makes its gradient about as long as that of the others
            (S. Wang, Y. Teng, P. Perdikaris, SIAM J. Sci. Comput. 43, 2021; a tenth of the way each
            time). `Outcome` has the loss without these factors.
        block: Steps in one call of a compiled program; between two blocks callbacks are called,
            checkpoints are written, and Ctrl-C is looked at.
        seed: Of the points.
        dtype: Of parameters and all that is computed; by default float64 if it is on.
        exchange, batch: As of `Problem.loss`.
    """

    steps: int = 10_000
    points: str | Refined = "given"
    accumulate: int = 1
    balance: int | None = None
    block: int = 100
    seed: int = 0
    dtype: Any = None
    exchange: str = "halo"
    batch: int | None = None

    def __post_init__(self) -> None:
        for name, words in (
            ("steps", "a whole number from 1 on is accepted"),
            ("block", "a whole number of steps from 1 on is accepted"),
            ("accumulate", "a whole number from 1 on is accepted; 1 takes each gradient as it is"),
            ("balance", "None is accepted, or a whole number of steps from 1 on"),
        ):
            given = getattr(self, name)
            if name != "balance" or given is not None:
                object.__setattr__(self, name, whole(name, given, words, most=2**31 - 1))
        words = "a whole number from 0 on is accepted"
        object.__setattr__(self, "seed", whole("seed", self.seed, words, 0, 2**32 - 1))
        if not isinstance(self.points, Refined):
            if not isinstance(self.points, str):
                raise TypeError(
                    f"points={described(self.points)} given: {', '.join(POINTS)} are accepted by "
                    "name, or Refined(); the points themselves are those of the terms"
                )
            choice("points", self.points, POINTS)
        if self.accumulate > 1 and self.points not in KINDS:
            raise ValueError(
                f"accumulate={self.accumulate} given with points={self.points!r}: all "
                f"{self.accumulate} gradients of a step would be at the same points, and so the "
                "same; take points='random' or 'latin', or accumulate=1"
            )


@dataclass(frozen=True, kw_only=True)
class Adam(ByGradients):
    """Adam (D. P. Kingma, J. Ba, ICLR 2015) on all weights and unknown coefficients.

    Attributes:
        rate: The step's length; or a function from the number of the step, 0 the first, to it,
            such as a schedule of optax.
        b1, b2: How slowly the means of the gradient and of its square change.
        eps: Added to the root of the latter.
    """

    rate: float | Callable[[Any], Any] = 1e-3
    b1: float = 0.9
    b2: float = 0.999
    eps: float = 1e-8

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.rate):
            words = "a number above 0 is accepted, or a function from a step's number to one"
            real("rate", self.rate, words, lambda value: 0 < value < np.inf)
        for name in ("b1", "b2"):
            words = "a number from 0 to below 1 is accepted"
            real(name, getattr(self, name), words, lambda value: 0 <= value < 1)
        real("eps", self.eps, "a number above 0 is accepted", lambda value: 0 < value < np.inf)


@dataclass(frozen=True, kw_only=True)
class LBFGS(ByGradients):
    """L-BFGS (J. Nocedal, Math. Comp. 35, 1980), to go on where Adam has become slow.

    The step's length is halved until the loss is smaller. Points must be the same at every step.
    It ends before `steps` where no step makes the loss smaller.

    Attributes:
        steps: At most, 1000 by default.
        memory: Steps from which the curvature is known.
    """

    steps: int = 1000
    memory: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        words = "a whole number from 1 to 1000 is accepted"
        object.__setattr__(self, "memory", whole("memory", self.memory, words, most=1000))
        if self.points != "given" or self.balance is not None:
            raise ValueError(
                f"points={self.points!r} and balance={self.balance} given: LBFGS makes one "
                "function smaller, so points='given' and balance=None are accepted; Adam takes "
                "others"
            )


@dataclass(frozen=True, kw_only=True)
class Optimiser(ByGradients):
    """Any optimiser of optax: Optimiser(transformation=optax.adamw(1e-3), steps=2000).

    Attributes:
        transformation: What optax returns. It gets the parameters, and also the loss and the
            function that computes it, as optax.lbfgs needs them.
    """

    transformation: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_transformation("transformation", self.transformation)


def is_transformation(given: Any) -> bool:
    """Whether it looks like one of optax's."""
    is_class = isinstance(given, type)
    return not is_class and all(callable(getattr(given, name, None)) for name in ("init", "update"))


def require_transformation(name: str, given: Any) -> None:
    """Throws unless it is one of optax's."""
    if not is_transformation(given):
        raise TypeError(
            f"{name}={described(given)} given: an optimiser of optax is accepted, which has init "
            "and update, such as optax.adam(1e-3)"
        )
