"""What a Krylov solve reports: its status, numbers, log, and failures that nobody saw."""

from __future__ import annotations

import ctypes
import enum
import json
from dataclasses import dataclass

import jax
import numpy as np

from shardsolve import _library
from shardsolve._records import LinAlgError, Status


class KrylovStatus(enum.IntEnum):
    """How a solve ended: docs/design/krylov.md. Up to HAPPY_BREAKDOWN it has converged."""

    RUNNING = 0
    CONVERGED_RTOL = 1
    CONVERGED_ATOL = 2
    ZERO_RHS = 3
    CONVERGED_AT_START = 4
    HAPPY_BREAKDOWN = 5
    MAX_ITERATIONS = 6
    STAGNATED = 7
    ACCURACY_LIMIT = 8
    DIVERGED = 9
    BREAKDOWN_RHO = 10
    BREAKDOWN_SIGMA = 11
    BREAKDOWN_OMEGA = 12
    BREAKDOWN_HESSENBERG = 13
    INDEFINITE_OPERATOR = 14
    INDEFINITE_PRECONDITIONER = 15
    NONSYMMETRIC_OPERATOR = 16
    NONSYMMETRIC_PRECONDITIONER = 17
    NONFINITE_RHS = 18
    NONFINITE_GUESS = 19
    NONFINITE_OPERATOR = 20
    NONFINITE_PRECONDITIONER = 21
    CANCELLED = 22
    OVERFLOW = 23
    SINGULAR_OPERATOR = 24

    @property
    def is_converged(self) -> bool:
        """Whether x solves the system within the tolerance."""
        return self.RUNNING < self <= self.HAPPY_BREAKDOWN


# Where numbers are among the words of a report: krylov::Report of src/runtime/krylov/ends.hpp.
_STATUS, _IS_MARGINAL, _ITERATIONS, _MATVECS, _RESTARTS = 0, 1, 2, 4, 6
EVENTS = ("iteration", "residual_recomputed", "restarted", "shadow_changed", "ended")
_RECORD = np.dtype(
    [
        ("iteration", np.int64),
        ("event", np.int32),
        ("status", np.int32),
        ("residual", np.float64),
        ("rho", np.complex128),
        ("alpha", np.complex128),
        ("omega", np.complex128),
    ]
)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class KrylovInfo:
    """What is known of a solve; a pytree, whose fields are tracers inside `jit`.

    Attributes:
        report: int32 words, of which the properties below are made; the last one is how many
            vectors fgmres keeps until it begins anew, or 0.
        figures: (5,), of the real dtype: residual, tolerance, margin, condition, error_estimate.
        records: int32 words of the log; empty unless it was asked for.
        written: int32: how many records were written; the newest are kept.
    """

    report: jax.Array
    figures: jax.Array
    records: jax.Array
    written: jax.Array

    @property
    def status(self) -> jax.Array | KrylovStatus:
        """A KrylovStatus; its number where it is traced or a batch."""
        word = self.report[..., _STATUS]
        if isinstance(word, jax.core.Tracer) or word.ndim:
            return word
        return KrylovStatus(int(word))

    @property
    def is_converged(self) -> jax.Array:
        """Whether x solves the system within the tolerance."""
        word = self.report[..., _STATUS]
        return (word > KrylovStatus.RUNNING) & (word <= KrylovStatus.HAPPY_BREAKDOWN)

    @property
    def iterations(self) -> jax.Array:
        """int32: of bicgstab with two products each."""
        return self.report[..., _ITERATIONS]

    @property
    def matvecs(self) -> jax.Array:
        """int32: products with A that counted."""
        return self.report[..., _MATVECS]

    @property
    def restarts(self) -> jax.Array:
        """int32: how often the method began anew from a recomputed residual."""
        return self.report[..., _RESTARTS]

    @property
    def residual(self) -> jax.Array:
        """||b - A x|| / ||b||, recomputed."""
        return self.figures[..., 0]

    @property
    def tolerance(self) -> jax.Array:
        """What it had to be."""
        return self.figures[..., 1]

    @property
    def margin(self) -> jax.Array:
        """By which factor the verdict was away from another one."""
        return self.figures[..., 2]

    @property
    def condition(self) -> jax.Array:
        """Of A in the 2-norm, from below, as products of cg and minres tell; 0 if not known."""
        return self.figures[..., 3]

    @property
    def error_estimate(self) -> jax.Array:
        """An estimate of ||x - A^-1 b|| / ||x||; infinity if not known.

        The residual may be small and this be near 1, where A is ill-conditioned. It rests on the
        directions that the solve has taken: usually within a factor of 10 if small eigenvalues are
        among them, and no bound.
        """
        return self.figures[..., 4]

    @property
    def is_marginal(self) -> jax.Array:
        """Whether that is less than 2: with other rounding the verdict may be another."""
        return self.report[..., _IS_MARGINAL] != 0

    @property
    def message(self) -> str:
        """One sentence: numbers, the iteration, what to do. Of a batch, the first that failed."""
        if isinstance(self.report, jax.core.Tracer):
            raise TypeError(
                "info.message was read while JAX traces, and there is no text yet: return info "
                "from the function that is transformed, and read it outside"
            )
        words = np.asarray(jax.device_get(self.report)).reshape(-1, self.report.shape[-1])
        if not len(words):
            return ""
        failed = ~np.array([KrylovStatus(int(one[_STATUS])).is_converged for one in words])
        return message_of(words[int(np.argmax(failed))])

    @property
    def log(self) -> np.ndarray:
        """The records of a solve that was asked for them, as a structured array.

        Fields: iteration, event (a number, of EVENTS), status, residual, and rho, alpha and omega,
        complex. At most 2^16, the newest.
        """
        if self.records.ndim != 1:
            raise ValueError("info.log is that of one solve: take one of the batch first")
        ring = np.asarray(jax.device_get(self.records)).view(_RECORD)
        written = int(self.written)
        if written <= len(ring):
            return ring[:written]
        return np.roll(ring, -(written % len(ring)))


@dataclass(frozen=True)
class KrylovFailure:
    """A solve that has not converged.

    Attributes:
        role: "solve", "tangent" (of a forward derivative) or "adjoint" (of a gradient).
        method: Its name.
        status: Why.
        iterations: How many.
        residual: ||b - A x|| / ||b|| of what was returned.
        tolerance: What it had to be.
        message: One sentence.
    """

    role: str
    method: str
    status: KrylovStatus
    iterations: int
    residual: float
    tolerance: float
    message: str


def last_failures() -> list[KrylovFailure]:
    """Krylov solves that have not converged since this was last called, oldest first.

    Those inside `jit` and those of derivatives too, where nobody can raise; the last 256. A result
    that depends on them has to be there first: jax.block_until_ready.
    """
    library = _library.library()
    text = ctypes.c_void_p(library.shardsolve_take_krylov_failures())
    try:
        found = json.loads(ctypes.string_at(text))
    finally:
        library.shardsolve_free(text)
    return [KrylovFailure(**{**one, "status": KrylovStatus(one["status"])}) for one in found]


def message_of(report: np.ndarray) -> str:
    """The sentence that belongs to a report, given as its words."""
    words = np.ascontiguousarray(report, np.int32)
    pointer = words.ctypes.data_as(ctypes.c_void_p)
    size = _library.library().shardsolve_krylov_message(pointer, None, 0) + 1
    text = ctypes.create_string_buffer(size)
    _library.library().shardsolve_krylov_message(pointer, text, size)
    return text.value.decode()


def raise_if_not_converged(report: jax.Array) -> None:
    """Raises what a report says, if it can be read: not while JAX traces. Waits for it."""
    if isinstance(report, jax.core.Tracer):
        return
    words = np.asarray(jax.device_get(report)).reshape(-1, report.shape[-1])
    for at, one in enumerate(words):
        status = KrylovStatus(int(one[_STATUS]))
        if not status.is_converged:
            common = _library.description()["krylov"]["statuses"][status.name.lower()]["common"]
            which = f"system {at} of the batch: " if len(words) > 1 else ""
            raise LinAlgError(which + message_of(one), Status(common), None)
