"""Any shape, dtype, sharding and way in: right by the gates, or a clean error."""

import functools
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from eigensystems import are_eigenpairs, are_eigenvalues, random_hermitian
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jax.sharding import AxisType, Mesh
from systems import DEVICES, DTYPES, close, grid_mesh, hermitian, inverts, put, sides, solves

import shardsolve

pytestmark = pytest.mark.devices

EXAMPLES = int(os.environ.get("SHARDSOLVE_TEST_EXAMPLES", "25"))
CLEAN = (shardsolve.LinAlgError, TypeError, ValueError)

settings.register_profile(
    "shardsolve",
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=EXAMPLES <= 25,  # the short form is the same every time
    suppress_health_check=list(HealthCheck),
    database=None,
)
settings.load_profile("shardsolve")

SPECS = ((), ("x",), (None, "x"), ("y",), (None, "y"), ("x", "y"), (("x", "y"),), (("y", "x"),))
SPECS_B = ((), ("x",), ("y",), (("x", "y"),), (("y", "x"),), (None, "x"))
WAYS = ("eager", "jit", "explicit", "mesh", "jit_mesh")


@st.composite
def meshes(draw) -> Mesh:
    """A subset of the devices in any order, as a grid."""
    order = draw(st.permutations(jax.devices()))
    devices = np.array(order[: draw(st.integers(1, DEVICES))])
    along_x = draw(
        st.sampled_from([d for d in range(1, len(devices) + 1) if len(devices) % d == 0])
    )
    return Mesh(devices.reshape(along_x, -1), ("x", "y"))


@st.composite
def problems(draw):
    mesh, way = draw(meshes()), draw(st.sampled_from(WAYS))
    if way == "explicit":
        mesh = Mesh(mesh.devices, mesh.axis_names, axis_types=(AxisType.Explicit,) * 2)
    unit = mesh.devices.size
    n = draw(st.one_of(st.integers(1, 40), st.integers(1, 40 // unit).map(lambda i: i * unit)))
    spec = draw(st.sampled_from(SPECS))
    tile = draw(st.one_of(st.none(), st.integers(1, 50)))
    k = draw(st.one_of(st.none(), st.integers(1, 9)))
    return mesh, way, n, spec, draw(st.sampled_from(DTYPES)), k, tile


def placed(value, mesh, spec):
    """As asked, or whole on each device where the parts would not be equal: JAX refuses that."""
    try:
        return put(value, mesh, *spec[: value.ndim])
    except ValueError:
        return put(value, mesh)


def call(function, way, mesh, **options):
    if "mesh" in way:
        function = functools.partial(function, mesh=mesh)
    return jax.jit(function, **options) if way in ("jit", "jit_mesh", "explicit") else function


def wanted(result, way, mesh, spec):
    """Options of jit that have a result of this form lie so, where JAX can cut it so."""
    placed_so = placed(np.zeros_like(result), mesh, spec).sharding
    return {"out_shardings": placed_so} if way in ("jit", "jit_mesh") else {}


@given(problem=problems(), spec_b=st.sampled_from(SPECS_B), spec_x=st.sampled_from(SPECS_B))
def test_solve_anything_is_right(problem, spec_b, spec_x):
    mesh, way, n, spec, dtype, k, tile = problem
    a, b = hermitian(n, dtype), sides(n, k, dtype)
    run = functools.partial(shardsolve.solve, assume_a="pos", tile=tile)
    run = call(run, way, mesh, **wanted(b, way, mesh, spec_x))
    assert solves(a, run(placed(a, mesh, spec), placed(b, mesh, spec_b)), b)


@pytest.mark.skipif(DEVICES < 4, reason="needs two axes that count")
@given(
    data=st.tuples(*[st.sampled_from(specs) for specs in (SPECS[1:], SPECS_B, SPECS_B, SPECS)]),
    order=st.permutations(jax.devices()),
    i=st.integers(1, 2),
)
def test_jit_on_a_grid_wherever_all_lies_is_right(data, order, i):
    """XLA alone knows how the matrix, b and the results are cut: along the same axes or not."""
    spec_a, spec_b, spec_x, spec_inverse = data
    mesh = Mesh(np.array(order).reshape(grid_mesh().devices.shape), ("x", "y"))
    a, b = hermitian(i * DEVICES), sides(i * DEVICES)

    def functions(a, b):
        factor = shardsolve.cho_factor(a)
        return shardsolve.cho_solve(factor, b), shardsolve.inv(factor)

    results = placed(b, mesh, spec_x).sharding, placed(a, mesh, spec_inverse).sharding
    run = jax.jit(functions, out_shardings=results)
    x, inverse = run(placed(a, mesh, spec_a), placed(b, mesh, spec_b))
    assert solves(a, x, b)
    assert inverts(a, inverse)


@given(problem=problems(), spec_x=st.sampled_from(SPECS))
def test_inv_and_logdet_of_anything_are_right(problem, spec_x):
    mesh, way, n, spec, dtype, _, tile = problem
    a = hermitian(n, dtype)
    given_a = placed(a, mesh, spec)
    inv = functools.partial(shardsolve.inv, tile=tile)
    assert inverts(a, call(inv, way, mesh, **wanted(a, way, mesh, spec_x))(given_a))
    value = call(functools.partial(shardsolve.logdet, tile=tile), way, mesh)(given_a)
    wide = np.linalg.slogdet(a.astype(np.result_type(dtype, np.float64)))[1]
    assert abs(float(value) - wide) < 100 * n * np.finfo(dtype).eps * np.linalg.cond(a)


@given(problem=problems(), spec_x=st.sampled_from(SPECS), ends=st.tuples(*[st.integers(0, 39)] * 2))
def test_eigh_of_anything_is_right(problem, spec_x, ends):
    mesh, way, n, spec, dtype, _, _ = problem
    a = random_hermitian(n, dtype)
    given_a = placed(a, mesh, spec)
    places = wanted(a, way, mesh, spec_x)
    options = {"out_shardings": (None, places["out_shardings"])} if places else {}
    assert are_eigenpairs(a, *call(shardsolve.eigh, way, mesh, **options)(given_a))
    first, last = sorted(end % n for end in ends)
    some = functools.partial(shardsolve.eigh, subset_by_index=(first, last))
    assert are_eigenpairs(a, *call(some, way, mesh)(given_a), slice(first, last + 1))
    w = call(functools.partial(some, eigvals_only=True), way, mesh)(given_a)
    assert are_eigenvalues(a, w, slice(first, last + 1))


@pytest.mark.slow
@settings(max_examples=max(5, EXAMPLES // 3))
@given(problem=problems(), spec_b=st.sampled_from(SPECS_B))
def test_gradient_of_anything_is_that_of_jnp(problem, spec_b):
    mesh, way, n, spec, dtype, _, tile = problem
    a, b = hermitian(n, dtype), sides(n, None, dtype)

    def loss(solver):
        return lambda a, b: jnp.sum(jnp.abs(solver(a, b)) ** 2)

    def ours(a, b):
        mesh_ = {"mesh": mesh} if "mesh" in way else {}
        return shardsolve.solve(a, b, assume_a="pos", tile=tile, **mesh_)

    run = jax.grad(loss(ours), 1)
    run = jax.jit(run) if way in ("jit", "jit_mesh", "explicit") else run
    got = run(placed(a, mesh, spec), placed(b, mesh, spec_b))
    x = np.linalg.solve(a, b)
    assert close(got, np.conj(2 * np.linalg.solve(a, x)).astype(dtype), 1e5)


shapes = st.lists(st.integers(0, 4), max_size=3).map(tuple)
dtypes = st.sampled_from((*DTYPES, "int32", "float16", "bool"))


@given(
    shape_a=shapes, shape_b=shapes, dtype_a=dtypes, dtype_b=dtypes, way=st.sampled_from(WAYS[:2])
)
def test_arguments_that_do_not_fit_are_a_clean_error(shape_a, shape_b, dtype_a, dtype_b, way):
    fits = (
        len(shape_a) == 2
        and shape_a[0] == shape_a[1]
        and len(shape_b) in (1, 2)
        and shape_b[0] == shape_a[0]
        and dtype_a == dtype_b
        and dtype_a in DTYPES
    )
    if fits and 0 in (*shape_a, *shape_b):
        return  # in processes of their own: test_jax_answers.py
    a, b = jnp.ones(shape_a, dtype_a), jnp.ones(shape_b, dtype_b)
    if fits:
        a = a + len(a) * jnp.eye(len(a), dtype=dtype_a)
    run = functools.partial(shardsolve.solve, assume_a="pos")
    run = jax.jit(run) if way == "jit" else run
    if not fits:
        with pytest.raises((TypeError, ValueError)):
            run(a, b)
        return
    assert solves(np.asarray(a), run(a, b), np.asarray(b))


@given(seed=st.integers(0, 2**31), n=st.integers(1, 30), shift=st.floats(-2, 2))
@settings(max_examples=EXAMPLES * 2)
def test_any_hermitian_matrix_is_solved_or_refused(seed, n, shift):
    """Definite or not: never a wrong answer, and no refusal of what is clearly definite."""
    a = hermitian(n, seed=seed) + shift * np.eye(n)
    b = sides(n, seed=seed)
    smallest = np.linalg.eigvalsh(a)[0]
    try:
        x = shardsolve.solve(a, b, assume_a="pos")
    except shardsolve.LinAlgError as error:
        assert smallest < 1e-12
        assert 0 <= error.pivot < n
    else:
        assert smallest > -1e-12
        assert solves(a, x, b)
