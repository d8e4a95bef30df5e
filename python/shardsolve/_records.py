"""What a call reports: status, where, and how good the answer is."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from shardsolve import _library

# As in jax/records.hpp. A verdict: status, row, column, rows eliminated before, in right-hand side.
VERDICT_WORDS = 5
FACTOR_WORDS = 12
FAILURE = 100  # from this status on the second word is not a row but the number of a message
NOT_KNOWN = -1.0  # a figure that nobody has asked for; not NaN, which jax_debug_nans would find
OF_B = "b: "  # how a sentence begins that is about the second matrix
FACTOR_DEVICES, FACTOR_RANKS, FACTOR_TILE = 6, 7, 8  # their places in the record of a factor
# The record where n = 0: a verdict without a place; n; devices, ranks and tile; the norm.
EMPTY_FACTOR = (0, -1, -1, -1, 0, 0, 1, 1, 1, 0, 0, 0)
EMPTY_LU = (*EMPTY_FACTOR, 0, 0, 0, 0, 0, 0)
EMPTY_SKETCHED_LU = (*EMPTY_LU, 0, 0, 0)


class Status(enum.IntEnum):
    """Why a call ended. Its `advice` says what to do about it."""

    OK = 0
    NOT_POSITIVE_DEFINITE = 1
    NOT_HERMITIAN = 2
    NONFINITE_INPUT = 3
    OVERFLOW = 4
    NOT_CONVERGED = 5
    BREAKDOWN = 6
    UNSUITABLE_METHOD = 7
    NONFINITE_PRODUCT = 8
    STOPPED = 9
    UNDERFLOW = 10
    SINGULAR = 11
    NEARLY_SINGULAR = 12
    INACCURATE = 13
    RANK_DEFICIENT = 14
    INVALID_ARGUMENT = FAILURE
    OUT_OF_MEMORY = 101
    DEVICE = 102
    COMMUNICATION = 103
    IO = 104
    CANCELLED = 105
    UNSUPPORTED = 106
    INTERNAL = 107

    @property
    def advice(self) -> str:
        """One sentence: what to do."""
        return _ADVICE[self]


_ADVICE = {
    Status.OK: "Nothing to do.",
    Status.NOT_POSITIVE_DEFINITE: "Add to the diagonal, or check how the matrix was made.",
    Status.NOT_HERMITIAN: (
        "Both triangles are needed: if only one is filled, T, pass T + T^H - diag(T); if both are, "
        "(A + A^H) / 2 accepts the difference."
    ),
    Status.NONFINITE_INPUT: "Find out where the NaN or infinity was made.",
    Status.OVERFLOW: "Scale the matrix or the right-hand sides, or use a wider dtype.",
    Status.NOT_CONVERGED: "Of eigenvalues: please report the matrix. Of a solve: see the message.",
    Status.BREAKDOWN: "Use another method or a preconditioner.",
    Status.UNSUITABLE_METHOD: "Use a method for such a matrix: the message names one.",
    Status.NONFINITE_PRODUCT: "Find out where the NaN or infinity in a product was made.",
    Status.STOPPED: "The call was stopped as asked.",
    Status.UNDERFLOW: "Scale the matrices, or use a wider dtype.",
    Status.SINGULAR: "Look for rows or columns that are combinations of others.",
    Status.NEARLY_SINGULAR: "There is an x: scale or regularise if its digits are needed.",
    Status.INACCURATE: "Exchange or scale rows or columns, or use a wider dtype.",
    Status.RANK_DEFICIENT: "Take lstsq, or ridge; or leave out what is a combination of others.",
    Status.INVALID_ARGUMENT: "See the message.",
    Status.OUT_OF_MEMORY: "Use more devices, a smaller problem, or overwrite_a=True.",
    Status.DEVICE: "A device failed or is missing: see the message.",
    Status.COMMUNICATION: "A device did not answer in time: see the message and set_timeout.",
    Status.IO: "A file could not be read or written: see the message.",
    Status.CANCELLED: "The call was cancelled.",
    Status.UNSUPPORTED: "This build cannot do that: see the message.",
    Status.INTERNAL: "A bug of shardsolve: please report it.",
}


class LinAlgError(np.linalg.LinAlgError):
    """There is no answer, for a reason that lies in the numbers.

    Attributes:
        status: Why; a Status.
        pivot: Row (0-based) whose pivot was not positive, or of a general matrix 0; or None.
    """

    def __init__(self, message: str, status: Status, pivot: int | None):
        super().__init__(message)
        self.status = status
        self.pivot = pivot

    def __reduce__(self) -> tuple:
        """With all arguments, for pickle and copy."""
        return type(self), (str(self), self.status, self.pivot)


class SolverError(RuntimeError):
    """There is no answer, for a reason outside of the numbers: memory, a device, a bug.

    Attributes:
        status: Why; a Status.
    """

    def __init__(self, message: str, status: Status):
        super().__init__(message)
        self.status = status

    def __reduce__(self) -> tuple:
        """With all arguments, for pickle and copy."""
        return type(self), (str(self), self.status)


@dataclass(frozen=True, eq=False)
class _Judged:
    """What has a verdict."""

    verdict: jax.Array

    @property
    def status(self) -> jax.Array | Status:
        """A Status, or inside `jit` its number."""
        if isinstance(self.verdict, jax.core.Tracer) or self.verdict.ndim > 1:
            return _first_word(self.verdict)
        return Status(int(jax.device_get(self.verdict)[0]))

    @property
    def pivot(self) -> jax.Array:
        """Row (0-based) whose pivot was not positive, or was 0; -1 if that is not what happened."""
        return _pivot_of(self.verdict)

    @property
    def message(self) -> str:
        """One sentence: what happened, where, and what to do; empty if all is well.

        Of a batch, the first that has no answer. Right-hand sides of one matrix under `vmap` have
        one verdict, and a column in it is one of all their columns, one after the other. For a
        Status from INVALID_ARGUMENT on the texts of the last 256 failures are kept.
        """
        if isinstance(self.verdict, jax.core.Tracer):
            raise TypeError(
                "info.message was read while JAX traces, and there is no text yet: return info "
                "from the function that is transformed, and read it outside"
            )
        words = jax.device_get(self.verdict).reshape(-1, VERDICT_WORDS)
        if not len(words):
            return ""
        first = int(np.argmax(words[:, 0] != 0))
        return self._sentence(first, words[first])

    def _sentence(self, number: int, words: np.ndarray) -> str:
        """What happened to a problem of the batch with this verdict."""
        return self._named(number) + _library.message(words)

    def _named(self, number: int) -> str:
        """What the sentence on a problem of the batch has to begin with."""
        return ""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)  # of arrays: neither compared nor hashed by value
class Info(_Judged):
    """What is known of an answer; inside `jit` its fields are tracers.

    Under `vmap` each matrix of a batch has its own; right-hand sides of one matrix are solved
    together and share one.

    Attributes:
        verdict: int32[5]: status, row, column, rows eliminated before, in right-hand side.
        backward_error: Normwise backward error, in the infinity norm: of a solve
            ||b - A x|| / (||A|| ||x|| + ||b||), the largest over the right-hand sides; of an
            inverse ||v - X w|| / (||A|| ||X|| ||v||) with v of random signs and w = A v; of `lu`
            ||A v - P L U v|| / (||A|| ||v||), the largest of four such v. NaN where there is no
            answer, -1 where it was not asked for. Rounding alone gives a small multiple of eps / 2.
        rcond: Reciprocal condition number in the 1-norm, an estimate: 1 / (||A|| ||A^-1||).
    """

    backward_error: jax.Array
    rcond: jax.Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class EighInfo(_Judged):
    """What is known of eigenvalues and eigenvectors; inside `jit` its fields are tracers.

    Under `vmap` each matrix of a batch has its own. Both figures are estimates by four vectors of
    random signs: NaN where there is no answer, -1 for eigenvalues alone. Rounding alone gives a
    small multiple of eps / 2, and with b up to its condition number times that.

    Attributes:
        verdict: int32[5]: status, row and column of the entry or the pivot that it is about, rows
            eliminated before, and a word that only solves use.
        residual: The largest ||a v - w v||_2 / ||a||_1 of a pair; with b the largest
            ||a v - w b v|| / ((||a|| + |w| ||b||) ||v||).
        orthogonality: The largest 2-norm of a row of v^H v - I, or of v^H b v - I.
        of_b: bool: whether the verdict is about b, and not about a.
    """

    residual: jax.Array
    orthogonality: jax.Array
    of_b: jax.Array

    @property
    def warning(self) -> str:
        """One sentence if an error is far beyond rounding, as by a badly conditioned b; or ""."""
        errors = {"residual": self.residual, "orthogonality": self.orthogonality}
        rounding = 1000 * float(jnp.finfo(self.residual.dtype).eps) / 2
        worst = {
            name: float(np.max(jax.device_get(error), initial=0)) for name, error in errors.items()
        }
        said = ", ".join(f"{name} {error:.1e}" for name, error in worst.items() if error > rounding)
        if not said:
            return ""
        return (
            f"{said}: rounding alone stays below {rounding:.1e}. If there is a matrix b, it is "
            "badly conditioned; do not rely on more digits"
        )

    def _named(self, number: int) -> str:
        return OF_B if jax.device_get(self.of_b).reshape(-1)[number] else ""


# Compiled, as numbers that are written in Python go to the devices one by one otherwise: implicit
# transfers, which jax.transfer_guard refuses.
@jax.jit
def _first_word(verdict: jax.Array) -> jax.Array:
    return verdict[..., 0]


@jax.jit
def _pivot_of(verdict: jax.Array) -> jax.Array:
    status = verdict[..., 0]
    failed = (status == Status.NOT_POSITIVE_DEFINITE) | (status == Status.SINGULAR)
    return jnp.where(failed, verdict[..., 1], -1)


def judged_again(verdict: jax.Array, judged: jax.Array) -> jax.Array:
    """The verdict on a solve; where that is OK, the one that knows rcond, if x is doubtful."""
    doubtful = (verdict[0] == Status.OK) & (judged[0] == Status.NEARLY_SINGULAR)
    return verdict.at[0].set(jnp.where(doubtful, judged[0], verdict[0]))


def raise_if_failed(verdict: jax.Array | np.ndarray, begin: str = "") -> None:
    """Raises what a verdict says, if it can be read: not while JAX traces. Waits for it."""
    if isinstance(verdict, jax.core.Tracer):
        return
    words = jax.device_get(verdict).reshape(-1, verdict.shape[-1])
    failed = np.flatnonzero(words[:, 0])
    if failed.size == 0:
        return
    first = words[failed[0], :VERDICT_WORDS]
    status = Status(int(first[0]))
    text = begin + _library.message(first)
    if len(words) > 1:
        text = f"problem {failed[0]} of the batch: {text}"
    if status >= Status.INVALID_ARGUMENT:
        raise SolverError(text, status)
    has_pivot = status in (Status.NOT_POSITIVE_DEFINITE, Status.SINGULAR)
    pivot = int(first[1]) if has_pivot else None
    raise LinAlgError(text, status, pivot)
