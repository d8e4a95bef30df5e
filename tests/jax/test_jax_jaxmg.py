"""JAXMg's names: shardsolve.compat.jaxmg."""

import functools
import importlib
import inspect
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from eigensystems import are_eigenpairs, are_eigenvalues, random_hermitian
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from systems import (
    DEVICES,
    close,
    grid_mesh,
    hermitian,
    hermitian_part,
    inverts,
    more,
    put,
    row_mesh,
    scalar,
    sides,
    solves,
)

import shardsolve.compat.jaxmg as names
from shardsolve.compat.jaxmg import (
    potri,
    potri_shardmap_ctx,
    potri_symmetrize,
    potrs,
    potrs_shardmap_ctx,
    syevd,
    syevd_shardmap_ctx,
)

pytestmark = pytest.mark.devices

T_A = 3
ROWS = 4 * DEVICES
SPECS = (P("x", None),)


def system(dtype="float64"):
    mesh = row_mesh()
    a, b = hermitian(ROWS, dtype), sides(ROWS, 2, dtype)
    return mesh, a, b, put(a, mesh, "x"), put(b, mesh)


def test_example_of_its_readme_gives_what_it_says():
    """https://pypi.org/project/jaxmg/0.0.9: import and kind of device changed, nothing else."""
    if 12 % DEVICES:
        pytest.skip("the example's rows do not divide by this number of devices")
    devices = jax.devices("cpu")
    N = 12
    T_A = 3
    dtype = jnp.float64
    A = jnp.diag(jnp.arange(N, dtype=dtype) + 1)
    b = jnp.ones((N, 1), dtype=dtype)
    ndev = len(devices)
    mesh = jax.make_mesh((ndev,), ("x",))
    A = jax.device_put(A, NamedSharding(mesh, P("x", None)))
    b = jax.device_put(b, NamedSharding(mesh, P(None, None)))
    out = potrs(A, b, T_A=T_A, mesh=mesh, in_specs=(P("x", None),))
    expected_out = 1.0 / (jnp.arange(N, dtype=dtype) + 1)
    assert jnp.allclose(out.flatten(), expected_out)


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_potrs_returns_x_logdet_and_status(dtype):
    mesh, a, b, cut, whole = system(dtype)
    x, logdet, status = potrs(cut, whole, T_A, mesh, SPECS, return_status=True, return_logdet=True)
    assert solves(a, x, b)
    assert status == 0
    assert close(logdet, np.linalg.slogdet(a)[1].astype(np.asarray(logdet).dtype))


def not_symmetric():
    a = np.diag(1.0 + np.arange(ROWS))
    a[0, 1] = 2.0
    return a


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("way", ["eager", "jit"])
@pytest.mark.parametrize("bad", [np.diag(np.arange(ROWS) - 1.0), not_symmetric()], ids=["-", "+"])
def test_no_answer_is_status_seven_and_nan(bad, way, dtype):
    """JAXMg's tests ask for 7 whatever the reason."""
    mesh, _, _, _, whole = system(dtype)
    given = put(bad.astype(dtype), mesh, "x")

    def both(a, b):
        return (
            potrs(a, b, T_A, mesh, SPECS, return_status=True),
            potri(a, T_A, mesh, SPECS, return_status=True),
        )

    for x, status in (jax.jit(both) if way == "jit" else both)(given, whole):
        assert status == 7
        assert status.dtype == "int32"
        assert np.isnan(x).all()


def test_answer_that_is_none_is_status_seven_though_there_is_a_factor():
    mesh, _, _, _, whole = system("float64")
    one = put(np.eye(ROWS), mesh, "x")
    asked = {"return_status": True}
    for a, b in ((one, whole.at[1].set(np.nan)), (1e-200 * one, 1e200 * whole)):
        x, status = potrs(a, b, T_A, mesh, SPECS, **asked)
        assert status == 7
        assert np.isnan(x).any()
        inside = jax.shard_map(
            lambda a, b: potrs_shardmap_ctx(a, b, T_A),
            mesh=mesh,
            in_specs=(P("x", None), P(None, None)),
            out_specs=(P(None, None), P(None)),
            check_vma=False,
        )
        assert inside(a, b)[1] == 7
    assert potri(1e-320 * one, T_A, mesh, SPECS, **asked)[1] == 7


@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("way", ["eager", "jit"])
@pytest.mark.parametrize("specs", [{"in_specs": SPECS}, {"matrix_specs": SPECS}, {}], ids=str)
def test_abstract_mesh_stands_for_the_one_of_the_matrix(specs, way, explicit):
    mesh = row_mesh(explicit=explicit)
    a, b = hermitian(ROWS), sides(ROWS, 2)

    def both(a, b):
        in_specs = specs.get("in_specs") or specs.get("matrix_specs")
        return (
            potrs(a, b, T_A, mesh.abstract_mesh, **specs),
            potri(a, T_A, mesh.abstract_mesh, in_specs),
        )

    x, inverse = (jax.jit(both) if way == "jit" else both)(put(a, mesh, "x"), put(b, mesh))
    assert solves(a, x, b)
    assert inverts(a, inverse)
    assert len(x.sharding.device_set) == DEVICES


@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("way", ["eager", "jit"])
@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_symmetrize_mirrors_the_upper_triangle_where_it_lies(dtype, way, explicit):
    a = hermitian(ROWS, dtype)
    given = put(np.triu(a) + np.tril(np.ones_like(a), -1), row_mesh(explicit=explicit), "x")
    run = jax.jit(potri_symmetrize) if way == "jit" else potri_symmetrize
    whole = run(given)
    assert np.array_equal(whole, a)
    assert whole.sharding.is_equivalent_to(given.sharding, 2)
    assert np.array_equal(run(whole), a)


def test_new_names_of_the_specs_are_taken():
    mesh, a, b, cut, whole = system()
    assert solves(a, potrs(cut, whole, T_A, mesh, matrix_specs=P("x", None)), b)
    assert solves(a, potrs(cut, whole, T_A), b)


def test_potri_gives_the_whole_inverse():
    mesh, a, _, cut, _ = system("complex64")
    inverse, status = potri(cut, T_A, mesh, SPECS, return_status=True)
    assert inverts(a, inverse)
    assert status == 0


def test_shardmap_forms_agree():
    mesh, a, b, cut, whole = system()

    def inside(a, b):
        x, status = potrs_shardmap_ctx(a, b, T_A)
        inverse, _ = potri_shardmap_ctx(a, T_A)
        return x, status, inverse

    x, status, inverse = jax.jit(
        jax.shard_map(
            inside, mesh=mesh, in_specs=(P("x"), P()), out_specs=(P(), P(), P("x")), check_vma=False
        )
    )(cut, whole)
    assert solves(a, x, b)
    assert inverts(a, inverse)
    assert status == 0


def test_numpy_matrix_is_put_on_the_mesh():
    mesh, a, b, _, _ = system()
    x = potrs(a, b, T_A, mesh, SPECS)
    assert solves(a, x, b)
    assert len(x.sharding.device_set) == DEVICES
    assert inverts(a, potri(a, T_A, mesh, SPECS))


@pytest.mark.parametrize("rows", (ROWS - 1, ROWS // 2, 2 * ROWS))
def test_shardmap_form_refuses_b_of_another_length(rows):
    """Rows of it were left out, or taken twice."""
    mesh, _, _, cut, _ = system()
    mapped = jax.shard_map(
        lambda a, b: potrs_shardmap_ctx(a, b, T_A),
        mesh=mesh,
        in_specs=(P("x"), P()),
        out_specs=(P(), P()),
        check_vma=False,
    )
    with pytest.raises(ValueError, match=rf"b has shape \({rows}, 2\).*{ROWS}"):
        mapped(cut, jnp.ones((rows, 2)))


def inside_shard_map(function, specs):
    return jax.shard_map(
        function, mesh=row_mesh(), in_specs=(P("x"), P()), out_specs=specs, check_vma=False
    )


# Every result but the status, as a function of a and b, and the same by JAX.
RESULTS = {
    "x": (
        lambda a, b: potrs(a, b, T_A, row_mesh(), SPECS),
        lambda a, b: jnp.linalg.solve(hermitian_part(a), b),
    ),
    "logdet": (
        lambda a, b: potrs(a, b, T_A, row_mesh(), SPECS, return_logdet=True)[1],
        lambda a, b: jnp.linalg.slogdet(hermitian_part(a))[1],
    ),
    "inverse": (
        lambda a, b: potri(a, T_A, row_mesh(), SPECS),
        lambda a, b: jnp.linalg.inv(hermitian_part(a)),
    ),
    "x_in_shard_map": (
        inside_shard_map(lambda a, b: potrs_shardmap_ctx(a, b, T_A)[0], P()),
        lambda a, b: jnp.linalg.solve(hermitian_part(a), b),
    ),
    "inverse_in_shard_map": (
        inside_shard_map(lambda a, b: potri_shardmap_ctx(a, T_A)[0], P("x")),
        lambda a, b: jnp.linalg.inv(hermitian_part(a)),
    ),
}


@pytest.mark.parametrize("dtype", ["float64", more("complex64")])
@pytest.mark.parametrize(
    "result", [more(name) if name == "x_in_shard_map" else name for name in RESULTS]
)
def test_gradient_of_every_result_is_that_of_jnp(result, dtype):
    _, a, b, cut, whole = system(dtype)
    ours, plain = RESULTS[result]
    wanted = jax.grad(scalar(plain), (0, 1))(a, b)
    assert np.abs(wanted[0]).max() > 0
    assert close(jax.grad(scalar(ours), (0, 1))(cut, whole), wanted)
    if dtype == "float64":  # jax 0.10.2 crashes compiling plain complex all_gathers' gradients
        assert close(jax.jit(jax.grad(scalar(ours), (0, 1)))(cut, whole), wanted)


# The names and forms of 1.4.1


@pytest.mark.parametrize("logdet", [False, True])
@pytest.mark.parametrize("n", [ROWS, ROWS + 1])
def test_potrs_shardmap_ctx_of_1_4_returns_work_x_logdet_and_status(n, logdet):
    """Called as NetKet 3.23 does: in jit, a mesh set around it, a vector b, a kept."""
    a, b, mesh = hermitian(n, "complex128"), sides(n, dtype="complex128"), row_mesh()

    @jax.jit
    def run(a, b):
        return potrs_shardmap_ctx(a, b, T_A=T_A, return_logdet=logdet)

    with jax.set_mesh(mesh):
        given = put(a, mesh, *(["x"] if n % DEVICES == 0 else []))
        work, x, *found, status = run(given, put(b, mesh))
    assert work.shape == a.shape
    assert solves(a, x, b)
    assert status.shape == (1,)
    assert status == 0
    assert len(found) == logdet
    if logdet:
        assert close(found[0], np.linalg.slogdet(a)[1])
    assert not given.is_deleted()


@pytest.mark.parametrize("way", ["eager", "jit"])
def test_potrs_shardmap_ctx_of_1_4_without_an_answer_is_nan(way):
    """NetKet's nan_fallback looks for it."""
    mesh, _, _, _, whole = system()
    run = functools.partial(potrs_shardmap_ctx, T_A=T_A, mesh=mesh, matrix_specs=P("x", None))
    given = put(np.diag(np.arange(ROWS) - 1.0), mesh, "x")
    _, x, status = (jax.jit(run) if way == "jit" else run)(given, whole)
    assert status == 7
    assert np.isnan(x).all()


@pytest.mark.parametrize("explicit", [False, True])
def test_shardmap_forms_of_1_4_work_on_another_mesh_than_the_program(explicit):
    """As NetKet's distributed solvers with process_grid=: a mesh of their own inside of one jit."""
    if DEVICES == 1:
        pytest.skip("needs devices for two meshes")
    if explicit and jax.__version_info__ < (0, 10):
        pytest.skip("jax 0.8 puts no array of an Explicit mesh on another one inside of jit")
    a, b, grid = hermitian(ROWS), sides(ROWS), grid_mesh(explicit)

    @jax.jit
    def run(a, b):
        a = jax.device_put(a, NamedSharding(grid, P("x", "y")))
        b = jax.device_put(b, NamedSharding(grid, P()))
        with jax.sharding.use_abstract_mesh(grid.abstract_mesh):
            _, x, _ = potrs_shardmap_ctx(a, b, T_A)
            _, w, _ = syevd_shardmap_ctx(a, T_A, return_eigenvectors=False)
            if not explicit:
                x, w = jax.lax.with_sharding_constraint((x, w), P())
        return jax.device_put((x, w), P())

    mesh = row_mesh(explicit=explicit)
    with jax.set_mesh(mesh):
        x, w = run(put(a, mesh, "x"), put(b, mesh))
    assert solves(a, x, b)
    assert are_eigenvalues(a, w)


@pytest.mark.filterwarnings("error")
def test_donated_matrix_becomes_the_work_of_potrs_shardmap_ctx():
    mesh, a, b, cut, whole = system()
    run = jax.jit(functools.partial(potrs_shardmap_ctx, T_A=T_A, mesh=mesh), donate_argnums=0)
    _, x, _ = run(cut, whole)
    assert cut.is_deleted()
    assert solves(a, x, b)


def test_logdet_in_shard_map_is_that_of_the_matrix():
    _, a, _, cut, whole = system()

    def inside(a, b):
        return potrs_shardmap_ctx(a, b, T_A, return_logdet=True)[1]

    run = inside_shard_map(inside, P())
    assert close(jax.jit(run)(cut, whole), np.linalg.slogdet(a)[1])


# Those of its wheel: how each is called, beside T_A, mesh, matrix_specs, in_specs and pad, which
# all take. potri and potri_symmetrize are of 0.0.9, install is ours.
SIGNATURES_OF_1_4_1 = {
    "gesvd": ("a", "compute_u compute_vh full_matrices return_status donate"),
    "gesvd_shardmap_ctx": ("a", "compute_u compute_vh full_matrices"),
    "least_squares": ("a b", "return_status donate"),
    "least_squares_shardmap_ctx": ("a b", ""),
    "lu_solve": ("a b", "return_status donate"),
    "lu_solve_shardmap_ctx": ("a b", ""),
    "polar": ("a", "compute_h return_status donate"),
    "polar_shardmap_ctx": ("a", "compute_h"),
    "potrs": ("a b", "return_status return_logdet donate"),
    "potrs_shardmap_ctx": ("a b", "return_logdet"),
    "qr": ("a", "return_status donate"),
    "qr_shardmap_ctx": ("a", ""),
    "syevd": ("a", "return_eigenvectors return_status donate"),
    "syevd_shardmap_ctx": ("a", "return_eigenvectors"),
}
TRUE_BY_DEFAULT = {"compute_u", "compute_vh", "compute_h", "return_eigenvectors", "pad"}


def test_names_are_those_of_the_wheel_of_1_4_1():
    ours = {"install", "potri", "potri_shardmap_ctx", "potri_symmetrize"}
    theirs = {"__version__", "device_supports_vmm", *SIGNATURES_OF_1_4_1}
    assert set(names.__all__) == theirs | ours
    assert names.__version__ == "1.4.1"


@pytest.mark.parametrize("name", SIGNATURES_OF_1_4_1)
def test_call_of_1_4_1_is_one_of_ours(name):
    """In its order and with its keywords, where nothing but donate has another default."""
    arrays, flags = (words.split() for words in SIGNATURES_OF_1_4_1[name])
    signature = inspect.signature(getattr(names, name))
    keywords = dict.fromkeys(("in_specs", "pad", *flags))
    bound = signature.bind(*arrays, 256, "mesh", **{"matrix_specs": None, **keywords})
    assert list(bound.arguments)[: len(arrays) + 2] == [*arrays, "T_A", "mesh"]
    by_place = signature.bind(*arrays, 256, "mesh", P("x"))
    assert list(by_place.arguments)[-1] in ("matrix_specs", "in_specs")
    for flag in ("pad", *flags):
        assert signature.parameters[flag].default is (flag in TRUE_BY_DEFAULT)


def test_device_without_a_driver_is_an_error_that_says_so(monkeypatch):
    def no_driver(name):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr("ctypes.CDLL", no_driver)
    with pytest.raises(RuntimeError, match=r"no CUDA driver here \(libcuda"):
        names.device_supports_vmm()


@pytest.fixture
def not_imported(monkeypatch):
    """As in a process in which nothing has imported jaxmg; afterwards as it was."""
    monkeypatch.setitem(sys.modules, "jaxmg", None)
    del sys.modules["jaxmg"]


def test_installed_names_are_found_by_import(not_imported):
    assert "jaxmg" not in sys.modules  # the import of shardsolve.compat.jaxmg does nothing
    names.install()
    names.install()
    assert importlib.import_module("jaxmg") is names


def test_install_after_an_import_of_jaxmg_itself_is_refused(not_imported):
    sys.modules["jaxmg"] = itself = types.ModuleType("jaxmg")
    itself.__version__ = "1.4.1"
    with pytest.raises(
        RuntimeError, match=r"jaxmg 1\.4\.1 was imported before.*install\(\) before"
    ):
        names.install()
    assert sys.modules["jaxmg"] is itself


# syevd


@pytest.mark.parametrize("way", ["eager", "jit"])
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_eigh_of_syevd_returns_values_vectors_and_status(dtype, way):
    a = random_hermitian(ROWS, dtype)
    mesh, cut = row_mesh(), put(a, row_mesh(), "x")

    def run(a):
        return (
            syevd(a, T_A, mesh, SPECS),
            syevd(a, T_A, mesh, SPECS, True, True),
            syevd(a, T_A, mesh, matrix_specs=P("x"), return_eigenvectors=False),
            syevd(a, T_A, mesh, SPECS, False, True),
        )

    both, with_status, values, values_and_status = (jax.jit(run) if way == "jit" else run)(cut)
    for w, v in (both, with_status[:2]):
        assert are_eigenpairs(a, w, v)
        assert v.sharding.is_equivalent_to(cut.sharding, 2)
        assert w.sharding.is_fully_replicated
    assert are_eigenvalues(a, values)
    assert are_eigenvalues(a, values_and_status[0])
    assert with_status[2] == values_and_status[1] == 0


@pytest.mark.parametrize("way", ["eager", "jit"])
def test_eigh_of_syevd_without_an_answer_is_status_seven_and_nan(way):
    given = put(not_symmetric(), row_mesh(), "x")
    run = functools.partial(syevd, T_A=T_A, mesh=row_mesh(), in_specs=SPECS, return_status=True)
    w, v, status = (jax.jit(run) if way == "jit" else run)(given)
    assert status == 7
    assert np.isnan(w).all()
    assert np.isnan(v).all()


def test_eigh_of_syevd_gives_up_the_matrix_only_when_told():
    given = put(random_hermitian(ROWS), row_mesh(), "x")
    kept = syevd(given, T_A)
    found = syevd(given, T_A, donate=True)
    assert given.is_deleted()
    assert all(map(np.array_equal, kept, found))


def test_eigh_of_syevd_inside_of_a_shard_map_is_that_of_version_0_0_9():
    """Its tests: `partial(syevd_shardmap_ctx, T_A=..)`; a device's vectors are columns."""
    a = random_hermitian(ROWS, "complex128")
    specs = {"mesh": row_mesh(), "in_specs": SPECS, "check_vma": False}
    run = jax.shard_map(
        functools.partial(syevd_shardmap_ctx, T_A=T_A),
        out_specs=(P(None), P(None, "x"), P(None)),
        **specs,
    )
    w, v, status = jax.jit(run)(put(a, row_mesh(), "x"))
    assert are_eigenpairs(a, w, v)
    assert status.shape == (1,)
    run = jax.shard_map(
        lambda a: syevd_shardmap_ctx(a, T_A, False), out_specs=(P(None), P(None)), **specs
    )
    w, status = jax.jit(run)(put(a, row_mesh(), "x"))
    assert are_eigenvalues(a, w)
    assert status == 0


@pytest.mark.parametrize("form", ["syevd", "shardmap_ctx"])
def test_eigh_of_examples_of_its_repository_for_1_4(form):
    """examples/run_syevd_example.py and run_syevd_context_example.py, of one process and CPUs."""
    N, DTYPE = 2 * ROWS, jnp.float64
    mesh = jax.make_mesh(tuple(grid_mesh().shape.values()), ("pr", "pc"))
    matrix_specs = P("pr", "pc")
    matrix_sharding = NamedSharding(mesh, matrix_specs)

    def make_matrix():
        made = jnp.diag(jnp.arange(1, N + 1, dtype=DTYPE))
        if mesh.axis_types[0] == jax.sharding.AxisType.Explicit:
            return jax.sharding.reshard(made, matrix_sharding)
        return jax.lax.with_sharding_constraint(made, matrix_sharding)

    with jax.set_mesh(mesh):
        if form == "syevd":
            a = jax.jit(make_matrix)()
            eigenvalues, eigenvectors = syevd(a, T_A=128, mesh=mesh, matrix_specs=matrix_specs)
            assert eigenvectors.sharding.is_equivalent_to(a.sharding, 2)
        else:

            @jax.jit
            def build_and_solve():
                _, eigenvalues, eigenvectors, _ = syevd_shardmap_ctx(
                    make_matrix(), T_A=128, mesh=mesh, matrix_specs=matrix_specs
                )
                return eigenvalues, eigenvectors

            eigenvalues, eigenvectors = build_and_solve()
        diagonal = jnp.arange(1, N + 1, dtype=DTYPE)
        residual = diagonal[:, None] * eigenvectors
        residual = residual - eigenvectors * eigenvalues[None, :]
        correct = jnp.allclose(eigenvalues, diagonal) & jnp.allclose(residual, 0.0, atol=1e-8)
    assert bool(correct)


@pytest.mark.filterwarnings("error")
def test_eigh_of_donating_example_for_1_4():
    """Case 1 of its page: the work buffer is returned, so that the donated matrix is used."""
    mesh = row_mesh()

    @functools.partial(jax.jit, donate_argnums=(0,))
    def compiled_eigensolve(a):
        a_work, eigenvalues, eigenvectors, status = syevd_shardmap_ctx(
            a, T_A=T_A, mesh=mesh, matrix_specs=P("x", None)
        )
        return a_work, eigenvalues + 1.0, eigenvectors, status

    a = put(np.diag(np.arange(1.0, ROWS + 1)), mesh, "x", None)
    _, shifted, vectors, status = compiled_eigensolve(a)
    assert a.is_deleted()
    assert np.allclose(shifted, np.arange(2.0, ROWS + 2))
    assert np.allclose(np.abs(vectors), np.eye(ROWS))
    assert status == 0


def test_eigh_gradient_of_syevd_is_that_of_jnp():
    a = random_hermitian(ROWS, "complex128")

    def loss(eigh):
        def run(a):
            w, v = eigh(a)
            return jnp.sum(jnp.abs(v) ** 4 * w)

        return run

    def plain(a):
        return jnp.linalg.eigh(hermitian_part(a), symmetrize_input=False)

    got = jax.grad(loss(functools.partial(syevd, T_A=T_A)))(put(a, row_mesh(), "x"))
    assert close(got, jax.grad(loss(plain))(a), 1e6)
    inside = jax.shard_map(
        lambda a: syevd_shardmap_ctx(a, T_A)[:2],
        mesh=row_mesh(),
        in_specs=P("x"),
        out_specs=(P(), P(None, "x")),
        check_vma=False,
    )
    got = jax.grad(loss(inside))(put(a, row_mesh(), "x"))
    assert close(got, jax.grad(loss(plain))(a), 1e6)


# General matrices


@pytest.mark.parametrize("way", ["eager", "jit"])
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_lu_solve_solves_or_is_nan(dtype, way):
    mesh, a, b, _, whole = system(dtype)
    a = a + np.triu(a, 1)  # not Hermitian any more
    run = functools.partial(names.lu_solve, T_A=T_A, mesh=mesh, matrix_specs=SPECS)
    run = functools.partial(run, return_status=True)
    run = jax.jit(run) if way == "jit" else run
    x, status = run(put(a, mesh, "x"), whole)
    assert solves(a, x, b) and status == 0
    x, status = run(put(np.ones_like(a), mesh, "x"), whole)
    assert np.isnan(x).all() and status == 7


def test_lu_solve_shardmap_ctx_has_the_forms_of_potrs():
    mesh, a, b, cut, whole = system("float64")
    *_, x, status = jax.jit(
        lambda a, b: names.lu_solve_shardmap_ctx(a, b, T_A, mesh, matrix_specs=SPECS)
    )(cut, whole)
    assert solves(a, x, b) and status.shape == (1,) and status[0] == 0
    inside = jax.shard_map(
        lambda a, b: names.lu_solve_shardmap_ctx(a, b, T_A),
        mesh=mesh,
        in_specs=(P("x", None), P()),
        out_specs=(P(), P()),
        check_vma=False,
    )
    x, status = jax.jit(inside)(cut, whole)
    assert solves(a, x, b) and status[0] == 0
