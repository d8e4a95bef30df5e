"""Krylov solves: A x = b where A is known by its products, with a reason for every failure.

The methods, their verdicts and their bits are those of the C++ library; products with a function
are JAX's.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding

from shardsolve import _krylov_rounds
from shardsolve._calls import compiled
from shardsolve._check import DTYPES, as_array
from shardsolve._cut import Cut, axes_of, manual_axes, require_unchecked
from shardsolve._krylov_diagnosis import Diagnosis, Trial, of_function, of_matrix
from shardsolve._krylov_linear import (
    Chebyshev,
    Identity,
    Jacobi,
    Level,
    Linear,
    Multigrid,
    Sparse,
    has_transpose,
    trace,
)
from shardsolve._krylov_records import (
    KrylovFailure,
    KrylovInfo,
    KrylovStatus,
    last_failures,
    raise_if_not_converged,
)
from shardsolve._krylov_rounds import ADJOINT, SOLVE, TANGENT, Answer, Asked, Place
from shardsolve._sparse import CSR

__all__ = [
    "Diagnosis",
    "KrylovFailure",
    "KrylovInfo",
    "KrylovStatus",
    "Trial",
    "block_jacobi",
    "chebyshev",
    "diagnose",
    "from_pyamg",
    "jacobi",
    "last_failures",
    "solve",
]

_KINDS = (Identity, Jacobi, Sparse, Chebyshev, Multigrid)
METHODS = ("cg", "minres", "bicgstab", "fgmres")
_ON_FAILURE = ("raise", "best", "nan")
_MOST_RESTART = 1000  # of src/krylov/solve.cpp
_ROUNDS_AHEAD = 8  # on GPUs, as in C++


def solve(
    A: Any,
    b: Any,
    *,
    method: str = "cg",
    preconditioner: Any = None,
    rtol: float = 1e-8,
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

    The residual is computed anew before a solve is said to have converged. x is finite whatever
    happens: the best iterate, in the sense of C++'s krylov::solve.

    Differentiable in b and in all that A depends on, to any order, in both modes; one more solve
    each. Those are relative to their own right-hand sides (rtol, without atol). `vmap` solves
    systems at once, each of which freezes when it is done, with the bits that it has alone.

    Bits do not depend on the device, on how many there are and on how b is cut, if those of the
    products do not, as a CSR's.

    Args:
        A: A CSR, a SciPy sparse matrix, BCSR or BCOO, a square array, a function x -> A x, or a
            lineax operator. A function takes and returns what b is. Symmetric or Hermitian
            positive definite for "cg", Hermitian for "minres"; checked as far as products tell.
        b: (n,), float32, float64, complex64 or complex128. With a function any pytree of arrays of
            one dtype. Cut over devices, by `P("x")`, each works on its own rows, if they divide
            evenly and the sharding is known: outside of jit, or with Explicit axes. Inside jit
            with Auto axes each device works on all rows.
        method: "cg", "minres", "bicgstab" or "fgmres".
        preconditioner: M, about A^-1: "jacobi" where A is a CSR, what `jacobi`, `block_jacobi`,
            `chebyshev` or `from_pyamg` returned, a function r -> M r, or another of the kinds of A.
            For cg and minres Hermitian positive definite. Only fgmres allows one that is not
            linear.
        rtol: See above. Not traced.
        atol: See above. Not traced.
        max_iterations: Not traced; of bicgstab with two products each.
        restart: Vectors of a basis of fgmres.
        x0: A guess, like b; 0 by default.
        log: With full_output, whether info.log is kept.
        full_output: Also return what is known of the answer; nothing is raised then.
        on_failure: "raise": LinAlgError outside of jit, inside like "best". "best": return the best
            iterate. "nan": return NaN. Failures are always in `last_failures`.
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
    _require_known(
        full_output=full_output, on_failure=on_failure, axis_name=axis_name,
        check_linear=check_linear,
    )  # fmt: skip
    asked = _check_options(method, rtol, atol, max_iterations, restart, log)
    if on_failure not in _ON_FAILURE:
        raise ValueError(f"on_failure is {on_failure!r}; accepted are {', '.join(_ON_FAILURE)}")
    right, unravel, b_like = _flat(b, "b")
    start = None if x0 is None else _guess(x0, b_like, right)
    operator = linear(A, b_like, right, unravel, "A")
    m = _preconditioner(preconditioner, A, b_like, right, unravel)
    place = _place(right, axis_name)
    _require_devices(right, operator, m)
    if check_linear:
        _require_linear(operator, right, place)
    if place.cut is not None and place.cut.explicit:
        right = jax.sharding.reshard(
            right, NamedSharding(place.cut.known_mesh, place.cut.spec(0, 1))
        )
    x, *rest = _run(operator, m, right, start, asked, place, on_failure == "nan")
    info = KrylovInfo(*rest)
    if full_output:
        return unravel(x), info
    if on_failure == "raise":
        raise_if_not_converged(info.report)
    return unravel(x)


def jacobi(a: Any) -> Jacobi:
    """The preconditioner D^-1.

    Args:
        a: A CSR or SciPy sparse matrix, whose diagonal D is; or D itself, (n,). A zero in it is
            found by the solve: nonfinite_preconditioner.
    """
    if isinstance(a, CSR) or _is_sparse(a):
        return Jacobi(CSR.of(a).diagonal())
    diagonal = as_array(a, "the diagonal")
    if diagonal.ndim != 1:
        raise ValueError(f"the diagonal for jacobi has shape {diagonal.shape}; pass (n,), or a CSR")
    return Jacobi(diagonal)


def chebyshev(a: Any, low: float, high: float, degree: int) -> Chebyshev:
    """The preconditioner p(A): `degree` steps of the Chebyshev iteration, degree - 1 products.

    Args:
        a: A CSR or SciPy sparse matrix.
        low: Of the interval of eigenvalues, which are positive.
        high: No eigenvalue may be far above.
        degree: At least 1.
    """
    _require_known(low=low, high=high, degree=degree)
    if not (0 < low < high < math.inf) or degree < 1:
        raise ValueError(
            f"chebyshev from {low} to {high} of degree {degree} given; 0 < low < high and a degree "
            "of at least 1 are accepted"
        )
    matrix = CSR.of(a)
    return Chebyshev(Sparse(matrix.data, matrix._pattern), float(low), float(high), int(degree))


def block_jacobi(a: Any, blocks: Sequence[int]) -> Sparse:
    """The preconditioner whose blocks are the inverses of diagonal blocks of A.

    They belong to the problem and not to devices, so that it is the same on any number of them. A
    block of k rows is kept as k^2 numbers, and computed anew where the values of A are traced.

    Args:
        a: A CSR or SciPy sparse matrix, n x n.
        blocks: Where blocks begin, and n: whole numbers from 0 on that rise. A singular block is
            found by the solve: nonfinite_preconditioner.
    """
    matrix = CSR.of(a)
    n = matrix.shape[0]
    _require_square(matrix)
    _require_known(blocks=blocks)
    bounds = np.asarray(blocks)
    rising = bounds.ndim == 1 and len(bounds) >= 2 and bounds.dtype.kind in "iu"
    if not rising or bounds[0] != 0 or bounds[-1] != n or np.any(np.diff(bounds) <= 0):
        raise ValueError(
            f"blocks is {blocks!r}; pass whole numbers that begin with 0, rise, and end with {n}"
        )
    rows, columns = matrix._pattern.rows, matrix.indices
    values, places = [], []
    for begin, end in itertools.pairwise(bounds):
        inside = np.flatnonzero(
            (rows >= begin) & (rows < end) & (columns >= begin) & (columns < end)
        )
        block = jnp.zeros((end - begin, end - begin), matrix.dtype)
        block = block.at[rows[inside] - begin, columns[inside] - begin].set(matrix.data[inside])
        values.append(jnp.linalg.inv(block).ravel())
        places.append(np.indices(block.shape).reshape(2, -1) + begin)
    rows, columns = np.concatenate(places, axis=1)
    pointers = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))])
    inverse = CSR(jnp.concatenate(values), columns, pointers, (n, n))
    return Sparse(inverse.data, inverse._pattern)


def from_pyamg(hierarchy: Any, *, degree: int = 3, share: float = 0.25) -> Multigrid:
    """The V-cycle of a PyAMG hierarchy as a preconditioner, by products with CSR matrices.

    Symmetric if the hierarchy is, so one for cg; differentiable in what it is applied to. Smoothing
    is by the Chebyshev iteration with D^-1 A: no order of rows, so any device does it alike.

    Args:
        hierarchy: What pyamg.smoothed_aggregation_solver or another of PyAMG's returned.
        degree: Of the smoother, before and after: degree - 1 products each.
        share: Of the largest eigenvalue of D^-1 A, from where on the smoother works.

    Example:
        ml = pyamg.smoothed_aggregation_solver(a, B=modes)
        x = krylov.solve(a, b, preconditioner=krylov.from_pyamg(ml))
    """
    if not hasattr(hierarchy, "levels") or not len(hierarchy.levels):
        raise TypeError(
            f"the hierarchy is a {type(hierarchy).__name__}; pass what a solver of PyAMG returned, "
            "for example pyamg.smoothed_aggregation_solver(A)"
        )
    _require_known(degree=degree, share=share)
    if degree < 1 or not 0 < share < 1:
        raise ValueError(f"degree {degree} and share {share} given; at least 1 and in (0, 1)")

    def sparse(a: Any) -> Sparse:
        matrix = CSR.of(a)
        return Sparse(matrix.data, matrix._pattern)

    levels, bounds = [], []
    for level in hierarchy.levels[:-1]:
        diagonal = level.A.diagonal()
        levels.append(
            Level(sparse(level.A), sparse(level.P), sparse(level.R), jnp.asarray(1 / diagonal))
        )
        high = 1.1 * _largest_eigenvalue(level.A, diagonal)
        bounds.append((share * high, high))
    coarse = np.linalg.pinv(hierarchy.levels[-1].A.toarray())
    return Multigrid(levels, sparse(coarse), tuple(bounds), int(degree))


def diagnose(A: Any, like: Any = None, *, rtol: float = 1e-8) -> Diagnosis:
    """Looks at a system before it is solved: what A is, and whether a preconditioner is worth it.

    On the host, not traced. Of a matrix entries are looked at, and preconditioners of the library
    are tried: jacobi, blocks, incomplete factors. Of a function its products are: whether they are
    the same every time, linear, Hermitian and definite.

    Args:
        A: As in `solve`.
        like: With a function: an array or pytree like b.
        rtol: For which iterations are counted.

    Returns:
        A Diagnosis; print it.
    """
    _require_known(rtol=rtol)
    if isinstance(A, CSR) or _is_sparse(A):
        matrix = CSR.of(A)
        _require_square(matrix)
        if isinstance(matrix.data, jax.core.Tracer):
            raise TypeError("diagnose was called where JAX traces: call it outside of jit")
        return of_matrix(matrix, float(rtol))
    if like is None:
        raise TypeError(
            f"A is a {type(A).__name__}, whose vectors are not known: pass an array like b as like="
        )
    flat, unravel, b_like = _flat(like, "like")
    operator = linear(A, b_like, flat, unravel, "A")
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((flat, operator))):
        raise TypeError("diagnose was called where JAX traces: call it outside of jit")
    run = jax.jit(lambda operator, x: operator.apply(x, Place(None)))
    return of_function(
        lambda x: np.asarray(run(operator, x)), flat.shape[0], flat.dtype, float(rtol)
    )


def _largest_eigenvalue(a: Any, diagonal: np.ndarray) -> float:
    """Of D^-1 A, by 30 steps of the power method."""
    x = np.random.default_rng(0).standard_normal(a.shape[0]).astype(a.dtype)
    value = 1.0
    for _ in range(30):
        x = (a @ x) / diagonal
        value = float(np.linalg.norm(x))
        x /= value
    return value


def _require_square(matrix: CSR) -> None:
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"the matrix has shape {matrix.shape}; pass a square one, (n, n)")


# What follows is traced.


@functools.partial(compiled, static_argnums=(4, 5, 6))
def _run(
    operator: Linear,
    m: Linear,
    b: jax.Array,
    x0: jax.Array | None,
    asked: Asked,
    place: Place,
    fill_nan: bool,
) -> Answer:
    answer = _solved(asked, place, operator, m, b, x0)
    if not fill_nan:
        return answer
    converged = KrylovInfo(*answer[1:]).is_converged
    return answer._replace(x=jnp.where(converged, answer.x, jnp.nan))


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _solved(
    asked: Asked,
    place: Place,
    operator: Linear,
    m: Linear,
    b: jax.Array,
    x0: jax.Array | None,
) -> Answer:
    return _krylov_rounds.solve(operator, m, b, x0, asked, place, SOLVE)


@_solved.defjvp
def _rule(asked: Asked, place: Place, primals: tuple, tangents: tuple) -> tuple[Answer, Answer]:
    """The change of x: A^-1 (db - dA x)."""
    operator, m, b, x0 = primals
    answer = _solved(asked, place, operator, m, b, x0)
    _, change = jax.jvp(lambda a: a.apply(answer.x, place), (operator,), (tangents[0],))
    moved = _derivative_solve(asked.for_derivative, place, operator, m, tangents[2] - change)

    def none(a: jax.Array) -> Any:
        return np.zeros(a.shape, jax.dtypes.float0) if a.dtype.kind == "i" else jnp.zeros_like(a)

    return answer, Answer(moved, *map(none, answer[1:]))


def _derivative_solve(
    asked: Asked, place: Place, operator: Linear, m: Linear, right: jax.Array
) -> jax.Array:
    """A^-1 right as a map that is linear in `right`, with a transpose."""
    frozen, frozen_m = lax.stop_gradient((operator, m))

    def forward(_: Callable, right: jax.Array) -> jax.Array:
        return _krylov_rounds.solve(frozen, frozen_m, right, None, asked, place, TANGENT).x

    def backward(_: Callable, right: jax.Array) -> jax.Array:
        a, p = (
            (one.conjugated() if asked.is_hermitian else one.transposed())
            for one in (frozen, frozen_m)
        )
        return _krylov_rounds.solve(a, p, right, None, asked, place, ADJOINT).x

    # Without a transpose A^T is taken for A, whose change is then symmetric, too.
    symmetric = asked.is_hermitian and right.dtype.kind != "c"
    return lax.custom_linear_solve(
        lambda x: operator.apply(x, place),
        right,
        forward,
        backward,
        symmetric=not has_transpose(operator, right, place, needed=not symmetric),
    )


# Arguments


def _check_options(
    method: object,
    rtol: object,
    atol: object,
    max_iterations: object,
    restart: object,
    log: object,
) -> Asked:
    _require_known(
        method=method, rtol=rtol, atol=atol, max_iterations=max_iterations, restart=restart, log=log
    )
    if method not in METHODS:
        raise ValueError(f"method is {method!r}; accepted are {', '.join(METHODS)}")
    for name, value in (("rtol", rtol), ("atol", atol)):
        if not _is_tolerance(value):
            raise ValueError(f"{name} is {value!r}; finite numbers from 0 on are accepted")
    if float(rtol) == 0.0 and float(atol) == 0.0:
        raise ValueError("rtol = 0 and atol = 0: no residual is that small; give one of them")
    for name, value, most in (
        ("max_iterations", max_iterations, 2**62),
        ("restart", restart, _MOST_RESTART),
    ):
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole or not 1 <= value <= most:
            upper = f" to {most}" if most < 2**62 else " or more"
            raise ValueError(f"{name} is {value!r}; pass a whole number, 1{upper}")
    return Asked(method, float(rtol), float(atol), int(max_iterations), int(restart), bool(log))


def _require_known(**options: object) -> None:
    """Throws if one of them is traced."""
    for name, value in options.items():
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(value)):
            raise TypeError(
                f"{name} is traced, and options have to be known when a solve is traced: pass a "
                "Python value, or make the argument of jit static"
            )


def _is_tolerance(value: object) -> bool:
    if isinstance(value, str | bytes | bool | np.bool_):
        return False
    try:
        number = float(value)
    except (TypeError, ValueError):
        return False
    return 0.0 <= number < math.inf


def _flat(b: Any, name: str) -> tuple[jax.Array, Callable, Any]:
    """A pytree as one vector, the way back, and the pytree with arrays as leaves."""
    leaves, tree = jax.tree.flatten(b)
    if (
        isinstance(b, list)
        and leaves
        and all(isinstance(leaf, int | float | complex) for leaf in leaves)
    ):
        leaves, tree = [b], jax.tree.structure(0)
    if not leaves:
        raise ValueError(f"{name} holds no arrays; pass an array, or a pytree of some")
    arrays = [as_array(leaf, name) for leaf in leaves]
    dtypes = sorted({array.dtype.name for array in arrays})
    if len(dtypes) > 1:
        raise TypeError(f"{name} has arrays of {' and '.join(dtypes)}; pass all in one dtype")
    like = jax.tree.unflatten(tree, arrays)
    if len(arrays) == 1:
        array = arrays[0]
        if array.ndim == 1:
            return array, lambda x: jax.tree.unflatten(tree, [x]), like
        return (
            array.reshape(-1),
            lambda x: jax.tree.unflatten(tree, [x.reshape(array.shape)]),
            like,
        )
    flat, unravel = ravel_pytree(like)
    return flat, unravel, like


def _shapes_of(tree: Any) -> Any:
    return jax.tree.map(lambda a: (tuple(a.shape), np.dtype(a.dtype).name), tree)


def _guess(x0: Any, b_like: Any, b: jax.Array) -> jax.Array:
    flat, _, like = _flat(x0, "x0")
    if jax.tree.structure(like) != jax.tree.structure(b_like) or _shapes_of(like) != _shapes_of(
        b_like
    ):
        raise ValueError(
            f"x0 is {_describe(like)} and b is {_describe(b_like)}; pass a guess like b"
        )
    return flat


def _describe(tree: Any) -> str:
    """Shapes and dtypes in a few words."""
    if isinstance(tree, jax.Array) or hasattr(tree, "shape"):
        return f"{np.dtype(tree.dtype).name}{list(tree.shape)}"
    return str(jax.tree.map(lambda a: f"{np.dtype(a.dtype).name}{list(a.shape)}", tree))


def _is_sparse(a: object) -> bool:
    of_scipy = hasattr(a, "tocoo") and hasattr(a, "nnz")
    return of_scipy or (type(a).__name__ in ("BCOO", "BCSR") and hasattr(a, "nse"))


def _is_lineax(a: object) -> bool:
    return hasattr(a, "mv") and hasattr(a, "in_structure") and hasattr(a, "out_structure")


def linear(a: Any, b_like: Any, b: jax.Array, unravel: Callable, name: str) -> Linear:
    """What the user calls an operator, as the loop knows it."""
    if isinstance(a, _KINDS):
        return a
    if isinstance(a, CSR) or _is_sparse(a):
        matrix = CSR.of(a)
        _require_fit(name, matrix.shape, matrix.dtype, b_like, b)
        return Sparse(matrix.data, matrix._pattern)
    if isinstance(a, jax.Array | np.ndarray):
        matrix = as_array(a, name)
        if matrix.ndim != 2:
            raise ValueError(f"{name} has shape {matrix.shape}; pass a square matrix, (n, n)")
        _require_fit(name, matrix.shape, matrix.dtype, b_like, b)
        return trace(lambda x: jnp.matmul(matrix, x, precision="highest"), b, a)
    function = a.mv if _is_lineax(a) else a
    if not callable(function):
        raise TypeError(
            f"{name} is a {type(a).__name__}; pass a function, a shardsolve.CSR, a SciPy sparse "
            "matrix, BCSR, BCOO, a square array or a lineax operator"
        )
    found = _shape_of_product(function, b_like, name)
    same_tree = jax.tree.structure(found) == jax.tree.structure(b_like)
    if not same_tree or _shapes_of(found) != _shapes_of(b_like):
        raise ValueError(
            f"{name} as a function returns {_describe(found)} for {_describe(b_like)}; it has to "
            "return what it is given: the same structure, shapes and dtype"
        )

    def flat(x: jax.Array) -> jax.Array:
        made = jax.tree.leaves(function(unravel(x)))
        return made[0].reshape(-1) if len(made) == 1 else ravel_pytree(made)[0]

    return trace(flat, b, a)


def _shape_of_product(function: Callable, b_like: Any, name: str) -> Any:
    try:
        return jax.eval_shape(function, b_like)
    except ValueError as error:
        if "mesh" not in str(error).lower():
            raise
        raise ValueError(
            f"{name} as a function works with an array on another mesh than that of b: put it on "
            f"that one, with jax.device_put(array, b.sharding) for example. JAX says: {error}"
        ) from error


def _require_fit(
    name: str, shape: tuple[int, ...], dtype: np.dtype, b_like: Any, b: jax.Array
) -> None:
    if shape[0] != shape[1]:
        raise ValueError(f"{name} has shape {shape}; pass a square matrix, (n, n)")
    if not hasattr(b_like, "ndim") or b_like.ndim != 1:
        raise ValueError(
            f"b is {_describe(b_like)} and {name} is a matrix {shape}; pass b as ({shape[0]},); "
            "several right-hand sides go through jax.vmap"
        )
    whole = b.shape[0] if not manual_axes() else shape[0]
    if whole != shape[0]:
        raise ValueError(
            f"b has shape {b_like.shape} and {name} has shape {shape}; pass ({shape[0]},)"
        )
    if dtype != b.dtype:
        raise TypeError(
            f"{name} is {np.dtype(dtype).name} and b is {b.dtype.name}: pass both in one of "
            f"{', '.join(DTYPES)}, for example b.astype({name}.dtype)"
        )


def _preconditioner(m: Any, a: Any, b_like: Any, b: jax.Array, unravel: Callable) -> Linear:
    if m is None:
        return Identity()
    if isinstance(m, str):
        if m != "jacobi":
            raise ValueError(
                f"preconditioner is {m!r}; by name there is 'jacobi' alone: pass what jacobi or "
                "chebyshev returned, a function, or a matrix"
            )
        if not (isinstance(a, CSR) or _is_sparse(a)):
            raise TypeError(
                f"preconditioner='jacobi' needs the diagonal of A, and A is a {type(a).__name__}: "
                "pass preconditioner=shardsolve.krylov.jacobi(diagonal), or A as a CSR"
            )
        m = jacobi(a)
    if isinstance(m, Jacobi):
        _require_fit(
            "the diagonal for jacobi", (len(m.diagonal),) * 2, m.diagonal.dtype, b.reshape(-1), b
        )
    return linear(m, b_like, b, unravel, "the preconditioner")


def _place(b: jax.Array, axis_name: Any) -> Place:
    cut = _vector_cut(b, axis_name)
    if cut is not None and not cut.inside and isinstance(cut.mesh, Mesh):
        platform = next(iter(cut.mesh.devices.flat)).platform
    elif isinstance(b, jax.core.Tracer):
        chosen = jax.config.jax_default_device
        platform = getattr(chosen, "platform", None) or jax.default_backend()
    else:
        platform = next(iter(b.devices())).platform
    return Place(cut, 1 if platform == "cpu" else _ROUNDS_AHEAD)


def _vector_cut(b: jax.Array, axis_name: Any) -> Cut | None:
    """Along which axes the rows of b lie, where that is known and they divide evenly."""
    around = manual_axes()
    if axis_name is not None or around:
        axes = axes_of(axis_name)
        missing = [axis for axis in axes if axis not in around]
        if missing:
            raise ValueError(
                f"axis_name is {axes!r}, but the axes of the shard_map around this call are "
                f"{around!r}; leave axis_name out outside of shard_map"
            )
        require_unchecked(b)
        return Cut(None, axes, tuple(axis for axis in around if axis not in axes))
    sharding = jax.typeof(b).sharding if isinstance(b, jax.core.Tracer) else b.sharding
    if not isinstance(sharding, NamedSharding) or sharding.mesh.empty:
        return None
    axes = axes_of(sharding.spec[0]) if len(sharding.spec) else ()
    parts = math.prod(sharding.mesh.shape[axis] for axis in axes)
    if not axes or parts == 1 or b.shape[0] % parts:
        return None
    return Cut(sharding.mesh, axes)


def _require_devices(b: jax.Array, operator: Linear, m: Linear) -> None:
    """Throws if something was put on other devices than b."""
    if isinstance(b, jax.core.Tracer) or not b.committed:
        return
    for name, tree in (("the operator", operator), ("the preconditioner", m)):
        for leaf in jax.tree.leaves(tree):
            known = isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer)
            if not known or not leaf.committed:
                continue
            own, given = _device_numbers(leaf), _device_numbers(b)
            if own != given:
                order = ", in this order" if sorted(own) == sorted(given) else ""
                raise ValueError(
                    f"{name} has an array on the devices {own} and b lies on the devices {given}"
                    f"{order}: move one with jax.device_put"
                )


def _device_numbers(array: jax.Array) -> list[int]:
    """In the order of its mesh, if it has one."""
    sharding = array.sharding
    if isinstance(sharding, NamedSharding):
        return [device.id for device in sharding.mesh.devices.flat]
    return sorted(device.id for device in sharding.device_set)


def _require_linear(operator: Linear, b: jax.Array, place: Place) -> None:
    """Throws if A is not linear, as two random vectors show."""
    if isinstance(b, jax.core.Tracer):
        return
    keys = jax.random.split(jax.random.key(0))
    u, v = (jax.random.normal(key, b.shape, b.dtype) for key in keys)
    products = [operator.apply(w, place) for w in (u, v, u + 2 * v)]
    apart = jnp.linalg.norm(products[2] - products[0] - 2 * products[1])
    size = sum(jnp.linalg.norm(product) for product in products)
    if not apart <= 1e4 * jnp.finfo(b.dtype).eps * size:
        raise ValueError(
            f"A is not linear: ||A (u + 2 v) - A u - 2 A v|| = {float(apart):.1e}, where the "
            f"products are of size {float(size):.1e}; an affine function has to give up its "
            "constant, a nonlinear one be linearised with jax.linearize or jax.jvp"
        )
