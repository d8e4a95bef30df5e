"""Singular values and vectors and polar factors from JAX: answers, derivatives, shardings."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from jax.sharding import PartitionSpec as P
from places import PLACES
from systems import (
    DEVICES,
    DTYPES,
    WAYS,
    close,
    more,
    normal,
    put,
    row_mesh,
    spread,
    unit_roundoff,
)

import shardsolve
from shardsolve import LinAlgError, Status
from shardsolve.compat import jaxmg

M, N = 24, 6  # M is divisible by every number of devices that is tested
SHAPES = {"tall": (M, N), "wide": (N, M), "square": (M, M), "nearly_square": (M, M - 5)}
every_dtype = pytest.mark.parametrize("dtype", DTYPES)
every_shape = pytest.mark.parametrize("shape", SHAPES)


def matrix(m: int, n: int, dtype: str = "float64", seed: int = 4) -> np.ndarray:
    return normal(np.random.default_rng(seed), (m, n), dtype)


def with_values(s: list[float], m: int, dtype: str = "float64") -> np.ndarray:
    """Of these singular values."""
    u, v = (np.linalg.qr(matrix(rows, len(s), dtype, rows))[0] for rows in (m, len(s)))
    return (u * np.array(s, u.real.dtype)) @ v.conj().T


def jnp_svd(a):
    """With the phases of ours."""
    if a.shape[0] < a.shape[1]:
        u, s, vh = jnp_svd(a.conj().T)
        return vh.conj().T, s, u.conj().T
    u, s, vh = jnp.linalg.svd(a, full_matrices=False)
    v = vh.conj().T
    largest = jnp.take_along_axis(v, jnp.argmax(jnp.abs(v), axis=0)[None], axis=0)
    phases = jnp.conj(largest) / jnp.abs(largest)
    return u * phases, s, (v * phases).conj().T


def jnp_polar(a):
    u, s, vh = jnp.linalg.svd(a, full_matrices=False)
    return u @ vh, (vh.conj().T * s) @ vh


FUNCTIONS = {
    "u": (lambda a: shardsolve.svd(a)[0], lambda a: jnp_svd(a)[0]),
    "s": (lambda a: shardsolve.svd(a)[1], lambda a: jnp_svd(a)[1]),
    "vh": (lambda a: shardsolve.svd(a)[2], lambda a: jnp_svd(a)[2]),
    "svdvals": (shardsolve.svdvals, lambda a: jnp.linalg.svd(a, compute_uv=False)),
    "polar_u": (lambda a: shardsolve.polar(a)[0], lambda a: jnp_polar(a)[0]),
    "polar_h": (lambda a: shardsolve.polar(a)[1], lambda a: jnp_polar(a)[1]),
}
OF_WIDE = ("u", "s", "vh", "svdvals")


def scalar(f):
    """A number that depends on all of f(a), and on no phase that f leaves open."""

    def run(a):
        value = f(a)
        weights = jnp.cos(jnp.arange(value.size, dtype=value.real.dtype)).reshape(value.shape)
        return jnp.sum(weights * jnp.real(value)) + jnp.sum(jnp.abs(value) ** 2 * weights)

    return run


# Answers


@every_dtype
@every_shape
def test_svd_is_that_of_the_matrix(shape, dtype):
    a = matrix(*SHAPES[shape], dtype)
    u, s, vh, info = shardsolve.svd(spread(a), full_output=True)
    unit = unit_roundoff(dtype)
    k = min(a.shape)
    assert u.shape == (len(a), k) and s.shape == (k,) and vh.shape == (k, a.shape[1])
    assert u.dtype == vh.dtype == a.dtype and s.dtype == a.real.dtype
    assert info.status is Status.OK
    assert info.residual < 100 * unit and info.orthogonality < 100 * unit
    u, s, vh = (np.asarray(one) for one in (u, s, vh))
    assert np.linalg.norm(u.conj().T @ u - np.eye(k), 2) < 100 * unit
    assert np.linalg.norm(vh @ vh.conj().T - np.eye(k), 2) < 100 * unit
    assert np.linalg.norm(u * s @ vh - a, 2) < 100 * unit * s[0]
    exact = np.linalg.svd(a.astype("complex128"), compute_uv=False)
    assert np.max(np.abs(s - exact)) < 50 * unit * exact[0]
    assert np.max(np.abs(shardsolve.svdvals(spread(a)) - exact)) < 50 * unit * exact[0]
    assert (np.diff(s) <= 0).all() and (s >= 0).all()


def few_entries(n: int) -> np.ndarray:
    """Of some thousands the one whose vectors divide and conquer does not find on three devices."""
    rng = np.random.default_rng(0)
    for skipped in (n * n, n * n, n * n):
        rng.standard_normal(skipped)
    rng.permutation(n)
    for skipped in ((n // 2) ** 2, n * 40, n * 40, n, n):
        rng.standard_normal(skipped)
    return rng.standard_normal((n, n)) * (rng.random((n, n)) < 2 / n)


@pytest.mark.devices
@pytest.mark.parametrize(
    "a",
    (
        pytest.param(np.ones((100, 100), "complex128"), id="equal", marks=pytest.mark.one_rank),
        pytest.param(few_entries(700), id="few"),
    ),
)
def test_svd_vectors_are_as_orthonormal_as_lapacks(a):
    # Equal entries: terms of sums round to one side. Few: divide and conquer loses some vectors.
    mesh = row_mesh(jax.devices()[:3])
    u, _, vh = (np.asarray(one) for one in shardsolve.svd(put(a, mesh), mesh=mesh))
    lu, _, lvh = scipy.linalg.svd(a)

    def off(q):
        return np.linalg.norm(q.conj().T @ q - np.eye(q.shape[1]))

    assert off(u) < 4 * off(lu) and off(vh.conj().T) < 4 * off(lvh.conj().T)


@every_dtype
@pytest.mark.parametrize("m", (M, M // 2))
def test_svd_vectors_of_a_null_space_are_orthonormal(m, dtype):
    a = with_values([3, 2, 2, 1, *[0] * (M // 2 - 4)], m, dtype)
    u, s, vh = (np.asarray(one) for one in shardsolve.svd(spread(a)))
    unit = unit_roundoff(dtype)
    assert np.linalg.norm(u.conj().T @ u - np.eye(M // 2), 2) < 100 * unit
    assert np.linalg.norm(vh @ vh.conj().T - np.eye(M // 2), 2) < 100 * unit
    assert np.linalg.norm(u * s @ vh - a, 2) < 100 * unit * 3
    assert int(shardsolve.matrix_rank(spread(a))) == 4
    q, h = (np.asarray(one) for one in shardsolve.polar(spread(a)))
    assert np.linalg.norm(q.conj().T @ q - np.eye(M // 2), 2) < 100 * unit
    assert np.linalg.norm(q @ h - a, 2) < 100 * unit * 3


@pytest.mark.parametrize("shape", ("tall", "square"))
@every_dtype
def test_svd_polar_factors_are_scipys(shape, dtype):
    a = matrix(*SHAPES[shape], dtype)
    u, h, info = shardsolve.polar(spread(a), full_output=True)
    expected = scipy.linalg.polar(a.astype("complex128" if a.dtype.kind == "c" else "float64"))
    assert info.status is Status.OK and info.orthogonality < 100 * unit_roundoff(dtype)
    assert (np.asarray(h) == np.asarray(h).conj().T).all()
    assert close((u, h), jax.tree.map(lambda one: one.astype(dtype), expected), 1e5)


def test_svd_ranks_and_conditions_are_numpys():
    a = with_values([1, 1e-3, 1e-9, 1e-17], 12)
    assert int(shardsolve.matrix_rank(a)) == np.linalg.matrix_rank(a) == 3
    assert int(jax.jit(shardsolve.matrix_rank)(a, 1e-6)) == 2
    assert int(shardsolve.matrix_rank(np.zeros((4, 3)))) == 0
    b = with_values([2, 1, 1e-3], 9)
    assert np.allclose(shardsolve.cond(b, 2), 2000, rtol=1e-10)
    assert shardsolve.cond(np.zeros((3, 2)) + np.eye(3, 2)[:, :1], 2) > 1e15


@pytest.mark.parametrize("dtype", ("float32", "complex128"))
def test_svd_ranks_of_subnormal_numbers_are_those_of_others(dtype):
    least = float(np.finfo(dtype).smallest_subnormal)
    a = np.array([[2, 1, 0, 0], [1, 2, 1, 0], [0, 1, 2, 1], [3, 4, 3, 1]], dtype)
    for given, rank in ((a[:3], 3), (a, 3), (np.diag([4, 3, 2, 0]).astype(dtype), 3)):
        for place in (np.asarray, spread):
            assert int(shardsolve.matrix_rank(place(given * (2.0**9 * least)))) == rank
    tiny = np.finfo(dtype).tiny
    assert int(shardsolve.matrix_rank(np.diag([1, tiny / 8]).astype(dtype))) == 1
    assert int(shardsolve.matrix_rank(np.diag([tiny, tiny / 8]).astype(dtype))) == 2


def test_svd_nonfinite_entry_is_named():
    a = matrix(M, N)
    a[7, 2] = np.nan
    for run in (shardsolve.svd, shardsolve.svdvals, shardsolve.polar):
        with pytest.raises(LinAlgError, match="row 7, column 2") as caught:
            run(spread(a))
        assert caught.value.status is Status.NONFINITE_INPUT
    u, s, vh = jax.jit(shardsolve.svd)(spread(a))
    assert np.isnan(u).all() and np.isnan(s).all() and np.isnan(vh).all()


@every_dtype
def test_svd_on_a_device_that_is_alone_has_the_same_figures(dtype):
    unit = unit_roundoff(dtype)
    small = {"float32": 1e-30, "complex64": 1e-30}.get(dtype, 1e-200)
    ones, null = np.ones((9, 5), dtype), with_values([3, 2, 0, 0], 9, dtype)
    for a in (matrix(9, 5, dtype), small * matrix(9, 5, dtype), 0 * ones, ones, null, null.T):
        a = jax.device_put(a.astype(dtype), jax.devices()[0])
        u, s, vh, info = jax.jit(functools.partial(shardsolve.svd, full_output=True))(a)
        u, s, vh = (np.asarray(one) for one in (u, s, vh))
        assert info.verdict[0] == 0
        assert info.residual < 50 * unit and info.orthogonality < 50 * unit
        k = min(a.shape)
        assert np.linalg.norm(u.conj().T @ u - np.eye(k), 2) < 50 * unit
        assert np.linalg.norm(vh @ vh.conj().T - np.eye(k), 2) < 50 * unit
        assert np.max(np.abs(u * s @ vh - a)) <= 50 * unit * s[0]
        assert np.allclose(shardsolve.svdvals(a), s, rtol=0, atol=50 * unit * s[0])
        v = (vh if a.shape[0] >= a.shape[1] else u.conj().T).conj().T
        largest = v[np.argmax(np.abs(v), axis=0), np.arange(k)]
        assert (largest.real > 0).all() and (np.abs(largest.imag) <= unit).all()
    bad = jax.device_put(np.full((3, 2), np.inf, dtype), jax.devices()[0])
    with pytest.raises(LinAlgError, match="row 0, column 0"):
        shardsolve.svd(bad)


@pytest.mark.parametrize("on", [spread, more(np.asarray)])
def test_svd_values_below_the_normal_range_are_there(on):
    """XLA on CPUs makes zeros of them."""
    a = with_values([3, 2, 1], 12) * 1e-310
    expected = np.linalg.svd(a, compute_uv=False)
    for s in (shardsolve.svdvals(on(a)), shardsolve.svd(on(a))[1]):
        assert np.max(np.abs(np.asarray(s) - expected)) < 1e-13 * expected[0]


# Shardings


@pytest.mark.parametrize("place", PLACES)
def test_svd_of_matrix_anywhere_is_the_same(place):
    a = matrix(M, 12, "complex128")
    u, s, vh = jax.jit(shardsolve.svd)(PLACES[place](a))
    assert close((u, s, vh), jnp_svd(a), 1e5)


@pytest.mark.parametrize("place", ("rows", "columns", "replicated", more("blocks")))
def test_svd_of_fewer_rows_anywhere_is_the_same(place):
    a = matrix(12, M, "complex128")
    assert close(jax.jit(shardsolve.svd)(PLACES[place](a)), jnp_svd(a), 1e5)


@pytest.mark.devices
@pytest.mark.parametrize("m", (2 * DEVICES + 1, 5 * DEVICES - 1))
def test_svd_size_that_does_not_divide(m):
    a = matrix(m, 3)
    assert close(shardsolve.svd(a, mesh=row_mesh()), jnp_svd(a), 1e5)
    assert close(shardsolve.polar(a, mesh=row_mesh()), jnp_polar(a), 1e5)


@pytest.mark.devices
def test_svd_keeps_rows_where_those_of_a_are():
    a = put(matrix(M, N), row_mesh(), "x", None)
    u, s, vh = jax.jit(shardsolve.svd)(a)
    assert u.sharding.is_equivalent_to(a.sharding, 2)
    assert s.sharding.is_fully_replicated and vh.sharding.is_fully_replicated


@pytest.mark.parametrize("shape", ("tall", "wide"))
def test_svd_inside_of_a_shard_map_cut_rows_are_one_matrix(shape):
    a = matrix(*{"tall": (M, N), "wide": (12, M)}[shape])
    values = functools.partial(shardsolve.svdvals, axis_name="x")

    def run(a):
        return values(a)[None], jax.grad(lambda a: jnp.sum(values(a) ** 3))(a)

    specs = P("x", None)
    s, da = jax.jit(
        jax.shard_map(
            run, mesh=row_mesh(), in_specs=(specs,), out_specs=(P("x"), specs), check_vma=False
        )
    )(a)
    assert close(s[0], np.linalg.svd(a, compute_uv=False))
    expected = jax.grad(lambda a: jnp.sum(jnp.linalg.svd(a, compute_uv=False) ** 3))(a)
    # each device has all of s: the gradient of the sum of all
    assert close(da, DEVICES * expected, 1e6)


# Derivatives and transforms


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("way", (more("eager"), "jit", "explicit", more("one_device")))
def test_svd_gradient_is_that_of_jnp(function, way):
    run, place = WAYS[way]
    ours, theirs = FUNCTIONS[function]
    a = matrix(M, N)
    assert close(run(jax.grad(scalar(ours)))(place(a)), jax.grad(scalar(theirs))(a), 1e6)


@pytest.mark.parametrize("function", OF_WIDE)
def test_svd_gradient_of_fewer_rows_is_that_of_jnp(function):
    ours, theirs = FUNCTIONS[function]
    a = matrix(N, M)
    assert close(jax.jit(jax.grad(scalar(ours)))(spread(a)), jax.grad(scalar(theirs))(a), 1e6)


@pytest.mark.parametrize("function", ("svdvals", "s", "polar_u", "polar_h"))
@pytest.mark.parametrize("shape", ((9, 4), more((4, 4))))
@pytest.mark.parametrize("transform", ("grad", "jvp", "hessian_vector"))
def test_svd_transform_of_complex_numbers_is_that_of_jnp(function, shape, transform):
    ours, theirs = FUNCTIONS[function]
    a, da = matrix(*shape, "complex128"), matrix(*shape, "complex128", 7)

    def transformed(f):
        if transform == "grad":
            return jax.grad(scalar(f))(a)
        if transform == "jvp":
            return jax.jvp(f, (a,), (da,))
        return jax.jvp(jax.grad(scalar(f)), (a,), (da,))

    assert close(transformed(ours), transformed(theirs), 1e7)


@pytest.mark.parametrize("function", ("u", "vh"))
@pytest.mark.parametrize("shape", ((9, 4), (5, 5), (4, 9)))
def test_svd_change_of_complex_vectors_is_that_of_differences(function, shape):
    f = FUNCTIONS[function][0]
    a, da, h = matrix(*shape, "complex128"), matrix(*shape, "complex128", 7), 1e-6
    change = jax.jvp(f, (a,), (da,))[1]
    differences = (f(a + h * da) - f(a - h * da)) / (2 * h)
    assert np.max(np.abs(change - differences)) < 1e-6 * np.max(np.abs(differences))


def test_svd_derivatives_that_are_not_there_are_nan():
    """Vectors of equal values, their second derivatives, and quotients by 0."""
    a = with_values([3, 2, 2, 1], 8)
    f = shardsolve.svdvals
    assert np.isfinite(jax.grad(lambda a: jnp.sum(f(a) ** 2))(a)).all()
    assert close(jax.grad(lambda a: jnp.sum(f(a) ** 2))(a), 2 * a, 1e5)
    assert np.isnan(jax.jvp(jax.grad(lambda a: jnp.sum(f(a) ** 3)), (a,), (a[::-1],))[1]).any()
    change = jax.jvp(lambda a: shardsolve.svd(a)[2], (a,), (matrix(8, 4),))[1]
    assert np.isnan(change).any()
    singular = with_values([2, 1, 0], 6)
    slope = jax.grad(lambda a: jnp.sum(shardsolve.svd(a)[0] * matrix(6, 3)))(singular)
    # a value that rounding has left of 0 gives numbers of its size; 0 itself none
    assert not np.isfinite(slope).all() or np.max(np.abs(slope)) > 1e10


@pytest.mark.parametrize("dtype", ("float64", "complex128"))
@pytest.mark.parametrize("m", (4, M))
def test_svd_second_derivatives_of_polar_factors_know_no_equal_values(m, dtype):
    """Those of eigenvectors of h do: the last values are nearly equal, or equal."""
    d = spread(matrix(m, 4, dtype, 7))
    for values in ([3, 2, 1.5, 1], [2, 2, 1, 1], [1, 1, 1, 1]):
        a = spread(with_values(values, m, dtype))
        for factor in (0, 1):

            def f(t, a=a, factor=factor):
                return jnp.sum(jnp.real(shardsolve.polar(a + t * d)[factor]) ** 3)

            h = 1e-3
            slope = jax.jit(jax.grad(f))
            differences = (slope(h) - slope(-h)) / (2 * h)
            assert abs(jax.hessian(f)(0.0) - differences) < 1e-3 * abs(differences)


def test_svd_rank_by_a_traced_rtol_that_is_none_is_none():
    a = with_values([1, 0.1, 0.01], 4)
    rank = jax.jit(lambda rtol: shardsolve.matrix_rank(a, rtol=rtol))
    assert rank(0.05) == 2
    assert rank(-1.0) == rank(np.nan) == -1


def test_svd_vmap_is_that_of_jnp():
    a = np.stack([matrix(8, 3, seed=seed) for seed in range(3)])
    assert close(jax.jit(jax.vmap(shardsolve.svd))(a), jax.vmap(jnp_svd)(a), 1e5)
    gradient = jax.vmap(jax.grad(scalar(shardsolve.svdvals)))(a)
    assert close(gradient, jax.vmap(jax.grad(scalar(FUNCTIONS["svdvals"][1])))(a), 1e6)


# JAXMg's names


@pytest.mark.parametrize("way", ("eager", "jit"))
def test_svd_and_qr_by_jaxmgs_names(way):
    run = jax.jit if way == "jit" else lambda f: f
    mesh = row_mesh()
    a = put(matrix(M, N), mesh, "x", None)
    tile = {"T_A": 4, "mesh": mesh, "matrix_specs": P("x", None)}
    u, s, vh, status = run(functools.partial(jaxmg.gesvd, return_status=True, **tile))(a)
    assert close((u, s, vh), jnp_svd(a), 1e5) and status == 0
    only = run(functools.partial(jaxmg.gesvd, compute_u=False, compute_vh=False, **tile))(a)
    assert close(only, s)
    work, s2, vh2, status = run(
        functools.partial(jaxmg.gesvd_shardmap_ctx, compute_u=False, **tile)
    )(a)
    assert close((work, s2, vh2), (a, s, vh)) and status.shape == (1,)
    assert close(run(functools.partial(jaxmg.polar, **tile))(a), jnp_polar(a), 1e5)
    assert len(run(functools.partial(jaxmg.polar_shardmap_ctx, compute_h=False, **tile))(a)) == 2
    q, r = run(functools.partial(jaxmg.qr, **tile))(a)
    assert close(q @ r, a) and close(q.T @ q, np.eye(N))
    b = matrix(M, 2, seed=5)
    x, status = run(functools.partial(jaxmg.least_squares, return_status=True, **tile))(a, b)
    assert close(x, np.linalg.lstsq(a, b, rcond=None)[0]) and status == 0
    *_, x2, status = run(functools.partial(jaxmg.least_squares_shardmap_ctx, **tile))(a, b[:, 0])
    assert close(x2, x[:, 0]) and status.shape == (1,)


def test_svd_jaxmgs_functions_do_not_raise_for_the_numbers():
    a = np.full((8, 2), np.nan)
    *found, status = jaxmg.gesvd(a, 2, return_status=True)
    assert status == jaxmg.NO_ANSWER and all(np.isnan(one).all() for one in found)
    q, r, status = jaxmg.qr_shardmap_ctx(a, 2)
    assert status[0] == jaxmg.NO_ANSWER and np.isnan(q).all() and np.isnan(r).all()


# Mistakes


def test_svd_mistakes_are_named():
    a = matrix(M, N)
    with pytest.raises(ValueError, match=r"full_matrices=True was given for a of shape \(24, 6\)"):
        shardsolve.svd(a, full_matrices=True)
    assert close(shardsolve.svd(matrix(5, 5), True), jnp_svd(matrix(5, 5)), 1e5)
    assert close(shardsolve.svd(a, compute_uv=False), shardsolve.svdvals(a))
    with pytest.raises(ValueError, match="polar takes at least as many rows as columns"):
        shardsolve.polar(a.T)
    with pytest.raises(ValueError, match="pass a matrix with rows and columns"):
        shardsolve.svdvals(np.zeros((0, 3)))
    with pytest.raises(ValueError, match="several go through"):
        shardsolve.svd(np.zeros((2, 3, 3)))
    with pytest.raises(TypeError, match="a has dtype int"):
        shardsolve.svd(np.ones((3, 2), dtype=int))
    with pytest.raises(ValueError, match=r"rtol is -1; pass a number from 0 on"):
        shardsolve.matrix_rank(a, -1)
    with pytest.raises(TypeError, match="eigh is for Hermitian matrices"):
        shardsolve.svd(a, hermitian=True)
    with pytest.raises(TypeError, match=r"pass a.conj\(\).T"):
        shardsolve.polar(a, side="left")
    with pytest.raises(NotImplementedError, match="p=2, by its singular values"):
        shardsolve.cond(a, np.inf)
    with pytest.raises(ValueError, match="was called inside of a shard_map"):
        jax.shard_map(
            lambda a: jaxmg.gesvd(a, 2)[1], mesh=row_mesh(), in_specs=P("x"), out_specs=P()
        )(a)


def test_cond_of_subnormal_numbers_is_that_of_others():
    for a, cond in (
        (np.diag([1e-30, 1e-38]).astype("float32"), 1e8),
        ((np.eye(8) + 0.1) * 1e-310, 1.8),
        (np.diag([1.0, 0.0]), np.inf),
    ):
        assert np.isclose(shardsolve.cond(a, 2), cond, rtol=1e-6)


@pytest.mark.parametrize("scale", (2.0**70, 2.0**-70))
def test_derivatives_of_svd_do_not_depend_on_the_scale(scale):
    a = np.random.default_rng(3).standard_normal((6, 5)).astype("float32")
    weights = np.random.default_rng(4).standard_normal((6, 5)).astype("float32")
    for f in (
        lambda a: jnp.sum(shardsolve.svd(a)[0] * weights),
        lambda a: jnp.sum(shardsolve.svd(a)[2] * weights[:5]),
        lambda a: shardsolve.cond(a, 2),
    ):
        scaled = jax.grad(f)(a * np.float32(scale)) * np.float32(scale)
        assert np.allclose(scaled, jax.grad(f)(a), rtol=1e-3, atol=1e-3)
