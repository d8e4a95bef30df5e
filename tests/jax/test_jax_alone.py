"""Small systems on a device that is alone: by the library's local call, and by XLA's routines."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from eigensystems import are_eigenpairs, are_eigenvalues, random_hermitian, with_eigenvalues
from jax.sharding import PartitionSpec as P
from systems import (
    DEVICES,
    DTYPES,
    batch,
    close,
    compiled_text,
    general,
    hermitian,
    infinity_norm,
    more,
    put,
    row_mesh,
    sides,
    solves,
)

import shardsolve
from shardsolve import Status, _alone, _calls, _cholesky_alone, _eigh_alone, _lu_alone, _qr_alone

N = 24
MOST_ROWS = _cholesky_alone.MOST_ROWS_ON_CPU


@pytest.fixture(params=("own", "by_xla"))
def way(request, monkeypatch):
    """What the platform does, and what GPUs do by XLA's routines, here too."""
    if request.param == "by_xla":
        monkeypatch.setattr(_alone, "_MOST_ROWS_OF_A_BLOCK", 0)
        for call in (
            *(_calls.FACTOR, _calls._SOLVE, _calls._EIGH),
            *(_calls._LU_FACTOR, _calls._LU_SOLVE, _calls._LU_INVERSE),
            *(_calls._QR, _calls._QR_IN_ROWS, _calls._SVD, _calls._SVDVALS, _calls._POLAR),
        ):
            monkeypatch.setitem(call.alone, "cpu", call.alone["cuda"])
        jax.clear_caches()
    yield request.param
    if request.param == "by_xla":
        monkeypatch.undo()
        jax.clear_caches()


def alone(a):
    return jax.device_put(jnp.asarray(a), jax.devices()[0])


def solve(a, b, **options):
    return shardsolve.solve(a, b, assume_a="pos", full_output=True, **options)


def true_error(a, x, b) -> float:
    """The backward error in long doubles, of one column."""
    wide = np.result_type(a.dtype, np.longdouble)
    a, x, b = (np.asarray(one).astype(wide) for one in (a, x, b))
    size = infinity_norm(a) * np.abs(x).max() + np.abs(b).max()
    return float(np.abs(a @ x - b).max() / size)


@pytest.mark.parametrize("k", (None, more(1), more(3), 7))
@pytest.mark.parametrize("dtype", DTYPES)
def test_any_dtype_is_solved(dtype, k, way):
    a, b = hermitian(N, dtype), sides(N, k, dtype)
    x, info = solve(alone(a), alone(b))
    assert solves(a, x, b)
    assert info.status is Status.OK
    assert 0 <= float(info.backward_error) < 4 * np.finfo(dtype).eps
    assert 0 < float(info.rcond) <= 1


@pytest.mark.parametrize("n", (1, 2, 63, 130, MOST_ROWS, MOST_ROWS + 1))
def test_any_size_is_solved(n, way):
    a, b = hermitian(n), sides(n)
    assert solves(a, solve(alone(a), alone(b))[0], b)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ("random", "one sign"))
def test_backward_error_is_the_true_one(kind, dtype, way):
    """However small: with one sign the rounding of a plain sum is far larger."""
    n = 400
    a = hermitian(n, dtype) if kind == "random" else (2 * np.eye(n) + 1 / 1000).astype(dtype)
    b = sides(n, None, dtype) if kind == "random" else np.ones(n, dtype)
    x, info = solve(alone(a), alone(b))
    assert float(info.backward_error) == pytest.approx(true_error(a, x, b), rel=0.05)


@pytest.mark.parametrize("dtype", DTYPES)
def test_backward_error_of_a_wrong_x_is_the_true_one(dtype):
    a, b = hermitian(90, dtype), sides(90, 3, dtype)
    x = np.linalg.solve(a, b).astype(dtype) * (1 + 64 * np.finfo(dtype).eps)
    found = jax.jit(_alone.column_errors)(a, x, b)[0]
    assert np.allclose(found, [true_error(a, x[:, j], b[:, j]) for j in range(3)], rtol=0.05)


@pytest.mark.parametrize("bad", (np.nan, np.inf))
def test_backward_error_of_what_is_not_finite_is_nan_or_infinite(bad):
    a, b = hermitian(N), sides(N)[:, None]
    for x, b in ((np.full_like(b, bad), b), (b, np.full_like(b, bad))):  # noqa: B020
        assert not np.isfinite(_alone.column_errors(a, x, b)[0]).any()


def spoilt(kind):
    a = hermitian(N)
    if kind == "indefinite":
        a[5, 5] = -1
    elif kind == "not_hermitian":
        a[3, 7] += 1
    else:
        a[3, 7] = a[7, 3] = np.nan
    return a


WRONG = {
    "indefinite": (Status.NOT_POSITIVE_DEFINITE, 5),
    "not_hermitian": (Status.NOT_HERMITIAN, -1),
    "nan": (Status.NONFINITE_INPUT, -1),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_wrong_is_said_as_ever(kind, way):
    status, pivot = WRONG[kind]
    a, b = spoilt(kind), sides(N)
    x, info = solve(alone(a), alone(b))
    by_tiles = solve(alone(a), alone(b), tile=8)[1]  # the usual call
    assert info.status is status
    assert int(info.pivot) == pivot
    assert np.array_equal(info.verdict, by_tiles.verdict)
    assert info.message == by_tiles.message
    assert np.isnan(x).all()
    assert np.isnan(info.backward_error)
    with pytest.raises(shardsolve.LinAlgError):
        shardsolve.cho_factor(alone(a))


def test_bad_right_hand_side_is_named(way):
    b = sides(N, 2)
    b[4, 1] = np.inf
    info = solve(alone(hermitian(N)), alone(b))[1]
    assert info.status is Status.NONFINITE_INPUT
    assert "row 4, column 1" in info.message


@pytest.mark.parametrize("scale", (1e-300, 1e-30, 1e30, 1e300))
def test_ends_of_the_range_are_solved(scale, way):
    a, b = hermitian(N), sides(N)
    x, info = solve(alone(a * scale), alone(b))
    assert info.status is Status.OK
    assert close(np.asarray(x) * scale, np.linalg.solve(a, b))


@pytest.mark.parametrize("dtype", ("float64", "complex64"))
def test_one_right_hand_side_is_refined(dtype, way):
    """With a factor that is wrong in its last digits."""
    a, b = hermitian(N, dtype), sides(N, None, dtype)
    factor = shardsolve.cho_factor(alone(a))
    above = np.arange(N)[:, None] <= np.arange(N)
    wrong = factor._slab * np.where(above, 1 + 100 * np.finfo(dtype).eps, 1).astype(dtype)
    x, info = shardsolve.cho_solve(
        dataclasses.replace(factor, _slab=wrong), alone(b), full_output=True
    )
    assert float(info.backward_error) < 4 * np.finfo(dtype).eps
    assert float(info.backward_error) == pytest.approx(true_error(a, x, b), rel=0.05)


def test_factor_is_used_by_every_call(way):
    a, b = hermitian(N, "complex128"), sides(N, None, "complex128")
    factor = shardsolve.cho_factor(alone(a))
    assert close(shardsolve.cho_solve(factor, alone(b)), np.linalg.solve(a, b))
    assert close(shardsolve.inv(factor), np.linalg.inv(a))
    assert close(shardsolve.logdet(factor), np.linalg.slogdet(a)[1])
    by_tiles = shardsolve.cho_factor(alone(a), tile=8)
    assert close(shardsolve.cond(factor, 1), shardsolve.cond(by_tiles, 1))
    assert close(factor._slab, by_tiles._slab)
    assert close(factor._diagonal, by_tiles._diagonal)


# Batches


@pytest.mark.parametrize("dtype", DTYPES)
def test_batch_has_the_answers_of_its_systems(dtype, way):
    a, b = alone(batch(5, N, dtype)), alone(np.stack([sides(N, None, dtype, j) for j in range(5)]))
    x, info = jax.jit(jax.vmap(solve))(a, b)
    assert x.shape == (5, N)
    assert info.backward_error.shape == info.rcond.shape == (5,)
    for j in range(5):
        one, single = solve(a[j], b[j])
        assert close(x[j], one)
        if way == "own" and jax.default_backend() == "cpu":
            assert np.array_equal(x[j], one)
            assert info.backward_error[j] == single.backward_error


def test_bad_systems_of_a_batch_leave_the_others_alone(way):
    a, b = np.array(batch(5, N)), np.stack([sides(N, None, "float64", j) for j in range(5)])
    whole = jax.vmap(solve)(alone(a), alone(b))[0]
    for at, kind in enumerate(WRONG):
        a[at + 1] = spoilt(kind)
    x, info = jax.jit(jax.vmap(solve))(alone(a), alone(b))
    expected = [Status.OK, *(status for status, _ in WRONG.values()), Status.OK]
    assert info.status.tolist() == expected
    assert np.array_equal(np.isnan(x).all(axis=1), [False, True, True, True, False])
    assert close(x[::4], whole[::4])


def test_batches_of_batches_and_of_either_operand(way):
    a, b = alone(batch(6, N)), alone(np.stack([sides(N, None, "float64", j) for j in range(6)]))
    expected = np.linalg.solve(a, b[..., None])[..., 0]

    def plain(a, b):
        return shardsolve.solve(a, b, assume_a="pos")

    twice = jax.jit(jax.vmap(jax.vmap(plain)))(a.reshape(2, 3, N, N), b.reshape(2, 3, N))
    assert close(twice.reshape(6, N), expected)
    assert close(jax.vmap(plain, (0, None))(a, b[0]), np.linalg.solve(a, b[0]))
    outer = jax.vmap(jax.vmap(plain, (0, None)), (None, 0))(a, b)
    assert close(outer, np.linalg.solve(a[None], b[:, None, :, None])[..., 0])
    assert jax.vmap(plain)(a[:, :0, :0], b[:, :0]).shape == (6, 0)


def test_batch_inside_of_a_shard_map(way):
    """Every device a batch of its own."""
    mesh = row_mesh()
    a, b = batch(2 * DEVICES, N), np.ones((2 * DEVICES, N))
    spec = P(mesh.axis_names)

    def own(a, b):
        return jax.vmap(lambda a, b: shardsolve.solve(a, b, assume_a="pos"))(a, b)

    mapped = jax.shard_map(own, mesh=mesh, in_specs=(spec, spec), out_specs=spec, check_vma=False)
    x = jax.jit(mapped)(put(a, mesh, mesh.axis_names), put(b, mesh, mesh.axis_names))
    assert close(x, np.linalg.solve(a, b[..., None])[..., 0])


def test_derivatives_of_a_batch(way):
    a, b = alone(batch(3, 6)), alone(np.ones((3, 6)))

    def loss(a, b):
        x = jax.vmap(lambda a, b: shardsolve.solve(a, b, assume_a="pos"))(a, b)
        return jnp.sum(x**2)

    def of_jax(a, b):
        return jnp.sum(jnp.linalg.solve((a + a.swapaxes(1, 2)) / 2, b[..., None]) ** 2)

    assert close(jax.grad(loss)(a, b), jax.grad(of_jax)(a, b))


def test_batch_is_one_call_and_not_a_loop():
    """On the CPU; under a mesh of several devices it is a loop."""
    a, b = jnp.asarray(batch(5, N)), jnp.ones((5, N))
    text = compiled_text(jax.vmap(lambda a, b: shardsolve.solve(a, b, assume_a="pos")), a, b)
    if jax.devices()[0].platform == "cpu":
        assert "while(" not in text
        assert text.count("shardsolve_small_cholesky_factor") > 0
        assert 'custom_call_target="shardsolve_cholesky_factor"' not in text


def test_repeated_calls_have_the_same_bits(way):
    a, b = alone(batch(40, 32)), alone(np.ones((40, 32)))
    run = jax.jit(jax.vmap(solve))
    first = run(a, b)
    for _ in range(5):
        again = run(a, b)
        assert np.array_equal(first[0], again[0])
        assert np.array_equal(first[1].backward_error, again[1].backward_error)


@pytest.mark.cpu_only
def test_a_tile_that_is_asked_for_is_used():
    a = alone(hermitian(N))
    assert "small_cholesky" in compiled_text(shardsolve.cho_factor, a)
    by_tiles = compiled_text(lambda a: shardsolve.cho_factor(a, tile=8), a)
    assert "small_cholesky" not in by_tiles


# General matrices


def solve_general(a, b, **options):
    return shardsolve.solve(a, b, full_output=True, **options)


@pytest.mark.parametrize("k", (None, more(1), more(3), 7))
@pytest.mark.parametrize("dtype", DTYPES)
def test_any_general_matrix_is_solved(dtype, k, way):
    a, b = general(N, dtype), sides(N, k, dtype)
    x, info = solve_general(alone(a), alone(b))
    assert solves(a, x, b)
    assert info.status is Status.OK
    assert 0 <= float(info.backward_error) < 4 * np.finfo(dtype).eps
    assert 0 < float(info.rcond) <= 1


@pytest.mark.parametrize("n", (1, 2, 63, 130, more(MOST_ROWS), more(MOST_ROWS + 1)))
def test_any_size_of_a_general_matrix_is_solved(n, way):
    a, b = general(n), sides(n)
    assert solves(a, solve_general(alone(a), alone(b))[0], b)


def inverse_error(a, x) -> float:
    """||A X - I|| / (||A|| ||X||), in long doubles."""
    wide = np.result_type(a.dtype, np.longdouble)
    a, x = (np.asarray(one).astype(wide) for one in (a, x))
    return float(infinity_norm(a @ x - np.eye(len(a))) / (infinity_norm(a) * infinity_norm(x)))


def growing(n, dtype):
    """Wilkinson's matrix, whose pivots double, as its transpose: rows are eliminated."""
    a = np.tril(-np.ones((n, n)), -1) + np.eye(n)
    a[:, -1] = 1
    return a.T.astype(dtype)


@pytest.mark.parametrize("name", ("random", "scaled", "ill", "growing"))
@pytest.mark.parametrize("dtype", DTYPES)
def test_inverse_of_many_rows_is_as_good_as_lapacks(dtype, name, monkeypatch):
    """By XLA's routines; scaled and growing matrices are left to the library."""
    monkeypatch.setattr(_lu_alone, "MOST_ROWS_ON_CPU", 8)
    jax.clear_caches()
    eps = np.finfo(dtype).eps
    a = general(70, dtype)
    if name == "scaled":
        a = (a * np.geomspace(1e-12, 1e12, 70)[:, None]).astype(dtype)
    if name == "ill":
        u, _, vh = np.linalg.svd(a)
        a = ((u * np.geomspace(1, 30 * eps, 70)) @ vh).astype(dtype)
    if name == "growing":
        a = growing(70, dtype)
    x, info = shardsolve.inv(alone(a), assume_a="gen", full_output=True)
    jax.clear_caches()
    limit = max(10 * eps / 2, 4 * inverse_error(a, np.linalg.inv(a)))
    assert info.status is Status.OK
    assert inverse_error(a, x) <= limit
    assert 0 <= float(info.backward_error) <= 10 * eps / 2


def test_inverse_of_many_rows_is_differentiated_and_batched(monkeypatch):
    monkeypatch.setattr(_lu_alone, "MOST_ROWS_ON_CPU", 8)
    jax.clear_caches()
    a = np.stack([general(20), general(20).T, np.diag([1.0] * 19 + [0])])
    x = jax.vmap(lambda a: shardsolve.inv(a, assume_a="gen"))(alone(a))
    assert close(x[:2], np.linalg.inv(a[:2])) and np.isnan(x[2]).all()
    weights = general(20).T

    def loss(inverse, a):
        return jnp.sum(weights * inverse(a))

    ours = jax.grad(lambda a: loss(lambda a: shardsolve.inv(a, assume_a="gen"), a))(alone(a[0]))
    assert close(ours, jax.grad(lambda a: loss(jnp.linalg.inv, a))(a[0]), 1e4)
    slope = jax.grad(lambda a: shardsolve.slogdet(a, assume_a="gen")[1])(alone(a[0]))
    assert close(slope, np.linalg.inv(a[0]).T)
    # a batch of what is solved for is no batch of inverses
    rows = jax.jacrev(lambda a: shardsolve.inv(a, assume_a="gen"))(alone(a[0]))
    assert close(rows, jax.jacrev(jnp.linalg.inv)(a[0]), 1e4)
    jax.clear_caches()


@pytest.mark.parametrize("dtype", DTYPES)
def test_general_factor_is_used_by_every_call(dtype, way):
    a, b = general(N, dtype), sides(N, 2, dtype)
    factor, by_tiles = (shardsolve.lu_factor(alone(a), tile=tile) for tile in (None, N))
    for trans, op in enumerate((a, a.T, a.conj().T)):
        x, info = shardsolve.lu_solve(factor, alone(b), trans, full_output=True)
        assert solves(op, x, b)
        assert float(info.backward_error) == pytest.approx(
            max(true_error(op, x[:, j], b[:, j]) for j in range(2)), rel=0.05
        )
    assert np.array_equal(factor._rows, by_tiles._rows)
    assert close(factor._slab, by_tiles._slab)
    assert close(shardsolve.inv(factor), np.linalg.inv(a))
    assert close(shardsolve.det(factor), np.linalg.det(a))
    # the library's ||A||_inf of complex numbers is rounded down by up to 8 %
    near = {"rel": 0.09 if np.iscomplexobj(a) else 1e-5}
    found, expected = (float(shardsolve.cond(one, 1)) for one in (factor, by_tiles))
    assert found == pytest.approx(expected, **near)
    figures = [np.split(np.asarray(one._record)[9:], 3) for one in (factor, by_tiles)]
    found, expected = ([value_of(words) for words in one] for one in figures)
    assert found == pytest.approx(expected, **near)


def value_of(words) -> float:
    """Of ScaledWords."""
    low, high, exponent = np.asarray(words, np.int32)
    bits = int(high) << 32 | int(np.uint32(low))
    return float(np.ldexp(np.int64(bits).view(np.float64), exponent))


def general_spoilt(kind):
    a = general(N)
    if kind == "singular":
        a[:, 3] = 0
    elif kind == "nan":
        a[3, 7] = np.nan
    return a


@pytest.mark.parametrize("kind", ("singular", "nan"))
def test_what_is_wrong_with_a_general_matrix_is_said_as_ever(kind, way):
    a = general_spoilt(kind)
    b = sides(len(a))
    info = solve_general(alone(a), alone(b))[1]
    by_tiles = solve_general(alone(a), alone(b), tile=8)[1]  # the usual call
    assert info.status is not Status.OK
    assert info.status is by_tiles.status
    assert info.message == by_tiles.message


def test_bad_right_hand_side_of_a_general_matrix_is_named(way):
    b = sides(N, 2)
    b[4, 1] = np.inf
    info = solve_general(alone(general(N)), alone(b))[1]
    assert info.status is Status.NONFINITE_INPUT
    assert "row 4, column 1" in info.message


@pytest.mark.parametrize("scale", (1e-300, 1e-30, 1e30, 1e300))
def test_general_matrices_at_the_ends_of_the_range_are_solved(scale, way):
    a, b = general(N), sides(N)
    x, info = solve_general(alone(a * scale), alone(b))
    assert info.status is Status.OK
    assert close(np.asarray(x) * scale, np.linalg.solve(a, b))


@pytest.mark.parametrize("dtype", ("float64", "complex64"))
def test_equations_of_other_sizes_are_met_by_components(dtype, way):
    """Rows of 1e-10 keep no digit if the error is looked at by the norm alone."""
    scales = np.where(np.arange(N) % 2, 1e-10, 1).astype(dtype)
    a, b = general(N, dtype) * scales[:, None], sides(N, None, dtype) * scales
    x = np.asarray(solve_general(alone(a), alone(b))[0])
    wide = np.result_type(dtype, np.longdouble)
    wide_a, wide_x, wide_b = (one.astype(wide) for one in (a, x, b))
    share = np.abs(wide_b - wide_a @ wide_x) / (np.abs(wide_a) @ np.abs(wide_x) + np.abs(wide_b))
    assert share.max() < 10 * np.finfo(dtype).eps


def test_general_batch_has_the_answers_of_its_systems(way):
    a = np.stack([general(N, seed=j) for j in range(5)])
    b = np.stack([sides(N, seed=j) for j in range(5)])
    a[2] = general_spoilt("singular")
    x, info = jax.jit(jax.vmap(solve_general))(alone(a), alone(b))
    assert info.status.tolist() == [Status.OK, Status.OK, Status.SINGULAR, Status.OK, Status.OK]
    assert np.isnan(x[2]).all()
    for j in (0, 1, 3, 4):
        assert close(x[j], np.linalg.solve(a[j], b[j]))
    shared = jax.vmap(shardsolve.solve, (None, 0))(alone(a[0]), alone(b))
    assert close(shared, np.linalg.solve(a[0], b[..., None])[..., 0])


def test_derivatives_of_a_general_batch(way):
    a = np.stack([general(6, seed=j) for j in range(3)])
    b = np.ones((3, 6))

    def loss(a, b):
        return jnp.sum(jax.vmap(shardsolve.solve)(a, b) ** 2)

    def of_jax(a, b):
        return jnp.sum(jnp.linalg.solve(a, b[..., None]) ** 2)

    for argument in (0, 1):
        found = jax.grad(loss, argument)(alone(a), alone(b))
        assert close(found, jax.grad(of_jax, argument)(a, b))


@pytest.mark.cpu_only
def test_general_batch_is_one_call_and_not_a_loop():
    a, b = jnp.asarray(batch(5, N)), jnp.ones((5, N))
    text = compiled_text(jax.vmap(shardsolve.solve), a, b)
    assert "while(" not in text
    assert text.count("shardsolve_small_lu_factor") > 0
    assert 'custom_call_target="shardsolve_lu_factor"' not in text


# Eigenpairs by XLA, as GPUs have them


@pytest.fixture
def certain(monkeypatch):
    """What is not certain is NaN, where the library would find it out itself."""

    def unless(fine, found, usual, *arguments):
        def spoil(x):
            return jnp.where(fine, x, jnp.full_like(x, jnp.nan if x.dtype.kind in "fc" else 13))

        return tuple(map(spoil, found))

    monkeypatch.setattr(_eigh_alone, "unless", unless)


def pairs(a, **options):
    """Vectors and values by XLA with quotients, residual and orthogonality."""
    given = {"vectors": True, "first": 0, "last": -1, "by_value": False, **options}
    zero = jnp.zeros(2, jnp.finfo(a.dtype).dtype)
    usual = lambda a, interval: a  # noqa: E731
    return jax.jit(lambda a: _eigh_alone.find_on_gpu(usual, a, zero, **given))(jnp.asarray(a))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", (1, 2, 5, 33, 150))
def test_pairs_of_xla_pass_gates(n, dtype, certain):
    a = random_hermitian(n, dtype)
    v, w, count, _, verdict = pairs(a)
    assert are_eigenpairs(a, w, v)
    assert int(count[0]) == n
    assert int(verdict[0]) == 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", (5, 33))
def test_vectors_that_miss_gates_are_mended(n, dtype, certain, monkeypatch):
    """As Jacobi's method leaves them, or worse."""
    eigh, u = jax.lax.linalg.eigh, np.finfo(dtype).eps / 2

    def worse(a, **options):
        v, w = eigh(a, **options)
        noise = jax.random.normal(jax.random.key(3), v.shape, w.dtype)
        turned = jnp.eye(n, dtype=v.dtype) + 100 * u * noise.astype(v.dtype)
        return jnp.matmul(v, turned, precision=jax.lax.Precision.HIGHEST), w

    a = random_hermitian(n, dtype)
    v, w = worse(jnp.asarray(a))
    with pytest.raises(AssertionError):
        are_eigenpairs(a, w, v)
    monkeypatch.setattr(jax.lax.linalg, "eigh", worse)
    v, w, *_ = pairs(a)
    assert are_eigenpairs(a, w, v)


@pytest.mark.parametrize(
    "spectrum",
    (
        np.repeat([-1.0, 0.5, 2.0], 16) + 1e-13 * np.arange(48),
        np.r_[np.zeros(45), -1.0, 2.0, 5.0],
        10.0 ** -np.linspace(0, 16, 48),
        np.ones(48),
    ),
    ids=("three_clusters", "rank_three", "geometric", "one_value"),
)
def test_pairs_of_xla_pass_gates_with_any_spectrum(spectrum, certain):
    a = with_eigenvalues(spectrum, "complex128")
    v, w = pairs(a)[:2]
    assert are_eigenpairs(a, w, v)


@pytest.mark.parametrize("kind", ("nan", "not_hermitian", "huge", "zero"))
def test_what_xla_is_not_asked_for_is_not_fine(kind, certain):
    a = {"huge": hermitian(N) * 1e200, "zero": np.zeros((N, N))}.get(kind)
    v, w, *_ = pairs(spoilt(kind) if a is None else a)
    assert np.isnan(v).all()
    assert np.isnan(w).all()


def test_vectors_that_are_wrong_are_not_fine(certain, monkeypatch):
    eigh = jax.lax.linalg.eigh

    def wrong(a, **options):
        v, w = eigh(a, **options)
        return v.at[0, 0].add(1e-3), w

    monkeypatch.setattr(jax.lax.linalg, "eigh", wrong)
    assert np.isnan(pairs(random_hermitian(N))[0]).all()


def test_eigh_says_what_is_wrong_by_either_way(way):
    for kind in ("not_hermitian", "nan"):
        info = shardsolve.eigh(alone(spoilt(kind)), full_output=True)[2]
        assert info.status is WRONG[kind][0]
    a = random_hermitian(33, "complex128")
    assert are_eigenpairs(a, *shardsolve.eigh(alone(a)))
    found = shardsolve.eigh(alone(a), subset_by_index=(2, 9))
    assert are_eigenpairs(a, *found, slice(2, 10))
    values = np.linalg.eigvalsh(a)
    found = shardsolve.eigh(alone(a), subset_by_value=(-1.5, 2.5))
    assert are_eigenpairs(a, *found, slice(*np.searchsorted(values, (-1.5, 2.5))))
    assert are_eigenvalues(a, shardsolve.eigvalsh(alone(a)))


# Factors of matrices of any shape


def of_shape(m: int, n: int, kind: str, dtype: str) -> np.ndarray:
    random = np.random.default_rng(m + n)
    a = random.standard_normal((m, n))
    if np.dtype(dtype).kind == "c":
        a = a + 1j * random.standard_normal((m, n))
    if kind == "rank_deficient":
        a[:, -1] = a[:, 0]
    elif kind == "zero_column":
        a[:, n // 2] = 0
    return a.astype(dtype)


def rest_of(a, *factors) -> float:
    """||a - product|| / ||a||, in units of rounding."""
    wide = [np.asarray(one).astype(np.result_type(one.dtype, np.complex128)) for one in factors]
    rest = np.linalg.norm(a - np.linalg.multi_dot(wide))
    return rest / (np.linalg.norm(a) or 1) / (np.finfo(a.dtype).eps / 2)


def off_orthonormal(q) -> float:
    wide = np.asarray(q).astype(np.complex128)
    off = np.linalg.norm(wide.conj().T @ wide - np.eye(wide.shape[1]), 2)
    return off / (np.finfo(np.asarray(q).dtype).eps / 2)


@pytest.mark.parametrize("kind", ("random", "rank_deficient", more("zero_column")))
@pytest.mark.parametrize("shape", ((24, 24), (40, 25), (150, 8), more((1, 1)), more((300, 280))))
@pytest.mark.parametrize("dtype", ("float64", "complex64", more("float32"), more("complex128")))
def test_factors_of_any_shape(dtype, shape, kind, way):
    a = of_shape(*shape, kind, dtype)
    n, limit = shape[1], 100 + 8 * shape[1]
    values = np.linalg.svd(a.astype(np.complex128), compute_uv=False)
    q, r = shardsolve.qr(alone(a))
    assert rest_of(a, q, r) < limit and off_orthonormal(q) < limit
    assert not np.tril(r, -1).any() and (np.diag(r).real >= 0).all() and not np.diag(r).imag.any()
    u, s, vh = shardsolve.svd(alone(a))
    assert rest_of(a, u * s, vh) < limit
    assert off_orthonormal(u) < limit and off_orthonormal(vh.T) < limit
    u, h = shardsolve.polar(alone(a))
    assert rest_of(a, u, h) < limit and off_orthonormal(u) < limit
    assert np.array_equal(h, np.asarray(h).conj().T)
    assert np.linalg.eigvalsh(h).min() >= -limit * np.finfo(a.dtype).eps * values[0]
    for found in (s, shardsolve.svdvals(alone(a))):
        assert np.abs(found - values).max() <= 20 * n**0.5 * np.finfo(a.dtype).eps * values[0]
    for name in ("qr", "svd", "polar"):
        *_, info = getattr(shardsolve, name)(alone(a), full_output=True)
        assert info.status is Status.OK
        assert 0 <= float(info.residual) < limit * np.finfo(dtype).eps
        assert 0 <= float(info.orthogonality) < limit * np.finfo(dtype).eps


@pytest.mark.parametrize("name", ("qr", "svd", "svdvals", "polar"))
def test_factors_say_what_is_wrong_by_either_way(name, way):
    a = of_shape(20, 12, "random", "float64")
    a[3, 4] = np.nan
    with pytest.raises(shardsolve.LinAlgError, match="row 3, column 4"):
        getattr(shardsolve, name)(alone(a))


# QR by Gram matrices, as GPUs have it


@pytest.fixture
def by_gram(monkeypatch):
    """In several blocks of columns."""
    monkeypatch.setattr(_qr_alone, "MOST_COLUMNS_OF_A_BLOCK", 10)
    return lambda a: jax.jit(_qr_alone._by_gram)(jnp.asarray(a))


def with_singular_values(values, m: int, dtype: str) -> np.ndarray:
    n = len(values)
    u, v = (np.linalg.qr(of_shape(rows, n, "random", dtype))[0] for rows in (m, n))
    return (u * values) @ v.conj().T


def are_qr(a, q, r) -> bool:
    """As good as LAPACK's, or better than 10 u."""
    lapacks = np.linalg.qr(a)
    residual, off = rest_of(a, q, r), off_orthonormal(q)
    # Not so if one is NaN.
    return residual <= max(10, 4 * rest_of(a, *lapacks)) and off <= max(
        10, 4 * off_orthonormal(lapacks[0])
    )


@pytest.mark.parametrize("digits", (0, 3, 6))
@pytest.mark.parametrize("shape", ((24, 24), (47, 47), (50, 31), (10, 10), (1, 1)))
@pytest.mark.parametrize("dtype", ("float64", "complex128"))
def test_qr_by_gram_matrices_passes_gates(dtype, shape, digits, by_gram):
    m, n = shape
    a = with_singular_values(np.logspace(0, -digits, n), m, dtype)
    a = a * np.logspace(0, -12, n)
    q, r = by_gram(a)
    assert are_qr(a, q, r)
    scales = np.linalg.norm(a, axis=0)
    assert rest_of(a / scales, q, np.asarray(r) / scales) < 20 * n**0.5


@pytest.mark.parametrize("kind", ("last_again", "first_again", "zero_column"))
def test_qr_by_gram_matrices_says_where_it_does_not_do(kind, by_gram):
    a = of_shape(47, 35, kind, "float64")
    if kind == "last_again":
        a[:, -1] = a[:, 0] * (1 + 1e-15)
    elif kind == "first_again":
        a[:, 1] = a[:, 0] * (1 + 1e-15)
    q = np.asarray(by_gram(a)[0])
    assert np.isnan(q if kind == "first_again" else q[:, -1]).all()


@pytest.mark.parametrize("columns", (10, 35, 47))
@pytest.mark.parametrize("digits", range(7, 17))
def test_qr_by_gram_matrices_is_right_or_not_there(digits, columns, by_gram):
    a = with_singular_values(np.logspace(0, -digits, columns), 47, "float64")
    q, r = by_gram(a)
    assert np.isnan(q).any() or are_qr(a, q, r)
