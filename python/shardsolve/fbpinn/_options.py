"""What can be asked of training, each way with its limits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shardsolve.fbpinn._given import choice, described, real, whole

_MOST = 2**31 - 1  # what the library counts to
METHODS = ("automatic", "factor", "cg")  # as fbpinn::LinearMethod


def _require_whole(options: object, name: str) -> None:
    words = f"a whole number from 1 to {_MOST} is accepted"
    object.__setattr__(options, name, whole(name, getattr(options, name), words, most=_MOST))


def _require_shares(options: object, *names: str) -> None:
    for name in names:
        real(
            name,
            getattr(options, name),
            "a number between 0 and 1 is accepted",
            lambda value: 0 < value < 1,
        )


@dataclass(frozen=True)
class LeastSquares:
    """Hidden layers stay as they are, and the last ones make the loss least.

    The loss is the sum over the terms of weight^2 times the mean of the squared residual. If the
    residual is linear in u that is one linear problem, otherwise several by Gauss-Newton with a
    line search. Each box's columns are made orthonormal, their Gram matrix is factored by blocks in
    an order that keeps it sparse, and the solution is refined.

    Attributes:
        max_iterations: Linear problems at most.
        tolerance: It ends when a step changes the residual by less than this share of it.
        rank_tolerance: Columns of a box that are smaller than this beside its largest are left out.
            Unknown coefficients and steps that lead nowhere make it larger by themselves.
        method: "factor" solves linear problems by a factor of the Gram matrix, "cg" by
            conjugate gradients, whose memory is that of the columns alone; "automatic" takes these
            if the factor does not fit in memory (`Plan.is_by_cg`).
        cg_tolerance: Conjugate gradients end at this certificate,
        max_cg_steps: or after so many steps: NOT_CONVERGED.
        chunk: How many points the functions are computed for at a time; by default what a table
            says for the numbers at a point. Results do not depend on it.
    """

    max_iterations: int = 30
    tolerance: float = 1e-5
    rank_tolerance: float = 1e-12
    method: str = "automatic"
    cg_tolerance: float = 1e-10
    max_cg_steps: int = 10_000
    chunk: int | None = None

    def __post_init__(self) -> None:
        for name in ("max_iterations", "max_cg_steps", "chunk"):
            if name != "chunk" or self.chunk is not None:
                _require_whole(self, name)
        choice("method", self.method, METHODS)
        _require_shares(self, "tolerance", "rank_tolerance", "cg_tolerance")


EQUATIONS = ("cheaper", "parameters", "samples")  # as LevenbergMarquardtOptions::Equations


@dataclass(frozen=True)
class LevenbergMarquardt:
    """All weights make the loss smaller, those of hidden layers too, from least squares on.

    Damped Gauss-Newton steps with the whole Jacobian; at the end the last layers once more by least
    squares if the residual is linear in u. For small problems: networks of few units then do what
    least squares needs many for. `Outcome.ok` says that it came near a local minimum.

    Attributes:
        max_steps: Each makes the loss smaller.
        gradient_tolerance: It ends when no column of the Jacobian has a larger cosine with the
            residual, each term's part of both taken by its own size,
        step_tolerance: or a step is smaller than this beside the parameters.
        damping: Of the first step; columns of the Jacobian have the norm 1 there.
        equations: What a step solves: "parameters", J^T J, block-sparse; "samples", J J^T, dense;
            "cheaper" takes the one with fewer flops.
        start: How the last layers are found that it begins with.
    """

    max_steps: int = 200
    gradient_tolerance: float = 1e-8
    step_tolerance: float = 1e-14
    damping: float = 1e-6
    equations: str = "cheaper"
    start: LeastSquares = LeastSquares(rank_tolerance=1e-8)

    def __post_init__(self) -> None:
        _require_whole(self, "max_steps")
        _require_shares(self, "gradient_tolerance", "step_tolerance")
        real(
            "damping",
            self.damping,
            "a number above 0 is accepted",
            lambda value: np.isfinite(value) and value > 0,
        )
        choice("equations", self.equations, EQUATIONS)
        if not isinstance(self.start, LeastSquares):
            raise TypeError(
                f"start={described(self.start)} given: LeastSquares() is accepted, the way to find "
                "the last layers that it begins with"
            )


@dataclass(frozen=True)
class PlacementCosts:
    """What decides which device has which boxes: the work and the messages of a step.

    `shardsolve doctor` prints what links take. Where a message is cheap beside the work of a box,
    devices get equal work, otherwise short borders.

    Attributes:
        seconds_per_pair: Of a point and a box around it.
        latency: Seconds a message.
        seconds_per_byte: Of messages.
    """

    seconds_per_pair: float = 2e-7
    latency: float = 1e-5
    seconds_per_byte: float = 1e-10

    def __post_init__(self) -> None:
        for name in ("seconds_per_pair", "latency", "seconds_per_byte"):
            real(
                name,
                getattr(self, name),
                "a number of seconds from 0 on is accepted",
                lambda value: np.isfinite(value) and value >= 0,
            )
