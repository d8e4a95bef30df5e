"""Derivatives of Krylov solves: against dense ones, of any order, and what happens if they fail."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from functions import several_devices
from jax.sharding import AxisType
from jax.test_util import check_grads
from krylov_systems import bits, matrix, on_mesh, right
from systems import more

import shardsolve
from shardsolve import CSR, krylov
from shardsolve._krylov_records import KrylovStatus

N = 40
every_method = pytest.mark.parametrize("method", ["cg", more("minres"), "bicgstab", more("fgmres")])


def dense(a, data):
    return jnp.zeros(a.shape, data.dtype).at[a._pattern.rows, a.indices].set(data)


def losses(method, dtype="float64", weights=None, **options):
    """The same function of values and b, with our solve and with the dense one."""
    a = matrix(method, dtype, N)
    w = jnp.asarray(right(N, dtype, 9) if weights is None else weights)
    options = {"rtol": 1e-8, "preconditioner": "jacobi", **options}

    def ours(data, b):
        x = krylov.solve(a.with_values(data), b, method=method, **options)
        return jnp.real(jnp.vdot(w, jnp.sin(x)))

    def theirs(data, b):
        return jnp.real(jnp.vdot(w, jnp.sin(jnp.linalg.solve(dense(a, data), b))))

    return a, ours, theirs


def close(ours, theirs, rtol=1e-6):
    def one(u, v):
        assert np.linalg.norm(u - v) <= rtol * np.linalg.norm(v)

    jax.tree.map(one, ours, theirs)


@every_method
@pytest.mark.parametrize("dtype", ["float64", more("complex128")])
def test_gradient_is_that_of_the_dense_solve(method, dtype):
    a, ours, theirs = losses(method, dtype)
    b = jnp.asarray(right(N, dtype))
    expected = jax.grad(theirs, (0, 1))(a.data, b)
    close(jax.grad(ours, (0, 1))(a.data, b), expected)
    close(jax.jit(jax.grad(ours, (0, 1)))(a.data, b), expected)


@every_method
def test_tangents_and_second_derivatives_are_those_of_the_dense_solve(method):
    a, ours, theirs = losses(method, rtol=1e-11)
    at = (a.data, jnp.asarray(right(N)))
    along = (jnp.asarray(right(a.nse, seed=6)), jnp.asarray(right(N, seed=7)))
    found, expected = (
        jax.jit(lambda at, along, f=f: jax.jvp(jax.grad(f, (0, 1)), at, along))(at, along)
        for f in (ours, theirs)
    )
    close(found, expected)
    close(jax.jvp(ours, at, along)[1], jax.jvp(theirs, at, along)[1])


@every_method
def test_derivatives_are_those_of_differences(method):
    a, ours, _ = losses(method, rtol=1e-12)

    def loss(factor, b):  # other values, of a matrix that stays symmetric
        return ours(a.data * jnp.where(a.data > 1, factor, jnp.sin(factor)), b)

    at = (jnp.float64(1.1), jnp.asarray(right(N)))
    check_grads(loss, at, order=1, modes=("fwd", "rev"), rtol=1e-5)


@pytest.mark.parametrize("method", ["bicgstab", more("fgmres")])
@pytest.mark.parametrize("kind", ["function", "matrix"])
def test_preconditioner_is_transposed_with_the_operator(method, kind):
    """With the inverse as preconditioner few iterations suffice, of adjoint solves as well."""
    shardsolve.last_failures()
    a = matrix(method, "float64", N)
    inverse = np.linalg.inv(np.asarray(a.todense()))
    m = CSR.of(inverse) if kind == "matrix" else (lambda r: jnp.asarray(inverse) @ r)

    def loss(b):
        x = krylov.solve(a, b, method=method, preconditioner=m, max_iterations=3)
        return jnp.sum(jnp.sin(x))

    b = jnp.asarray(right(N))
    found = jax.jit(jax.grad(loss))(b)
    close(found, inverse.T @ jnp.cos(inverse @ b))
    assert shardsolve.last_failures() == []


@every_method
@pytest.mark.parametrize("size", [1e-12, more(1e-200), more(0.0)])
def test_gradient_is_relative_to_its_own_right_hand_side(method, size):
    """A tolerance of the solve itself, atol, says nothing of a cotangent of 1e-12."""
    shardsolve.last_failures()
    weights = size * right(N, seed=9)
    a, ours, theirs = losses(method, weights=weights, atol=1e-8)
    b = jnp.asarray(right(N))
    found = jax.grad(ours, (0, 1))(a.data, b)
    if size == 0.0:
        assert all(not np.any(one) for one in found)
    else:
        close(found, jax.grad(theirs, (0, 1))(a.data, b))
    assert shardsolve.last_failures() == []


@every_method
def test_functions_have_derivatives_in_what_they_close_over(method):
    a = matrix(method, "float64", N)
    b = jnp.asarray(right(N))

    def loss(p, solve):
        def product(x):
            return a @ x + p * jnp.tanh(p) * x

        return jnp.sum(jnp.cos(solve(product)))

    def ours(p):
        m = (lambda r: r / (2.3 + p)) if method != "fgmres" else None
        return loss(p, lambda f: krylov.solve(f, b, method=method, preconditioner=m, rtol=1e-10))

    def theirs(p):
        return loss(p, lambda f: jnp.linalg.solve(jax.jacfwd(f)(jnp.zeros(N)), b))

    for order in (jax.grad, jax.jacfwd, lambda f: jax.grad(jax.grad(f))):
        assert order(ours)(0.7) == pytest.approx(float(order(theirs)(0.7)), rel=1e-6)
    assert jax.vmap(jax.grad(ours))(jnp.array([0.7, 0.9]))[0] == pytest.approx(
        float(jax.grad(theirs)(0.7)), rel=1e-6
    )


def test_gradients_of_a_vmap_are_those_of_its_lanes():
    a, ours, _ = losses("cg")
    b = np.stack([right(N, seed=s) for s in (1, 2)])
    values = jnp.stack([a.data, 1.2 * a.data])
    found = jax.vmap(jax.grad(ours, (0, 1)))(values, b)
    for lane in (0, 1):
        alone = jax.grad(ours, (0, 1))(values[lane], b[lane])
        assert [bits(one[lane]) for one in found] == [bits(one) for one in alone]


@several_devices
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=["auto", "explicit"])
def test_gradients_on_several_devices_are_those_of_one(kind):
    a, ours, _ = losses("cg")
    b = right(N)
    alone = jax.grad(ours, (0, 1))(a.data, b)
    spread = on_mesh(b, kind)
    found = jax.jit(jax.grad(ours, (0, 1)))(a.data, spread)
    close(found, alone, 1e-12)


def test_gradient_in_the_matrix_itself_is_a_matrix():
    a = matrix("cg", "float64", N)
    b = right(N)
    found = jax.grad(lambda a: jnp.sum(krylov.solve(a, b) ** 2))(a)
    x = krylov.solve(a, b)
    adjoint = krylov.solve(a, 2 * x)
    expected = -adjoint[a._pattern.rows] * x[a.indices]
    np.testing.assert_allclose(found.data, expected, rtol=1e-6)


def test_adjoint_that_fails_is_kept_by_name():
    a = matrix("bicgstab", "float64", N)
    b = right(N)
    shardsolve.last_failures()

    def loss(b):
        return jnp.sum(krylov.solve(a, b, method="bicgstab", max_iterations=60, x0=x) ** 2)

    x = krylov.solve(a, b, method="bicgstab", max_iterations=200)
    jax.block_until_ready(jax.jit(jax.grad(loss))(b))
    assert shardsolve.last_failures() == []
    close_to = krylov.solve(a, b, method="bicgstab", rtol=1e-12)
    limited = jax.grad(
        lambda b: jnp.sum(krylov.solve(a, b, method="bicgstab", max_iterations=2, x0=close_to) ** 2)
    )
    assert np.isfinite(jax.block_until_ready(jax.jit(limited)(b))).all()
    failures = shardsolve.last_failures()
    assert [one.role for one in failures] == ["adjoint"]
    assert failures[0].status == KrylovStatus.MAX_ITERATIONS


def test_tangent_that_fails_is_kept_by_name():
    a, b = matrix("cg", "float64", N), right(N)
    x = krylov.solve(a, b, rtol=1e-12)
    shardsolve.last_failures()
    run = jax.jit(
        lambda b, db: jax.jvp(lambda b: krylov.solve(a, b, x0=x, max_iterations=2), (b,), (db,))
    )
    assert all(np.isfinite(one).all() for one in jax.block_until_ready(run(b, right(N, seed=8))))
    assert [one.role for one in shardsolve.last_failures()] == ["tangent"]


def test_debug_nans_has_nothing_to_say_of_a_gradient_that_fails():
    a, b = matrix("cg", "float64", N), jnp.asarray(right(N))

    def loss(b):
        return jnp.sum(krylov.solve(a, b, max_iterations=2) ** 2)

    shardsolve.last_failures()
    with jax.debug_nans(True):
        jax.block_until_ready(jax.jit(jax.grad(loss))(b))
        lanes = jax.jit(jax.vmap(jax.grad(loss)))(jnp.stack([b, 0 * b]))
        jax.block_until_ready(lanes)
    assert {one.role for one in shardsolve.last_failures()} == {"solve", "adjoint"}
    assert not np.any(lanes[1])


def test_second_gradient_compiles_nothing():
    a, b = matrix("cg", "float64", N), jax.device_put(right(N))
    gradient = jax.jit(jax.grad(lambda data, b: jnp.sum(krylov.solve(a.with_values(data), b) ** 2)))
    jax.block_until_ready(gradient(a.data, b))
    other = 1.1 * a.data
    with jax.transfer_guard("disallow"):
        jax.block_until_ready(gradient(other, b))
    assert gradient._cache_size() == 1


def test_function_without_a_transpose_is_named_where_one_is_needed():
    b = right(N)

    def product(x):  # a loop whose length is not known
        return jax.lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, 1.5 * s[1]), (0, x))[1]

    def loss(b, method):
        return jnp.sum(krylov.solve(product, b, method=method))

    assert np.isfinite(jax.grad(loss)(b, "cg")).all()  # A is Hermitian: no transpose is needed
    with pytest.raises(TypeError, match="JAX cannot transpose it"):
        jax.grad(loss)(b, "bicgstab")
    a = matrix("bicgstab", "float64", N)
    with pytest.raises(TypeError, match="transpose of the preconditioner, and JAX cannot"):
        jax.grad(lambda b: krylov.solve(a, b, method="bicgstab", preconditioner=product).sum())(b)


@pytest.mark.parametrize(
    "m",
    [
        lambda r: r * (1 + 0.1 * jnp.tanh(jnp.vdot(r, r))),
        lambda r: r / (1 + jnp.linalg.norm(r)),
        lambda r: jnp.where(r > 0, r, 0.9 * r),
        lambda r: jnp.sign(r) * jnp.sqrt(jnp.abs(r)),
        lambda r: jnp.sort(r),
        lambda r: krylov.solve(matrix("cg", n=N), r, max_iterations=3, on_failure="best"),
    ],
    ids=["tanh", "norm", "where", "sqrt", "sort", "steps"],
)
def test_preconditioner_that_is_not_linear_has_a_sentence(m):
    a, b = matrix("fgmres", n=N), right(N)

    def loss(b):
        return krylov.solve(a, b, method="fgmres", preconditioner=m, on_failure="best").sum()

    for gradient in (jax.grad(loss), jax.jit(jax.grad(loss))):
        with pytest.raises(TypeError, match=r"of the preconditioner.*Pass a linear one"):
            gradient(b)


def test_derivatives_of_what_has_not_converged_are_nan():
    def total(d: jax.Array, **options: str) -> jax.Array:
        return jnp.sum(krylov.solve(jnp.diag(d), jnp.ones(3), method="cg", **options))

    filled = functools.partial(total, on_failure="nan")
    good, bad = jnp.array([1.0, 2.0, 3.0]), jnp.array([1.0, -2.0, 3.0])
    for gradient in (jax.grad(filled), jax.jit(jax.grad(filled)), jax.jacfwd(filled)):
        assert np.isnan(gradient(bad)).all()
        assert np.allclose(gradient(good), -1 / good**2, rtol=1e-6)
    assert np.isnan(jax.jvp(filled, (bad,), (jnp.ones(3),))[1])
    of_each = jax.vmap(jax.grad(total))(jnp.stack([good, bad]))
    assert np.isfinite(of_each[0]).all() and np.isnan(of_each[1]).all()
