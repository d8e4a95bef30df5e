"""Eigenvalues and eigenvectors: for all types, wherever the matrix lies, by every way in."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from eigensystems import are_eigenpairs, are_eigenvalues, random_hermitian, with_eigenvalues
from jax import lax
from jax.sharding import PartitionSpec as P
from places import PLACES, SPECS, N
from systems import (
    DEVICES,
    DTYPES,
    close,
    grid_mesh,
    hermitian,
    more,
    put,
    row_mesh,
    spread,
    spread_batch,
    unit_roundoff,
)

import shardsolve
from shardsolve import Status

every_way = pytest.mark.parametrize("way", ("eager", "jit"))


def by(way, function):
    return jax.jit(function) if way == "jit" else function


# Answers


@pytest.mark.devices
@pytest.mark.parametrize(
    ("n", "dtype"),
    [(n, dtype) for n in (0, 1, 2, 5, 33) for dtype in ("float32", "complex128")]
    + [(100, dtype) for dtype in DTYPES],
)
def test_any_size_passes_gates(n, dtype):
    a = random_hermitian(n, dtype)
    w, v, info = shardsolve.eigh(spread(a), full_output=True)
    assert are_eigenpairs(a, w, v)
    assert info.status is Status.OK
    assert info.message == ""
    assert float(info.residual) < 100 * unit_roundoff(dtype)
    assert float(info.orthogonality) < 100 * unit_roundoff(dtype)
    assert are_eigenvalues(a, shardsolve.eigvalsh(spread(a)))


SPECTRA = {
    "three_clusters": np.repeat([-1.0, 0.5, 2.0], 16) + 1e-13 * np.arange(48),
    "rank_three": np.r_[np.zeros(45), -1.0, 2.0, 5.0],
    "geometric": 10.0 ** -np.linspace(0, 16, 48),
    "one_value": np.ones(48),
    "zero": np.zeros(48),
    "huge": 1e150 * np.arange(1, 49),
}


@pytest.mark.parametrize("spectrum", SPECTRA)
def test_any_spectrum_passes_gates(spectrum):
    a = with_eigenvalues(SPECTRA[spectrum], "complex128")
    assert are_eigenpairs(a, *shardsolve.eigh(spread(a)))


@pytest.mark.parametrize("matrix", (np.eye(24), np.diag(np.arange(24.0) - 7), np.zeros((24, 24))))
def test_diagonal_matrix_has_unit_vectors(matrix):
    w, v = shardsolve.eigh(spread(matrix))
    assert np.array_equal(w, np.sort(np.diag(matrix)))
    assert np.array_equal(np.sort(np.abs(v), axis=0)[:-1], np.zeros((23, 24)))
    assert are_eigenpairs(matrix, w, v)


@pytest.mark.one_rank
@pytest.mark.parametrize("dtype", ("float64", "complex64"))
def test_small_matrix_by_one_rank_passes_gates(dtype):
    for n in (33, 64):
        a = random_hermitian(n, dtype)
        assert are_eigenpairs(a, *shardsolve.eigh(spread(a)))
        found = shardsolve.eigh(spread(a), subset_by_index=(2, 9))
        assert are_eigenpairs(a, *found, slice(2, 10))


@pytest.mark.parametrize("on", [np.asarray, more(spread)])
@pytest.mark.parametrize("size", [1e-310, more(1e-300), more(1e300)])
def test_matrix_near_the_ends_of_the_range_passes_gates(size, on):
    """XLA on CPUs makes zeros of subnormal numbers, of a matrix and of its eigenvalues."""
    a = random_hermitian(12, "float64")
    expected = np.linalg.eigvalsh(a) * size
    w = np.asarray(shardsolve.eigvalsh(on(a * size)))
    assert np.max(np.abs(w - expected)) < 1e-13 * np.max(np.abs(expected)) + 1e-322


def test_same_bits_every_time():
    a = spread(random_hermitian(100))
    first = shardsolve.eigh(a)
    for _ in range(3):
        again = jax.jit(shardsolve.eigh)(a)
        assert all(map(np.array_equal, first, again))


# Some of them


@pytest.mark.devices
@every_way
@pytest.mark.parametrize("indices", ((0, 0), (3, 7), (32, 32), (0, 32), np.array([5, 6])), ids=str)
def test_subset_by_index_is_that_of_scipy(indices, way):
    a = random_hermitian(33, "complex128")
    wanted = slice(indices[0], indices[1] + 1)
    run = by(way, functools.partial(shardsolve.eigh, subset_by_index=indices))
    assert are_eigenpairs(a, *run(spread(a)), wanted)
    assert are_eigenvalues(a, shardsolve.eigvalsh(spread(a), subset_by_index=indices), wanted)
    expected = scipy.linalg.eigh(a, subset_by_index=list(indices), eigvals_only=True)
    assert close(run(spread(a))[0], expected)


@pytest.mark.devices
@pytest.mark.parametrize("dtype", ("float32", "complex128"))
@pytest.mark.parametrize("ends", ((-1.5, 2.5), (-np.inf, 0), (0, np.inf), (100, 200)), ids=str)
def test_subset_by_value_is_that_of_scipy(ends, dtype):
    a = random_hermitian(24, dtype)
    values = np.linalg.eigvalsh(a)
    wanted = slice(*np.searchsorted(values, ends))
    w, v, info = shardsolve.eigh(spread(a), subset_by_value=ends, full_output=True)
    assert are_eigenpairs(a, w, v, wanted)
    assert info.status is Status.OK
    assert v.size == 0 or v.sharding.is_equivalent_to(spread(a).sharding, 2)
    found = shardsolve.eigvalsh(spread(a), subset_by_value=ends)
    assert are_eigenvalues(a, found, wanted)
    expected = scipy.linalg.eigh(a, subset_by_value=ends, eigvals_only=True)
    assert found.shape == expected.shape


def test_ends_of_a_range_of_values_are_those_of_scipy():
    """The lower one is not in it, the upper one is."""
    a = np.diag(np.arange(8.0))
    assert np.array_equal(shardsolve.eigvalsh(spread(a), subset_by_value=(2, 5)), [3, 4, 5])


# Wherever it lies


@pytest.mark.devices
@every_way
@pytest.mark.parametrize("place", PLACES)
def test_matrix_anywhere_passes_gates(place, way):
    a = random_hermitian(N, "complex128")
    w, v = by(way, shardsolve.eigh)(PLACES[place](a))
    assert are_eigenpairs(a, w, v)
    assert w.sharding.is_fully_replicated


@pytest.mark.devices
@pytest.mark.parametrize("place", ("rows", "columns", "replicated", "blocks", "rows_along_y"))
def test_values_of_matrix_anywhere_pass_gates(place):
    a = random_hermitian(N, "complex128")
    for run in (shardsolve.eigvalsh, jax.jit(shardsolve.eigvalsh)):
        w = run(PLACES[place](a))
        assert are_eigenvalues(a, w)
        assert w.sharding.is_fully_replicated


@pytest.mark.devices
@pytest.mark.parametrize("way", ("eager", "jit", "mesh"))
def test_vectors_of_a_row_sharded_matrix_lie_as_it_does(way):
    given = spread(random_hermitian(N))
    run = {
        "eager": shardsolve.eigh,
        "jit": jax.jit(shardsolve.eigh),
        "mesh": functools.partial(shardsolve.eigh, mesh=row_mesh()),
    }[way]
    assert run(given)[1].sharding.is_equivalent_to(given.sharding, 2)


def test_vectors_of_a_column_sharded_matrix_lie_by_rows_outside_of_jit():
    given = put(random_hermitian(N), row_mesh(), None, "x")
    v = shardsolve.eigh(given)[1]
    assert v.sharding.is_equivalent_to(spread(random_hermitian(N)).sharding, 2)


@pytest.mark.devices
@every_way
@pytest.mark.parametrize("spec", SPECS)
def test_explicit_axes_any_spec_passes_gates(spec, way):
    a = random_hermitian(N, "complex128")
    mesh = grid_mesh(explicit=True)
    given = put(a, mesh, *SPECS[spec])
    with jax.set_mesh(mesh):
        w, v = by(way, shardsolve.eigh)(given)
        some = by(way, functools.partial(shardsolve.eigh, subset_by_index=(3, 5)))(given)
    assert are_eigenpairs(a, w, v)
    assert are_eigenpairs(a, *some, slice(3, 6))
    assert w.sharding.is_fully_replicated


@pytest.mark.devices
def test_explicit_rows_keep_their_type():
    mesh = row_mesh(explicit=True)
    given = put(random_hermitian(N), mesh, "x", None)
    with jax.set_mesh(mesh):
        w, v = jax.jit(shardsolve.eigh)(given)
        assert jax.typeof(v).sharding.spec == jax.typeof(given).sharding.spec
        by_value = shardsolve.eigh(given, subset_by_value=(-1.0, 1.0))
    assert are_eigenpairs(np.asarray(given), w, v)
    low, high = np.searchsorted(np.asarray(w), (-1.0, 1.0))
    assert are_eigenpairs(np.asarray(given), *by_value, slice(low, high))


@pytest.mark.devices
@pytest.mark.parametrize("n", (5, 4 * DEVICES + 1))
def test_rows_that_do_not_divide_pass_gates(n):
    a = random_hermitian(n, "complex128")
    mesh = row_mesh()

    def cut_inside(a):
        rows = jax.sharding.NamedSharding(mesh, P("x", None))
        return shardsolve.eigh(lax.with_sharding_constraint(a, rows))

    for found in (
        shardsolve.eigh(a, mesh=mesh),
        shardsolve.eigh(put(a, mesh)),
        jax.jit(functools.partial(shardsolve.eigh, mesh=mesh))(a),
        jax.jit(cut_inside)(a),
    ):
        assert are_eigenpairs(a, *found)


@pytest.mark.devices
@pytest.mark.parametrize("axes", ("x", "y", ("x", "y"), ("y", "x")), ids=str)
def test_rows_in_a_shard_map_pass_gates(axes):
    a = random_hermitian(N, "complex128")
    run = jax.shard_map(
        functools.partial(shardsolve.eigh, axis_name=axes),
        mesh=grid_mesh(),
        in_specs=P(axes),
        out_specs=(P(), P(axes)),
        check_vma=False,
    )
    assert are_eigenpairs(a, *jax.jit(run)(a))


@pytest.mark.devices
def test_matrix_of_its_own_in_a_shard_map_passes_gates():
    a = np.stack([random_hermitian(12, "complex128", seed) for seed in range(DEVICES)])

    def each(a):
        w, v = shardsolve.eigh(a[0], subset_by_index=(0, 4))
        return w[None], v[None]

    run = jax.shard_map(
        each, mesh=row_mesh(), in_specs=P("x"), out_specs=(P("x"), P("x")), check_vma=False
    )
    for one, w, v in zip(a, *jax.jit(run)(a), strict=True):
        assert are_eigenpairs(one, w, v, slice(0, 5))


# Of two matrices


@pytest.mark.parametrize("n", [2, 3, 4])
def test_figures_of_small_matrices_are_no_estimates(n):
    rng = np.random.default_rng(n)
    for _ in range(8):
        one = rng.standard_normal((n, n))
        a = one + one.T
        q = np.linalg.qr(rng.standard_normal((n, n)))[0]
        b = q * np.logspace(0, -13.5, n) @ q.T
        b = (b + b.T) / 2
        try:
            _, v, info = shardsolve.eigh(a, b, full_output=True)
        except shardsolve.LinAlgError:  # by rounding b may be indefinite
            continue
        long, vt = np.asarray(v).astype(np.longdouble), np.asarray(v).T.astype(np.longdouble)
        exact = np.sqrt(np.square(vt @ b @ long - np.eye(n)).sum(1)).max()
        # Products round as much as the vectors are off where B is as ill-conditioned as here.
        assert exact / 3 <= float(info.orthogonality) + 1e-14 <= 10 * exact + 1e-13


@pytest.mark.devices
@pytest.mark.parametrize("dtype", ("float32", more("float64"), more("complex64"), "complex128"))
def test_two_matrices_pass_gates(dtype):
    a, b = random_hermitian(33, dtype), hermitian(33, dtype, 1)
    w, v, info = shardsolve.eigh(spread(a), spread(b), full_output=True)
    assert are_eigenpairs(a, w, v, b=b)
    assert info.status is Status.OK
    assert float(info.residual) < 100 * unit_roundoff(dtype)
    assert float(info.orthogonality) < 1e4 * unit_roundoff(dtype)
    assert are_eigenvalues(a, shardsolve.eigvalsh(spread(a), b), b=b)
    some = shardsolve.eigh(a, b, mesh=row_mesh(), subset_by_index=(2, 6))
    assert are_eigenpairs(a, *some, slice(2, 7), b)
    ends = (w[3] + w[4]) / 2, (w[8] + w[9]) / 2
    some = shardsolve.eigh(spread(a), spread(b), subset_by_value=ends)
    assert are_eigenpairs(a, *some, slice(4, 9), b)


@pytest.mark.devices
@every_way
@pytest.mark.parametrize("place_b", ("rows", more("columns"), more("replicated"), "numpy"))
@pytest.mark.parametrize("place", ("rows", more("columns"), "uncommitted"))
def test_two_matrices_anywhere_pass_gates(place, place_b, way):
    a, b = random_hermitian(N, "complex128"), hermitian(N, "complex128")
    w, v = by(way, shardsolve.eigh)(PLACES[place](a), PLACES[place_b](b))
    assert are_eigenpairs(a, w, v, b=b)
    assert w.sharding.is_fully_replicated


@pytest.mark.devices
@every_way
@pytest.mark.parametrize("spec", ("rows", more("columns"), "blocks"))
def test_two_matrices_on_explicit_axes_pass_gates(spec, way):
    a, b = random_hermitian(N, "complex128"), hermitian(N, "complex128")
    mesh = grid_mesh(explicit=True)
    with jax.set_mesh(mesh):
        given = put(a, mesh, *SPECS[spec]), put(b, mesh, *SPECS["rows_along_both"])
        found = by(way, shardsolve.eigh)(*given)
    assert are_eigenpairs(a, *found, b=b)


@pytest.mark.devices
def test_two_matrices_in_a_shard_map_and_in_batches_pass_gates():
    a, b = random_hermitian(N, "complex128"), hermitian(N, "complex128")
    run = jax.shard_map(
        shardsolve.eigh,
        mesh=row_mesh(),
        in_specs=(P("x"), P("x")),
        out_specs=(P(), P("x")),
        check_vma=False,
    )
    assert are_eigenpairs(a, *jax.jit(run)(a, b), b=b)
    several = np.stack([b, b + np.eye(N)])
    for one, w, v in zip(several, *jax.vmap(shardsolve.eigh, (None, 0))(a, several), strict=True):
        assert are_eigenpairs(a, w, v, b=one)


@pytest.mark.one_rank
def test_two_small_matrices_by_one_rank_pass_gates():
    a, b = random_hermitian(33, "complex128"), hermitian(33, "complex128")
    assert are_eigenpairs(a, *shardsolve.eigh(spread(a), spread(b)), b=b)


def test_overwrite_a_leaves_the_second_matrix():
    a, b = random_hermitian(12), hermitian(12)
    given = spread(a), spread(b)
    found = shardsolve.eigh(*given, overwrite_a=True)
    assert given[0].is_deleted()
    assert np.array_equal(given[1], b)
    assert are_eigenpairs(a, *found, b=b)
    with pytest.raises(ValueError, match="b lies in the memory of a"):
        shardsolve.eigh(given[1], given[1], overwrite_a=True)


def indefinite():
    b = hermitian(12)
    b[5, 5] = -1
    return b


def not_hermitian():
    b = hermitian(12)
    b[5, 7] += 1
    return b


@pytest.mark.devices
@every_way
@pytest.mark.parametrize(
    ("b", "status", "text"),
    [
        (indefinite(), Status.NOT_POSITIVE_DEFINITE, r"^b: the matrix is not pos.*row 5"),
        (not_hermitian(), Status.NOT_HERMITIAN, r"^b: .*entry \(5, 7\)"),
    ],
    ids=("indefinite", "not_hermitian"),
)
def test_bad_second_matrix_is_named(b, status, text, way):
    a = spread(random_hermitian(12))
    with pytest.raises(shardsolve.LinAlgError, match=text) as raised:
        shardsolve.eigh(a, b)
    assert raised.value.status is status
    w, v, info = by(way, functools.partial(shardsolve.eigh, full_output=True))(a, b)
    assert np.isnan(w).all()
    assert np.isnan(v).all()
    assert info.status is status
    assert info.message == str(raised.value)
    with pytest.raises(shardsolve.LinAlgError, match=r"^the matrix is not Hermitian"):
        shardsolve.eigh(not_hermitian(), hermitian(12))


@pytest.mark.parametrize(
    ("b", "error", "message"),
    [
        (np.eye(11), ValueError, r"b has shape \(11, 11\) and a has shape \(12, 12\)"),
        (np.ones(12), ValueError, "two of one shape"),
        (np.eye(12, dtype="float32"), TypeError, "a has dtype float64 and b has dtype float32"),
        (np.eye(12, dtype=int), TypeError, "b has dtype int64; accepted are"),
        (3.0, TypeError, "b is a float; pass an array"),
    ],
    ids=str,
)
def test_second_matrix_of_another_form_says_what_to_pass(b, error, message):
    with pytest.raises(error, match=message):
        shardsolve.eigh(spread(random_hermitian(12)), b)


# With JAX's transformations


@pytest.mark.devices
@pytest.mark.parametrize("way", ("eager", "jit", "explicit"))
def test_vmap_finds_one_after_the_other(way):
    a = np.stack([random_hermitian(12, "complex128", seed) for seed in range(3)])
    run = by("eager" if way == "eager" else "jit", jax.vmap(shardsolve.eigh))
    mesh = row_mesh(explicit=True)
    given = put(a, mesh, None, "x") if way == "explicit" else spread_batch(a)
    with jax.set_mesh(mesh if way == "explicit" else row_mesh()):
        w, v = run(given)
    for one in zip(a, w, v, strict=True):
        assert are_eigenpairs(*one)


@pytest.mark.devices
def test_scan_of_eigenvalues_is_a_python_loop():
    a = random_hermitian(12)
    given = spread(a)

    def step(total, shift):
        w, v = shardsolve.eigh(given + shift * jnp.diag(jnp.arange(12.0)))
        return total + v @ (w * v[0]), w[0]

    shifts = np.arange(4.0)
    total, lowest = jax.jit(lambda start: lax.scan(step, start, shifts))(jnp.zeros(12))
    matrices = [a + shift * np.diag(np.arange(12.0)) for shift in shifts]
    assert close(lowest, np.array([np.linalg.eigvalsh(one)[0] for one in matrices]))
    assert close(total, sum(one[:, 0] for one in matrices))  # V W V^H is the matrix


@pytest.mark.parametrize("options", ({}, {"eigvals_only": True}, {"subset_by_index": (2, 5)}))
@pytest.mark.filterwarnings("error")
def test_overwrite_a_uses_the_matrix_up_without_a_word(options):
    a = random_hermitian(12)
    given = spread(a)
    kept = shardsolve.eigh(given, **options)
    assert not given.is_deleted()
    found = shardsolve.eigh(given, overwrite_a=True, **options)
    assert given.is_deleted()
    assert all(map(np.array_equal, jax.tree.leaves(kept), jax.tree.leaves(found)))
    given = spread(a)
    shardsolve.eigh(given, overwrite_a=True, subset_by_value=(-1, 1))
    assert given.is_deleted()
    shardsolve.eigh(a, overwrite_a=True)  # NumPy's: left alone
    assert np.array_equal(a, random_hermitian(12))


@pytest.mark.devices
def test_donated_matrix_is_used_up_and_answered():
    a = random_hermitian(N)
    given = spread(a)
    found = jax.jit(shardsolve.eigh, donate_argnums=0)(given)
    assert given.is_deleted()
    assert are_eigenpairs(a, *found)


def test_disable_jit_and_debug_nans_change_nothing():
    a = random_hermitian(12)
    with jax.disable_jit(), jax.debug_nans(True):
        assert are_eigenpairs(a, *shardsolve.eigh(spread(a)))
        assert are_eigenvalues(a, shardsolve.eigvalsh(spread(a)))
        some = shardsolve.eigh(spread(a), subset_by_index=(1, 2))
    assert are_eigenpairs(a, *some, slice(1, 3))


# Without an answer


def with_entry(row, column, value, dtype="complex128"):
    a = random_hermitian(N, dtype)
    a[row, column] = value
    return a


BAD = {
    Status.NONFINITE_INPUT: with_entry(20, 2, np.nan),
    Status.NOT_HERMITIAN: with_entry(3, 17, 1),
}
every_failure = pytest.mark.parametrize("status", BAD, ids=lambda status: status.name.lower())


@pytest.mark.devices
@every_failure
@pytest.mark.parametrize(
    ("options", "shapes"),
    (
        ({}, [(N,), (N, N)]),
        ({"eigvals_only": True}, [(N,)]),
        ({"subset_by_index": (2, 5)}, [(4,), (N, 4)]),
    ),
)
def test_bad_matrix_raises_outside_jit_and_is_nan_inside(status, options, shapes):
    run = functools.partial(shardsolve.eigh, **options)
    given = spread(BAD[status])
    with pytest.raises(shardsolve.LinAlgError) as raised:
        run(given)
    assert raised.value.status is status
    *found, info = jax.jit(functools.partial(run, full_output=True))(given)
    assert all(np.isnan(part).all() for part in found)
    assert [part.shape for part in found] == shapes
    assert info.status is status
    assert str(raised.value) == info.message
    if "eigvals_only" in options:
        assert info.residual == info.orthogonality == -1
    else:
        assert np.isnan(info.residual)


@pytest.mark.devices
@pytest.mark.parametrize("spec", (("x",), (None, "x"), ()), ids=str)
def test_bad_entry_in_any_sharding_is_named_by_row_and_column(spec):
    given = put(BAD[Status.NONFINITE_INPUT], row_mesh(), *spec)
    with pytest.raises(shardsolve.LinAlgError, match=r"row 20, column 2\b"):
        shardsolve.eigh(given)
    info = jax.jit(functools.partial(shardsolve.eigh, full_output=True))(given)[-1]
    assert "row 20, column 2 " in info.message


def test_range_of_values_of_a_bad_matrix_is_empty():
    given = spread(BAD[Status.NOT_HERMITIAN])
    with pytest.raises(shardsolve.LinAlgError):
        shardsolve.eigh(given, subset_by_value=(0, 1))
    w, v, info = shardsolve.eigh(given, subset_by_value=(0, 1), full_output=True)
    assert (w.shape, v.shape) == ((0,), (N, 0))
    assert info.status is Status.NOT_HERMITIAN


def test_bad_matrix_of_a_batch_leaves_the_others():
    a = np.stack([random_hermitian(N, "complex128"), BAD[Status.NONFINITE_INPUT]])
    run = jax.vmap(functools.partial(shardsolve.eigh, full_output=True))
    w, v, info = run(spread_batch(a))
    assert are_eigenpairs(a[0], w[0], v[0])
    assert np.isnan(w[1]).all()
    assert np.isnan(v[1]).all()
    assert np.array_equal(info.status, [Status.OK, Status.NONFINITE_INPUT])
    assert "row 20, column 2" in info.message


# Mistakes


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"subset_by_index": (0, 3), "subset_by_value": (0, 1)}, ValueError, "pass one of them"),
        ({"subset_by_index": (3, 2)}, ValueError, "first <= last"),
        ({"subset_by_index": (-1, 2)}, ValueError, "counted from 0"),
        ({"subset_by_index": (0, 12)}, ValueError, "12 eigenvalues.*last < n"),
        ({"subset_by_index": (0.0, 2.0)}, TypeError, "two whole numbers"),
        ({"subset_by_index": (False, True)}, TypeError, "two whole numbers"),
        ({"subset_by_index": 3}, TypeError, "two whole numbers"),
        ({"subset_by_index": (1, 2, 3)}, TypeError, "two whole numbers"),
        ({"subset_by_value": (1.0, 1.0)}, ValueError, "is empty.*low < w <= high"),
        ({"subset_by_value": (np.nan, 1.0)}, ValueError, "low < high"),
        ({"subset_by_value": ("low", "high")}, TypeError, "two numbers"),
        ({"subset_by_value": 3.0}, TypeError, "two numbers"),
        ({"mesh": "x"}, TypeError, "jax.sharding.Mesh"),
    ],
    ids=str,
)
def test_mistake_says_what_to_pass(options, error, message):
    a = spread(random_hermitian(12))
    for function in (shardsolve.eigh, shardsolve.eigvalsh):
        with pytest.raises(error, match=message):
            function(a, **options)


@pytest.mark.parametrize("transform", (jax.jit, jax.vmap, jax.grad), ids=lambda f: f.__name__)
def test_range_of_values_where_jax_traces_names_the_other_way(transform):
    def run(a):
        return shardsolve.eigvalsh(a, subset_by_value=(0, 1))[0]

    a = random_hermitian(12)
    with pytest.raises(TypeError, match=r"subset_by_value .*subset_by_index"):
        transform(run)(a[None] if transform is jax.vmap else a)
    with pytest.raises(TypeError, match=r"subset_by_value .*subset_by_index"):
        jax.jit(lambda b: shardsolve.eigh(a, b, subset_by_value=(0, 1)))(np.eye(12))


def test_indices_that_are_traced_say_that_they_decide_a_shape():
    with pytest.raises(TypeError, match="known before JAX traces"):
        jax.jit(lambda a, i: shardsolve.eigvalsh(a, subset_by_index=(0, i)))(np.eye(4), 2)


@pytest.mark.parametrize("given", (np.eye(4, dtype=int), np.eye(4, dtype="float16")))
def test_other_types_are_refused(given):
    with pytest.raises(TypeError, match=r"accepted are float32.*convert"):
        shardsolve.eigh(given)


def test_matrix_that_is_not_square_is_refused():
    with pytest.raises(ValueError, match=r"a has shape \(4, 3\); pass a square matrix"):
        shardsolve.eigh(np.ones((4, 3)))


def test_info_in_jit_has_numbers_and_no_text():
    @jax.jit
    def run(a):
        info = shardsolve.eigh(a, full_output=True)[-1]
        with pytest.raises(TypeError, match="no text yet"):
            info.message  # noqa: B018
        return info.status, info.residual

    status, found = run(spread(random_hermitian(12)))
    assert status == Status.OK
    assert float(found) < 1e-14
