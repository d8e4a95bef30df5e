"""NetKet's solvers: shardsolve.netket. What NetKet itself does is tested where it is installed."""

import importlib.util
import os
import re
import socket
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from systems import DEVICES, gaussian_kernel, hermitian, more, put, row_mesh, sides, solves

import shardsolve
import shardsolve.netket as sn

pytestmark = pytest.mark.devices

ROWS = 4 * DEVICES
netket_is_there = pytest.mark.skipif(
    importlib.util.find_spec("netket") is None, reason="needs netket"
)


class Operator:
    """As a geometric tensor of NetKet."""

    def __init__(self, dense):
        self.dense = dense

    def to_dense(self):
        return self.dense


def spread(a):
    return put(a, row_mesh(), *(["x"] if len(a) % DEVICES == 0 else []))


@pytest.mark.parametrize("solver", [sn.cholesky, sn.shift_ladder(), more(sn.cholesky())], ids=str)
@pytest.mark.parametrize("way", ["eager", "jit", more("explicit")])
@pytest.mark.parametrize("n", [ROWS, ROWS + 1])
def test_solver_by_cholesky_passes_the_gate(n, way, solver):
    a, b = hermitian(n, "complex64"), sides(n, dtype="complex64")
    mesh = row_mesh(explicit=way == "explicit")
    with jax.set_mesh(mesh):
        given = put(a, mesh, *(["x"] if n % DEVICES == 0 else [])), put(b, mesh)
        x, info = (solver if way == "eager" else jax.jit(solver))(*given)
    assert solves(a, x, b)
    assert x.sharding.is_fully_replicated
    assert info["status"] == 0
    assert info["pivot"] == -1
    assert info["backward_error"] < 1e-6
    assert info.get("shift", 0) == 0
    assert "rcond" not in info


def test_rcond_comes_where_it_is_asked_for():
    _, info = sn.cholesky(estimate_rcond=True)(np.diag([1.0, 1e-3]), np.ones(2))
    assert np.isclose(info["rcond"], 1e-3)


def test_operator_and_pytree_are_taken_and_x_is_like_b():
    a, b = hermitian(5), sides(5)
    tree = {"kernel": b[:4].reshape(2, 2), "bias": b[4:]}
    order = jax.flatten_util.ravel_pytree(tree)[0]
    x, _ = sn.cholesky()(Operator(jnp.asarray(a)), tree, x0=tree)
    assert jax.tree.structure(x) == jax.tree.structure(tree)
    assert x["kernel"].shape == (2, 2)
    assert solves(a, jax.flatten_util.ravel_pytree(x)[0], np.asarray(order))


def test_system_is_solved_in_the_dtype_that_holds_both():
    """As NetKet's do."""
    a, b = hermitian(6), sides(6, dtype="float32")
    x, _ = sn.cholesky(a, b)
    assert solves(a, x, b.astype("float64"))


@pytest.mark.parametrize("way", ["eager", "jit"])
def test_ladder_adds_to_the_diagonal_what_is_needed(way):
    """In single precision a smooth kernel of 60 points has pivots that are not positive."""
    a, b = gaussian_kernel(60, 0.0, "float32"), np.ones(60, "float32")
    run = jax.jit if way == "jit" else lambda solver: solver
    x, info = run(sn.cholesky())(a, b)
    assert np.isnan(x).all()
    assert info["status"] == shardsolve.Status.NOT_POSITIVE_DEFINITE
    assert info["pivot"] > 0
    x, info = run(sn.shift_ladder(start=1e-9, steps=6))(a, b)
    assert info["status"] == 0
    assert 1e-8 < info["shift"] < 1e-4
    assert info["pivot"] == -1
    shifted = a + np.asarray(info["shift"]) * np.eye(60, dtype="float32")
    assert solves(shifted, x, b)
    _, info = run(sn.shift_ladder(start=1e-12, steps=2))(a, b)
    assert info["status"] == shardsolve.Status.NOT_POSITIVE_DEFINITE
    assert np.isclose(info["shift"], 1e-11)


@pytest.mark.parametrize("n", [ROWS, ROWS + 1])
def test_pinv_smooth_is_that_of_its_formula(n):
    vectors = np.linalg.qr(sides(n, n))[0]
    w = np.logspace(-9, 0, n)
    a, b = (vectors * w) @ vectors.T, sides(n)
    x, info = jax.jit(sn.pinv_smooth(rtol=1e-7, rtol_smooth=1e-5))(spread(a), put(b, row_mesh()))
    weights = np.where(w > 1e-7, 1 / w / (1 + (1e-5 / w) ** 6), 0)
    wanted = vectors @ (weights * (vectors.T @ b))
    assert np.allclose(x, wanted, rtol=0, atol=1e-7 * np.abs(wanted).max())
    assert info["rank"] == np.sum(w > 1e-7)
    assert info["status"] == 0
    assert max(info["residual"], info["orthogonality"]) < 1e-13


@pytest.mark.parametrize("solver", [sn.cholesky(), sn.shift_ladder(), sn.pinv_smooth()], ids=str)
def test_nan_in_a_or_b_is_nan_in_x_and_no_exception(solver):
    for number in range(2):
        given = [hermitian(6), sides(6)]
        given[number].flat[0] = np.nan
        x, info = solver(*given)
        assert np.isnan(x).all()
        assert number == 1 or info["status"] == shardsolve.Status.NONFINITE_INPUT


@pytest.mark.skipif(DEVICES == 1, reason="needs two devices")
@pytest.mark.parametrize("solver", [sn.cholesky(), more(sn.pinv_smooth())], ids=str)
def test_operator_of_another_mesh_than_b_is_refused(solver):
    one, other = row_mesh(jax.devices()[:1]), row_mesh(jax.devices()[1:2])
    with pytest.raises(ValueError, match=r"b was put on the devices \[1\].*run on the devices"):
        solver(Operator(put(hermitian(6), one, "x")), put(sides(6), other))


def test_equal_solvers_are_the_same_program():
    assert sn.cholesky() == sn.cholesky()
    assert hash(sn.shift_ladder(start=1e-8)) == hash(sn.shift_ladder(start=1e-8))
    assert sn.pinv_smooth(rtol=1e-8) != sn.pinv_smooth()
    assert len({sn.cholesky(), sn.shift_ladder(), sn.pinv_smooth(), sn.cholesky()}) == 3


A, B = hermitian(4), sides(4)
WRONG = {
    "a_alone": (lambda: sn.cholesky(A), TypeError, "pass A and b"),
    "no_matrix": (lambda: sn.cholesky("a", B), TypeError, r"A is a str; pass .* to_dense\(\)"),
    "oblong": (lambda: sn.cholesky(A[1:], B), ValueError, r"a has shape \(3, 4\)"),
    "length": (lambda: sn.cholesky(A, B[1:]), ValueError, "b has 3 numbers: pass as many"),
    "columns": (lambda: sn.cholesky(A, A), ValueError, "b has 16 numbers"),
    "start": (lambda: sn.shift_ladder(start=0), ValueError, "start is 0; pass a number between"),
    "steps": (lambda: sn.shift_ladder(steps=0), ValueError, "steps is 0; pass a positive"),
    "rtol": (lambda: sn.pinv_smooth(rtol=-1), ValueError, "rtol is -1; pass"),
    "smooth": (lambda: sn.pinv_smooth(rtol_smooth=None), ValueError, "rtol_smooth is None"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_argument_that_does_not_fit_is_named(wrong):
    run, kind, words = WRONG[wrong]
    with pytest.raises(kind, match=words):
        run()


# With NetKet, in processes of their own: its import sets a mesh.

CHAIN = """
import jax, numpy as np, netket as nk, shardsolve.netket as sn
from jax.flatten_util import ravel_pytree
chain = nk.graph.Chain(6)
space = nk.hilbert.Spin(0.5, 6)
energy = nk.operator.Ising(space, chain, h=1.0)

def state(dtype):
    sampler = nk.sampler.MetropolisLocal(space, n_chains=16)
    model = nk.models.RBM(alpha=2, param_dtype=dtype)
    return nk.vqs.MCState(sampler, model, n_samples=64, seed=1, sampler_seed=2)

def same(one, other):
    one, other = ravel_pytree(one)[0], ravel_pytree(other)[0]
    assert np.abs(one - other).max() < 1e-6 * np.abs(other).max(), abs(one - other).max()
"""

DRIVERS = """
theirs = nk.optimizer.solver

def run(solver, use_ntk, mode, dtype):
    vs, log = state(dtype), nk.logging.RuntimeLog()
    driver = nk.driver.VMC_SR(
        energy, nk.optimizer.Sgd(0.05), variational_state=vs, diag_shift=0.01,
        linear_solver=solver, use_ntk=use_ntk, mode=mode,
    )
    driver.run(2, out=log, show_progress=False)
    return vs.parameters, log

for way, solvers in (
    ((True, "complex", complex), (sn.shift_ladder(), sn.pinv_smooth(rtol=1e-12))),
    ((False, "real", float), (theirs.nan_fallback(sn.cholesky, theirs.pinv_smooth),)),
):
    wanted, _ = run(theirs.cholesky, *way)
    for solver in solvers:
        found, log = run(solver, *way)
        same(found, wanted)
        assert log.data["info"]["status"].values.tolist() == [0, 0]
"""

TENSORS = """
for dtype in (float, complex):
    for tensor in (
        nk.optimizer.qgt.QGTJacobianDense, nk.optimizer.qgt.QGTJacobianPyTree,
        nk.optimizer.qgt.QGTOnTheFly,
    ):
        vs = state(dtype)
        if dtype is complex:
            tensor = tensor(holomorphic=True)
        _, gradient = vs.expect_and_grad(energy)
        updates = [
            nk.optimizer.SR(tensor, solver=solver, diag_shift=0.01)(vs, gradient, 0)
            for solver in (nk.optimizer.solver.cholesky, sn.cholesky())
        ]
        same(*updates[::-1])

tdvp = nk.driver.TDVP if hasattr(nk.driver, "TDVP") else nk.experimental.driver.TDVP
found = []
for solver in (nk.optimizer.solver.pinv_smooth(rtol=1e-10), sn.pinv_smooth(rtol=1e-10)):
    vs = state(complex)
    driver = tdvp(
        energy, vs, nk.experimental.dynamics.Euler(dt=0.01), linear_solver=solver,
        qgt=nk.optimizer.qgt.QGTJacobianDense(holomorphic=True),
    )
    driver.run(0.02, show_progress=False)
    found.append(vs.parameters)
same(found[1], found[0])
"""

INSTALLED = """
import functools, itertools, shardsolve.compat.jaxmg
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P
shardsolve.compat.jaxmg.install()
theirs = nk.optimizer.solver
count = len(jax.devices())
GRIDS = [None, *((count // c, c) for c in range(1, count + 1) if count % c == 0)]
rng = np.random.default_rng(0)

def matrix(n, around, spec=P("S", None)):
    a, b = rng.standard_normal((n, n)), rng.standard_normal(n)
    a = a @ a.T / n + np.eye(n)
    return a, b, *(jax.device_put(v, NamedSharding(around, s)) for v, s in ((a, spec), (b, P())))

SOLVERS = {
    theirs.cholesky_distributed: theirs.cholesky, theirs.pinv_smooth_distributed: theirs.pinv_smooth
}
TYPES = AxisType.Auto, AxisType.Explicit
meshes = [Mesh(np.array(jax.devices()), ("S",), axis_types=(kind,)) for kind in TYPES]
cases = list(itertools.product(
    SOLVERS, meshes, (P("S", None), P(None, "S"), P()), GRIDS, (False, True)
))
for solver, around, spec, grid, compiled in cases[EVERY]:
    with jax.set_mesh(around):
        a, b, given, right = matrix(16 * count, around, spec)
        run = functools.partial(solver, process_grid=grid)
        x, info = (jax.jit(run) if compiled else run)(given, right)
        assert info is None and x.sharding.mesh.axis_names == ("S",), (x.sharding, info)
        assert AxisType.Auto in around.axis_types or x.sharding.is_fully_replicated
        same(x, np.linalg.solve(a, b))
"""

# The rest of the tables of NetKet's tests of its distributed solvers (test_solver_distributed.py).
EDGES = """
for solver, dense in SOLVERS.items():
    for around in meshes:
        with jax.set_mesh(around):
            a, b, given, right = matrix(16 * count, around)
            x, _ = solver(given, right.astype("float32"))  # two dtypes
            assert x.dtype == a.dtype
            same(x, np.linalg.solve(a, b.astype("float32")))
            for rows in (None, 16, 32):
                same(solver(local_tile_size=rows)(given, right)[0], np.linalg.solve(a, b))
            broken = np.diag(np.where(np.arange(16 * count) < 16 * count - 1, 2.0, 0.0))
            ones = np.where(np.arange(16 * count) < 16 * count - 1, 1.0, 0.0)
            broken, ones = (jax.device_put(v, NamedSharding(around, P())) for v in (broken, ones))
            if solver is theirs.cholesky_distributed:
                assert np.isnan(solver(broken, ones)[0]).all()
            for run in (lambda f: f, jax.jit):
                x, info = run(theirs.nan_fallback(solver, theirs.pinv_smooth))(broken, ones)
                assert np.allclose(x, ones / 2, atol=1e-8)
                assert info["solver_fallback"] == (solver is theirs.cholesky_distributed)
            assert not broken.is_deleted() and not ones.is_deleted()
    turned = Mesh(np.array(jax.devices())[::-1], ("S",))
    with jax.set_mesh(turned):
        a, b, given, right = matrix(16 * count, turned)
        for run in (solver, jax.jit(solver)):
            x, _ = run(given, right)
            assert x.sharding.mesh == turned
            same(x, np.linalg.solve(a, b))

# Of eigenvalues from 1e-12 to 1 more or fewer are left out.
vectors = np.linalg.qr(rng.standard_normal((32 * count, 32 * count)))[0]
a = jax.numpy.asarray((vectors * np.logspace(-12, 0, 32 * count)) @ vectors.T)
b = jax.numpy.asarray(rng.standard_normal(32 * count))
for rtol in (1e-16, 1e-6):
    options = {"rtol": rtol, "rtol_smooth": rtol}
    x, _ = theirs.pinv_smooth_distributed(a, b, **options)
    wanted, _ = theirs.pinv_smooth(a, b, **options)
    assert np.abs(x - wanted).max() < (1e-6 if rtol > 1e-10 else 1e-2) * np.abs(wanted).max()
"""


@netket_is_there
@pytest.mark.slow
@pytest.mark.cpu_only
def test_netket_with_it_does_what_it_does_without(python):
    """In one process, as most of the time is to start NetKet and to compile its samplers."""
    if DEVICES != 4:
        pytest.skip("for four devices")
    python(CHAIN + DRIVERS + TENSORS + "EVERY = slice(None, None, 7)\n" + INSTALLED)


@netket_is_there
@pytest.mark.slow
@pytest.mark.more
@pytest.mark.cpu_only
def test_distributed_solvers_of_netket_pass_the_tables_of_its_tests(python):
    if DEVICES != 4:
        pytest.skip("for four devices")
    python(CHAIN + "EVERY = slice(None)\n" + INSTALLED + EDGES)


TWO_PROCESSES = """
import os, sys, jax
number = int(os.environ["NUMBER"])
jax.distributed.initialize(os.environ["COORDINATOR"], num_processes=2, process_id=number)
"""

ONE_DRIVER = """
assert len(jax.devices()) == 4 and len(jax.local_devices()) == 2
vs, log = state(complex), nk.logging.RuntimeLog()
driver = nk.driver.VMC_SR(
    energy, nk.optimizer.Sgd(0.05), variational_state=vs, diag_shift=0.01, use_ntk=True,
    linear_solver=sn.shift_ladder(),
)
driver.run(2, out=log, show_progress=False)
info = log.data["info"]
assert info["status"].values.tolist() == [0, 0]
assert max(info["backward_error"].values) < 1e-14
print("parameters", np.asarray(ravel_pytree(vs.parameters)[0]).tobytes().hex())
"""


@netket_is_there
@pytest.mark.slow
@pytest.mark.more
@pytest.mark.cpu_only
def test_two_processes_of_netket_have_the_same_parameters():
    """Each with two of the four devices."""
    if DEVICES != 4:
        pytest.skip("for four devices")
    with socket.socket() as one:
        one.bind(("localhost", 0))
        port = one.getsockname()[1]
    flags = re.sub(r"(device_count)=\d+", r"\1=2", os.environ["XLA_FLAGS"])
    running = []
    for number in range(2):
        own = {"XLA_FLAGS": flags, "NUMBER": str(number), "COORDINATOR": f"localhost:{port}"}
        command = [sys.executable, "-c", TWO_PROCESSES + CHAIN + ONE_DRIVER]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        running.append(subprocess.Popen(command, env={**os.environ, **own}, **pipes))
    try:
        ended = [process.communicate(timeout=100) for process in running]
    finally:
        for process in running:
            process.kill()
    assert [process.returncode for process in running] == [0, 0], ended
    found = {re.search("parameters (.*)", out)[1] for out, _ in ended}
    assert len(found) == 1
