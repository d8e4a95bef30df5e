"""lu: the factors themselves, in the order of the matrix."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import systems
from jax.sharding import NamedSharding, PartitionSpec
from places import PLACES
from systems import DTYPES, WAYS, close, infinity_norm, more, normal, put, row_mesh, spread

import shardsolve
from shardsolve import LinAlgError, Status

D = systems.DEVICES


def matrix(m, n, dtype="float64", seed=4):
    return normal(np.random.default_rng(seed), (m, n), dtype)


def residual(a, order, lower, upper) -> float:
    """Of P A - L U, in units of u ||A||."""
    a, lower, upper = (np.asarray(x).astype(np.clongdouble) for x in (a, lower, upper))
    u = systems.unit_roundoff(np.asarray(order[1]).dtype)
    return infinity_norm(a - lower[order[0]] @ upper) / (infinity_norm(a) * u)


def is_lu(a, p, lower, upper, same_pivots=True) -> bool:
    """As LAPACK's, p being indices."""
    m, n = a.shape
    k = min(m, n)
    p, lower, upper = (np.asarray(x) for x in (p, lower, upper))
    assert (lower.shape, upper.shape, p.shape) == ((m, k), (k, n), (m,))
    assert lower.dtype == upper.dtype == a.dtype and p.dtype == np.int32
    assert np.array_equal(np.tril(upper, -1), np.zeros((k, n)))
    assert np.array_equal(np.triu(lower), np.eye(m, k))
    largest = np.sqrt(2) if np.iscomplexobj(a) else 1.0  # by |re| + |im|
    assert np.abs(lower).max(initial=0.0) <= largest * (1 + 4 * systems.unit_roundoff(a.dtype))
    theirs = scipy.linalg.lu(a, p_indices=True)
    assert np.array_equal(p, theirs[0]) or not same_pivots
    if k:
        gate = max(10, 4 * residual(a, (theirs[0], a), *theirs[1:]))
        assert residual(a, (p, a), lower, upper) < gate
    return True


# Square, wide and tall; shared by all devices, or taken whole by each.
SHAPES = ((24, 24), (13, 13), (24, 40), (40, 24), (7, 8 * D), (8 * D, 7))


@pytest.mark.parametrize(
    ("m", "n", "dtype", "tile"),
    [
        (65, 65, "float64", None),
        *((33, 33, dtype, 3) for dtype in DTYPES),
        *((m, n, "float64", None) for m, n in SHAPES[2:5]),
        *(more(m, n, "float64", None) for m, n in ((1, 1), (2, 2), *SHAPES[:2], SHAPES[5])),
        *(more(m, n, dtype, None) for m, n in SHAPES for dtype in DTYPES if dtype != "float64"),
        more(41, 23, "complex64", 2),
        more(300, 300, "float64", None),
        more(300, 300, "complex64", 20),
    ],
)
def test_lu_is_that_of_scipy(m, n, dtype, tile):
    a = matrix(m, n, dtype)
    p, lower, upper, info = shardsolve.lu(spread(a), p_indices=True, tile=tile, full_output=True)
    assert is_lu(a, p, lower, upper)
    assert info.status is Status.OK and info.message == "" and info.rcond == -1
    # Sums of n products are rounded, too, with which it is found.
    limit = max(20, 2 * np.sqrt(n)) * systems.unit_roundoff(dtype)
    assert 0 <= info.backward_error < limit


@pytest.mark.parametrize(("m", "n"), [(40, 24), *(more(*shape) for shape in SHAPES[1:3])])
def test_forms_of_p_are_those_of_scipy(m, n):
    a = matrix(m, n, "complex64")
    order, *_ = shardsolve.lu(spread(a), p_indices=True)
    p, lower, upper = shardsolve.lu(spread(a))
    assert p.dtype == "float32" and np.array_equal(p, np.eye(m)[:, np.argsort(order)])
    theirs = scipy.linalg.lu(a, permute_l=True)
    assert close((np.asarray(p, "complex64") @ lower, upper), theirs)
    assert close(shardsolve.lu(spread(a), True, p_indices=True), theirs)


@pytest.mark.parametrize("dtype", ["float64", *map(more, ("float32", "complex64", "complex128"))])
def test_certificate_is_the_error_of_the_factors(dtype):
    a = matrix(40, 40, dtype)
    p, lower, upper, info = shardsolve.lu(spread(a), p_indices=True, full_output=True)
    u = systems.unit_roundoff(dtype)
    exact = residual(a, (np.asarray(p), a), lower, upper) * u
    # Four vectors see hardly more than there is, nor much less; the products round besides.
    assert exact / 10 <= info.backward_error <= 4 / 3 * exact + 10 * u
    grown = np.eye(64) - np.tril(np.ones((64, 64)), -1)
    grown[:, -1] = 1 + abs(matrix(64, 1)[:, 0])  # whole numbers would be exact
    info = shardsolve.lu(grown.astype(dtype), full_output=True)[-1]
    assert info.status is Status.OK and info.backward_error > 100 * u


@pytest.mark.parametrize(("n", "dtype"), [(17, "float32"), (25, "float64")])
def test_certificate_does_not_round_as_elimination_has(n, dtype):
    a = 0.5 * np.eye(n) - np.tril(np.full((n, n), 0.5), -1)  # Foster's, by the trapezoidal rule
    a[:, 0] /= 2
    np.fill_diagonal(a, 0.75)
    a[0, 0], a[:, -1], a[-1, -1] = 1, -1, -0.25
    a = a.astype(dtype)
    p, lower, upper, info = shardsolve.lu(jnp.asarray(a), p_indices=True, full_output=True)
    p, lower, upper = (np.asarray(x).astype(np.longdouble) for x in (p, lower, upper))
    exact = infinity_norm(a - lower[p.astype(int)] @ upper) / infinity_norm(a)
    assert exact / 4 <= float(info.backward_error) <= 8 * exact


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0)])
def test_matrix_without_entries_has_factors(shape):
    for form in ({}, {"p_indices": True}, {"permute_l": True}):
        factors = shardsolve.lu(np.zeros(shape), **form, full_output=True)
        assert factors[-1].status is Status.OK
        assert factors[-3].shape == (shape[0], 0) and factors[-2].shape == (0, shape[1])
        assert len(factors) == 3 or np.array_equal(
            factors[0], np.arange(shape[0]) if form else np.eye(shape[0])
        )


# Shardings


@pytest.mark.parametrize(
    ("m", "n", "explicit"),
    [(8, 8, False), (8, 5, True), *(more(8, n, kind) for n in (5, 8, 11) for kind in (0, 1))],
)
def test_rows_lie_where_those_of_the_matrix_do(m, n, explicit):
    a = put(matrix(m * D, n * D), row_mesh(explicit=explicit), "x")
    whole = put(np.zeros(1), row_mesh(explicit=explicit)).sharding
    for run in (shardsolve.lu, jax.jit(shardsolve.lu)):
        p, lower, upper = run(a)
        assert p.sharding.is_equivalent_to(a.sharding, 2)
        assert lower.sharding.is_equivalent_to(a.sharding, 2)
        wanted = whole if m > n else a.sharding
        assert explicit or upper.sharding.is_equivalent_to(wanted, 2)


@pytest.mark.parametrize("way", ["eager", more("jit")])
@pytest.mark.parametrize("place", [name if name == "columns" else more(name) for name in PLACES])
def test_lu_of_matrix_anywhere(place, way):
    a = matrix(24, 24, "complex128")
    run = functools.partial(shardsolve.lu, p_indices=True)
    assert is_lu(a, *(jax.jit(run) if way == "jit" else run)(PLACES[place](a)))


@pytest.mark.devices
@pytest.mark.parametrize(("m", "n"), [(6 * D + 1,) * 2, more(2, 2), more(41, 30), more(30, 41)])
def test_rows_in_unequal_parts_inside_of_a_program(m, n):
    """There each device has as many as the first, and what it has beyond the matrix is anything."""
    rows = NamedSharding(row_mesh(), PartitionSpec("x", None))

    @jax.jit
    def run(a):
        a = jax.lax.with_sharding_constraint(a, rows)
        return shardsolve.lu(a, tile=2, p_indices=True, full_output=True)

    a = matrix(m, n, "complex128")
    *factors, info = run(a)
    assert is_lu(a, *factors) and info.backward_error < 20 * systems.unit_roundoff(a.dtype)


@pytest.mark.parametrize(("m", "n"), [(24, 24), more(8 * D, 6 * D), more(8 * D, 2)])
def test_inside_of_a_shard_map_cut_rows_are_one_matrix(m, n):
    a = matrix(m, n)
    rows = PartitionSpec("x", None)

    def run(a):
        lu = functools.partial(shardsolve.lu, axis_name="x")
        weights = jnp.arange(n, dtype=a.dtype)  # p l u, so the gradient is that of the sum over a
        slope = jax.grad(lambda a: jnp.sum(lu(a, permute_l=True)[0] * weights[: min(m, n)]))(a)
        return *lu(a), slope

    *factors, slope = jax.jit(
        jax.shard_map(
            run,
            mesh=row_mesh(),
            in_specs=rows,
            out_specs=(rows, rows, PartitionSpec() if m > n else rows, rows),
            check_vma=False,
        )
    )(a)
    assert close(tuple(factors), scipy.linalg.lu(a))

    def plain(a):
        return jnp.sum(jax.scipy.linalg.lu(a, permute_l=True)[0] * jnp.arange(n)[: min(m, n)])

    assert close(slope, jax.grad(plain)(a), 1e6)


@pytest.mark.skipif(D == 1, reason="one device has nobody to send to")
def test_matrix_is_never_gathered():
    n = 16 * D
    text = systems.compiled_text(shardsolve.lu, put(matrix(n, n), row_mesh(), "x"))
    assert "shardsolve_lu_factor" in text
    assert systems.largest_collective(text) <= n * n // D


# Numbers that are no ordinary ones


@pytest.mark.parametrize("place", ["spread", "one_device"])
@pytest.mark.parametrize(("m", "n"), [more(24, 24), more(40, 24), (24, 40)])
def test_singular_matrix_has_factors_and_says_so(m, n, place):
    a = matrix(m, n)
    a[:, 5] = 0
    given = spread(a) if place == "spread" else a
    *factors, info = shardsolve.lu(given, p_indices=True, full_output=True)
    assert is_lu(a, *factors) and factors[2][5, 5] == 0
    assert info.status is Status.SINGULAR and info.pivot == 5 and "line 5" in info.message
    ones = np.ones((m, n))
    given = spread(ones) if place == "spread" else ones
    assert close(shardsolve.lu(given), scipy.linalg.lu(ones))  # nothing is raised


REASONS = {
    "nan": (Status.NONFINITE_INPUT, "row 19, column 4"),
    "inf": (Status.NONFINITE_INPUT, "row 19, column 4"),
    "large": (Status.OVERFLOW, "does not fit the range"),
    "small": (Status.UNDERFLOW, "below the range"),
    "subnormal": (Status.UNDERFLOW, "below the range"),
}


@pytest.mark.parametrize(
    ("bad", "place"),
    [
        *(("nan", "spread"), ("large", "one_device"), ("subnormal", "one_device")),
        *(more(bad, place) for bad in REASONS for place in ("one_device", "spread")),
    ],
)
def test_no_answer_has_a_reason(bad, place):
    status, words = REASONS[bad]
    a = matrix(24, 24)
    if bad == "large":
        a = np.sign(a) * 1.7e308
    elif bad in ("small", "subnormal"):
        a *= 1e-308 if bad == "small" else 1e-312
    else:
        a[19, 4] = float(bad)
    given = spread(a) if place == "spread" else a
    with pytest.raises(LinAlgError, match=words) as caught:
        shardsolve.lu(given, tile=1)
    assert caught.value.status is status
    p, lower, upper = jax.jit(lambda a: shardsolve.lu(a, p_indices=True))(given)
    assert np.isnan(lower).all() and np.isnan(upper).all() and np.array_equal(p, np.full(24, -1))


@pytest.mark.parametrize("size", [1e307, more(1e-290), 1e-302])
@pytest.mark.parametrize("place", ["rows", "last_device"])
def test_numbers_near_the_ends_of_the_range_have_factors(size, place):
    a = matrix(24, 24)
    p, lower, upper = shardsolve.lu(PLACES[place](a * size), p_indices=True)
    assert is_lu(a, p, lower, np.asarray(upper) / size)


# Derivatives and transforms


@pytest.mark.parametrize(
    ("m", "n", "dtype", "permuted", "way"),
    [
        (12, 12, "complex128", False, "jit"),
        (12, 17, "float64", False, "explicit"),
        (12, 7, "float64", True, "jit"),
        *(more(12, n, "complex64", p, way) for n in (7, 12, 17) for p in (0, 1) for way in WAYS),
    ],
)
def test_gradient_is_that_of_jax(m, n, dtype, permuted, way):
    a = matrix(m, n, dtype)

    def value(lu):
        def value(a):
            *_, lower, upper = lu(a, permute_l=bool(permuted))
            # Its second factor tells the entries apart.
            return sum(
                jnp.sum(jnp.abs(one) ** 3 * jnp.arange(one.size).reshape(one.shape))
                for one in (lower, upper)
            )

        return value

    compiled, place = WAYS[way]
    given = place(a) if m % D == 0 else jnp.asarray(a)
    ours = compiled(jax.grad(value(shardsolve.lu)))(given)
    assert close(ours, jax.grad(value(jax.scipy.linalg.lu))(a), 1e6)


# Of a function of one matrix, functions of two.
TRANSFORMS = {
    "vmap": lambda f: jax.vmap(f),
    "vmap_grad": lambda f: jax.vmap(jax.grad(f)),
    "second_order": lambda f: jax.vmap(lambda a: jax.jvp(jax.grad(f), (a,), (a.T + 2.0,))[1]),
    "reverse_twice": lambda f: jax.grad(lambda a: jnp.sum(jnp.abs(jax.vmap(jax.grad(f))(a)))),
    "many_tangents": lambda f: lambda a: jax.jacfwd(f)(a[0]),
}


@pytest.mark.parametrize("way", ["jit", more("eager"), more("one_device")])
@pytest.mark.parametrize(
    "transform", [name if name in ("vmap", "second_order") else more(name) for name in TRANSFORMS]
)
def test_transforms_are_those_of_jax(transform, way):
    n = 12  # rows that 1, 2, 4 and 6 devices share equally
    weights = 1.0 + jnp.arange(n * n).reshape(n, n)

    def transformed(lu):
        def value(a):
            _, lower, upper = lu(a)
            return jnp.sum((lower + upper) ** 3 * weights)

        return TRANSFORMS[transform](value)

    batch = np.stack([matrix(n, n, seed=seed) + 3 * np.eye(n) for seed in (1, 2)])
    ours = transformed(shardsolve.lu)
    ours = ours if way == "eager" else jax.jit(ours)
    given = batch if way == "one_device" else systems.spread_batch(batch)
    assert close(ours(given), transformed(jax.scipy.linalg.lu)(batch), 1e7)


def test_nothing_is_promoted():
    a = matrix(13, 13)
    with jax.numpy_rank_promotion("raise"), jax.numpy_dtype_promotion("strict"):
        factors = shardsolve.lu(spread(a), p_indices=True, tile=2, full_output=True)[:3]
    assert is_lu(a, *factors)


# Mistakes


def test_lu_mistakes_are_named():
    a = matrix(4, 4)
    with pytest.raises(ValueError, match=r"shape \(2, 4, 4\); pass a matrix, \(m, n\).*jax\.vmap"):
        shardsolve.lu(np.stack([a, a]))
    with pytest.raises(TypeError, match="a has dtype int"):
        shardsolve.lu(np.eye(3, dtype=int))
    with pytest.raises(ValueError, match="tile is 0; pass a positive whole number"):
        shardsolve.lu(a, tile=0)
    with pytest.raises(TypeError, match="has no argument 'overwrite_a': a is always kept"):
        shardsolve.lu(a, overwrite_a=True)
    with pytest.raises(TypeError, match="takes a and permute_l by position"):
        shardsolve.lu(a, False, True)


@pytest.mark.cpu_only  # GPUs have subnormal numbers
@pytest.mark.parametrize("last", ["subnormal", "difference"])
def test_lu_pivot_below_range_on_one_device_is_not_called_singular(last):
    tiny = np.finfo(np.float32).tiny
    a = np.diag(np.float32([1, 1, 1, tiny / 1024]))
    if last == "difference":  # of two normal numbers
        a[2:, 2:] = [[1, tiny], [1, 1.5 * tiny]]
    *_, info = shardsolve.lu(jax.device_put(a, jax.devices()[0]), full_output=True)
    assert info.status == Status.UNDERFLOW


@pytest.mark.parametrize("place", ("one_device", "spread"))
@pytest.mark.parametrize("dtype", ("float32", "complex128"))
def test_lu_pivot_of_zero_beside_short_numbers_is_called_singular(dtype, place):
    short = 4 * np.finfo(dtype).tiny
    first, ones = np.diag([1, short, 0, 0]), np.diag([1, 1, 0, short])
    ones[:2, :2] = 1
    for a, pivot in ((first, 2), (ones, 1)):
        a = a.astype(dtype)
        given = spread(a) if place == "spread" else jax.device_put(a, jax.devices()[0])
        *factors, info = shardsolve.lu(given, full_output=True)
        assert info.status is Status.SINGULAR and info.pivot == pivot
        assert close(tuple(factors), scipy.linalg.lu(a))
