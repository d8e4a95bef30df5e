"""General square matrices from JAX: answers, derivatives, transforms, shardings, mistakes."""

import copy
import functools
import pickle

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
    general,
    more,
    put,
    row_mesh,
    scalar,
    sides,
    solve_ratio,
    solves,
    spread,
    spread_batch,
    unit_roundoff,
)

import shardsolve
from shardsolve import LinAlgError, Status

N = 24
solve = functools.partial(shardsolve.solve, assume_a="gen")
inv = functools.partial(shardsolve.inv, assume_a="gen")
OPS = {0: lambda a: a, 1: lambda a: a.T, 2: lambda a: a.conj().T}


def slogdet(a, b):
    return shardsolve.slogdet(a, assume_a="gen")


# Ours, and the same on one device by JAX.
FUNCTIONS = {
    "solve": (solve, jnp.linalg.solve),
    "lu_solve": (
        lambda a, b: shardsolve.lu_solve(shardsolve.lu_factor(a), b),
        jnp.linalg.solve,
    ),
    "lu_solve_transposed": (
        lambda a, b: shardsolve.lu_solve(shardsolve.lu_factor(a), b, trans=1),
        lambda a, b: jnp.linalg.solve(a.T, b),
    ),
    "lu_solve_adjoint": (
        lambda a, b: shardsolve.lu_solve(shardsolve.lu_factor(a), b, trans=2),
        lambda a, b: jnp.linalg.solve(jnp.conj(a.T), b),
    ),
    "slogdet": (
        lambda a, b: slogdet(a, b)[1] * b,
        lambda a, b: jnp.linalg.slogdet(a)[1] * b,
    ),
    "sign": (
        lambda a, b: slogdet(a, b)[0] * b,
        lambda a, b: jnp.linalg.slogdet(a)[0] * b,
    ),
    "inv": (lambda a, b: inv(a) @ b, lambda a, b: jnp.linalg.inv(a) @ b),
    "det": (lambda a, b: shardsolve.det(a) * b, lambda a, b: jnp.linalg.det(a) * b),
}
every_function = pytest.mark.parametrize("function", FUNCTIONS)
every_dtype = pytest.mark.parametrize("dtype", DTYPES)


# Answers


@every_dtype
@pytest.mark.parametrize("k", (None, 1, 5))
@pytest.mark.parametrize("n", (1, 7, more(N), 65))
def test_lu_solve_of_general_matrix_passes_gate_and_certifies_it(n, k, dtype):
    a, b = general(n, dtype), sides(n, k, dtype)
    x, info = solve(spread(a), b, full_output=True)
    assert solves(a, x, b)
    assert info.status is Status.OK and info.message == ""
    u = unit_roundoff(dtype)
    true = solve_ratio(a, x, b) * u
    assert 0.9 * true - 0.01 * u <= info.backward_error <= 1.2 * true + u
    exact = 1 / np.linalg.cond(a.astype(np.complex128), 1)
    assert 0.999 * exact <= info.rcond <= 3.5 * exact


@every_dtype
@pytest.mark.parametrize("trans", OPS)
def test_lu_solve_with_a_kept_factor_every_trans_is_scipys(trans, dtype):
    a, b = general(N, dtype), sides(N, 3, dtype)
    factor = shardsolve.lu_factor(spread(a))
    assert factor.shape == a.shape and factor.dtype == a.dtype
    assert factor.info.status is Status.OK
    x, info = shardsolve.lu_solve(factor, b, trans, full_output=True)
    assert solves(OPS[trans](a), x, b)
    assert info.backward_error < 10 * unit_roundoff(dtype)
    theirs = scipy.linalg.lu_solve(scipy.linalg.lu_factor(a), b, trans)
    assert np.abs(x - theirs).max() <= 1e5 * unit_roundoff(dtype) * np.abs(theirs).max()


@every_dtype
@pytest.mark.parametrize("n", (2, 3, 8, N))
def test_lu_slogdet_and_det_are_numpys_with_their_sign(n, dtype):
    for seed in range(4):
        a = general(n, dtype, seed)
        sign, log = slogdet(spread(a), None)
        expected = np.linalg.slogdet(a.astype(np.result_type(a, np.float64)))
        bound = 1e4 * unit_roundoff(dtype)
        assert sign.dtype == a.dtype and log.dtype == a.real.dtype
        assert abs(sign - expected[0]) < bound
        assert abs(log - expected[1]) < bound * max(1, abs(expected[1]))
        det = np.linalg.det(a.astype(np.result_type(a, np.float64)))
        assert abs(shardsolve.det(a) - det) < bound * abs(det)
    assert shardsolve.det(np.zeros((0, 0), dtype)) == 1


def test_lu_determinant_that_overflows_has_no_nan():
    large = np.finfo(np.float64).max
    assert shardsolve.det(np.diag([large + 0j, large])) == complex(np.inf, 0)
    assert shardsolve.det(np.diag([large * 1j, large])) == complex(0, np.inf)
    assert shardsolve.det(np.diag([large, -large])) == -np.inf


def test_lu_singular_matrix_is_named_and_its_determinant_is_zero():
    ones = np.ones((3, 3))
    with pytest.raises(LinAlgError, match="singular: at step 2") as caught:
        solve(ones, np.ones(3))
    assert caught.value.status is Status.SINGULAR and caught.value.pivot == 1
    assert pickle.loads(pickle.dumps(caught.value)).pivot == 1
    with pytest.raises(LinAlgError, match="singular"):
        shardsolve.lu_factor(ones)
    assert tuple(map(float, slogdet(ones, None))) == (0.0, -np.inf)
    assert shardsolve.det(ones) == 0
    assert shardsolve.cond(ones, 1, assume_a="gen") == np.inf
    x, info = jax.jit(functools.partial(solve, full_output=True))(ones, np.ones(3))
    assert np.isnan(x).all() and info.status is Status.SINGULAR and int(info.pivot) == 1
    assert np.isnan(jax.grad(lambda a: slogdet(a, None)[1])(ones)).all()
    assert np.isnan(jax.jit(jax.grad(lambda a: solve(a, jnp.ones(3)).sum()))(ones)).all()


def test_lu_nearly_singular_matrix_has_an_answer_and_says_so():
    a = scipy.linalg.hilbert(16)
    x, info = solve(a, np.ones(16), full_output=True)
    assert info.status is Status.NEARLY_SINGULAR and "none of its digits" in info.message
    assert solves(a, x, np.ones(16))
    assert solves(a, solve(a, np.ones(16)), np.ones(16))


@pytest.mark.parametrize(("n", "off", "diagonal", "seed"), [(16, 3, 1e-3, 188), (10, 3, 1e-3, 416)])
def test_lu_factor_far_from_its_matrix_says_nothing_of_the_inverse(n, off, diagonal, seed):
    """Elimination by rows is no exact one of such a triangle: x had no digit, and was OK."""
    rng = np.random.default_rng(seed)
    a = np.triu(rng.standard_normal((n, n)), 1) * off + np.eye(n) * diagonal
    b = rng.standard_normal((n, 1))
    # Whether the last pivot is 0 is a matter of rounding, which differs from CPU to CPU.
    for place in (jnp.asarray, spread):
        status = solve(place(a), b, full_output=True)[1].status
        assert status in (Status.NEARLY_SINGULAR, Status.SINGULAR)


@pytest.mark.parametrize("place", ("last_device", "rows"))
@every_dtype
def test_lu_units_of_equations_and_unknowns_cost_no_digits(dtype, place):
    u, double = unit_roundoff(dtype), np.finfo(dtype).bits == 64
    a, x = general(N, dtype), sides(N, 3, dtype)
    units = np.ldexp(1.0, np.linspace(-300, 300, N).astype(int) // (1 if double else 10))
    units = units.astype(x.real.dtype)
    put_there = PLACES[place]

    def distance(found):
        return np.max(np.abs(found - x), axis=0).max() / np.abs(x).max()

    rows, b = units[:, None] * a, units[:, None] * (a @ x)
    found, info = solve(put_there(rows), b, full_output=True)
    assert info.status is Status.OK and info.rcond < 2 * u
    assert distance(found) < 1e4 * u
    factor = shardsolve.lu_factor(put_there(a * units))  # whose transposes have such rows
    for trans in (1, 2):
        b = units[:, None] * (OPS[trans](a) @ x)
        found, info = shardsolve.lu_solve(factor, b, trans=trans, full_output=True)
        assert info.status is Status.OK and info.rcond < 2 * u
        assert distance(found) < 1e4 * u
    batch = np.stack([b, 2 * b])
    of_each = jax.vmap(lambda b: shardsolve.lu_solve(factor, b, trans=2, full_output=True))
    assert (np.asarray(of_each(batch)[1].verdict)[..., 0] == Status.OK).all()
    kernel = scipy.linalg.hilbert(N).astype(dtype)
    assert solve(put_there(units[:, None] * kernel), units.astype(dtype), full_output=True)[
        1
    ].status is (Status.NEARLY_SINGULAR)


@pytest.mark.parametrize("place", ("last_device", "rows"))
@pytest.mark.parametrize("dtype", DTYPES)
def test_lu_growth_is_answered_by_qr(dtype, place):
    n = 64
    a = np.eye(n) - np.tril(np.ones((n, n)), -1)
    a[:, -1] = 1
    # Rows of ours are eliminated as columns: the transpose is the one that grows.
    a, b = a.T.astype(dtype), sides(n, 3, dtype)
    factor = shardsolve.lu_factor(PLACES[place](a))
    for trans, op in OPS.items():
        x, info = shardsolve.lu_solve(factor, b, trans=trans, full_output=True)
        assert info.status is Status.OK
        assert solves(op(a), x, b)
    assert 0.1 < float(shardsolve.cond(factor, 1)) / np.linalg.cond(a, 1) < 10


def grown_out_of_the_range():
    n = 152  # which grows to 2^151
    a = np.eye(n, dtype="float32") - np.tril(np.ones((n, n), "float32"), -1)
    a[:, -1] = 1
    return a.T


@pytest.mark.parametrize("way", ("eager", "jit"))
@pytest.mark.parametrize("place", ("last_device", "rows"))
def test_lu_growth_out_of_the_range_is_answered_by_qr(place, way):
    a = grown_out_of_the_range()
    b = sides(len(a), 3, "float32")
    run = functools.partial(solve, full_output=True)
    x, info = (run if way == "eager" else jax.jit(run))(PLACES[place](a), b)
    assert info.status is Status.OK and 1e-4 < info.rcond <= 1
    assert solves(a, x, b)


def test_lu_growth_out_of_the_range_in_a_batch_is_answered_by_qr():
    a = np.stack([grown_out_of_the_range(), general(152, "float32")])
    b = np.stack([sides(152, 3, "float32")] * 2)
    x, info = jax.jit(jax.vmap(functools.partial(solve, full_output=True)))(a, b)
    assert (np.asarray(info.verdict)[:, 0] == Status.OK).all()
    assert all(solves(*one) for one in zip(a, x, b, strict=True))


@pytest.mark.parametrize("place", ("last_device", "rows"))
def test_lu_growth_out_of_the_range_leaves_no_factor(place):
    a = PLACES[place](grown_out_of_the_range())
    for run in (shardsolve.lu_factor, shardsolve.det):
        with pytest.raises(LinAlgError, match="does not fit the range") as caught:
            run(a)
        assert caught.value.status is Status.OVERFLOW


@pytest.mark.parametrize("place", ("last_device", "rows"))
@pytest.mark.parametrize("dtype", ("float32", "complex128"))
def test_lu_subnormal_pivots_cost_no_answer(dtype, place):
    tiny = np.finfo(dtype).tiny / 64
    all_tiny = np.diag(np.full(8, 2 * tiny)) + np.diag(np.full(7, tiny), 1)
    for a in (all_tiny, np.diag([1, 1, 1, 1, 1, 1, 1, tiny]), np.diag([tiny, 1, 1, 1, 1, 1, 1, 1])):
        a = a.astype(dtype)
        expected = np.array([1, 2, 1, 3, 1, 2, 1, 3], dtype)
        x, info = solve(PLACES[place](a), a @ expected, full_output=True)
        assert info.status is Status.OK and info.rcond > 1e-3
        assert np.allclose(x, expected, rtol=100 * np.finfo(dtype).eps)
        _, info = solve(PLACES[place](a), np.ones(8, dtype), full_output=True)
        assert info.status is Status.OVERFLOW


def test_lu_nonfinite_entry_is_named():
    a = general(N)
    a[5, 7] = np.nan
    with pytest.raises(LinAlgError, match="row 5, column 7") as caught:
        solve(spread(a), sides(N))
    assert caught.value.status is Status.NONFINITE_INPUT
    with pytest.raises(LinAlgError, match="right-hand side holds a NaN or an infinity at row 3"):
        solve(spread(general(N)), np.where(np.arange(N) == 3, np.inf, 1.0))


def test_lu_cond_is_that_of_the_one_norm():
    a = general(N) @ np.diag(np.logspace(0, 3, N))  # whose infinity norm differs
    expected = np.linalg.cond(a, 1)
    assert expected / 3.5 < float(shardsolve.cond(spread(a), 1, assume_a="gen")) < 1.1 * expected
    factor = shardsolve.lu_factor(a)
    assert expected / 3.5 < float(shardsolve.cond(factor, 1)) < 1.1 * expected


def test_lu_cond_of_a_factor_in_the_place_of_its_matrix():
    def of_factor(a):
        return shardsolve.cond(shardsolve.lu_factor(jnp.array(a), overwrite_a=True), 1)

    assert np.isclose(of_factor(np.diag(np.logspace(-100, 0, 12))), 1e100)
    grows = np.eye(70) - np.tril(np.ones((70, 70)), -1)
    grows[:, -1] = 1
    with pytest.raises(shardsolve.LinAlgError, match="row exchanges"):
        of_factor(grows.T)


@pytest.mark.parametrize("k", (None, 3))
def test_lu_empty_system_has_an_empty_answer(k):
    a = np.zeros((0, 0))
    assert solve(a, sides(0, k)).shape == sides(0, k).shape
    assert tuple(map(float, slogdet(a, None))) == (1.0, 0.0)


# Shardings


@pytest.mark.parametrize("way", ("eager", "jit"))
@pytest.mark.parametrize("place", PLACES)
def test_lu_solve_of_matrix_anywhere_passes_gate(place, way):
    a, b = general(N, "complex128"), sides(N, 2, "complex128")
    run = jax.jit(solve) if way == "jit" else solve
    assert solves(a, run(PLACES[place](a), b), b)


@pytest.mark.parametrize("place", ("rows", "columns", "blocks", more("rows_along_y")))
def test_lu_factor_made_anywhere_serves_every_function(place):
    a, b = general(N, "complex128"), sides(N, 2, "complex128")
    factor = shardsolve.lu_factor(PLACES[place](a))
    for trans, op in OPS.items():
        assert solves(op(a), shardsolve.lu_solve(factor, b, trans), b)
    assert close(shardsolve.slogdet(factor), tuple(np.linalg.slogdet(a)))
    assert np.isfinite(shardsolve.cond(factor, 1))


@pytest.mark.devices
@pytest.mark.parametrize("n", (DEVICES + 1, 5 * DEVICES - 1))
def test_lu_size_that_does_not_divide_passes_gate(n):
    a, b = general(n), sides(n, 2)
    assert solves(a, solve(a, b, mesh=row_mesh()), b)
    assert solves(a, jax.jit(functools.partial(solve, mesh=row_mesh()))(a, b), b)


def test_lu_inside_of_a_shard_map_cut_rows_are_one_system():
    a, b = general(N), sides(N, 2)

    def run(a, b):
        sign, log = shardsolve.slogdet(a, assume_a="gen", axis_name="x")
        return (
            solve(a, b, axis_name="x"),
            jax.grad(lambda a: shardsolve.slogdet(a, assume_a="gen", axis_name="x")[1])(a),
            sign[None],
            log[None],
        )

    specs = (P("x", None), P("x", None))
    x, slope, sign, log = jax.jit(
        jax.shard_map(
            run,
            mesh=row_mesh(),
            in_specs=specs,
            out_specs=(*specs, P("x"), P("x")),
            check_vma=False,
        )
    )(a, b)
    assert solves(a, x, b)
    # each device has the whole determinant: the gradient of the sum of all
    assert close(slope, DEVICES * np.linalg.inv(a).T)
    assert np.allclose(sign, np.linalg.slogdet(a)[0])
    assert np.allclose(log, np.linalg.slogdet(a)[1])


def test_lu_inside_of_a_shard_map_square_parts_are_systems_of_their_own():
    a = np.concatenate([general(6, seed=seed) for seed in range(DEVICES)])
    b = sides(6 * DEVICES)
    x = jax.jit(
        jax.shard_map(
            solve, mesh=row_mesh(), in_specs=(P("x"), P("x")), out_specs=P("x"), check_vma=False
        )
    )(a, b)
    for i in range(DEVICES):
        own = slice(6 * i, 6 * i + 6)
        assert solves(a[own], np.asarray(x)[own], b[own])


# Derivatives and transforms


@every_function
@pytest.mark.parametrize("way", ("eager", "jit", "explicit", more("one_device")))
def test_lu_gradient_is_that_of_jnp(function, way):
    run, place = WAYS[way]
    ours, theirs = FUNCTIONS[function]
    a, b = general(8 * DEVICES // 2), sides(8 * DEVICES // 2, 2)
    gradient = run(jax.grad(scalar(ours), argnums=(0, 1)))(place(a), place(b))
    assert close(gradient, jax.grad(scalar(theirs), argnums=(0, 1))(a, b), 1e6)


@every_function
@pytest.mark.parametrize("transform", ("grad", "jvp", "hessian_vector"))
def test_lu_transform_of_complex_numbers_is_that_of_jnp(function, transform):
    ours, theirs = FUNCTIONS[function]
    a, b = general(8, "complex128"), sides(8, 2, "complex128")
    da, db = general(8, "complex128", 7), sides(8, 2, "complex128", 8)

    def transformed(f):
        if transform == "grad":
            return jax.grad(scalar(f), argnums=(0, 1))(a, b)
        if transform == "jvp":
            return jax.jvp(f, (a, b), (da, db))
        return jax.jvp(jax.grad(scalar(f), argnums=(0, 1)), (a, b), (da, db))

    assert close(transformed(ours), transformed(theirs), 1e7)


@pytest.mark.parametrize("function", ("solve", "slogdet", more("det")))
@pytest.mark.parametrize("axes", BATCHES)
def test_lu_vmap_is_that_of_jnp(function, axes):
    ours, theirs = FUNCTIONS[function]
    of_a, of_b = BATCHES[axes]
    a = np.stack([general(8, seed=seed) for seed in range(3)]) if of_a == 0 else general(8)
    b = sides(8, 3)
    b = b[:, 0] if of_b is None else (b.T.copy() if of_b == 0 else b)
    placed = spread_batch(a) if of_a == 0 and DEVICES in (1, 2, 4) else a
    value = jax.jit(jax.vmap(ours, BATCHES[axes]))(placed, b)
    assert close(value, jax.vmap(theirs, BATCHES[axes])(a, b))
    gradient = jax.vmap(jax.grad(scalar(ours)), BATCHES[axes])(a, b)
    assert close(gradient, jax.vmap(jax.grad(scalar(theirs)), BATCHES[axes])(a, b), 1e6)


def test_lu_gradient_factors_once():
    a, b = spread(general(N)), sides(N)
    for function in (lambda a: solve(a, b).sum(), lambda a: slogdet(a, b)[1]):
        text = compiled_text(jax.value_and_grad(function), a)
        assert text.count('custom_call_target="shardsolve_lu_factor"') == 1


def test_lu_scan_of_solves_is_a_python_loop():
    a, b = spread(general(N)), sides(N)

    def step(x, _):
        x = solve(a, x)
        return x / jnp.linalg.norm(x), None

    looped = b
    for _ in range(3):
        looped = step(looped, None)[0]
    assert close(jax.jit(lambda b: jax.lax.scan(step, b, None, 3)[0])(b), looped)


def test_lu_factor_is_a_pytree_that_survives_copies_and_the_host():
    a, b = general(N), sides(N)
    factor = shardsolve.lu_factor(a)
    on_host = jax.device_get(factor)
    for again in (copy.deepcopy(factor), jax.jit(lambda f: f)(factor), on_host):
        assert solves(a, shardsolve.lu_solve(again, b), b)
    factors = jax.vmap(shardsolve.lu_factor)(np.stack([a, 2 * a]))
    assert factors.shape == (2, N, N)
    x = jax.vmap(shardsolve.lu_solve, (0, None))(factors, b)
    assert solves(2 * a, x[1], b)


@pytest.mark.one_rank
def test_lu_small_matrix_of_several_devices_is_solved_by_one():
    a, b = general(N, "complex128"), sides(N, 2, "complex128")
    factor = shardsolve.lu_factor(put(a, row_mesh(), "x", None))
    for trans, op in OPS.items():
        assert solves(op(a), shardsolve.lu_solve(factor, b, trans), b)


@pytest.mark.parametrize("dtype", DTYPES)
def test_general_inverse_is_that_of_the_matrix_and_of_the_factor(dtype):
    a = general(N, dtype)
    placed = spread(a)
    x, info = shardsolve.inv(placed, assume_a="gen", full_output=True)
    assert info.status == Status.OK and 0 <= info.backward_error < 10 * unit_roundoff(dtype)
    assert close(x, np.linalg.inv(a), 1e3)
    assert np.array_equal(shardsolve.inv(shardsolve.lu_factor(placed)), x)
    with pytest.raises(LinAlgError, match="singular"):
        shardsolve.inv(np.ones((3, 3), dtype), assume_a="gen")


@pytest.mark.devices
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("place", ("rows", "columns", "replicated", more("blocks")))
def test_general_inverse_in_place_is_that_beside_the_matrix(place, dtype):
    a = general(N, dtype)
    placed = PLACES[place](a)
    x, info = inv(placed, overwrite_a=True, full_output=True)
    assert placed.is_deleted() or place == "replicated"
    assert info.status is Status.OK and 0 <= info.backward_error < 10 * unit_roundoff(dtype)
    kept, of_kept = inv(PLACES[place](a), full_output=True)
    # XLA's modulus of a complex number is not the library's, which solves alone where it can.
    assert close(x, kept, 1e3) and float(info.rcond) == pytest.approx(float(of_kept.rcond), rel=0.1)
    factor = shardsolve.lu_factor(PLACES[place](a), overwrite_a=True)
    assert np.array_equal(inv(factor), x)
    assert float(info.rcond) == pytest.approx(1 / np.linalg.cond(a, 1), rel=0.1)


def growing(n, dtype="float64"):
    """Pivots of its transpose double, and what they add up to is no power of two."""
    a = np.tril(-np.ones((n, n)), -1) + np.eye(n)
    a[:, -1] = 1 + 0.3 / np.arange(3, n + 3)
    return a.T.astype(dtype)


@pytest.mark.parametrize("dtype", ("float64", "complex64"))
def test_general_inverse_where_elimination_grows_is_solved_for_or_refused(dtype):
    a = growing(70, dtype)
    placed = spread(a)
    x, info = inv(placed, full_output=True, tile=70)
    assert info.status is Status.OK and close(x, np.linalg.inv(a.astype(complex)), 1e3)
    assert np.array_equal(placed, a)
    _, info = inv(
        put(a, row_mesh(jax.devices()[:1]), "x", None), overwrite_a=True, full_output=True, tile=70
    )
    assert info.status is Status.INACCURATE
    with pytest.raises(LinAlgError):
        inv(put(a, row_mesh(jax.devices()[:1]), "x", None), overwrite_a=True, tile=70)


def test_general_inverse_of_a_singular_matrix_is_nan_in_jit():
    x, info = jax.jit(lambda a: inv(a, full_output=True))(spread(np.ones((N, N))))
    assert np.isnan(x).all() and info.status is Status.SINGULAR


def test_gradient_of_the_general_inverse():
    a, weights = general(N), general(N, seed=9)
    ours = jax.grad(lambda a: jnp.sum(weights * shardsolve.inv(a, assume_a="gen")))
    assert close(ours(spread(a)), jax.grad(lambda a: jnp.sum(weights * jnp.linalg.inv(a)))(a), 1e5)


def test_general_is_what_solve_assumes():
    a, b = spread(general(N)), sides(N)
    assert np.array_equal(shardsolve.solve(a, b), solve(a, b))


# In the memory of the matrix


@pytest.mark.devices
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("place", ("rows", "columns", "replicated", more("blocks")))
def test_lu_in_place_is_certified_by_a_sketch(place, dtype):
    a, b = general(N, dtype), sides(N, 3, dtype)
    placed = PLACES[place](a)
    x, info = shardsolve.solve(placed, PLACES["rows"](b), overwrite_a=True, full_output=True)
    assert placed.is_deleted() or place == "replicated"
    assert info.status is Status.OK
    size = np.linalg.norm(a) * np.linalg.norm(x, axis=0) + np.linalg.norm(b, axis=0)
    error = np.max(np.linalg.norm(a @ np.asarray(x) - b, axis=0) / size)
    unit = unit_roundoff(dtype)
    assert error < 10 * unit and error / 3 - unit < info.backward_error < 3 * error + 2 * unit
    assert 0.5 < float(info.rcond) * np.linalg.cond(a, 1) < 2


@pytest.mark.parametrize("dtype", ("float32", "complex128"))
def test_lu_in_place_factor_serves_as_one_that_keeps_its_matrix(dtype):
    a, b = general(N, dtype), sides(N, 3, dtype)
    factor, usual = (
        shardsolve.lu_factor(spread(a), overwrite_a=True),
        shardsolve.lu_factor(spread(a)),
    )
    for trans, matrix in ((0, a), (1, a.T), (2, a.conj().T)):
        x = jax.jit(shardsolve.lu_solve, static_argnums=2)(factor, b, trans)
        assert close(x, np.linalg.solve(matrix, b), 1e4)
        many = jax.vmap(lambda b, trans=trans: shardsolve.lu_solve(factor, b, trans))(b.T)
        assert close(many.T, x, 1e4)
    assert close(shardsolve.det(factor), shardsolve.det(usual), 1e2)
    # The library rounds ||A|| of complex numbers down, by up to 8 %; XLA, on a GPU, does not.
    near = 0.09 if jax.default_backend() != "cpu" and np.iscomplexobj(a) else 1e-5
    found, expected = (float(shardsolve.cond(one, 1)) for one in (factor, usual))
    assert found == pytest.approx(expected, rel=near)
    assert close(shardsolve.inv(factor), np.linalg.inv(a), 1e4)
    gradient = jax.grad(lambda b: jnp.sum(jnp.abs(shardsolve.lu_solve(factor, b)) ** 2))(b)
    expected = jax.grad(lambda b: jnp.sum(jnp.abs(jnp.linalg.solve(a, b)) ** 2))(b)
    assert close(gradient, expected, 1e5)


def test_lu_in_place_has_its_verdicts():
    with pytest.raises(LinAlgError, match="singular"):
        shardsolve.solve(spread(np.ones((N, N))), sides(N), overwrite_a=True)
    bad = general(N)
    bad[3, 2] = np.nan
    with pytest.raises(LinAlgError, match="row 3, column 2"):
        shardsolve.lu_factor(spread(bad), overwrite_a=True)
    kernel = np.vander(np.linspace(0, 1, N), increasing=True)
    given = spread(kernel)
    _, info = shardsolve.solve(given, sides(N), overwrite_a=True, full_output=True)
    assert info.status is Status.NEARLY_SINGULAR and info.rcond < 2 * unit_roundoff("float64")
    with pytest.raises(ValueError, match="overwritten its matrix"):
        shardsolve.save_factor(shardsolve.lu_factor(spread(general(N)), overwrite_a=True), "f")


def test_lu_in_place_has_no_meaning_in_jit():
    a, b = spread(general(N)), sides(N)
    ours = jax.jit(lambda a: shardsolve.solve(a, b, overwrite_a=True))
    assert np.array_equal(ours(a), shardsolve.solve(a, b)) and not a.is_deleted()


# Mistakes


def test_lu_mistakes_are_named():
    a, b = general(N), sides(N)
    factor = shardsolve.lu_factor(a)
    with pytest.raises(ValueError, match="assume_a is 'sym'"):
        shardsolve.solve(a, b, assume_a="sym")
    with pytest.raises(ValueError, match="pass a square matrix"):
        solve(a[:5], b)
    with pytest.raises(ValueError, match="trans is 3; pass 0"):
        shardsolve.lu_solve(factor, b, 3)
    with pytest.raises(ValueError, match="trans is True"):
        shardsolve.lu_solve(factor, b, True)
    with pytest.raises(TypeError, match=r"is a Factor; pass what shardsolve\.lu_factor returned"):
        shardsolve.lu_solve(shardsolve.cho_factor(np.eye(N)), b)
    with pytest.raises(
        TypeError, match=r"is a LuFactor; pass what shardsolve\.cho_factor returned"
    ):
        shardsolve.cho_solve(factor, b)
    with pytest.raises(TypeError, match=r"is a tuple; pass what shardsolve\.lu_factor"):
        shardsolve.lu_solve(scipy.linalg.lu_factor(a), b)
    with pytest.raises(ValueError, match="tile cannot be used with a Factor"):
        shardsolve.det(factor, tile=8)
    with pytest.raises(TypeError, match="b has dtype float32"):
        solve(a, b.astype("float32"))
    with pytest.raises(TypeError, match="a has dtype int"):
        solve(np.eye(3, dtype=int), b)
    with pytest.raises(NotImplementedError, match="p=2, by its singular values"):
        shardsolve.cond(factor, 2)
