"""Matrices, right-hand sides, where they lie, and the gates that answers have to pass."""

from __future__ import annotations

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

import shardsolve

DTYPES = ("float32", "float64", "complex64", "complex128")
DEVICES = len(jax.devices())
FACTOR_CALL = "shardsolve_cholesky_factor"
SMALL_CALL = "shardsolve_small_cholesky_factor"  # of a CPU device that is alone

solve = functools.partial(shardsolve.solve, assume_a="pos")


def more(*values: object) -> object:
    """A parameter, or several, whose path another test takes already: see that marker."""
    return pytest.param(*values, marks=pytest.mark.more)


# Problems


def normal(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    values = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


def hermitian(n: int, dtype: str = "float64", seed: int = 0) -> np.ndarray:
    """A random positive definite matrix with a condition number of about 100."""
    a = normal(np.random.default_rng(seed), (n, n), dtype)
    a = a @ a.conj().T / max(n, 1) + 0.05 * np.eye(n)
    return ((a + a.conj().T) / 2).astype(dtype)


def general(n: int, dtype: str = "float64", seed: int = 4) -> np.ndarray:
    """A random matrix: neither Hermitian nor with large numbers on its diagonal."""
    return normal(np.random.default_rng(seed), (n, n), dtype)


def sides(n: int, k: int | None = None, dtype: str = "float64", seed: int = 1) -> np.ndarray:
    """Right-hand sides of shape (n, k), or (n,) if k is None."""
    return normal(np.random.default_rng(seed), (n,) if k is None else (n, k), dtype)


def gaussian_kernel(n: int, jitter: float, dtype: str = "float64") -> np.ndarray:
    """A kernel matrix as of Gaussian processes: condition about n / jitter."""
    t = np.linspace(0, 1, n)
    return (np.exp(-((t[:, None] - t) ** 2) / 0.02) + jitter * np.eye(n)).astype(dtype)


# Gates: see section 9 of the design


def unit_roundoff(dtype) -> float:
    return float(np.finfo(dtype).eps) / 2


def infinity_norm(a: np.ndarray) -> float:
    return float(np.abs(a).sum(axis=1).max(initial=0.0))


def _wide(a) -> np.ndarray:
    a = np.asarray(a)
    return a.astype(np.result_type(a.dtype, np.longdouble))


def solve_ratio(a, x, b) -> float:
    """The largest backward error of the columns, in units of u."""
    u = unit_roundoff(np.asarray(a).dtype)
    a, x, b = (_wide(value) for value in (a, x, b))
    columns = 1 if b.ndim == 1 else b.shape[1]
    worst = 0.0
    for xi, bi in zip(x.reshape(len(x), columns).T, b.reshape(len(b), columns).T, strict=True):
        residual = np.abs(bi - a @ xi).max(initial=0.0)
        size = infinity_norm(a) * np.abs(xi).max(initial=0.0) + np.abs(bi).max(initial=0.0)
        ratio = float(residual / size) / u if size else float(residual)
        worst = ratio if not ratio <= worst else worst  # a NaN stays
    return worst


def solves(a, x, b) -> bool:
    x = np.asarray(x)
    assert (x.shape, x.dtype) == (np.shape(b), np.asarray(b).dtype)
    ratio = solve_ratio(a, x, b)
    assert ratio < 10, f"{ratio} u"
    return True


def inverts(a, x) -> bool:
    """In the 1-norm; and the inverse is Hermitian to the last bit."""
    a, x = np.asarray(a), np.asarray(x)
    assert (x.shape, x.dtype) == (a.shape, a.dtype)
    assert np.array_equal(x, x.conj().T)
    u = unit_roundoff(a.dtype)
    a, x = _wide(a), _wide(x)
    residual = infinity_norm((np.eye(len(a)) - a @ x).T)
    ratio = float(residual / (infinity_norm(a) * infinity_norm(x))) / u if residual else 0.0
    assert ratio < 30, f"{ratio} u"
    return True


def tolerance(dtype, factor: float = 1e4) -> float:
    return factor * unit_roundoff(dtype)


def close(value, reference, factor: float = 1e4) -> bool:
    """Trees of the same shape and, relative to each largest entry, the same numbers."""
    assert jax.tree.structure(value) == jax.tree.structure(reference)
    for got, wanted in zip(jax.tree.leaves(value), jax.tree.leaves(reference), strict=True):
        got, wanted = np.asarray(got), np.asarray(wanted)
        assert got.shape == wanted.shape
        difference = np.abs(got - wanted).max(initial=0.0)
        size = np.abs(wanted).max(initial=0.0)
        assert difference <= tolerance(got.dtype, factor) * max(size, 1e-30), (difference, size)
    return True


# Where arrays lie


def row_mesh(devices=None, explicit: bool = False) -> Mesh:
    devices = jax.devices() if devices is None else devices
    kind = AxisType.Explicit if explicit else AxisType.Auto
    return Mesh(np.array(devices), ("x",), axis_types=(kind,))


def grid_mesh(explicit: bool = False) -> Mesh:
    """Two axes; on 2 and 4 devices 2 along x, on 6 devices 3."""
    along_x = {1: 1, 2: 2, 4: 2, 6: 3}.get(DEVICES, DEVICES)
    kind = AxisType.Explicit if explicit else AxisType.Auto
    grid = np.array(jax.devices()).reshape(along_x, -1)
    return Mesh(grid, ("x", "y"), axis_types=(kind,) * 2)


def put(a, mesh: Mesh, *spec) -> jax.Array:
    return jax.device_put(a, NamedSharding(mesh, PartitionSpec(*spec)))


def spread(a) -> jax.Array:
    """Rows cut over all devices, or whole on each of them if they do not divide."""
    mesh = row_mesh()
    return put(a, mesh, "x") if len(a) % DEVICES == 0 else put(a, mesh)


# What was compiled


def factorisations(function, *arguments) -> int:
    """How often the compiled program calls the factorisation."""
    text = compiled_text(function, *arguments)
    return sum(text.count(f'custom_call_target="{call}"') for call in (FACTOR_CALL, SMALL_CALL))


def compiled_text(function, *arguments) -> str:
    return jax.jit(function).lower(*arguments).compile().as_text()


_COLLECTIVE = re.compile(
    r"= (.*?) (all-gather|all-to-all|all-reduce|reduce-scatter|collective-permute|"
    r"collective-broadcast)(?:-start)?\((.*)"
)
_SHAPE = re.compile(r"(?:f|c|s|u|pred)\d*\[([\d,]*)\]")


def largest_collective(text: str) -> int:
    """Elements of the largest array that a collective of a compiled program takes or gives."""
    sizes = [0]
    for line in text.splitlines():
        if found := _COLLECTIVE.search(line):
            for shape in _SHAPE.findall(found[1] + found[3]):
                sizes.append(int(np.prod([int(d) for d in shape.split(",") if d] or [1])))
    return max(sizes)


def hermitian_part(a: jax.Array) -> jax.Array:
    return (a + jnp.conj(jnp.swapaxes(a, -1, -2))) / 2


# Functions and batches that several files transform

# Ours, and the same on one device by JAX, as functions of any square matrix.
FUNCTIONS = {
    "solve": (solve, lambda a, b: jnp.linalg.solve(hermitian_part(a), b)),
    "cho_solve": (
        lambda a, b: shardsolve.cho_solve(shardsolve.cho_factor(a), b),
        lambda a, b: jnp.linalg.solve(hermitian_part(a), b),
    ),
    "inv": (
        lambda a, b: shardsolve.inv(a) @ b,
        lambda a, b: jnp.linalg.inv(hermitian_part(a)) @ b,
    ),
    "logdet": (
        lambda a, b: shardsolve.logdet(a) * b,
        lambda a, b: jnp.linalg.slogdet(hermitian_part(a))[1] * b,
    ),
    "slogdet": (
        lambda a, b: shardsolve.slogdet(shardsolve.cho_factor(a))[1] * b,
        lambda a, b: jnp.linalg.slogdet(hermitian_part(a))[1] * b,
    ),
}
some_functions = pytest.mark.parametrize("function", ("solve", "inv", "logdet"))

# Ways to have a function compiled, and where its arguments lie then.
WAYS = {
    "eager": (lambda f: f, spread),
    "jit": (jax.jit, spread),
    "explicit": (jax.jit, lambda value: put(value, row_mesh(explicit=True), "x")),
    "one_device": (jax.jit, jnp.asarray),
}


def scalar(f):
    """A real, smooth, non-linear function of all entries."""
    return lambda a, b: jnp.sum(jnp.abs(f(a, b)) ** 2) + jnp.sum(jnp.real(f(a, b)))


def batch(count, n, dtype="float64"):
    return np.stack([hermitian(n, dtype, seed) for seed in range(count)])


def spread_batch(value):
    """Each problem cut along its rows."""
    return put(value, row_mesh(), None, "x")


# in_axes of a and b.
BATCHES = {
    "matrices": (0, None),
    "right_hand_sides": (None, 0),
    "both": (0, 0),
    "right_hand_sides_along_the_last_axis": (None, 1),
}


def batched_arguments(axes, n, dtype="float64"):
    of_a, of_b = BATCHES[axes]
    a = batch(3, n, dtype) if of_a == 0 else hermitian(n, dtype)
    b = sides(n, 3, dtype)
    b = b[:, 0] if of_b is None else (b.T.copy() if of_b == 0 else b)
    return a, b
