"""Krylov solves as they are called at first: no tolerance, classes of one's own, failures."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from krylov_systems import METHODS, bits, laplacian, matrix, residual, right
from systems import more

import shardsolve
from shardsolve import CSR, krylov
from shardsolve._krylov_linear import Dense
from shardsolve._krylov_records import KrylovStatus
from shardsolve._krylov_rounds import Place

N = 40


def plate(edge: int, dtype: str) -> CSR:
    """The Laplacian of a square of edge^2 points."""
    line = sp.diags([-1.0, 2.0, -1.0], [-1, 0, 1], (edge, edge))
    return CSR.of(sp.kronsum(line, line).astype(dtype))


# Tolerances


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("dtype", "rtol"),
    [
        ("float32", 1e-4),
        more("complex64", 1e-4),
        ("float64", 1e-8),
        more("complex128", 1e-8),
    ],
)
def test_laplacian_is_solved_without_a_tolerance(method, dtype, rtol):
    a, b = plate(24, dtype), right(576, dtype)
    x = krylov.solve(a, b, method=method)
    assert x.dtype == dtype and residual(a, x, b) <= 1.01 * rtol
    _, info = krylov.solve(a, b, method=method, rtol=None, full_output=True)
    assert info.tolerance == pytest.approx(rtol)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize(
    ("method", "m", "dtype", "decades"),
    [
        ("cg", "jacobi", "float32", 10),
        ("cg", "jacobi", "float64", 20),
        ("cg", None, "float64", 12),
        more("minres", None, "float64", 8),
    ],
)
def test_small_rows_are_solved_whatever_the_norm_of_x_is(kind, method, m, dtype, decades):
    d = np.logspace(0, -decades, N).astype(dtype)
    b = np.random.default_rng(1).standard_normal(N).astype(dtype)
    a = np.diag(d) if kind == "dense" else sp.diags_array(d).tocsr()
    m = m and krylov.jacobi(d)
    x, info = krylov.solve(a, b, method=method, preconditioner=m, full_output=True)
    assert info.is_converged, info.message
    apart = b.astype(np.longdouble) - d.astype(np.longdouble) * x
    assert np.linalg.norm(apart.astype(float)) <= info.tolerance * np.linalg.norm(b) * 1.000001
    assert info.iterations < 1000


@pytest.mark.parametrize("dtype", ["float32", more("float64"), "complex64", more("complex128")])
def test_what_a_dense_product_says_of_its_rounding_is_a_bound(dtype):
    rng = np.random.default_rng(2)
    u = np.finfo(dtype).eps / 2
    wide = np.clongdouble if np.dtype(dtype).kind == "c" else np.longdouble
    for n in (1, 7, 60):
        for decades in (0, 12):
            sizes = np.logspace(0, -decades, n)
            a = (rng.standard_normal((n, n)) * sizes * sizes[:, None]).astype(dtype)
            x = (rng.standard_normal(n) / sizes).astype(dtype)
            if np.dtype(dtype).kind == "c":
                a, x = a * np.asarray(1 + 0.5j, dtype), x * np.asarray(1 - 0.3j, dtype)
            operator = Dense(jnp.asarray(a)).with_bounds()
            product, bound = (
                operator.multiply_into(jnp.asarray(x), None, jnp.int32(flag), Place(None))
                for flag in (0, -2)
            )
            apart = np.asarray(product) - a.astype(wide) @ x.astype(wide)
            wrong = np.linalg.norm(apart.astype(complex))
            assert wrong <= u * np.linalg.norm(bound), (n, decades)


def test_residual_that_rounding_hides_is_told_as_such():
    a, b = sp.csr_array(np.array([[4, 1], [1, 3]], "float32")), np.ones(2, "float32")
    _, info = krylov.solve(a, b, rtol=1e-12, full_output=True)
    assert info.status == KrylovStatus.ACCURACY_LIMIT
    assert "rounding in that may hide up to" in info.message
    assert "Best iterate" not in info.message


def test_derivative_has_the_tolerance_of_the_dtype_where_none_is_relative():
    shardsolve.last_failures()
    a, b = plate(24, "float32"), right(576, "float32")
    found = jax.grad(lambda b: krylov.solve(a, b, rtol=0.0, atol=1e-3).sum())(b)
    assert residual(a, found, np.ones(576)) <= 1e-4
    assert shardsolve.last_failures() == []


def test_diagnosis_has_the_tolerance_of_the_dtype():
    for dtype, rtol in (("float32", "1e-04"), ("float64", "1e-08")):
        found = krylov.diagnose(plate(12, dtype))
        assert f"trials, rtol {rtol}" in found.text and found.best >= 0
        product = krylov.diagnose(lambda x, dtype=dtype: plate(6, dtype) @ x, np.zeros(36, dtype))
        assert f"trials, rtol {rtol}" in product.text


# Classes of the caller's


@jax.tree_util.register_pytree_node_class
class Fields:
    """A pytree that knows nothing of equality, as flax's and most people's own do not."""

    def __init__(self, u, v):
        self.u, self.v = u, v

    def tree_flatten(self):
        return (self.u, self.v), None

    @classmethod
    def tree_unflatten(cls, _, leaves):
        return cls(*leaves)


def test_pytree_may_be_of_a_class_without_equality():
    b = Fields(right(12).reshape(3, 4), right(5, seed=4))

    def product(x):
        return Fields(2 * x.u, 3 * x.v)

    for m in (None, lambda r: Fields(r.u / 2, r.v / 3)):
        x = krylov.solve(product, b, x0=Fields(b.u, b.v), preconditioner=m)
        np.testing.assert_allclose(x.u, b.u / 2)
        np.testing.assert_allclose(x.v, b.v / 3)
    with pytest.raises(ValueError, match=r"returns Fields of .*\[3, 4\], .*float64\[4\] for"):
        krylov.solve(lambda x: Fields(x.u, x.v[:4]), b)
    with pytest.raises(ValueError, match=r"x0 is Fields of .* and b is Fields of"):
        krylov.solve(product, b, x0=Fields(b.u, b.v[:4]))


# Lanes that share some of what they are given


@pytest.mark.parametrize("method", ["cg", more("bicgstab")])
def test_lanes_may_share_a_guess_or_a_right_hand_side(method):
    a = matrix(method, n=N)
    b = np.stack([right(N, seed=s) for s in (1, 2, 3)])
    x0 = np.stack([krylov.solve(a, one, method=method, rtol=1e-3) for one in b])

    def solve(b, x0):
        return krylov.solve(a, b, method=method, x0=x0)

    for b_axis, x0_axis in ((0, None), (None, 0), (0, 0)):
        found = jax.vmap(solve, (b_axis, x0_axis))(
            b if b_axis == 0 else b[1], x0 if x0_axis == 0 else x0[1]
        )
        for lane in range(3):
            alone = solve(b[lane if b_axis == 0 else 1], x0[lane if x0_axis == 0 else 1])
            assert bits(found[lane]) == bits(alone)


def test_lanes_of_lanes_may_share_a_diagonal():
    a = laplacian(N)
    b = np.stack([right(N, seed=s) for s in range(4)]).reshape(2, 2, N)
    diagonals = np.stack([np.full(N, 2.3), np.linspace(1, 3, N)])

    def solve(b, diagonal):
        return krylov.solve(a, b, preconditioner=krylov.jacobi(diagonal))

    found = jax.vmap(jax.vmap(solve, (0, None)))(b, diagonals)
    for i, j in np.ndindex(2, 2):
        assert bits(found[i, j]) == bits(solve(b[i, j], diagonals[i]))


# Failures that Python cannot look at


@pytest.mark.parametrize("method", ["cg", more("minres"), "bicgstab", more("fgmres")])
def test_lane_that_fails_is_nan_and_its_reason_is_kept(method):
    a = matrix(method, n=N)
    b = np.stack([right(N), np.zeros(N), right(N, seed=5)])
    limits = {"method": method, "max_iterations": 2}
    shardsolve.last_failures()
    x = jax.vmap(lambda b: krylov.solve(a, b, **limits))(b)
    assert np.isnan(x[0]).all() and np.isnan(x[2]).all()
    assert not np.any(x[1])  # solved: b = 0
    kept = shardsolve.last_failures()
    assert [one.status for one in kept] == [KrylovStatus.MAX_ITERATIONS] * 2
    best = jax.vmap(lambda b: krylov.solve(a, b, on_failure="best", **limits))(b)
    assert np.isfinite(best).all()
    inside = jax.jit(jax.vmap(lambda b: krylov.solve(a, b, **limits)))(b)
    assert bits(inside) == bits(best)
    x, info = jax.vmap(lambda b: krylov.solve(a, b, full_output=True, **limits))(b)
    assert bits(x) == bits(best) and info.is_converged.tolist() == [False, True, False]


@pytest.mark.parametrize("method", ["cg", "bicgstab"])
@pytest.mark.parametrize("order", [jax.grad, jax.jacfwd], ids=["adjoint", "tangent"])
def test_derivative_that_fails_is_nan(method, order):
    a, b = matrix(method, n=N), right(N)
    x0 = krylov.solve(a, b, method=method, rtol=1e-12)

    def loss(b, **options):
        x = krylov.solve(a, b, method=method, max_iterations=2, x0=x0, **options)
        return jnp.sum(x**2)

    shardsolve.last_failures()
    assert np.isnan(order(loss)(b)).all()
    roles = {one.role for one in shardsolve.last_failures()}
    assert roles == {"adjoint" if order is jax.grad else "tangent"}
    assert np.isnan(order(lambda b: loss(b, on_failure="nan"))(b)).all()
    assert np.isfinite(order(lambda b: loss(b, on_failure="best"))(b)).all()
    if order is jax.grad:
        assert np.isnan(jax.vmap(order(loss))(np.stack([b, b]))).all()
        assert np.isfinite(jax.jit(order(loss))(b)).all()


def test_eager_gradient_of_a_solve_that_fails_raises():
    a, b = laplacian(N, d=2.001), right(N)
    with pytest.raises(shardsolve.LinAlgError, match=r"limit of 2 .*allow more \(max_iterations\)"):
        jax.grad(lambda b: krylov.solve(a, b, max_iterations=2).sum())(b)


# What to do


def test_restart_is_named_where_it_is_too_short():
    n = 25
    cycle = CSR.of(sp.csr_matrix(np.roll(np.eye(n), 1, axis=0)))  # fgmres(k < n) stands still
    _, info = krylov.solve(cycle, np.eye(n)[0], method="fgmres", restart=20, full_output=True)
    assert info.status == KrylovStatus.STAGNATED
    assert "fgmres keeps 20 vectors and begins anew then, allow more (restart)" in info.message
    kept = shardsolve.last_failures()[-1]
    assert kept.message == info.message
    assert krylov.solve(cycle, np.eye(n)[0], method="fgmres", restart=n) is not None
    singular = CSR.of(np.diag([1.0, 2, 0]))
    _, info = krylov.solve(singular, np.ones(3), method="fgmres", full_output=True)
    assert not info.status.is_converged and "restart)" not in info.message


def test_diagnosis_advises_what_python_has():
    a = plate(20, "float64")
    found = krylov.diagnose(a)
    factors = next(trial for trial in found.trials if "incomplete_cholesky" in trial.name)
    assert "krylov.incomplete_cholesky(a, [0, " in factors.call
    x = eval(factors.call, {"krylov": krylov, "a": a, "b": right(400)})
    assert residual(a, x, right(400)) <= 1e-8
    assert found.text.splitlines()[-1].strip() == found.suggestion
    b = right(400)
    x = eval(found.suggestion, {"krylov": krylov, "a": a, "b": b})
    assert residual(a, x, b) <= 1e-8
    assert krylov.diagnose(laplacian(5)).suggestion
    identity_rows = sp.lil_matrix(sp.diags([-1.0, 2.0, -1.0], [-1, 0, 1], (90, 90)))
    identity_rows[0, :2] = [1.0, 0.0]
    assert krylov.diagnose(CSR.of(identity_rows)).suggestion == ""


@pytest.mark.parametrize("kind", ["saddle point", "not symmetric"])
def test_zero_diagonal_is_solved_by_one_block(kind):
    generator = np.random.default_rng(1)
    n = 60
    if kind == "saddle point":
        part = sp.csr_matrix(generator.standard_normal((n // 3, n - n // 3)))
        line = sp.diags([-1.0, 2.0, -1.0], [-1, 0, 1], (n - n // 3,) * 2)
        a = sp.bmat([[line, part.T], [part, None]], format="csr")
    else:
        a = sp.csr_matrix(np.roll(np.diag(np.arange(1.0, n + 1)), 7, axis=0))
        a = a + 0.01 * sp.csr_matrix(np.triu(generator.standard_normal((n, n)), 1))
    found = krylov.diagnose(a)
    best = found.trials[found.best]
    assert (best.method, best.blocks, best.iterations) == ("fgmres", (0, n), 1)
    assert found.method == "fgmres"
    assert any("the diagonal is 0" in one and "block_jacobi" in one for one in found.findings)
    a, b = CSR.of(a), right(n)
    x = eval(found.suggestion, {"krylov": krylov, "a": a, "b": b})
    assert residual(a, x, b) <= 1e-8
