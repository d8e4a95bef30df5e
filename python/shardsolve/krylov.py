"""Krylov solves: A x = b where A is known by its products, with a reason for every failure.

The methods, their verdicts and their bits are those of the C++ library; products with a function
are JAX's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from shardsolve import _krylov_rounds, _words
from shardsolve._calls import compiled
from shardsolve._cut import place_like, place_whole
from shardsolve._krylov_arguments import (
    METHODS,
    check_options,
    flattened,
    guess,
    is_sparse,
    linear,
    place_of,
    require_devices,
    require_flags,
    require_known,
    require_linear,
    require_square,
)
from shardsolve._krylov_diagnosis import Diagnosis, Trial, of_function, of_matrix
from shardsolve._krylov_linear import Linear, Transposed, has_transpose
from shardsolve._krylov_of_host import in_own_precision, numpy_for_numpy, widened
from shardsolve._krylov_preconditioners import (
    block_jacobi,
    chebyshev,
    from_pyamg,
    incomplete_cholesky,
    incomplete_lu,
    jacobi,
    preconditioner_of,
)
from shardsolve._krylov_records import (
    KrylovFailure,
    KrylovInfo,
    KrylovStatus,
    last_failures,
    raise_if_not_converged,
)
from shardsolve._krylov_rounds import (
    ADJOINT,
    SOLVE,
    TANGENT,
    Answer,
    Asked,
    Place,
    default_rtol,
)
from shardsolve._processes import wait_together
from shardsolve._sparse import CSR
from shardsolve._words import accepts

__all__ = [
    "METHODS",
    "Diagnosis",
    "KrylovFailure",
    "KrylovInfo",
    "KrylovStatus",
    "Trial",
    "block_jacobi",
    "chebyshev",
    "diagnose",
    "from_pyamg",
    "incomplete_cholesky",
    "incomplete_lu",
    "jacobi",
    "last_failures",
    "solve",
]

_ON_FAILURE = ("raise", "best", "nan")


def __getattr__(name: str) -> object:
    """Only for names that are not there: says what there is."""
    _words.no_such_name(
        "shardsolve.krylov",
        name,
        f"There are {', '.join(__all__)}",
    )


@accepts(_words.KRYLOV, {"method": _words.KRYLOV_METHODS, "preconditioner": _words.PRECONDITIONERS})
@numpy_for_numpy
def solve(
    A: Any,
    b: Any,
    *,
    method: str = "cg",
    preconditioner: Any = None,
    rtol: float | None = None,
    atol: float = 0.0,
    max_iterations: int = 10000,
    restart: int = 30,
    x0: Any = None,
    log: bool = False,
    full_output: bool = False,
    on_failure: str = "raise",
    axis_name: str | Sequence[str] | None = None,
    check_linear: bool = False,
) -> Any:
    """Solves A x = b by products with A; converged is ||b - A x||_2 <= max(rtol ||b||_2, atol).

    The residual is computed anew before a solve is said to have converged: of a sparse matrix by
    products with twice the digits, of a square array or a function with room for its rounding. x is
    finite whatever happens: the best iterate, in the sense of C++'s krylov::solve.

    Differentiable in b and in all that A depends on, to any order, in both modes; one more solve
    each. Those are relative to their own right-hand sides (rtol, without atol). `vmap` solves
    systems at once, each of which freezes when it is done; with a CSR each has the bits that it has
    alone.

    Where A is of SciPy or NumPy and b a NumPy array or a list, x is NumPy's, in the precision that
    SciPy takes: the common one of A and b, where whole numbers count as float64. It does not matter
    then whether JAX has 64-bit types. Inside jit all arrays are JAX's.

    Bits do not depend on the device, on how many there are and on how b is cut, if those of the
    products do not, as a CSR's.

    Args:
        A: A CSR, a SciPy sparse matrix or array of any format, BCSR or BCOO, a square array, a
            function x -> A x, or a lineax operator. A function takes and returns what b is.
            Symmetric or Hermitian positive definite for "cg", Hermitian for "minres"; checked as
            far as products tell.
        b: (n,), float32, float64, complex64 or complex128. With a function any pytree of arrays of
            one dtype. Cut over devices, by `P("x")`, each works on its own rows, if they divide
            evenly and the sharding is known: outside of jit, or with Explicit axes. Inside jit
            with Auto axes each device works on all rows.
        method: "cg", "minres", "bicgstab" or "fgmres"; "gmres" is fgmres, too.
        preconditioner: M, about A^-1: "jacobi" where A is a CSR, what `jacobi`, `block_jacobi`,
            `incomplete_cholesky`, `incomplete_lu`, `chebyshev` or `from_pyamg` returned, a function
            r -> M r, or another of the kinds of A. For cg and minres Hermitian positive definite.
            Only fgmres allows one that is not linear.
        rtol: See above. Not traced. By default 1e-8, of float32 and complex64 1e-4: what rounding
            lets ordinary systems reach.
        atol: See above. Not traced.
        max_iterations: Not traced; of bicgstab with two products each.
        restart: Vectors of a basis of fgmres.
        x0: A guess, like b; 0 by default, and if b is less than rounding beside b - A x0.
        log: With full_output, whether info.log is kept.
        full_output: Also return what is known of the answer; nothing is raised then, and x is the
            best iterate unless on_failure is "nan".
        on_failure: What becomes of a solve that has not converged, derivatives' as well. "raise":
            LinAlgError; lanes of `vmap` and derivatives, which cannot raise, are NaN; inside jit
            like "best". "best": return the best iterate. "nan": return NaN. Failures are always in
            `last_failures`.
        axis_name: Inside a `shard_map` only, which needs check_vma=False: the axes along which the
            rows of b are cut, evenly; A as a function then maps a device's own rows. By default
            each device solves a system of its own.
        check_linear: Outside of jit: try whether A (u + 2 v) = A u + 2 A v for random u and v.

    Returns:
        x, like b; with full_output (x, KrylovInfo).

    Raises:
        LinAlgError: See on_failure; it says why, and what to do.
        TypeError, ValueError: On arguments that do not fit.

    Example:
        >>> import numpy as np
        >>> from shardsolve import krylov
        >>> x = krylov.solve(lambda v: 2 * v, np.ones(3, np.float32))
        >>> x.tolist()
        [0.5, 0.5, 0.5]
    """
    require_known(
        full_output=full_output, on_failure=on_failure, axis_name=axis_name,
        check_linear=check_linear,
    )  # fmt: skip
    require_flags(full_output=full_output, check_linear=check_linear)
    if on_failure not in _ON_FAILURE:
        raise ValueError(f"on_failure is {on_failure!r}; accepted are {', '.join(_ON_FAILURE)}")
    check_options(method, rtol, atol, max_iterations, restart, log)
    right, unravel, b_like = flattened(b, "b")
    rtol = default_rtol(right.dtype) if rtol is None else float(rtol)
    asked = Asked(method, rtol, float(atol), int(max_iterations), int(restart), bool(log))
    place = place_of(right, axis_name)
    # Where types say where vectors lie, all of a solve lie alike.
    right = place_whole(right) if place.cut is None else place.cut.place(right)
    given = None if x0 is None else guess(x0, b_like, right)
    operator = linear(A, b_like, right, unravel, "A")
    m = preconditioner_of(preconditioner, A, b_like, right, unravel)
    require_devices(right, operator, m, given)
    start = None if given is None else place_like(given, right)
    if check_linear:
        require_linear(operator, right, place)
    unseen = _nan_of_failures(on_failure, (operator, m, right, start))
    fill = Fill(x=unseen and not (full_output and on_failure == "raise"), derivatives=unseen)

    def run() -> tuple[Any, KrylovInfo]:
        x, *rest = _run(operator, m, right, start, asked, place, fill)
        return jax.tree.map(place_like, unravel(x), b_like), KrylovInfo(*rest)

    if full_output or on_failure != "raise":
        x, info = run()
        return (x, info) if full_output else x
    # where arrays are traced nobody waits
    x, info = run() if isinstance(right, jax.core.Tracer) else wait_together(right, run)
    raise_if_not_converged(info.report)
    return x


@accepts(_words.DIAGNOSE)
@in_own_precision
def diagnose(A: Any, like: Any = None, *, rtol: float | None = None) -> Diagnosis:
    """Looks at a system before it is solved: what A is, and whether a preconditioner is worth it.

    On the host, not traced. Of a matrix entries are looked at, and preconditioners of the library
    are tried: jacobi, blocks, incomplete factors. Of a function its products are: whether they are
    the same every time, linear, Hermitian and definite.

    Args:
        A: As in `solve`.
        like: With a function: an array or pytree like b.
        rtol: For which iterations are counted; by default that of `solve`.

    Returns:
        A Diagnosis; print it.
    """
    require_known(rtol=rtol)
    if isinstance(A, np.ndarray | jax.Array) and not isinstance(A, jax.core.Tracer) and A.ndim == 2:
        A = CSR.of(widened(np.asarray(A)))
    if isinstance(A, CSR) or is_sparse(A):
        matrix = CSR.of(A)
        require_square(matrix)
        if isinstance(matrix.data, jax.core.Tracer):
            raise TypeError("diagnose was called where JAX traces: call it outside of jit")
        return of_matrix(matrix, default_rtol(matrix.dtype) if rtol is None else float(rtol))
    if like is None:
        raise TypeError(
            f"A is a {type(A).__name__}, whose vectors are not known: pass an array like b as like="
        )
    flat, unravel, b_like = flattened(like, "like")
    operator = linear(A, b_like, flat, unravel, "A")
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((flat, operator))):
        raise TypeError("diagnose was called where JAX traces: call it outside of jit")
    run = jax.jit(lambda operator, x: operator.apply(x, Place(None)))
    rtol = default_rtol(flat.dtype) if rtol is None else float(rtol)

    def product(x: np.ndarray) -> np.ndarray:
        return np.asarray(run(operator, place_like(jnp.asarray(x), flat)))

    return of_function(product, flat.shape[0], flat.dtype, rtol)


def _nan_of_failures(on_failure: str, arguments: Any) -> bool:
    """Whether what has not converged is NaN, which nobody takes for an answer.

    With "raise" that is what JAX transforms outside of jit: lanes of vmap and derivatives, which
    Python cannot look at, and of which nobody expects that nothing is raised.
    """
    if on_failure != "raise":
        return on_failure == "nan"
    if not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(arguments)):
        return False
    return not isinstance(jnp.zeros(()), jax.core.Tracer)  # inside jit all arrays are traced


# What follows is traced.


class Fill(NamedTuple):
    """Of what NaN is made where a solve has not converged."""

    x: bool
    derivatives: bool


@functools.partial(compiled, static_argnums=(4, 5, 6))
def _run(
    operator: Linear,
    m: Linear,
    b: jax.Array,
    x0: jax.Array | None,
    asked: Asked,
    place: Place,
    fill: Fill,
) -> Answer:
    answer = _solved(asked, place, fill.derivatives, operator, m, b, x0)
    return answer._replace(x=_or_nan(answer)) if fill.x else answer


def _or_nan(answer: Answer) -> jax.Array:
    """x, or NaN if that is no solution, and so are its derivatives."""
    return answer.x * _nan_unless_converged(answer)


def _nan_unless_converged(answer: Answer) -> jax.Array:
    """To multiply with: the derivative of a choice would be 0."""
    is_converged = KrylovInfo(*answer[1:]).is_converged
    return jnp.where(is_converged, 1, jnp.nan).astype(answer.x.dtype)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2))
def _solved(
    asked: Asked,
    place: Place,
    fill_nan: bool,
    operator: Linear,
    m: Linear,
    b: jax.Array,
    x0: jax.Array | None,
) -> Answer:
    return _krylov_rounds.solve(operator, m, b, x0, asked, place, SOLVE)


@_solved.defjvp
def _rule(
    asked: Asked, place: Place, fill_nan: bool, primals: tuple, tangents: tuple
) -> tuple[Answer, Answer]:
    """The change of x: A^-1 (db - dA x)."""
    operator, m, b, x0 = primals
    answer = _solved(asked, place, fill_nan, operator, m, b, x0)
    _, change = jax.jvp(lambda a: a.apply(answer.x, place), (operator,), (tangents[0],))
    right = tangents[2] - change
    moved = _derivative_solve(asked.for_derivative(b.dtype), place, fill_nan, operator, m, right)
    if fill_nan:  # what is no solution has no derivative, whoever asks from which side
        moved = moved * _nan_unless_converged(answer)

    def none(a: jax.Array) -> Any:
        return np.zeros(a.shape, jax.dtypes.float0) if a.dtype.kind == "i" else jnp.zeros_like(a)

    return answer, Answer(moved, *map(none, answer[1:]))


def _derivative_solve(
    asked: Asked, place: Place, fill_nan: bool, operator: Linear, m: Linear, right: jax.Array
) -> jax.Array:
    """A^-1 right as a map that is linear in `right`, with a transpose."""
    frozen, frozen_m = lax.stop_gradient((operator, m))

    def solved(a: Linear, m: Linear, right: jax.Array, role: int) -> jax.Array:
        answer = _krylov_rounds.solve(a, m, right, None, asked, place, role)
        return _or_nan(answer) if fill_nan else answer.x

    def forward(_: Callable, right: jax.Array) -> jax.Array:
        return solved(frozen, frozen_m, right, TANGENT)

    def backward(_: Callable, right: jax.Array) -> jax.Array:
        a, p = (
            (one.conjugated() if asked.is_hermitian else one.transposed())
            for one in (frozen, frozen_m)
        )
        return solved(a, p, right, ADJOINT)

    # Without a transpose A^T is taken for A, whose change is then symmetric, too.
    symmetric = asked.is_hermitian and right.dtype.kind != "c"
    has_own = has_transpose(operator, "A", right, place, needed=not symmetric)
    if not asked.is_hermitian and isinstance(m.transposed(), Transposed):
        has_transpose(m, "the preconditioner", right, place, needed=True)
    return lax.custom_linear_solve(
        lambda x: operator.apply(x, place),
        right,
        forward,
        backward,
        symmetric=not has_own,
    )
