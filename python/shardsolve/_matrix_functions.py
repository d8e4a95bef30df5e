"""Functions of Hermitian matrices, f(A) = V f(W) V^H, with derivatives of every order.

No derivative of w or v is taken, as these have none where eigenvalues are equal. The k-th
derivative of f at A along E_1, ..., E_k is a formula of its own (Daleckii and Krein), with
K_l = V^H E_l V and divided differences of f:

    D^k f(A)[E_1, ..., E_k] = V S V^H,
    S_ij = sum over permutations p and over m_1, ..., m_k-1 of
           f[w_i, w_m1, ..., w_j] (K_p1)_i,m1 (K_p2)_m1,m2 ... (K_pk)_mk-1,j.

What changes of it with A is D^k+1 f(A), and it is linear in each E_l: that is the whole rule. The
differences are n^(k+1) numbers, of which no more than n^2 are there at a time.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import SymbolicZero
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from jax.sharding import Mesh

from shardsolve import _eigh, _words
from shardsolve._calls import compiled
from shardsolve._check import check_matrix
from shardsolve._cut import Cut, find_cut, inside_shard_map
from shardsolve._divided_differences import (
    EXTRA_ORDERS,
    divided_difference,
    taylor_coefficients,
)
from shardsolve._eigh import AxisName, Wanted
from shardsolve._eigh_change import own_values
from shardsolve._krylov_linear import trace
from shardsolve._products import all_rows, hermitian_part, multiply, transpose
from shardsolve._records import EighInfo, raise_if_failed
from shardsolve._words import accepts


@accepts(_words.DENSE)
def matrix_function(
    f: Callable[[jax.Array], jax.Array],
    a: jax.Array,
    *,
    mesh: Mesh | None = None,
    axis_name: AxisName | None = None,
    full_output: bool = False,
) -> jax.Array | tuple[jax.Array, EighInfo]:
    """f(a) of a Hermitian matrix: v diag(f(w)) v^H, where a v = v diag(w).

    Its derivatives are right to every order, with respect to `a` and to what f closes over, also
    where eigenvalues are equal or nearly so. With n eigenvalues the first one takes a few
    products of matrices, the k-th about 100 k^2 n^(k+1) operations on numbers, and memory for a
    few matrices.

    Args:
        f: A function of one real number, of shape () and a's real dtype, as `jnp.exp`; its result
            is one number, real or complex. JAX must be able to trace and differentiate it: k + 4
            times for the k-th derivative of f(a). What is compiled for it is kept, so a new lambda
            in every call takes time and memory each time.
        a: As in `eigh`.
        mesh: As in `eigh`.
        axis_name: As in `eigh`.
        full_output: Also return what is known of the eigenvalues and vectors.

    Returns:
        f(a), (n, n), where `a` lies; complex if f or `a` is. With full_output (f(a), EighInfo).

    Raises:
        TypeError, ValueError: On arguments that do not fit. Others as in `eigh`.
    """
    return _public(_matrix_function, f, a, mesh, axis_name, full_output)


@accepts(_words.DENSE)
def trace_function(
    f: Callable[[jax.Array], jax.Array],
    a: jax.Array,
    *,
    mesh: Mesh | None = None,
    axis_name: AxisName | None = None,
    full_output: bool = False,
) -> jax.Array | tuple[jax.Array, EighInfo]:
    """The trace of f(a), the sum of f over all eigenvalues of a Hermitian matrix.

    Arguments and errors as in `matrix_function`, and derivatives that are right to every order.
    The first is `matrix_function` of f', so each costs what the one before costs there.

    Returns:
        One number, (), on all devices; with full_output (number, EighInfo).
    """
    return _public(_trace_function, f, a, mesh, axis_name, full_output)


def _public(
    run: Callable,
    f: Callable[[jax.Array], jax.Array],
    a: jax.Array,
    mesh: Mesh | None,
    axis_name: AxisName | None,
    full_output: bool,
):
    a = check_matrix(a, inside_shard_map())
    parts, constants = _traced(f, np.dtype(jnp.finfo(a.dtype).dtype))
    result, info = run(parts, constants, a, find_cut(a, mesh, axis_name))
    if full_output:
        return result, info
    if not isinstance(info.verdict, jax.core.Tracer):
        raise_if_failed(info.verdict)
    return result


def _traced(f: object, dtype: np.dtype) -> tuple[tuple[Function, ...], list[jax.Array]]:
    """The function, or its real and its imaginary part, and what it closes over."""
    if not callable(f):
        raise TypeError(
            f"f is a {type(f).__name__}; pass a function of one real number, as jnp.exp, and the "
            "matrix after it"
        )
    if isinstance(f, np.ufunc):
        raise TypeError(
            f"f is numpy.{f.__name__}, which JAX cannot trace; pass jnp.{f.__name__}, or another "
            "function of jax.numpy"
        )
    number = jax.ShapeDtypeStruct((), dtype)
    result = jax.eval_shape(f, number)
    if not isinstance(result, jax.ShapeDtypeStruct) or result.shape != ():
        given = getattr(result, "shape", type(result).__name__)
        raise ValueError(
            f"f of one number is {given}; pass a function that takes one number, of shape (), and "
            "returns one: it is called for each eigenvalue"
        )
    if result.dtype.kind not in "fc":
        raise TypeError(
            f"f returns {result.dtype.name}; pass a function that returns a real or complex number"
        )
    traced = trace(f, number, f)
    real = Given(traced.program, imaginary=False)
    if result.dtype.kind == "f":
        return (real,), traced.constants
    return (real, Given(traced.program, imaginary=True)), traced.constants


# Real functions of one number, and of a list of constants whose derivatives are wanted, too. They
# are static, so equal ones are compiled once.


@dataclass(frozen=True)
class Given:
    """The caller's, or a part of it."""

    program: Any
    imaginary: bool

    def __call__(self, constants: Sequence[Any], x: jax.Array) -> jax.Array:
        y = jaxpr_as_fun(ClosedJaxpr(self.program.jaxpr, list(constants)))(x)[0]
        return (jnp.imag(y) if self.imaginary else jnp.real(y)).astype(x.dtype)


@dataclass(frozen=True)
class Slope:
    """f'."""

    of: Function

    def __call__(self, constants: Sequence[Any], x: jax.Array) -> jax.Array:
        return jax.jvp(lambda x: self.of(constants, x), (x,), (jnp.ones_like(x),))[1]


@dataclass(frozen=True)
class Along:
    """What changes of f with one constant: its number, and as the last constant its change."""

    of: Function
    number: int

    def __call__(self, constants: Sequence[Any], x: jax.Array) -> jax.Array:
        *others, change = constants

        def with_one(value: jax.Array) -> jax.Array:
            return self.of([*others[: self.number], value, *others[self.number + 1 :]], x)

        return jax.jvp(with_one, (others[self.number],), (change,))[1]


Function = Given | Slope | Along
Spectrum = tuple[jax.Array, jax.Array]  # all w, and v


# What follows is traced. Every public function runs one compiled program.


@functools.partial(compiled, static_argnums=(0, 3))
def _matrix_function(
    parts: tuple[Function, ...], constants: list[jax.Array], a: jax.Array, cut: Cut | None
) -> tuple[jax.Array, EighInfo]:
    w, v, info = _eigh._eigh_of(cut, Wanted(0, a.shape[1]))(lax.stop_gradient(a), None)
    rows = cut and cut.by_rows
    found = [_derivative(part, rows, constants, a, (w, v), ()) for part in parts]
    return _joined(found), info


@functools.partial(compiled, static_argnums=(0, 3))
def _trace_function(
    parts: tuple[Function, ...], constants: list[jax.Array], a: jax.Array, cut: Cut | None
) -> tuple[jax.Array, EighInfo]:
    w, info = _eigh._eigvalsh_of(cut, Wanted(0, a.shape[1]))(lax.stop_gradient(a), None)
    return _joined([_trace(part, cut, constants, a, w) for part in parts]), info


def _joined(parts: Sequence[jax.Array]) -> jax.Array:
    return parts[0] if len(parts) == 1 else parts[0] + 1j * parts[1]


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _trace(
    function: Function, cut: Cut | None, constants: list[jax.Array], a: jax.Array, w: jax.Array
) -> jax.Array:
    """The sum of f(w), as a function of the constants and of A, whose eigenvalues are w."""
    return jnp.sum(jax.vmap(functools.partial(function, constants))(w))


@functools.partial(_trace.defjvp, symbolic_zeros=True)
def _trace_rule(function, cut, primals, tangents):
    constants, a, w = primals
    changes, of_a, _ = tangents

    def along(function: Function, constants: list[Any]) -> jax.Array:
        return _trace(function, cut, constants, a, w)

    parts = _with_constants(along, function, constants, changes)
    if not isinstance(of_a, SymbolicZero):
        slope = _matrix_function((Slope(function),), constants, a, cut)[0]
        change = hermitian_part(of_a, cut and cut.by_rows)
        total = jnp.sum(jnp.real(slope * jnp.conj(change)))
        parts.append(lax.psum(total, cut.axes) if cut and cut.inside and cut.axes else total)
    return along(function, constants), sum(parts[1:], parts[0])


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _derivative(
    function: Function,
    cut: Cut | None,
    constants: list[jax.Array],
    a: jax.Array,
    spectrum: Spectrum,
    directions: tuple[jax.Array, ...],
) -> jax.Array:
    """D^k f(A) along k directions, which are Hermitian, as a function of all but the spectrum."""
    w, v = spectrum
    adjoint = jnp.conj(transpose(v, cut))
    order = len(directions) + EXTRA_ORDERS if directions else 0
    values = jax.vmap(taylor_coefficients(functools.partial(function, constants), order))(w)
    if not directions:
        return multiply(v * values[0][None, :].astype(v.dtype), adjoint, cut)
    inner = [multiply(adjoint, multiply(e, v, cut), cut) for e in directions]
    own = functools.partial(own_values, rows=v.shape[0], cut=cut)
    rows = own(w)[:, None], [own(c)[:, None] for c in values]
    return multiply(multiply(v, _sum_of_paths(inner, rows, (w, values), cut), cut), adjoint, cut)


@functools.partial(_derivative.defjvp, symbolic_zeros=True)
def _derivative_rule(function, cut, primals, tangents):
    constants, a, spectrum, directions = primals
    changes, of_a, _, of_directions = tangents

    def along(function: Function, constants: list[Any]) -> jax.Array:
        return _derivative(function, cut, constants, a, spectrum, directions)

    parts = _with_constants(along, function, constants, changes)
    given = function, cut, constants, a, spectrum
    if not isinstance(of_a, SymbolicZero):
        parts.append(_linear(*given, directions, of_a))
    for i, change in enumerate(of_directions):
        if not isinstance(change, SymbolicZero):
            parts.append(_linear(*given, (*directions[:i], *directions[i + 1 :]), change))
    return along(function, constants), sum(parts[1:], parts[0])


def _linear(
    function: Function,
    cut: Cut | None,
    constants: list[jax.Array],
    a: jax.Array,
    spectrum: Spectrum,
    others: tuple[jax.Array, ...],
    change: jax.Array,
) -> jax.Array:
    """D^k f(A)[others, change] as a linear map M of the last, with the derivatives that it has.

    JAX makes a linear program of the tangent, in which a custom_jvp has lost its rule. So the map
    is the solution of a symmetric system, as M is symmetric for the inner product of real
    numbers: [0 I; I -M] (y, x) = (change, 0). JAX differentiates the product with that matrix,
    and takes it for its own transpose.
    """

    def product(x: jax.Array) -> jax.Array:
        last = hermitian_part(_complex(x), cut)
        return _real(_derivative(function, cut, constants, a, spectrum, (*others, last)))

    # One array: JAX has no derivatives of systems if only a part of what they have changes.
    def system(unknown: jax.Array) -> jax.Array:
        y, x = unknown
        return jnp.stack([x, y - product(x)])

    def solved(_: Callable, right: jax.Array) -> jax.Array:
        first, second = right
        return jnp.stack([second + product(first), first])

    first = _real(change)
    right = jnp.stack([first, jnp.zeros_like(first)])
    return _complex(lax.custom_linear_solve(system, right, solved, symmetric=True)[0])


def _real(a: jax.Array) -> jax.Array:
    """The real numbers that a matrix is made of: (1, n, n) or (2, n, n)."""
    return jnp.stack([jnp.real(a), jnp.imag(a)] if a.dtype.kind == "c" else [a])


def _complex(parts: jax.Array) -> jax.Array:
    return lax.complex(*parts) if len(parts) == 2 else parts[0]


def _with_constants(
    along: Callable[[Function, list[Any]], jax.Array],
    function: Function,
    constants: list[jax.Array],
    changes: Sequence[Any],
) -> list[jax.Array]:
    """What changes with the constants of f: the function along each number of each, times that."""
    parts = []
    for number, change in enumerate(changes):
        if isinstance(change, SymbolicZero) or change.dtype == jax.dtypes.float0:
            continue
        each = jnp.eye(change.size, dtype=change.dtype).reshape(change.size, *change.shape)
        found = jax.vmap(
            lambda one, number=number: along(Along(function, number), [*constants, one])
        )
        parts.append(jnp.tensordot(change.ravel(), found(each), 1, precision="highest"))
    return parts


def _sum_of_paths(
    matrices: Sequence[jax.Array],
    first: tuple[jax.Array, Sequence[jax.Array]],
    each: tuple[jax.Array, Sequence[jax.Array]],
    cut: Cut | None,
) -> jax.Array:
    """S from all K_l: rows cut, (rows, n).

    Args:
        matrices: K_1, ..., K_k.
        first: The eigenvalues of a device's own rows as a column, and f's coefficients there.
        each: All of them, (n,).
        cut: Of the rows.
    """
    w, coefficients = each
    size = jnp.max(jnp.abs(w), initial=0)
    last = w[None, :], [c[None, :] for c in coefficients]

    def of_path(between: list) -> jax.Array:
        return divided_difference([first, *between, last], size).astype(matrices[0].dtype)

    if len(matrices) == 1:
        return of_path([]) * matrices[0]
    wholes = [all_rows(matrix, cut) for matrix in matrices]

    def at(path: Sequence[jax.Array]) -> jax.Array:
        """The part of all paths through some m_1, ..., m_k-1."""
        between = [(w[m], [c[m] for c in coefficients]) for m in path]
        products = []
        for chosen in itertools.permutations(range(len(matrices))):
            column = matrices[chosen[0]][:, path[0]][:, None]
            for number, step in zip(chosen[1:-1], itertools.pairwise(path), strict=True):
                column = column * wholes[number][step]
            products.append(column * wholes[chosen[-1]][path[-1]][None, :])
        return of_path(between) * sum(products[1:], products[0])

    def add(total: jax.Array, path: tuple[jax.Array, ...]) -> tuple[jax.Array, None]:
        return total + at(path), None

    n, between = len(w), len(matrices) - 1
    paths = jnp.unravel_index(jnp.arange(n**between), (n,) * between)
    return lax.scan(add, jnp.zeros_like(matrices[0]), tuple(paths))[0]
