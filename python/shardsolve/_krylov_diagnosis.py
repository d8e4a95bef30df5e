"""What is to be known of a system before it is solved: krylov.diagnose."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from shardsolve import _library
from shardsolve._check import DTYPES
from shardsolve._krylov_records import KrylovStatus
from shardsolve._records import VERDICT_WORDS, raise_if_failed
from shardsolve._sparse import CSR

_PRODUCT = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)


@dataclass(frozen=True)
class Trial:
    """A short solve with a preconditioner.

    Attributes:
        name: Of the preconditioner.
        method: Of the solve.
        status: How it ended; RUNNING if there was none, see the message.
        iterations: How many.
        residual: ||b - A x|| / ||b||.
        condition: Of M A, a lower bound; 0 if not known.
        predicted_iterations: That cg needs, by that condition; 0 if not known.
        work: Multiplications of an iteration's products.
        message: Of the solve.
        blocks: Where the preconditioner's blocks of rows begin, and n; empty if it has none.
    """

    name: str
    method: str
    status: KrylovStatus
    iterations: int
    residual: float
    condition: float
    predicted_iterations: int
    work: float
    message: str
    blocks: tuple[int, ...]

    @property
    def call(self) -> str:
        """The solve as it would be written, of a matrix `a`."""
        given = ""
        if self.blocks:  # "block_jacobi with 4 blocks"
            given = f", preconditioner=krylov.{self.name.split()[0]}(a, {list(self.blocks)})"
        elif self.name == "jacobi":
            given = ', preconditioner="jacobi"'
        return f'krylov.solve(a, b, method="{self.method}"{given})'


@dataclass(frozen=True)
class Diagnosis:
    """What `diagnose` found; printed as text, the answer last.

    Attributes:
        is_hermitian: Whether A is, to rounding.
        is_singular: Whether A is, to rounding; the trials have a b in its range then.
        definiteness: "positive definite", "indefinite", ...
        least_eigenvalue: Seen; the true one is not larger.
        largest_eigenvalue: Seen; the true one is not smaller.
        condition: Of A, a lower bound; 0 if not known.
        attainable: Relative residual that rounding may keep up.
        method: That suits A, of the trials.
        trials: The plain one first.
        best: Which of them converged with the least work; -1 if none did.
        gain: Iterations of the plain one over those of the best one.
        findings: A sentence each: what is wrong or of note, and what to do.
        answer: Whether to look for a better preconditioner.
        suggestion: The call that does what the best trial did; empty if none converged, or if the
            trials were about A with further columns cleared.
        text: All of it.
    """

    is_hermitian: bool
    is_singular: bool
    definiteness: str
    least_eigenvalue: float
    largest_eigenvalue: float
    condition: float
    attainable: float
    method: str
    trials: tuple[Trial, ...]
    best: int
    gain: float
    findings: tuple[str, ...]
    answer: str
    suggestion: str
    text: str

    def __str__(self) -> str:
        return self.text


def of_matrix(matrix: CSR, rtol: float) -> Diagnosis:
    """Looks at the entries and tries preconditioners."""
    values = np.ascontiguousarray(jax.device_get(matrix.data))
    pattern = matrix._pattern
    return _call(
        values.dtype,
        matrix.shape[0],
        rtol,
        pattern.pointers.ctypes.data,
        pattern.columns.ctypes.data,
        values.ctypes.data,
    )


def of_function(product: Callable, n: int, dtype: np.dtype, rtol: float) -> Diagnosis:
    """Looks at products of flat vectors."""
    failures: list[BaseException] = []
    size = n * dtype.itemsize

    def call(x: int, y: int) -> int:
        try:
            vector = np.frombuffer(ctypes.string_at(x, size), dtype)
            result = np.ascontiguousarray(product(vector), dtype)  # lives while it is copied
            ctypes.memmove(y, result.ctypes.data, size)
        except BaseException as error:  # raised below: there is C++ in between
            failures.append(error)
            return 1
        return 0

    try:
        return _call(dtype, n, rtol, None, None, None, _PRODUCT(call))
    except Exception:
        if failures:
            raise failures[0] from None
        raise


def _call(dtype: np.dtype, n: int, rtol: float, *given: Any) -> Diagnosis:
    verdict = np.zeros(VERDICT_WORDS, np.int32)
    library = _library.library()
    pointers, columns, values, *product = given
    callback = ctypes.cast(product[0], ctypes.c_void_p) if product else None
    text = library.shardsolve_krylov_diagnose(
        DTYPES.index(dtype.name), n, pointers, columns, values, callback, rtol, verdict.ctypes.data
    )
    raise_if_failed(verdict)
    try:
        found = json.loads(ctypes.string_at(text))
    finally:
        library.shardsolve_free(text)
    trials = tuple(
        Trial(
            **{
                **trial,
                "status": KrylovStatus(trial["status"]),
                "blocks": tuple(trial["blocks"]),
            }
        )
        for trial in found["trials"]
    )
    is_about_another = found.pop("is_about_another")
    found["suggestion"] = (
        "" if found["best"] < 0 or is_about_another else trials[found["best"]].call
    )
    if found["suggestion"]:
        found["text"] += f"  {found['suggestion']}\n"
    return Diagnosis(**{**found, "trials": trials, "findings": tuple(found["findings"])})
