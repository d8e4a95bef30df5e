"""Krylov solves in JAX: the same bits wherever they run, and every verdict."""

from __future__ import annotations

import functools
import operator
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from jax import lax
from jax.experimental import sparse
from krylov_systems import (
    METHODS,
    N,
    bits,
    convection,
    laplacian,
    matrix,
    on_mesh,
    residual,
    right,
    same,
    solve,
)
from systems import DEVICES, more, normal

import shardsolve
from shardsolve import CSR, krylov
from shardsolve._krylov_records import KrylovStatus
from shardsolve._library import description

every_method = pytest.mark.parametrize("method", METHODS)
# Where one of each kind will do for `make test`.
one_of_each_kind = pytest.mark.parametrize(
    "method", ["cg", more("minres"), "bicgstab", more("fgmres")]
)


# Answers


@one_of_each_kind
@pytest.mark.parametrize("dtype", ["float64", *map(more, ("float32", "complex64", "complex128"))])
def test_answer_is_within_the_tolerance_that_was_asked_for(method, dtype):
    a, b = matrix(method, dtype), right(dtype=dtype)
    rtol = 1e-5 if np.dtype(dtype).itemsize // (1 + (np.dtype(dtype).kind == "c")) == 4 else 1e-10
    for m in (None, "jacobi", lambda r: r / 2.3):
        x, info = solve(a, b, method, preconditioner=m, rtol=rtol)
        assert info.status == KrylovStatus.CONVERGED_RTOL, info.message
        assert (x.dtype, x.shape) == (b.dtype, b.shape)
        assert residual(a, x, b) <= 1.5 * rtol
        assert info.tolerance == pytest.approx(rtol)
        assert info.log["iteration"].max() == info.iterations


@pytest.mark.parametrize("kind", ["function", "scipy", "bcsr", "bcoo", "dense"])
def test_matrix_may_be_of_any_kind(kind):
    a, b = laplacian(), right()
    host = sp.csr_matrix((np.asarray(a.data), a.indices, a.indptr), a.shape)
    given = {
        "function": lambda x: a @ x,
        "scipy": host.tocsc(),
        "bcsr": sparse.BCSR.from_scipy_sparse(host),
        "bcoo": sparse.BCOO.from_scipy_sparse(host),
        "dense": jnp.asarray(host.toarray()),
    }[kind]
    x, info = solve(given, b)
    assert info.is_converged and residual(a, x, b) <= 1e-8
    y, other = solve(a, b)
    if kind == "function":  # whose residual is recomputed by the product that it is
        assert (bits(x), info.iterations) == (bits(y), other.iterations)
    elif kind != "dense":
        assert same((x, info), (y, other))


def test_right_hand_side_may_be_a_pytree():
    b = {"u": right(12).reshape(3, 4), "v": (right(5, seed=4),)}

    def product(x):
        return {"u": 2 * x["u"] + 0.1 * x["u"][::-1], "v": (3 * x["v"][0],)}

    x = krylov.solve(product, b, rtol=1e-12)
    jax.tree.map(lambda u, v: np.testing.assert_allclose(u, v, rtol=1e-10), product(x), b)
    guess = jax.tree.map(lambda u: 0.5 * u, b)
    assert jax.tree.structure(krylov.solve(product, b, x0=guess)) == jax.tree.structure(b)
    grid = right(12).reshape(3, 4)
    assert np.allclose(krylov.solve(lambda x: 2 * x, grid), grid / 2)


@one_of_each_kind
def test_chebyshev_and_a_matrix_are_preconditioners(method):
    a, b = laplacian(), right()
    plain = solve(a, b, method)[1]
    _, info = solve(a, b, method, preconditioner=krylov.chebyshev(a, 0.3, 4.3, 4))
    assert info.is_converged and info.iterations < plain.iterations / 2
    inverse = CSR.of(np.linalg.inv(np.asarray(a.todense())))
    inverse = inverse.with_values((inverse.data + inverse.T.data) / 2)
    assert solve(a, b, method, preconditioner=inverse)[1].iterations <= 3


@one_of_each_kind
def test_blocks_of_the_matrix_are_a_preconditioner(method):
    a, b = matrix(method), right()
    m = krylov.block_jacobi(a, [0, N // 2, N // 2 + 5, N])
    x, info = solve(a, b, method, preconditioner=m)
    assert info.is_converged and info.iterations <= 12
    found = jax.jit(lambda d: krylov.block_jacobi(a.with_values(d), [0, N // 2, N]).numbers)(a.data)
    assert bits(found) == bits(krylov.block_jacobi(a, [0, N // 2, N]).numbers)
    if DEVICES > 1:
        assert same(solve(a, on_mesh(b), method, preconditioner=m), (x, info))
    exact = krylov.solve(a, b, method=method, preconditioner=krylov.block_jacobi(a, [0, N]))
    assert residual(a, exact, b) <= 1e-8


def test_hierarchy_of_pyamg_is_a_preconditioner():
    pyamg = pytest.importorskip("pyamg")
    grid = pyamg.gallery.poisson((40, 40), format="csr")
    hierarchy = pyamg.smoothed_aggregation_solver(grid, max_coarse=20)
    m = krylov.from_pyamg(hierarchy)
    b = right(1600)
    x, info = solve(grid, b, preconditioner=m)
    assert info.is_converged and info.iterations <= 20
    assert solve(grid, b, preconditioner="jacobi")[1].iterations > 60
    if DEVICES in (2, 4):
        spread, whole = (solve(grid, b, preconditioner=m)[0] for b in (on_mesh(b), b))
        assert bits(spread) == bits(whole)

    def loss(b):
        return jnp.sum(krylov.solve(grid, b, preconditioner=m) ** 2)

    expected = krylov.solve(grid, 2 * x, rtol=1e-11)
    np.testing.assert_allclose(jax.grad(loss)(b), expected, rtol=1e-5, atol=1e-6)
    assert solve(grid, b, "bicgstab", preconditioner=m)[1].is_converged


def test_diagnosis_says_what_a_matrix_is():
    found = krylov.diagnose(laplacian(200, d=2.001))
    assert found.is_hermitian and found.definiteness == "positive definite"
    assert found.method == "cg" and found.trials[found.best].status.is_converged
    assert found.gain > 1 and found.answer in str(found)
    assert not krylov.diagnose(convection(100)).is_hermitian


def test_diagnosis_says_what_a_function_is():
    a = laplacian(100)
    found = krylov.diagnose(lambda x: a @ x, np.zeros(100))
    assert found.is_hermitian and found.trials[0].status.is_converged
    found = krylov.diagnose(lambda x: a @ x + 1, np.zeros(100))
    assert any("linear" in sentence for sentence in found.findings)
    with pytest.raises(TypeError, match="pass an array like b"):
        krylov.diagnose(lambda x: a @ x)


@pytest.mark.parametrize("kind", [np.asarray, jnp.asarray])
@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_diagnosis_of_an_array_is_that_of_its_entries(dtype, kind):
    a = (
        3 * np.eye(100, dtype=dtype)
        - np.eye(100, k=1, dtype=dtype)
        - np.eye(100, k=-1, dtype=dtype)
    )
    found = krylov.diagnose(kind(a))
    assert found.is_hermitian and found.definiteness == "positive definite"
    assert found.trials[0].status.is_converged


def test_guess_is_used():
    a, b = laplacian(), right()
    _, info = solve(a, b, x0=np.asarray(krylov.solve(a, b, rtol=1e-12)))
    assert (info.status, info.iterations) == (KrylovStatus.CONVERGED_AT_START, 0)
    assert solve(a, b, x0=b)[1].is_converged
    alone = bits(krylov.solve(a, b, x0=b.copy()))
    assert bits(krylov.solve(a, b, x0=b)) == alone  # the same array twice, which stays as it is
    assert bits(b) == bits(right())
    twice = jax.jit(lambda b: krylov.solve(a, b, x0=b), donate_argnums=0)
    assert bits(twice(jnp.array(b))) == alone
    assert bits(krylov.solve(a, b, x0=np.zeros(N))) == bits(krylov.solve(a, b))


@one_of_each_kind
def test_powers_of_two_in_b_change_no_bit_of_the_log(method):
    a, b = matrix(method), right()
    x, info = solve(a, b, method)
    for factor in (2.0**-200, 2.0**200):
        y, other = solve(a, factor * b, method)
        assert bits(y) == bits(factor * x) and other.log.tobytes() == info.log.tobytes()


@one_of_each_kind
@pytest.mark.parametrize("kind", ["matrix", "function"])
def test_extreme_powers_of_two_in_a_change_no_bit(method, kind):
    a, b = matrix(method), right()

    @jax.jit
    def run(data):
        scaled = a.with_values(data)
        given = scaled if kind == "matrix" else lambda x: scaled @ x
        return krylov.solve(given, b, method=method, full_output=True, log=True)

    x, info = run(a.data)
    for factor in (2.0**511, 2.0**-660):
        y, other = run(factor * a.data)
        assert bits(y) == bits(x / factor)
        assert bits(other.log["residual"]) == bits(info.log["residual"])
        assert (other.status, other.matvecs) == (info.status, info.matvecs)


def exact_residual(a, x, b) -> Fraction:
    """(||b - A x|| / ||b||)^2."""
    exact = [Fraction(value) for value in x]
    products = (sum(Fraction(u) * v for u, v in zip(row, exact, strict=True)) for row in a)
    above = sum((Fraction(right) - left) ** 2 for right, left in zip(b, products, strict=True))
    return above / sum(Fraction(value) ** 2 for value in b)


@one_of_each_kind
def test_what_converged_is_below_the_tolerance(method):
    n, rtol = 6, 1e-14
    rng = np.random.default_rng(1)
    pattern = CSR.of(np.ones((n, n)))

    @jax.jit
    def run(data, b):
        return krylov.solve(
            pattern.with_values(data), b, method=method, rtol=rtol, full_output=True
        )

    converged = 0
    for decades in np.linspace(0, 14, 60):
        u, v = (np.linalg.qr(normal(rng, (n, n), "float64"))[0] for _ in range(2))
        a = (u * 10.0 ** -np.linspace(0, decades, n)) @ (u if method in ("cg", "minres") else v).T
        a = (a + a.T) / 2 if method in ("cg", "minres") else a
        b = normal(rng, (n,), "float64")
        x, info = run(a.ravel(), b)
        if info.is_converged:
            converged += 1
            assert exact_residual(a, np.asarray(x), b) <= Fraction(rtol) ** 2
    assert converged >= 5


def test_system_without_rows_is_solved():
    x, info = solve(lambda x: x, np.zeros(0))
    assert x.shape == (0,) and info.is_converged


# Transformations


@every_method
def test_lanes_of_a_vmap_have_the_bits_that_they_have_alone(method):
    a = matrix(method)
    b = np.stack([right(seed=1), np.zeros(N), right(seed=2), 1e-200 * right(seed=5)])
    x, info = jax.jit(jax.vmap(lambda b: solve(a, b, method, preconditioner="jacobi")))(b)
    for lane, one in enumerate(b):
        alone = solve(a, one, method, preconditioner="jacobi")
        own = jax.tree.map(operator.itemgetter(lane), info)
        assert same((x[lane], own), alone)
    assert info.status[1] == KrylovStatus.ZERO_RHS


def test_lanes_of_many_rows_have_the_bits_that_they_have_alone():
    """Threads share them on a CPU."""
    n = 10000
    a, b = laplacian(n), np.stack([np.zeros(n), *(right(n, seed=s) for s in range(3))])
    x = jax.vmap(lambda b: krylov.solve(a, b))(b)
    assert all(bits(x[lane]) == bits(krylov.solve(a, one)) for lane, one in enumerate(b))


@one_of_each_kind
def test_lanes_may_have_matrices_and_preconditioners_of_their_own(method):
    a, b = matrix(method), right()
    values = jnp.stack([a.data, 1.5 * a.data, -a.data])

    def one(data):
        m = a.with_values(data)
        return krylov.solve(m, b, method=method, preconditioner=krylov.jacobi(m), full_output=True)

    x, info = jax.vmap(one)(values)
    for lane, data in enumerate(values):
        assert bits(x[lane]) == bits(one(data)[0])
    if method == "cg":
        assert info.status[2] == KrylovStatus.INDEFINITE_PRECONDITIONER
        assert "system 2" not in info.message and "indefinite" in info.message


def test_vmap_of_a_vmap_and_on_several_devices():
    a = laplacian()
    b = np.stack([right(seed=s) for s in range(4)]).reshape(2, 2, N)
    x = jax.vmap(jax.vmap(lambda b: krylov.solve(a, b)))(b)
    assert all(bits(x[i, j]) == bits(krylov.solve(a, b[i, j])) for i in (0, 1) for j in (0, 1))


def test_solves_go_through_scan_and_donation():
    a = laplacian()

    def step(x, b):
        x = krylov.solve(a, b, x0=x)
        return x, x

    b = np.stack([right(seed=s) for s in range(3)])
    _, all_of_them = lax.scan(step, jnp.zeros(N), b)
    x = jnp.zeros(N)
    for one, found in zip(b, all_of_them, strict=True):
        x = krylov.solve(a, one, x0=x)
        assert bits(x) == bits(found)
    given = jnp.zeros(N) + 0.25
    run = jax.jit(lambda x0: krylov.solve(a, b[0], x0=x0), donate_argnums=0)
    assert bits(run(given)) == bits(krylov.solve(a, b[0], x0=np.full(N, 0.25)))


def test_second_call_compiles_nothing_and_moves_no_array():
    a, b = laplacian(), jax.device_put(right())
    function = lambda x: 2.3 * x  # noqa: E731
    run = jax.jit(lambda a, b: krylov.solve(a, b, full_output=True))
    calls = (
        lambda: krylov.solve(a, b, full_output=True),
        lambda: krylov.solve(function, b, full_output=True),
        lambda: run(a, b),
    )
    for call in calls:
        jax.block_until_ready(call())
        events = []
        jax.monitoring.register_event_duration_secs_listener(
            functools.partial(lambda events, name, *_, **__: events.append(name), events)
        )
        try:
            with jax.transfer_guard("disallow"):
                jax.block_until_ready(call())
        finally:
            jax.monitoring.clear_event_listeners()
        assert not any("backend_compile" in event for event in events)


# Verdicts


def test_statuses_are_those_of_the_library():
    found = description()["krylov"]["statuses"]
    assert {name: one["number"] for name, one in found.items()} == {
        status.name.lower(): status.value for status in KrylovStatus
    }
    for status in KrylovStatus:
        assert found[status.name.lower()]["converged"] == status.is_converged


INDEFINITE = np.where(np.arange(30) % 7 == 3, -1.0, 1.0) * (1 + 0.1 * np.arange(30))
CASES = {
    # What lineax 0.1.1 gets wrong: a NaN, a wrong "successful", or a wrong reason.
    "identity": ("bicgstab", np.eye(20), right(20), "converged_rtol"),
    "identity, cg": ("cg", np.eye(20), right(20), "converged_rtol"),
    "zero b": ("bicgstab", np.asarray(convection(20).todense()), np.zeros(20), "zero_rhs"),
    "one zero in b": (
        "bicgstab",
        np.asarray(convection(20).todense()),
        np.r_[0, right(19)],
        "converged_rtol",
    ),
    "indefinite diagonal": ("cg", np.diag(INDEFINITE), right(30), "indefinite_operator"),
    "indefinite diagonal, minres": ("minres", np.diag(INDEFINITE), right(30), "converged_rtol"),
    "swap": ("bicgstab", np.array([[0.0, 1], [1, 0]]), np.array([1.0, 0]), "converged_rtol"),
    "not symmetric": (
        "cg",
        np.asarray(convection(30).todense()),
        right(30),
        "nonsymmetric_operator",
    ),
    "singular": ("fgmres", np.diag([1.0, 2, 0]), np.array([1.0, 1, 1]), "stagnated"),
    "singular, by cg": ("cg", np.diag([1.0, 0, 2]), np.ones(3), "singular_operator"),
    "constants": (
        "minres",
        np.diag([1.0, 2, 2, 1]) - np.eye(4, k=1) - np.eye(4, k=-1),
        np.array([1.0, 2, 0, 0]),
        "singular_operator",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_hard_systems_get_the_verdict_that_is_right(case):
    method, a, b, status = CASES[case]
    shardsolve.last_failures()
    for given in (CSR.of(a), lambda x: jnp.asarray(a) @ x):
        x, info = solve(given, b, method)
        found = info.status.name.lower()
        assert found == status or (status == "stagnated" and not info.status.is_converged)
        assert np.isfinite(x).all()
        if info.status.is_converged:
            assert np.linalg.norm(b - a @ x) <= 1e-8 * np.linalg.norm(b)
        else:
            assert shardsolve.last_failures()[-1].message == info.message


def test_error_is_estimated_beside_the_residual():
    diagonal = np.ldexp(1.0, -np.arange(28))  # the same bits with any pow
    x, info = krylov.solve(CSR.of(np.diag(diagonal)), diagonal, rtol=1e-6, full_output=True)
    error = np.linalg.norm(x - 1) / np.linalg.norm(x)
    assert info.residual <= 1e-6 and error > 0.1
    assert info.error_estimate >= 0.1 * error
    assert 1e3 < info.condition < 1.1e8
    assert "x may have few correct digits or none" in info.message


def test_loose_tolerance_is_named_and_not_the_condition():
    a = CSR.of(np.diag([1.0, 2.0, 3.0]))
    info = krylov.solve(a, np.ones(3), atol=100.0, full_output=True)[1]
    assert "x is 0, which the tolerance allows" in info.message
    info = krylov.solve(a, np.ones(3), rtol=0.5, preconditioner=None, full_output=True)[1]
    assert "ill-conditioned" not in info.message


@pytest.mark.parametrize("method", ["cg", "minres"])
@pytest.mark.parametrize("what", ["operator", "preconditioner"])
def test_guess_that_nobody_has_looked_at_is_not_returned(what, method):
    skew = CSR.of(np.array([[2.0, 1, 0], [0, 2, 1], [0, 0, 2]]))
    of = {"operator": (skew, None), "preconditioner": (CSR.of(np.eye(3)), skew)}[what]
    solve = functools.partial(krylov.solve, of[0], method=method, preconditioner=of[1])
    b, guess = np.ones(3), 1e10 * np.ones(3)
    x, info = solve(b, x0=guess, full_output=True)
    assert info.status.name == f"NONSYMMETRIC_{what.upper()}"
    assert (x == 0).all() and info.residual == 1
    assert (jax.jit(solve)(b, x0=guess) == 0).all()


@one_of_each_kind
@pytest.mark.parametrize("what", ["b", "x0", "A", "M"])
@pytest.mark.parametrize("value", [np.nan, more(np.inf)])
def test_nonfinite_number_is_named(method, what, value):
    a, b, x0 = matrix(method), right(), np.ones(N)
    data, diagonal = np.asarray(a.data).copy(), np.full(N, 2.3)
    {"b": b, "x0": x0, "A": data, "M": diagonal}[what][7] = value if what != "M" else np.nan
    m = krylov.jacobi(diagonal)
    x, info = solve(a.with_values(data), b, method, x0=x0, preconditioner=m)
    named = {
        "b": KrylovStatus.NONFINITE_RHS,
        "x0": KrylovStatus.NONFINITE_GUESS,
        "A": KrylovStatus.NONFINITE_OPERATOR,
        "M": KrylovStatus.NONFINITE_PRECONDITIONER,
    }[what]
    assert info.status == named, info.message
    assert np.isfinite(x).all()
    if what in ("b", "x0"):
        assert "row 7" in info.message


def test_failure_raises_outside_of_jit_and_is_kept_inside():
    a, b = CSR.of(np.diag(INDEFINITE)), right(30)
    shardsolve.last_failures()
    with pytest.raises(shardsolve.LinAlgError, match="use method minres") as raised:
        krylov.solve(a, b)
    assert raised.value.status == shardsolve.Status.UNSUITABLE_METHOD
    x = jax.block_until_ready(jax.jit(lambda b: krylov.solve(a, b))(b))
    assert np.isfinite(x).all()
    kept = shardsolve.last_failures()
    assert [one.status for one in kept] == [KrylovStatus.INDEFINITE_OPERATOR] * 2
    assert (kept[0].role, kept[0].method, kept[0].message) == ("solve", "cg", str(raised.value))
    assert shardsolve.last_failures() == []
    assert np.isfinite(krylov.solve(a, b, on_failure="best")).all()
    assert np.isnan(krylov.solve(a, b, on_failure="nan")).all()
    assert np.isnan(jax.jit(lambda b: krylov.solve(a, b, on_failure="nan"))(b)).all()
    x = jax.vmap(lambda b: krylov.solve(a, b, method="minres", on_failure="nan"))(np.stack([b, b]))
    assert np.isfinite(x).all()


@pytest.mark.parametrize("seed", range(6))
def test_minres_beside_a_nearly_singular_matrix_is_no_worse_than_zero(seed):
    """Its recurrence falls by 1e4 and more there, while the residual grows."""
    n = 12
    q = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]
    a = (q * 10.0 ** np.linspace(-12, 0, n) * (-1.0) ** np.arange(n)) @ q.T
    a, b = (a + a.T) / 2, np.ones(n)
    x, info = krylov.solve(CSR.of(a), jnp.asarray(b), method="minres", rtol=1e-4, full_output=True)
    assert info.residual <= 1.0102  # 1 % is left to rounding
    assert np.linalg.norm(b - a @ x) <= 1.0102 * np.linalg.norm(b)


def test_debug_nans_has_nothing_to_say():
    a, b = CSR.of(np.diag(INDEFINITE)), right(30)
    with jax.debug_nans(True):
        jax.block_until_ready(jax.jit(lambda b: krylov.solve(a, b))(b))
        jax.block_until_ready(krylov.solve(a, b, on_failure="best"))


def test_limit_of_iterations_is_kept():
    _, info = solve(laplacian(d=2.001), right(), max_iterations=7)
    assert (info.status, info.iterations) == (KrylovStatus.MAX_ITERATIONS, 7)
    assert info.matvecs >= 7 and len(info.log) >= 7
    assert info.margin > 1 and "limit of 7" in info.message


def test_loop_of_a_gpu_gives_what_that_of_the_cpu_gives():
    """Several rounds between two looks; those too many do nothing."""
    from shardsolve import _krylov_linear, _krylov_rounds

    a, b = laplacian(), jnp.asarray(right())
    asked = _krylov_rounds.Asked("cg", 1e-8, 0.0, 1000, 30, True)
    product = _krylov_linear.Sparse(a.data, a._pattern)
    one, eight = (
        _krylov_rounds.solve(
            product, _krylov_linear.Identity(), b, None, asked,
            _krylov_rounds.Place(None, ahead), 0,
        )
        for ahead in (1, 8)
    )  # fmt: skip
    assert [bits(u) for u in one] == [bits(v) for v in eight]
