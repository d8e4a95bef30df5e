"""tinygp's Gaussian processes with shardsolve.tinygp.ShardedSolver, beside its own solver."""

import functools
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from systems import DEVICES, largest_collective, more, put, row_mesh

import shardsolve

tinygp = pytest.importorskip("tinygp")

from shardsolve.tinygp import ShardedSolver  # noqa: E402

pytestmark = pytest.mark.devices

N = 24  # divisible by every number of devices that is tested
HERE = functools.partial(dict, solver=ShardedSolver)


def points(n=N):
    return np.sort(np.random.default_rng(0).uniform(0, 5, n))


def values(n=N):
    return np.sin(points(n)) + 0.1 * np.random.default_rng(1).standard_normal(n)


def process(theta, x, **where):
    kernel = jnp.exp(theta[0]) * tinygp.kernels.Matern32(jnp.exp(theta[1]))
    mean = jnp.sin(theta[2])
    return tinygp.GaussianProcess(kernel, x, diag=jnp.exp(theta[2]), mean=mean, **where)


THETA = np.array([0.1, 0.3, -3.0])


def log_probability(theta, x, y, **where):
    return process(theta, x, **where).log_probability(y)


def near(got, wanted, tolerance=1e-11):
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.shape == wanted.shape
    assert np.abs(got - wanted).max() <= tolerance * np.abs(wanted).max()
    return True


@pytest.mark.parametrize(
    ("way", "n"),
    [("mesh", N), more("mesh", N - 1), ("points", N), ("points", N - 1), ("jit", N - 1)],
)
def test_gradient_of_log_probability_is_that_of_tinygp(way, n):
    x, y = points(n), values(n)
    where = HERE(mesh=row_mesh()) if way == "mesh" else HERE()
    run = jax.value_and_grad(functools.partial(log_probability, **where))
    run = jax.jit(run) if way == "jit" else run
    given = put(x, row_mesh(), *(["x"] if n % DEVICES == 0 else [])) if way == "points" else x
    value, gradient = run(THETA, given, y)
    theirs = jax.jit(jax.value_and_grad(log_probability))  # compiles faster as one program
    expected, expected_gradient = theirs(THETA, x, y)
    assert near(value, expected)
    assert near(gradient, expected_gradient, 1e-10)


@pytest.mark.more
def test_hessian_of_log_probability_is_that_of_tinygp():
    x, y = points(12), values(12)
    ours = functools.partial(log_probability, **HERE(mesh=row_mesh()))
    got = jax.jit(jax.hessian(ours))(THETA, x, y)
    assert near(got, jax.jit(jax.hessian(log_probability))(THETA, x, y), 1e-9)


@pytest.mark.parametrize("what", ({}, {"return_var": True}, {"return_cov": True}), ids=str)
@pytest.mark.parametrize("elsewhere", (True, False))
def test_prediction_is_that_of_tinygp(elsewhere, what):
    x, y = points(), values()
    at = np.linspace(-1, 6, 7) if elsewhere else None
    got = process(THETA, x, **HERE(mesh=row_mesh())).predict(y, at, **what)
    wanted = process(THETA, x).predict(y, at, **what)
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        assert near(one, other)


def test_solver_has_what_tinygp_asks_of_one():
    x, y = points(), values()
    ours, theirs = process(THETA, x, **HERE(mesh=row_mesh())), process(THETA, x)
    solver = ours.solver
    assert near(ours.variance, theirs.variance)
    assert near(ours.covariance, theirs.covariance)
    assert near(solver.normalization(), theirs.solver.normalization())
    block = np.random.default_rng(2).standard_normal((N, 3, 2))
    assert near(solver.dot_triangular(solver.solve_triangular(block)), block)
    back = solver.solve_triangular(solver.solve_triangular(y), transpose=True)
    assert near(back, np.linalg.solve(np.asarray(theirs.covariance), y))
    assert solver.dot_triangular(np.arange(N)).dtype == np.float64


def test_samples_have_the_covariance():
    """F F^T is the covariance, so the whitened samples are tinygp's normal numbers."""
    ours = process(THETA, points(), **HERE(mesh=row_mesh()))
    drawn = ours.sample(jax.random.key(0), (5,))
    white = ours.solver.solve_triangular((drawn - ours.mean).T)
    assert drawn.shape == (5, N)
    assert near(white, jax.random.normal(jax.random.key(0), (N, 5), np.float64))


def test_covariance_that_is_given_is_the_one_that_is_factored():
    dense = np.eye(N) * 2.0
    where = HERE(covariance_value=dense, mesh=row_mesh())
    ours = process(THETA, points(), **where)
    assert near(ours.covariance, dense)
    assert near(ours.solver.normalization(), N * (np.log(2) + np.log(2 * np.pi)) / 2)


def test_no_device_has_all_of_the_covariance():
    run = functools.partial(log_probability, **HERE(mesh=row_mesh()))
    n = 32 * DEVICES
    text = jax.jit(run).lower(THETA, points(n), values(n)).compile().as_text()
    assert largest_collective(text) <= n * n / max(DEVICES, 2)
    assert DEVICES == 1 or f"f64[{n},{n}]" not in text


# What goes wrong


def test_covariance_that_is_not_positive_definite_is_an_error_and_under_jit_minus_infinity():
    x, y = np.zeros(N), values()

    def run(diagonal):
        kernel = tinygp.kernels.ExpSquared()
        given = tinygp.GaussianProcess(kernel, x, diag=diagonal, **HERE(mesh=row_mesh()))
        return given.log_probability(y)

    with pytest.raises(shardsolve.LinAlgError, match="not positive definite"):
        run(-0.5)
    assert jax.jit(run)(-0.5) == -np.inf


def test_mesh_with_explicit_axes_is_refused_with_the_line_to_write():
    with pytest.raises(ValueError, match=r"Explicit axes.*AxisType\.Auto"):
        process(THETA, points(), **HERE(mesh=row_mesh(explicit=True)))


def test_without_tinygp_the_import_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "tinygp.solvers.solver", None)
    monkeypatch.delitem(sys.modules, "shardsolve.tinygp")
    with pytest.raises(ImportError, match=r"pip install 'shardsolve\[tinygp\]'"):
        import shardsolve.tinygp  # noqa: F401
