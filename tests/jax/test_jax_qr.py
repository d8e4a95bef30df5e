"""QR and least squares from JAX: answers, derivatives, transforms, shardings, mistakes."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from jax.sharding import PartitionSpec as P
from places import PLACES
from systems import (
    BATCHES,
    DEVICES,
    DTYPES,
    WAYS,
    close,
    compiled_text,
    largest_collective,
    more,
    normal,
    put,
    row_mesh,
    scalar,
    sides,
    spread,
    unit_roundoff,
)

import shardsolve
from shardsolve import LinAlgError, SolverError, Status

M, N = 24, 7  # M is divisible by every number of devices that is tested
SHAPES = {"tall": (M, N), "wide": (N + 1, M), "square": (8, 8)}
every_dtype = pytest.mark.parametrize("dtype", DTYPES)
every_shape = pytest.mark.parametrize("shape", SHAPES)


def matrix(m: int, n: int, dtype: str = "float64", seed: int = 4) -> np.ndarray:
    return normal(np.random.default_rng(seed), (m, n), dtype)


def of_rank(rank: int, m: int, n: int, dtype: str = "float64") -> np.ndarray:
    return matrix(m, rank, dtype) @ matrix(rank, n, dtype, 5)


def positive(q, r):
    """The pair whose diagonal of r is positive."""
    phases = jnp.conj(jnp.diag(r)) / jnp.abs(jnp.diag(r))
    return q * jnp.conj(phases), phases[:, None] * r


def jnp_ridge(a, b, eps=0.3):
    return jnp.linalg.solve(a.conj().T @ a + eps * jnp.eye(a.shape[1]), a.conj().T @ b)


def jnp_lstsq(a, b):
    return jnp.linalg.lstsq(a, b)[0]


def jnp_shortest(a, b):
    """JAX's own derivative of lstsq goes through an SVD: this one does not."""
    if a.shape[0] >= a.shape[1]:
        return jnp.linalg.solve(a.conj().T @ a, a.conj().T @ b)
    return a.conj().T @ jnp.linalg.solve(a @ a.conj().T, b)


# Ours, and the same on one device by JAX.
FUNCTIONS = {
    "least_squares": (shardsolve.least_squares, jnp_shortest),
    "lstsq": (lambda a, b: shardsolve.lstsq(a, b)[0], jnp_shortest),
    "residuals": (
        lambda a, b: shardsolve.lstsq(a, b)[1],
        lambda a, b: jnp.sum(jnp.abs(b - a @ jnp_shortest(a, b)) ** 2, axis=0),
    ),
    "values": (
        lambda a, b: shardsolve.lstsq(a, b)[3],
        lambda a, b: jnp.linalg.svd(a, compute_uv=False),
    ),
    "ridge": (lambda a, b: shardsolve.ridge(a, b, 0.3), jnp_ridge),
    "pinv": (lambda a, b: shardsolve.pinv(a), lambda a, b: jnp.linalg.pinv(a)),
}
OF_QR = {
    "q": (lambda a, b: shardsolve.qr(a)[0], lambda a, b: positive(*jnp.linalg.qr(a))[0]),
    "r": (lambda a, b: shardsolve.qr(a, "r"), lambda a, b: positive(*jnp.linalg.qr(a))[1]),
}


# Answers


@every_dtype
@pytest.mark.parametrize("shape", ((1, 1), (M, N), (M, M), more((65, 9)), (600, 5)))
def test_qr_is_orthonormal_times_a_triangle_that_is_the_only_one(shape, dtype):
    a = matrix(*shape, dtype)
    q, r, info = shardsolve.qr(spread(a), full_output=True)
    q, r, u = np.asarray(q), np.asarray(r), unit_roundoff(dtype)
    assert info.status is Status.OK and info.residual < 20 * u and info.orthogonality < 100 * u
    assert np.linalg.norm(q.conj().T @ q - np.eye(len(r))) < 100 * u
    assert np.linalg.norm(q @ r - a) < 100 * u * np.linalg.norm(a)
    assert (np.diag(r).real > 0).all() and (np.diag(r).imag == 0).all()
    assert (np.tril(r, -1) == 0).all()
    assert close((q, r), positive(*np.linalg.qr(a)), 1e5)
    assert (np.asarray(shardsolve.qr(spread(a), mode="r")) == r).all()


@every_dtype
@pytest.mark.parametrize("k", (None, more(1), 5))
@every_shape
def test_qr_solutions_are_numpys(shape, k, dtype):
    m, n = SHAPES[shape]
    a, b = matrix(m, n, dtype), sides(m, k, dtype)
    x, resid, rank, s, info = shardsolve.lstsq(spread(a), b, full_output=True)
    expected = np.linalg.lstsq(a, b, rcond=None)
    u = unit_roundoff(dtype)
    assert x.shape == expected[0].shape and x.dtype == a.dtype and s.dtype == a.real.dtype
    assert close(x, expected[0], 1e5) and close(s, expected[3])
    assert int(rank) == min(m, n) and info.status is Status.OK
    assert 0 < info.backward_error < 10 * u and 0 < info.rcond <= 1
    assert resid.shape == (1 if k is None else k,)
    if m > n:
        assert np.allclose(resid, expected[1], rtol=1e4 * u)
    y, info = shardsolve.least_squares(spread(a), b, full_output=True)
    assert close(y, expected[0], 1e5) and info.backward_error < 10 * u
    z = shardsolve.ridge(spread(a), b, 0.1)
    assert close(z, np.asarray(jnp_ridge(a, b, 0.1)).astype(dtype), 1e6)
    assert close(shardsolve.pinv(spread(a)), np.linalg.pinv(a), 1e5)


@pytest.mark.parametrize("dtype", ("float64", "complex64"))
@every_shape
def test_qr_any_rank_is_numpys(shape, dtype):
    m, n = SHAPES[shape]
    a, b = of_rank(3, m, n, dtype), sides(m, 2, dtype)
    x, _, rank, s = shardsolve.lstsq(spread(a), b)
    rcond = float(np.finfo(dtype).eps) * max(m, n)
    expected = np.linalg.lstsq(a, b, rcond=rcond)
    assert int(rank) == expected[2] == 3
    assert close(x, expected[0].astype(dtype), 1e5) and close(s, expected[3])
    assert close(shardsolve.pinv(spread(a)), np.linalg.pinv(a, rcond=rcond).astype(dtype), 1e5)
    with pytest.raises(LinAlgError, match="lstsq") as caught:
        shardsolve.least_squares(spread(a), b)
    assert caught.value.status is Status.RANK_DEFICIENT
    y, info = jax.jit(functools.partial(shardsolve.least_squares, full_output=True))(a, b)
    assert np.isnan(y).all() and info.status is Status.RANK_DEFICIENT
    assert np.isnan(jax.grad(lambda a: shardsolve.lstsq(a, b)[0].real.sum())(a)).all()
    zero = shardsolve.lstsq(np.zeros((m, n), dtype), b)
    assert int(zero[2]) == 0 and not np.asarray(zero[0]).any()


def test_qr_answers_hold_no_nan_that_jax_would_find():
    with jax.debug_nans(True):
        for m, n in ((M, N), (N + 1, M)):
            a, b = matrix(m, n), sides(m)
            jax.jit(shardsolve.least_squares)(a, b)
            jax.jit(shardsolve.lstsq)(a, b)
            jax.jit(lambda a, b: shardsolve.ridge(a, b, 0.1))(a, b)
        _, info = shardsolve.qr(matrix(M, N), "r", full_output=True)
        assert info.residual == info.orthogonality == -1


def test_qr_matrix_of_pytorchs_report_has_rank_two():
    a = np.arange(1.0, 10.0).reshape(3, 3)
    x, _, rank, _ = shardsolve.lstsq(a, a)
    assert int(rank) == 2
    assert np.allclose(x, np.array([[5, 2, -1], [2, 2, 2], [-1, 2, 5]]) / 6, rtol=0, atol=1e-14)


def test_qr_rcond_that_is_asked_for_decides():
    a = np.diag([1.0, 1e-3])
    assert int(shardsolve.lstsq(a, np.ones(2), rcond=1e-2)[2]) == 1
    assert int(shardsolve.lstsq(a, np.ones(2), rcond=1e-4)[2]) == 2
    assert int(shardsolve.lstsq(a, np.ones(2), cond=1e-2)[2]) == 1  # SciPy's word


def test_qr_columns_of_any_size_are_independent():
    a = matrix(M, N) * np.logspace(150, -150, N)
    b = sides(M)
    x = np.asarray(shardsolve.least_squares(spread(a), b))
    exact = np.linalg.lstsq(matrix(M, N), b, rcond=None)[0]
    assert np.allclose(x * np.logspace(150, -150, N), exact, rtol=1e-12)


def test_qr_small_eps_costs_ridge_no_digits():
    # The Gram matrix would be off by u / eps: 1e-2 here.
    rng = np.random.default_rng(3)
    u = np.linalg.qr(rng.standard_normal((200, 10)))[0]
    v = np.linalg.qr(rng.standard_normal((10, 10)))[0]
    s, eps = np.logspace(0, -7, 10), 1e-14
    f = sides(200)
    exact = v @ (s / (s**2 + eps) * (u.T @ f))
    for a, b in ((spread((u * s) @ v.T), f),):
        assert np.linalg.norm(shardsolve.ridge(a, b, eps) - exact) < 1e-7 * np.linalg.norm(exact)
    y = rng.standard_normal(10)
    shortest = u @ (s / (s**2 + eps) * (v.T @ y))
    x = shardsolve.ridge((v * s) @ u.T, y, eps)
    assert np.linalg.norm(x - shortest) < 1e-7 * np.linalg.norm(shortest)


def test_qr_nonfinite_entry_is_named():
    a = matrix(M, N)
    a[5, 3] = np.nan
    for run in (shardsolve.qr, shardsolve.pinv, lambda a: shardsolve.lstsq(a, sides(M))):
        with pytest.raises(LinAlgError, match=r"matrix holds .* row 5, column 3") as caught:
            run(spread(a))
        assert caught.value.status is Status.NONFINITE_INPUT
    with pytest.raises(LinAlgError, match="right-hand side holds a NaN or an infinity at row 3"):
        shardsolve.least_squares(matrix(M, N), np.where(np.arange(M) == 3, np.inf, 1.0))


# Shardings


@pytest.mark.parametrize("way", (more("eager"), "jit"))
@pytest.mark.parametrize("place", PLACES)
def test_qr_of_matrix_anywhere_is_numpys(place, way):
    a, b = matrix(M, 12, "complex128"), sides(M, 2, "complex128")
    run = jax.jit if way == "jit" else lambda f: f
    x = run(shardsolve.least_squares)(PLACES[place](a), b)
    assert close(x, np.linalg.lstsq(a, b, rcond=None)[0])
    q, r = run(shardsolve.qr)(PLACES[place](a))
    assert close((q, r), positive(*np.linalg.qr(a)))


@pytest.mark.parametrize("place", ("rows", "columns", "replicated", more("blocks")))
def test_qr_of_fewer_rows_anywhere_is_numpys(place):
    a, b = matrix(12, M, "complex128"), sides(12, 2, "complex128")
    x = jax.jit(shardsolve.least_squares)(PLACES[place](a), b)
    assert close(x, np.linalg.lstsq(a, b, rcond=None)[0])
    assert close(shardsolve.ridge(PLACES[place](a), b, 0.3), np.asarray(jnp_ridge(a, b)))


@pytest.mark.devices
@pytest.mark.parametrize("m", (2 * DEVICES + 1, 5 * DEVICES - 1))
def test_qr_size_that_does_not_divide_is_numpys(m):
    a, b = matrix(m, 3), sides(m, 2)
    expected = np.linalg.lstsq(a, b, rcond=None)[0]
    assert close(shardsolve.least_squares(a, b, mesh=row_mesh()), expected)
    run = jax.jit(functools.partial(shardsolve.least_squares, mesh=row_mesh()))
    assert close(run(a, b), expected)
    assert close(shardsolve.qr(a, mesh=row_mesh()), positive(*np.linalg.qr(a)))


@pytest.mark.devices
def test_qr_keeps_the_rows_of_q_where_those_of_a_are():
    a = put(matrix(M, N), row_mesh(), "x", None)
    q, r = jax.jit(shardsolve.qr)(a)
    assert q.sharding.is_equivalent_to(a.sharding, 2) and r.sharding.is_fully_replicated
    assert jax.jit(shardsolve.least_squares)(a, sides(M)).sharding.is_fully_replicated
    assert [len(one.data[0]) for one in shardsolve.pinv(a).addressable_shards] == [
        M // DEVICES
    ] * DEVICES


@pytest.mark.devices
@every_dtype
@pytest.mark.parametrize("way", ("eager", "jit", "explicit", "inside"))
@pytest.mark.parametrize("shape", ((M, M), (M, M - DEVICES), (M + 1, M), (4 * M, 4 * M)))
def test_qr_of_a_nearly_square_matrix_is_the_only_one(shape, way, dtype):
    m, n = shape
    a = matrix(m, n, dtype)
    if m % DEVICES and way in ("explicit", "inside"):
        pytest.skip("rows that are not cut evenly")
    if way == "inside":
        specs = {"in_specs": P("x", None), "out_specs": (P("x", None), P()), "check_vma": False}
        factor = functools.partial(shardsolve.qr, axis_name="x")
        q, r = jax.jit(jax.shard_map(factor, mesh=row_mesh(), **specs))(a)
    else:
        run, place = WAYS[way]
        q, r = run(shardsolve.qr)(place(a))
    assert q.shape == a.shape and r.shape == (n, n)
    assert close((q, r), positive(*np.linalg.qr(a)), 1e5)
    assert (np.tril(np.asarray(r), -1) == 0).all()


@pytest.mark.devices
def test_qr_of_a_nearly_square_matrix_is_nowhere_whole():
    n = 64 * DEVICES
    a = put(matrix(n, n), row_mesh(), "x", None)
    q, r = jax.jit(shardsolve.qr)(a)
    assert q.sharding.is_equivalent_to(a.sharding, 2)
    assert r.sharding.is_equivalent_to(a.sharding, 2)
    assert (np.asarray(shardsolve.qr(a, "r")) == np.asarray(r)).all()
    assert largest_collective(compiled_text(shardsolve.qr, a)) < a.size // DEVICES
    some = matrix(n, n - DEVICES)
    q, r = jax.jit(shardsolve.qr)(put(some, row_mesh(), "x", None))
    assert close((q, r), positive(*np.linalg.qr(some)), 1e5)


@pytest.mark.parametrize("function", OF_QR)
@pytest.mark.parametrize("way", ("eager", "jit", "explicit"))
@pytest.mark.parametrize("shape", ((M, M), (M, M - 4)))
def test_qr_gradient_of_a_nearly_square_matrix_is_that_of_jnp(shape, way, function):
    run, place = WAYS[way]
    ours, theirs = OF_QR[function]
    a = matrix(*shape) + 3 * np.eye(*shape)
    gradient = run(jax.grad(scalar(ours)))(place(a), None)
    assert close(gradient, jax.grad(scalar(theirs))(a, None), 1e7)


def test_qr_vmap_of_a_nearly_square_matrix_is_that_of_jnp():
    a = np.stack([matrix(8, 7, seed=seed) for seed in range(3)])
    assert close(jax.vmap(shardsolve.qr)(a), jax.vmap(lambda a: positive(*jnp.linalg.qr(a)))(a))


@pytest.mark.parametrize("shape", ("tall", "wide"))
def test_qr_inside_of_a_shard_map_cut_rows_are_one_matrix(shape):
    m, n = {"tall": (M, N), "wide": (12, M)}[shape]
    a, b = matrix(m, n), sides(m, 2)

    def run(a, b):
        solve = functools.partial(shardsolve.least_squares, axis_name="x")
        x = solve(a, b)
        slope = jax.grad(lambda a, b: jnp.sum(solve(a, b) ** 2), argnums=(0, 1))(a, b)
        return x[None], *slope

    specs = (P("x", None), P("x", None))
    x, da, db = jax.jit(
        jax.shard_map(
            run, mesh=row_mesh(), in_specs=specs, out_specs=(P("x"), *specs), check_vma=False
        )
    )(a, b)
    assert close(x[0], np.linalg.lstsq(a, b, rcond=None)[0])
    expected = jax.grad(lambda a, b: jnp.sum(jnp_shortest(a, b) ** 2), argnums=(0, 1))(a, b)
    # each device has the whole of x: the gradient of the sum of all
    assert close((da, db), jax.tree.map(lambda one: DEVICES * one, expected), 1e6)


# Derivatives and transforms


@pytest.mark.parametrize("function", (*FUNCTIONS, *OF_QR))
@pytest.mark.parametrize("way", (more("eager"), "jit", "explicit", more("one_device")))
def test_qr_gradient_is_that_of_jnp(function, way):
    run, place = WAYS[way]
    ours, theirs = {**FUNCTIONS, **OF_QR}[function]
    a, b = matrix(M, N), sides(M, 2)
    gradient = run(jax.grad(scalar(ours), argnums=(0, 1)))(place(a), place(b))
    assert close(gradient, jax.grad(scalar(theirs), argnums=(0, 1))(a, b), 1e6)


@pytest.mark.devices
@pytest.mark.parametrize("function", (*FUNCTIONS, *OF_QR))
def test_qr_gradient_leaves_the_matrix_cut(function):
    m = 1024 * DEVICES  # fewer are gathered
    a, b = spread(matrix(m, 3)), spread(sides(m))
    ours, _ = (FUNCTIONS | OF_QR)[function]
    gradient = jax.grad(lambda a: jnp.sum(jnp.sin(ours(a, b))))
    assert largest_collective(compiled_text(gradient, a)) < a.size // DEVICES


@pytest.mark.parametrize("shape", ("tall", "wide"))
def test_qr_second_derivatives_of_ridge_are_there_for_any_matrix(shape):
    m, n = SHAPES[shape]
    a = of_rank(min(m, n) - 2, m, n)
    a[:, 1] = 0
    b, d = matrix(m, 2), matrix(m, n, seed=9)

    def second(ridge, a, b, d):
        f = jax.grad(lambda t, eps: jnp.sum(ridge(a + t * d, b, eps) ** 3), argnums=(0, 1))
        return np.array(jax.jacfwd(f, argnums=(0, 1))(0.0, 0.3))

    expected = second(jnp_ridge, a, b, d)
    assert close(second(shardsolve.ridge, *map(spread, (a, b, d))), expected, 1e6)


def test_qr_second_derivatives_of_equal_values_are_nan():
    """They were made with 1 / rounding."""
    q = np.linalg.qr(matrix(4, 4))[0]
    a = (q * [1, 1, 2, 3]) @ np.linalg.qr(matrix(4, 4, seed=5))[0]
    d = matrix(4, 4, seed=6)

    def f(t):
        return jnp.sum(shardsolve.lstsq(a + t * d, np.ones(4))[3] ** 2)

    assert np.isfinite(jax.grad(f)(0.0))
    assert np.isnan(jax.hessian(f)(0.0))


@pytest.mark.parametrize("function", ("least_squares", "lstsq", "values", "ridge", "pinv"))
@pytest.mark.parametrize("way", ("explicit", more("jit")))
def test_qr_gradient_of_fewer_rows_is_that_of_jnp(function, way):
    run, place = WAYS[way]
    ours, theirs = FUNCTIONS[function]
    a, b = matrix(12, M), sides(12, 2)
    gradient = run(jax.grad(scalar(ours), argnums=(0, 1)))(place(a), place(b))
    assert close(gradient, jax.grad(scalar(theirs), argnums=(0, 1))(a, b), 1e6)


@pytest.mark.parametrize("function", (*FUNCTIONS, *OF_QR))
@pytest.mark.parametrize("transform", (more("grad"), "jvp", "hessian_vector"))
def test_qr_transform_of_complex_numbers_is_that_of_jnp(function, transform):
    ours, theirs = {**FUNCTIONS, **OF_QR}[function]
    a, b = matrix(9, 4, "complex128"), sides(9, 2, "complex128")
    da, db = matrix(9, 4, "complex128", 7), sides(9, 2, "complex128", 8)

    def transformed(f):
        if transform == "grad":
            return jax.grad(scalar(f), argnums=(0, 1))(a, b)
        if transform == "jvp":
            return jax.jvp(f, (a, b), (da, db))
        return jax.jvp(jax.grad(scalar(f), argnums=(0, 1)), (a, b), (da, db))

    assert close(transformed(ours), transformed(theirs), 1e7)


@pytest.mark.parametrize("part", (lambda a: shardsolve.qr(a)[1], lambda a: shardsolve.qr(a)[0]))
def test_qr_gradient_of_columns_that_depend_on_each_other_is_nan(part):
    gradient = jax.grad(lambda a: jnp.sum(jnp.sin(part(a))))
    assert np.isnan(gradient(spread(of_rank(2, M, N)))).all()
    columns = matrix(M, N) * 10.0 ** -np.arange(N)  # of different sizes, which does no harm
    assert np.isfinite(gradient(spread(columns))).all()


def test_qr_gradient_of_pinv_is_nan_where_rcond_cuts_more_than_rounding():
    a = np.diag([2.0, 1.5, 0.5])
    gradient = jax.grad(lambda a, rcond: shardsolve.pinv(a, rcond)[0, 2])
    assert np.isnan(gradient(a, 0.4)).all()
    assert close(gradient(a, 0.2), jax.grad(lambda a: jnp.linalg.inv(a)[0, 2])(a))
    of_constant_rank = jax.grad(lambda a: jnp.sum(shardsolve.pinv(a, 0.4)))
    assert np.isfinite(of_constant_rank(np.diag([2.0, 1.5, 0.0]))).all()


@every_shape
def test_qr_ridge_is_differentiable_by_eps(shape):
    m, n = SHAPES[shape]
    a, b = matrix(m, n), sides(m)
    slope = jax.jit(jax.grad(lambda eps: jnp.sum(shardsolve.ridge(a, b, eps) ** 2)))(0.3)
    assert close(slope, jax.grad(lambda eps: jnp.sum(jnp_ridge(a, b, eps) ** 2))(0.3), 1e5)


@pytest.mark.parametrize("axes", BATCHES)
def test_qr_vmap_is_that_of_jnp(axes):
    of_a, of_b = BATCHES[axes]
    a = np.stack([matrix(8, 3, seed=seed) for seed in range(3)]) if of_a == 0 else matrix(8, 3)
    b = sides(8, 3)
    b = b[:, 0] if of_b is None else (b.T.copy() if of_b == 0 else b)
    for name in ("least_squares", "ridge"):
        ours, theirs = FUNCTIONS[name]
        value = jax.jit(jax.vmap(ours, BATCHES[axes]))(a, b)
        assert close(value, jax.vmap(theirs, BATCHES[axes])(a, b))
        gradient = jax.vmap(jax.grad(scalar(ours)), BATCHES[axes])(a, b)
        assert close(gradient, jax.vmap(jax.grad(scalar(theirs)), BATCHES[axes])(a, b), 1e6)


# Mistakes


def test_qr_mistakes_are_named():
    a, b = matrix(M, N), sides(M)
    with pytest.raises(ValueError, match="qr takes at least as many rows as columns"):
        shardsolve.qr(a.T)
    with pytest.raises(ValueError, match="mode is 'complete'; pass 'reduced'"):
        shardsolve.qr(a, "complete")
    with pytest.raises(ValueError, match="pass a matrix with rows and columns"):
        shardsolve.least_squares(np.zeros((0, 3)), np.zeros(0))
    with pytest.raises(ValueError, match="pass a matrix with rows and columns"):
        shardsolve.lstsq(b, b)
    with pytest.raises(ValueError, match=r"b has shape \(23,\)"):
        shardsolve.least_squares(a, b[:-1])
    with pytest.raises(TypeError, match="b has dtype float32"):
        shardsolve.lstsq(a, b.astype("float32"))
    with pytest.raises(TypeError, match="a has dtype int"):
        shardsolve.qr(np.ones((3, 2), dtype=int))
    for rcond in (0, 1.0, -1, np.nan):
        with pytest.raises(ValueError, match=r"rcond is .* pass a number between 0 and 1"):
            shardsolve.lstsq(a, b, rcond)
    with pytest.raises(TypeError, match="rcond is traced"):
        jax.jit(shardsolve.lstsq)(a, b, 0.1)
    for eps in (1j, np.inf, np.nan, "a", None, np.ones(2)):
        with pytest.raises(ValueError, match="pass a positive number"):
            shardsolve.ridge(np.eye(2), np.ones(2), eps)
    with pytest.raises(ValueError, match="eps is -1; pass a positive number"):
        shardsolve.ridge(a, b, -1)
    with pytest.raises(SolverError, match="eps is -1"):
        value, info = jax.jit(functools.partial(shardsolve.ridge, full_output=True))(a, b, -1.0)
        assert np.isnan(value).all()
        raise SolverError(info.message, info.status)
    with pytest.raises(TypeError, match="columns are not exchanged"):
        shardsolve.qr(a, pivoting=True)
    with pytest.raises(TypeError, match="lstsq takes rcond"):
        shardsolve.least_squares(a, b, rcond=0.1)


def test_qr_agrees_with_scipys_words():
    a, b = matrix(M, N), sides(M)
    assert close(
        shardsolve.lstsq(a, b, lapack_driver=None, check_finite=True)[0],
        scipy.linalg.lstsq(a, b)[0],
    )


@pytest.mark.parametrize("place", (jnp.asarray, spread), ids=("one", "spread"))
@pytest.mark.parametrize(
    ("dtype", "scale"), (("float32", 1e-37), ("float64", 1e-307), ("float64", 1e300))
)
def test_qr_pinv_is_right_near_the_ends_of_the_range(dtype, scale, place):
    a = matrix(16, 12, dtype)
    wide = np.asarray(shardsolve.pinv(place((a * scale).astype(dtype))), dtype=np.longdouble)
    assert close((wide * scale).astype(dtype), np.linalg.pinv(a), 1e5)


@pytest.mark.parametrize("place", (jnp.asarray, spread), ids=("one", "spread"))
@pytest.mark.parametrize("dtype", ("float32", "float64"))
def test_qr_pinv_where_the_largest_singular_value_is_at_the_end_of_the_range(dtype, place):
    """It was 0: a power of two below the range stood for what is in it."""
    u, v = (np.linalg.qr(matrix(8, 8, dtype))[0] for _ in range(2))
    values = np.logspace(0, -4, 8).astype(dtype)
    largest = np.finfo(dtype).max * values.dtype.type(0.9)
    found = np.asarray(shardsolve.pinv(place((u * (values * largest)) @ v.T)), dtype=np.longdouble)
    assert close((found * largest).astype(dtype), (v / values) @ u.T, 1e9)


def test_qr_of_one_device_keeps_a_column_of_subnormal_numbers():
    a = np.eye(8) + 0.1
    a[:, 3] = np.arange(1, 9) * 1e-310
    q, r = (np.asarray(one, dtype=np.longdouble) for one in shardsolve.qr(jnp.asarray(a)))
    lost = np.linalg.norm((q @ r - a)[:, 3]) / np.linalg.norm(a[:, 3].astype(np.longdouble))
    assert lost < 1e-12


@pytest.mark.parametrize("place", (jnp.asarray, spread), ids=("one", "spread"))
@pytest.mark.parametrize("function", ("least_squares", "lstsq"))
@pytest.mark.parametrize(
    ("dtype", "powers"), (("float32", (62, 66, -62, -66)), ("float64", (515, -515)))
)
def test_qr_gradient_does_not_depend_on_the_scale(dtype, powers, function, place):
    """Squares of the matrix left the range: 98 % were wrong, or infinite."""
    a, b = matrix(12, 3, dtype), sides(12, 1, dtype)[:, 0]

    def gradient(power):
        def weighted(a):
            found = getattr(shardsolve, function)(a, scaled_b)
            return jnp.sum((found[0] if function == "lstsq" else found) * jnp.arange(1, 4))

        scaled_b = np.ldexp(b, power)
        found = jax.jit(jax.grad(weighted))(place(np.ldexp(a, power)))
        return np.ldexp(np.asarray(found, "longdouble"), power)

    wanted = gradient(0)
    for power in powers:
        assert np.abs(gradient(power) - wanted).max() < 1e4 * unit_roundoff(dtype)


def test_qr_rank_that_is_not_known_is_none_inside_of_jit():
    a = np.eye(4, 3)
    a[1, 2] = np.nan
    assert int(jax.jit(shardsolve.lstsq)(a, np.ones(4))[2]) == -1


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("place", [spread, jnp.asarray])
def test_qr_pinv_that_leaves_the_range_says_so(dtype, place):
    real = np.finfo(dtype)
    ones = np.eye(N, dtype=dtype)
    for size, status in ((real.max / 2, Status.UNDERFLOW), (real.tiny / 64, Status.OVERFLOW)):
        a = place((ones * size).astype(dtype))
        with pytest.raises(LinAlgError) as caught:
            shardsolve.pinv(a)
        assert caught.value.status is status
        assert np.isnan(jax.jit(shardsolve.pinv)(a)).all()
    near = (ones * (real.max / 8)).astype(dtype)
    assert np.allclose(shardsolve.pinv(place(near)) @ near, ones, atol=1e-6)


def test_qr_tolerance_is_the_number_that_is_given():
    a, b = jnp.diag(jnp.array([1, 0.1], "float32")), jnp.ones(2, "float32")
    assert 0.1 < float(a[1, 1]) < 0.1 + 1e-8
    assert int(shardsolve.matrix_rank(a, 0.1)) == int(shardsolve.lstsq(a, b, 0.1)[2]) == 2
    assert np.allclose(shardsolve.pinv(a, 0.1), [[1, 0], [0, 10]])
    one = jnp.eye(3, dtype="float32")
    assert int(shardsolve.matrix_rank(one, 1 - 1e-12)) == 3
    assert np.array_equal(shardsolve.pinv(one, 1 - 1e-12), one)
    assert int(shardsolve.matrix_rank(one, 1)) == 0
