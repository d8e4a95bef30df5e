"""The solvers for lineax: its interface, what it gets wrong, and its words for what happened."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from krylov_systems import bits, laplacian, matrix, right
from systems import more

from shardsolve import CSR, krylov
from shardsolve.krylov import KrylovStatus

lx = pytest.importorskip("lineax")
from shardsolve import lineax as sx  # noqa: E402

N = 40
SOLVERS = {"cg": sx.CG, "minres": sx.MINRES, "bicgstab": sx.BiCGStab, "fgmres": sx.FGMRES}
TAGS = {
    "cg": lx.positive_semidefinite_tag,
    "minres": lx.symmetric_tag,
    "bicgstab": frozenset(),
    "fgmres": frozenset(),
}
every_method = pytest.mark.parametrize("method", ["cg", more("minres"), "bicgstab", more("fgmres")])


def operator_of(method, a):
    # Complex and symmetric is not Hermitian, which lineax has no other word for.
    hermitian = method == "minres" and jnp.asarray(a).dtype.kind == "c"
    tag = lx.positive_semidefinite_tag if hermitian else TAGS[method]
    return lx.MatrixLinearOperator(jnp.asarray(a), tag)


def dense(method, dtype="float64"):
    return matrix(method, dtype, N).todense()


def function_of(method, a):
    shape = jax.ShapeDtypeStruct((a.shape[1],), a.dtype)
    return lx.FunctionLinearOperator(lambda x: a @ x, shape, TAGS[method])


def solve(operator, b, solver, **options):
    return lx.linear_solve(operator, jnp.asarray(b), solver, options=options, throw=False)


@every_method
@pytest.mark.parametrize("kind", [operator_of, function_of], ids=["matrix", "function"])
def test_answer_is_that_of_our_own_solve(method, kind):
    a, b = dense(method), right(N)
    solution = solve(kind(method, a), b, SOLVERS[method](rtol=1e-10, atol=0.0))
    assert solution.result == lx.RESULTS.successful
    assert np.linalg.norm(b - a @ solution.value) <= 1e-10 * np.linalg.norm(b)
    stats = solution.stats
    assert stats["status"] == KrylovStatus.CONVERGED_RTOL and stats["num_steps"] > 1
    assert stats["residual"] <= 1e-10 and stats["margin"] > 1


def test_function_of_a_csr_has_the_bits_of_our_own_solve():
    a, b = laplacian(N), right(N)
    solution = solve(function_of("cg", a), b, sx.CG(rtol=1e-8, atol=0.0))
    assert bits(solution.value) == bits(krylov.solve(a, b, max_iterations=10 * N))


@every_method
def test_options_are_heeded(method):
    a, b = dense(method), right(N)
    operator, solver = operator_of(method, a), SOLVERS[method](rtol=1e-10, atol=0.0)
    x = solve(operator, b, solver).value
    again = solve(operator, b, solver, y0=x)
    assert again.stats["num_steps"] == 0
    m = lx.DiagonalLinearOperator(jnp.full(N, 1 / 2.3))
    preconditioner = lx.TaggedLinearOperator(m, lx.positive_semidefinite_tag)
    assert solve(operator, b, solver, preconditioner=preconditioner).result == lx.RESULTS.successful
    limited = solve(operator, b, SOLVERS[method](rtol=1e-10, atol=0.0, max_steps=3))
    assert limited.result == lx.RESULTS.max_steps_reached and np.isfinite(limited.value).all()
    assert (limited.stats["num_steps"], limited.stats["max_steps"]) == (3, 3)


@every_method
def test_pytrees_and_negative_operators_are_solved(method):
    b = {"u": jnp.asarray(right(6)).reshape(2, 3), "v": jnp.asarray(right(4, seed=8))}
    sign = -1 if method == "cg" else 1
    tag = lx.negative_semidefinite_tag if method == "cg" else TAGS[method]

    def product(x):
        return jax.tree.map(lambda u: sign * 2.0 * u, x)

    structure = jax.tree.map(lambda u: jax.ShapeDtypeStruct(u.shape, u.dtype), b)
    operator = lx.FunctionLinearOperator(product, structure, tag)
    x = lx.linear_solve(operator, b, SOLVERS[method](rtol=1e-10, atol=0.0)).value
    jax.tree.map(lambda u, v: np.testing.assert_allclose(sign * 2 * u, v), x, b)


@every_method
@pytest.mark.parametrize("dtype", ["float64", more("complex128")])
def test_derivatives_are_those_of_the_dense_solve(method, dtype):
    a, b = dense(method, dtype), jnp.asarray(right(N, dtype))
    w = jnp.asarray(right(N, dtype, 9))
    solver = SOLVERS[method](rtol=1e-10, atol=1e-8)

    def loss(solve):
        return lambda a, b: jnp.real(jnp.vdot(1e-6 * w, jnp.sin(solve(a, b))))

    def hermitian(a):
        return (a + a.conj().T) / 2 if method in ("cg", "minres") else a

    def ours(a, b):
        operator = operator_of(method, hermitian(a))
        return lx.linear_solve(operator, b, solver).value

    def theirs(a, b):
        return jnp.linalg.solve(hermitian(a), b)

    found, expected = (jax.jit(jax.grad(loss(f), (0, 1)))(a, b) for f in (ours, theirs))
    for u, v in zip(found, expected, strict=True):
        assert np.linalg.norm(u - v) <= 1e-6 * np.linalg.norm(v)
    if dtype == "float64":
        tangent = jax.jvp(lambda b: ours(a, b), (b,), (w,))[1]
        np.testing.assert_allclose(tangent, theirs(a, w), rtol=1e-6)


def test_vmap_with_a_lane_of_zeros():
    a = laplacian(N)
    b = np.stack([right(N), np.zeros(N)])
    solver = sx.BiCGStab(rtol=1e-8, atol=0.0)
    x = jax.jit(jax.vmap(lambda b: lx.linear_solve(function_of("bicgstab", a), b, solver).value))(b)
    alone = lx.linear_solve(function_of("bicgstab", a), jnp.asarray(b[0]), solver).value
    assert bits(x[0]) == bits(alone) and not np.any(x[1])


# What lineax 0.1.1 answers is behind each.
INDEFINITE = np.diag(np.where(np.arange(30) % 7 == 3, -1.0, 1.0) * (1 + 0.1 * np.arange(30)))
NAN_IN_A = np.diag([1.0, 2.0, np.nan, 4.0])
NAN_IN_B = np.array([1.0, np.nan, 1.0, 1.0])
WRONG = {
    "identity": ("bicgstab", np.eye(20), right(20), "successful", "CONVERGED_RTOL"),  # NaN
    "zero b": ("bicgstab", np.eye(20), np.zeros(20), "successful", "ZERO_RHS"),  # NaN
    "a zero in b": ("bicgstab", np.eye(3), np.array([1.0, 0, 1]), "successful", None),  # NaN
    "NaN in A": ("cg", NAN_IN_A, np.ones(4), "singular", "NONFINITE_OPERATOR"),  # x = 0
    "NaN in b": ("cg", np.eye(4), NAN_IN_B, "nonfinite_input", "NONFINITE_RHS"),  # x = 0
    "indefinite": ("cg", INDEFINITE, right(30), "singular", "INDEFINITE_OPERATOR"),  # successful
    "swap": ("bicgstab", np.array([[0.0, 1], [1, 0]]), np.array([1.0, 0]), "successful", None),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_lineax_gets_wrong_is_right(case):
    method, a, b, result, status = WRONG[case]
    solution = solve(operator_of(method, a), b, SOLVERS[method](rtol=1e-8, atol=0.0))
    assert solution.result == getattr(lx.RESULTS, result)
    if status is not None:
        assert solution.stats["status"] == KrylovStatus[status]
    assert np.isfinite(solution.value).all()
    if result == "successful":
        np.testing.assert_allclose(a @ solution.value, b, rtol=1e-7, atol=1e-12)


def test_operators_that_do_not_fit_are_refused():
    wide = lx.MatrixLinearOperator(jnp.ones((3, 4)))
    with pytest.raises(ValueError, match="square systems"):
        lx.linear_solve(wide, jnp.ones(3), sx.BiCGStab(rtol=1e-8, atol=0.0))
    plain = lx.MatrixLinearOperator(jnp.eye(3) + jnp.ones((3, 3)))
    with pytest.raises(ValueError, match="positive_semidefinite_tag"):
        lx.linear_solve(plain, jnp.ones(3), sx.CG(rtol=1e-8, atol=0.0))
    with pytest.raises(ValueError, match="symmetric_tag"):
        lx.linear_solve(plain, jnp.ones(3), sx.MINRES(rtol=1e-8, atol=0.0))
    symmetric = lx.MatrixLinearOperator(jnp.eye(3) * (1 + 1j), lx.symmetric_tag)
    with pytest.raises(ValueError, match="not Hermitian"):
        lx.linear_solve(symmetric, jnp.ones(3) + 0j, sx.MINRES(rtol=1e-8, atol=0.0))


@every_method
def test_number_of_steps_may_be_all_that_is_asked_for(method):
    a, b = dense(method), right(N)
    solution = solve(operator_of(method, a), b, SOLVERS[method](rtol=0.0, atol=0.0, max_steps=3))
    assert solution.result == lx.RESULTS.successful and solution.stats["num_steps"] == 3
    far = SOLVERS[method](rtol=0.0, atol=0.0, max_steps=500)
    solution = solve(operator_of(method, a), b, far)  # until nothing more is to be gained
    assert solution.result == lx.RESULTS.successful
    assert np.linalg.norm(b - a @ solution.value) <= 1e-14 * N * np.linalg.norm(b)
    with pytest.raises(ValueError, match="would never end"):
        SOLVERS[method](rtol=0.0, atol=0.0)


def test_number_of_steps_on_a_singular_operator_is_what_was_asked_for():
    line = jnp.diag(jnp.array([1.0, 2, 2, 1])) - jnp.eye(4, k=1) - jnp.eye(4, k=-1)
    operator = lx.MatrixLinearOperator(line, lx.positive_semidefinite_tag)
    for solver in (sx.CG, sx.MINRES, sx.FGMRES, sx.BiCGStab):
        found = solve(operator, [1.0, 2, 3, 5], solver(0.0, 0.0, max_steps=300))
        assert found.result == lx.RESULTS.successful


def test_guess_for_a_negative_operator_is_of_x():
    a, b = dense("cg"), right(N)
    operator = lx.MatrixLinearOperator(-jnp.asarray(a), lx.negative_semidefinite_tag)
    x = -np.linalg.solve(a, b)
    found = solve(operator, b, sx.CG(rtol=1e-8, atol=0.0), y0=jnp.asarray(x))
    assert found.stats["num_steps"] == 0
    np.testing.assert_array_equal(found.value, x)


@pytest.mark.parametrize(
    ("method", "preconditioner"),
    [
        ("cg", lambda a: krylov.jacobi(jnp.diag(jnp.asarray(a)))),
        ("cg", lambda a: krylov.incomplete_cholesky(CSR.of(a))),
        ("cg", lambda a: lambda x: x / jnp.diag(jnp.asarray(a))),
        ("bicgstab", lambda a: krylov.incomplete_lu(CSR.of(a))),
        ("bicgstab", lambda a: jnp.linalg.inv(jnp.asarray(a))),
        ("fgmres", lambda a: CSR.of(np.linalg.inv(a))),
        ("fgmres", lambda a: lambda x: jnp.linalg.inv(jnp.asarray(a)) @ x),
    ],
)
def test_gradients_take_any_preconditioner(method, preconditioner):
    a, b = np.asarray(dense(method, "float64")), right(N)
    m = preconditioner(a)
    solver = SOLVERS[method](rtol=1e-11, atol=0.0)

    def total(b):
        return solve(operator_of(method, a), b, solver, preconditioner=m).value.sum()

    expected = np.linalg.solve(a.T, np.ones(N))
    np.testing.assert_allclose(jax.grad(total)(jnp.asarray(b)), expected, rtol=1e-7, atol=1e-8)


def test_tolerances_may_be_arrays_and_gmres_has_another_name():
    assert sx.CG(np.float32(0.5), jnp.array(0.0)).rtol == 0.5
    with pytest.raises(AttributeError, match="FGMRES"):
        _ = sx.GMRES


def test_failure_raises_as_in_lineax():
    operator = operator_of("cg", INDEFINITE)
    with pytest.raises(Exception, match=r"(?i)singular|linear solver"):
        lx.linear_solve(operator, jnp.asarray(right(30)), sx.CG(rtol=1e-8, atol=0.0))


def test_operator_of_lineax_is_one_of_ours():
    a, b = dense("bicgstab"), right(N)
    x = krylov.solve(operator_of("bicgstab", a), b, method="bicgstab", rtol=1e-10)
    assert np.linalg.norm(b - a @ x) <= 1e-10 * np.linalg.norm(b)
