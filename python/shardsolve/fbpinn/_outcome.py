"""What training will need, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass

from shardsolve._records import Status


@dataclass(frozen=True)
class Descent:
    """How `LevenbergMarquardt` went.

    Attributes:
        steps: That made the loss smaller.
        ended: "gradient", "step" (or no step made the loss smaller) or "limit".
        gradient: The largest cosine of a column of the Jacobian with the residual, at the last one.
        damping: At the end.
        in_samples: Whether steps solved equations of the samples.
        losses: Before and after each step.
    """

    steps: int
    ended: str
    gradient: float
    damping: float
    in_samples: bool
    losses: list[float]


@dataclass(frozen=True)
class Cost:
    """What one way to factor the Gram matrix takes.

    Attributes:
        flops: Floating-point operations.
        bytes: At the peak.
        largest: Columns of the largest dense block, or of the band.
    """

    flops: float
    bytes: float
    largest: int


@dataclass(frozen=True)
class Plan:
    """What training by least squares will need, known before.

    Attributes:
        boxes, points: How many there are.
        pairs: Of a point and a box around it.
        rows, columns: Of the least-squares problem.
        bytes: At the peak.
        costs: Of the factorisation, by "dense", "band" and "nested_dissection". The last is taken,
            if there is room for it.
        process_bytes: What each of so many processes on CPUs takes at most, by their number: of
            programs in C++ (`Mesh::mpi`). Here each process computes all.
        gpu_bytes: What each of so many GPUs needs at least, by their number.
        is_by_cg: There is not, so that conjugate gradients are taken.
        text: All of this for people.
    """

    boxes: int
    points: int
    pairs: int
    rows: int
    columns: int
    bytes: float
    costs: dict[str, Cost]
    process_bytes: dict[int, float]
    gpu_bytes: dict[int, float]
    is_by_cg: bool
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class TermLoss:
    """One term's part of the loss.

    Attributes:
        name: Of the term, as in messages.
        loss: At its points, at the end.
        held_out: At points between these; `loss` again if there are none: of `Data`, of single
            points, and of points of a curve or surface that lie on no lattice.
        held_out_points: How many.
    """

    name: str
    loss: float
    held_out: float
    held_out_points: int


@dataclass(frozen=True)
class Outcome:
    """How training ended.

    Attributes:
        status: OK (the loss is least, at least near where it is, and all numbers are finite; that
            says nothing of the error: see `held_out_loss`, `loss_left` and `warnings`),
            NOT_CONVERGED (Gauss-Newton did not come to an end, conjugate gradients came to their
            limit or to rounding before, or no step of Levenberg-Marquardt makes the loss smaller
            though its gradient is not small), NOT_POSITIVE_DEFINITE (the Gram matrix could not be
            factored) or OVERFLOW (u or the loss is not finite, or squares of residuals are below
            the range).
        loss: At the end, of these networks.
        losses: Before each step, and at the end.
        loss_left: What share it is of the loss of networks that are 0.
        held_out_loss: The loss at points between those of the training, of all `terms`. Far above
            `loss`, the solution fulfils the equations at the points only.
        terms: The parts of the terms, in their order.
        is_linear: The residual is linear in networks and coefficients: one solve, as a rule, is all
            there is to do.
        rows, columns: Of the least-squares problem; columns before small ones were left out.
        ranks: Columns that were kept of each box, in the last solve.
        coefficients_determined: Of the numbers of unknown coefficients, those that equations and
            data determine: whose standard deviation is less than half of the largest number of the
            same coefficient, now or at the start; the start does not count where the equations hold
            with coefficients that are 0, and these may be.
        coefficient_deviations: Standard deviations of these numbers, as if what is left of the
            residual were noise; inf of a number of which nothing is known, or only together with
            others. Empty where there was no factor. By name: `Run.coefficient_deviations`.
        certificate: ||A^T r|| / (||A|| ||r||) of the last linear problem, the columns of each box
            orthonormal: how near to least it is; rounding alone gives about 1e-16.
        condition: Of those columns, an estimate from below.
        refinements: Of the last solve.
        cg_steps: Of conjugate gradients in the last solve.
        is_by_cg: There was no factor, and no estimate of the condition.
        shift: What was added to the diagonal of the Gram matrix.
        costs: Of the factorisation, as in `Plan`.
        seconds: By part: "geometry", "residual", "rows", "factor", "solve",
            "held_out", on GPUs what of it is not done meanwhile.
        devices: Where it ran: "4 threads of the CPU", or the names of GPUs.
        warnings: Sentences with figures; each training also gives them as one `TrainingWarning`.
        descent: Of `LevenbergMarquardt`; None of `LeastSquares`.
    """

    status: Status
    loss: float
    losses: list[float]
    loss_left: float
    held_out_loss: float
    terms: list[TermLoss]
    is_linear: bool
    rows: int
    columns: int
    ranks: list[int]
    coefficients_determined: int
    coefficient_deviations: list[float]
    certificate: float
    condition: float
    refinements: int
    cg_steps: int
    is_by_cg: bool
    shift: float
    costs: dict[str, Cost]
    seconds: dict[str, float]
    devices: str
    warnings: list[str]
    descent: Descent | None = None

    @property
    def ok(self) -> bool:
        """Whether the loss is least near where it is; see `status`."""
        return self.status == Status.OK

    def __str__(self) -> str:
        steps = len(self.losses) - 1
        done = f"{steps} solve{'' if steps == 1 else 's'}"
        if self.descent is not None:
            done = f"{self.descent.steps} steps, ended by {self.descent.ended},"
        return (
            f"{self.status.name.lower()}: loss {self.loss:.3e} ({self.loss_left:.1e} of the first, "
            f"{self.held_out_loss:.3e} between the points) after {done} of {self.rows} x "
            f"{self.columns}, {sum(self.ranks)} "
            f"columns kept, condition at least {self.condition:.1e}, certificate "
            f"{self.certificate:.1e}, {sum(self.seconds.values()):.2f} s on "
            f"{self.devices}" + "".join(f"\n  {warning}" for warning in self.warnings)
        )
