"""The solvers for lineax with all that it makes operators of, under its transformations.

The properties are those that lineax tests of its own solvers; `bench/lineax_tests.py` runs its
tests themselves, where its repository is at hand.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from systems import hermitian, more, normal

lx = pytest.importorskip("lineax")
from shardsolve import lineax as sx  # noqa: E402
from shardsolve.krylov import KrylovStatus  # noqa: E402

N = 7
POSITIVE, NEGATIVE = lx.positive_semidefinite_tag, lx.negative_semidefinite_tag
SOLVERS = {
    "cg": (sx.CG(rtol=1e-12, atol=1e-12), POSITIVE),
    "negative cg": (sx.CG(rtol=1e-12, atol=1e-12), NEGATIVE),
    "minres": (sx.MINRES(rtol=1e-12, atol=1e-12), lx.symmetric_tag),
    "bicgstab": (sx.BiCGStab(rtol=1e-12, atol=1e-12), ()),
    "fgmres": (sx.FGMRES(rtol=1e-12, atol=1e-12), ()),
}
if hasattr(lx, "Normal"):  # from lineax 0.1 on
    SOLVERS["normal cg"] = (lx.Normal(sx.CG(rtol=1e-12, atol=1e-12)), ())


def more_of(values):
    return pytest.param(*values, marks=pytest.mark.more)


every_solver = pytest.mark.parametrize(
    "solver",
    [solver if solver in ("cg", "bicgstab") else more(solver) for solver in SOLVERS],
)


def matrix(tag, dtype="float64", seed=0) -> jax.Array:
    """With that tag, and far from singular."""
    a = hermitian(N, dtype, seed) + 0.5 * np.eye(N)
    if tag == ():
        a = a + 0.2 * normal(np.random.default_rng(seed + 50), (N, N), dtype)
    if tag is NEGATIVE:
        a = -a
    if tag is lx.symmetric_tag:
        a[0, 0] -= 5.0
    return jnp.asarray(a.astype(dtype))


def vector(dtype="float64", seed=1, count=()) -> jax.Array:
    return jnp.asarray(normal(np.random.default_rng(seed), (*count, N), dtype))


def jacobian(a, tag, **options):
    def function(x, _):
        return a @ x + (x - 0.5) ** 3  # its Jacobian at 0.5 is a

    return lx.JacobianLinearOperator(function, jnp.full(N, 0.5, a.dtype), None, tag, **options)


def function(a, tag):
    return lx.FunctionLinearOperator(lambda x: a @ x, jax.ShapeDtypeStruct((N,), a.dtype), tag)


def whole(a, tag):
    return lx.MatrixLinearOperator(a, tag)


def opposite(tag):
    return {POSITIVE: NEGATIVE, NEGATIVE: POSITIVE}.get(tag, tag)


OPERATORS = {
    "matrix": whole,
    "pytree": lambda a, tag: lx.PyTreeLinearOperator(a, jax.ShapeDtypeStruct((N,), a.dtype), tag),
    "function": function,
    "jacobian": jacobian,
    "forward jacobian": lambda a, tag: jacobian(a, tag, jac="fwd"),
    "minus": lambda a, tag: lx.TaggedLinearOperator(-whole(-a, opposite(tag)), tag),
    "sum": lambda a, tag: lx.TaggedLinearOperator(
        whole(0.7 * a, tag) + function(0.3 * a, tag), tag
    ),
    "multiple": lambda a, tag: lx.TaggedLinearOperator(jacobian(0.5 * a, tag) * 2.0, tag),
    "quotient": lambda a, tag: lx.TaggedLinearOperator(jacobian(0.5 * a, tag) / 0.5, tag),
    "product": lambda a, tag: lx.TaggedLinearOperator(
        whole(a / 0.3, ()) @ lx.DiagonalLinearOperator(jnp.full(N, 0.3, a.dtype)), tag
    ),
}
CHANGES = {
    "as it is": lambda operator, a: (operator, a),
    "transposed": lambda operator, a: (operator.T, a.T),
    "linearised": lambda operator, a: (lx.linearise(operator), a),
    "materialised": lambda operator, a: (lx.materialise(operator), a),
}


def close(x, y, rtol=1e-8):
    np.testing.assert_allclose(x, y, rtol=rtol, atol=1e-9 * float(jnp.abs(y).max()))


# One of each in `make test`: the operators have little to do with the solver.
FEW = (("cg", "minus"), ("cg", "sum"), ("bicgstab", "jacobian"), ("bicgstab", "product"))
KINDS = [
    *((solver, kind, "as it is", "float64") for solver, kind in FEW),
    *(
        more_of((solver, kind, "as it is", "float64"))
        for solver in SOLVERS
        for kind in OPERATORS
        if (solver, kind) not in FEW
    ),
    *(
        more_of((solver, kind, change, "complex128"))
        for solver in SOLVERS
        for kind in ("function", "jacobian")
        for change in CHANGES
        if solver != "minres"  # complex and symmetric is not Hermitian: no word of lineax's
    ),
]


@pytest.mark.parametrize(("solver", "kind", "change", "dtype"), KINDS)
def test_every_operator_is_solved(solver, kind, change, dtype):
    solver, tag = SOLVERS[solver]
    a = matrix(tag, dtype)
    operator, a = CHANGES[change](OPERATORS[kind](a, tag), a)
    b = vector(dtype)
    solution = jax.jit(lambda b: lx.linear_solve(operator, b, solver).value)(b)
    close(solution, jnp.linalg.solve(a, b))


@every_solver
@pytest.mark.parametrize("kind", ["matrix", more("jacobian")])
@pytest.mark.parametrize("own_state", [False, more(True)])
def test_batches_of_operators_and_of_vectors_are_solved(solver, kind, own_state):
    solver, tag = SOLVERS[solver]

    def solve(a, b):
        operator = OPERATORS[kind](a, tag)
        state = {"state": solver.init(operator, {})} if own_state else {}
        return lx.linear_solve(operator, b, solver, **state).value

    a = jnp.stack([matrix(tag, seed=seed) for seed in range(3)])
    b = vector(count=(3,))
    expected = jax.vmap(lambda a, b: jnp.linalg.solve(a, b))
    close(jax.vmap(solve, (None, 0))(a[0], b), jnp.linalg.solve(a[0], b.T).T)
    close(jax.vmap(solve, (0, None))(a, b[0]), expected(a, jnp.stack([b[0]] * 3)))
    close(jax.vmap(solve)(a, b), expected(a, b))
    twice = jax.vmap(jax.vmap(solve, (None, 0)), (0, None))(a, b)
    close(twice[2], jnp.linalg.solve(a[2], b.T).T)


@every_solver
@pytest.mark.parametrize("kind", ["matrix", more("jacobian")])
@pytest.mark.parametrize("own_state", [False, more(True)])
def test_tangents_of_first_and_second_order_are_those_of_the_dense_solve(solver, kind, own_state):
    solver, tag = SOLVERS[solver]

    def ours(a, b):
        operator = OPERATORS[kind](a, tag)
        fixed = OPERATORS[kind](jax.lax.stop_gradient(a), tag)
        state = {"state": solver.init(fixed, {})} if own_state else {}
        return lx.linear_solve(operator, b, solver, **state).value

    at = (matrix(tag), vector())
    along = (matrix(tag, seed=3), vector(seed=4))

    def second(solve):
        return jax.jvp(lambda a, b: jax.jvp(solve, (a, b), along)[1], at, along)

    for u, v in zip(second(ours), second(jnp.linalg.solve), strict=True):
        close(u, v, 1e-6)
    batch = jax.vmap(lambda b: jax.jvp(lambda b: ours(at[0], b), (b,), (along[1],))[1])
    close(batch(vector(count=(2,)))[0], jnp.linalg.solve(at[0], along[1]), 1e-6)


@pytest.mark.parametrize("solver", [sx.BiCGStab, more(sx.FGMRES), sx.CG])
def test_preconditioner_is_transposed_with_the_operator(solver):
    """With the inverse as preconditioner few steps suffice, of transposed solves as well."""
    rng = np.random.default_rng(5)
    a = rng.uniform(size=(N, N)) + np.diag(np.arange(N) ** 4.0)
    tag = POSITIVE if solver is sx.CG else ()
    a = jnp.asarray(a.T @ a if solver is sx.CG else a)
    operator, m = whole(a, tag), whole(jnp.linalg.inv(a), tag)

    def solve(b):
        options = {"preconditioner": m}
        steps = solver(rtol=1e-7, atol=0.0, max_steps=3)
        return lx.linear_solve(operator, b, steps, options=options).value

    for derivative in (jax.jacfwd, jax.jacrev):
        close(derivative(solve)(vector()), jnp.linalg.inv(a), 1e-4)


@pytest.mark.parametrize(
    ("solver", "tag", "a", "status"),
    [
        (sx.CG, POSITIVE, np.diag([1.0, -2.0, 3.0]), "INDEFINITE_OPERATOR"),
        (sx.CG, NEGATIVE, np.diag([1.0, 2.0, 3.0]), "INDEFINITE_OPERATOR"),
        (sx.CG, POSITIVE, np.array([[2.0, 1, 0], [0, 2, 1], [0, 0, 2]]), "NONSYMMETRIC_OPERATOR"),
        (sx.MINRES, lx.symmetric_tag, np.array([[0.0, 1], [0, 1]]), "NONSYMMETRIC_OPERATOR"),
    ],
)
def test_tag_that_is_untrue_is_named(solver, tag, a, status):
    solution = lx.linear_solve(
        whole(jnp.asarray(a), tag), jnp.ones(len(a)), solver(rtol=1e-8, atol=0.0), throw=False
    )
    assert solution.stats["status"] == KrylovStatus[status]
    assert solution.result == lx.RESULTS.singular and np.isfinite(solution.value).all()


@pytest.mark.parametrize("solver", [sx.CG, sx.BiCGStab, more(sx.FGMRES)])
def test_singular_systems_raise(solver):
    a = np.array([[0.0, 0, 0], [0, 2, 1], [0, 1, 2]])
    tag = POSITIVE if solver is sx.CG else ()
    with pytest.raises(Exception, match=r"(?i)linear solve|singular|stagnat|maximum number"):
        lx.linear_solve(whole(jnp.asarray(a), tag), jnp.ones(3), solver(rtol=1e-12, atol=1e-12))


def test_options_that_are_traced_are_refused():
    operator = whole(jnp.eye(3), ())
    with pytest.raises(TypeError, match="rtol is traced"):
        jax.jit(
            lambda rtol: lx.linear_solve(operator, jnp.ones(3), sx.BiCGStab(rtol=rtol, atol=0.0))
        )(1e-8)
