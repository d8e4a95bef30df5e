"""Meshes with Explicit axes, and those that jax.set_mesh sets: types say where arrays lie."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh
from places import PLACES, SPECS, every_spec, system
from systems import (
    DEVICES,
    close,
    grid_mesh,
    hermitian,
    inverts,
    more,
    put,
    row_mesh,
    sides,
    solve,
    solves,
)

import shardsolve

pytestmark = pytest.mark.devices


@pytest.mark.parametrize("way", ("eager", "jit", "eager_outside", "jit_outside"))
@every_spec
def test_explicit_axes_any_spec_passes_gate(spec, way):
    a, b = system()
    mesh = grid_mesh(explicit=True)
    given, right = put(a, mesh, *SPECS[spec]), put(b, mesh)
    run = jax.jit(solve) if "jit" in way else solve
    if "outside" in way:
        x = run(given, right)
    else:
        with jax.set_mesh(mesh):
            x = run(given, right)
    assert solves(a, x, b)
    assert x.sharding.is_equivalent_to(right.sharding, x.ndim)


@pytest.mark.parametrize("spec_b", ((), ("x",), ("y",), (("x", "y"),)), ids=str)
def test_explicit_axes_result_lies_as_b(spec_b):
    a, b = system()
    mesh = grid_mesh(explicit=True)
    with jax.set_mesh(mesh):
        x = jax.jit(solve)(put(a, mesh, "x"), put(b, mesh, *spec_b))
    assert solves(a, x, b)
    assert x.sharding.is_equivalent_to(put(b, mesh, *spec_b).sharding, 1)


@pytest.mark.parametrize("way", ("eager", "jit"))
@every_spec
def test_explicit_axes_every_function_agrees_with_numpy(spec, way):
    a, b = system(k=2)
    mesh = grid_mesh(explicit=True)

    def functions(a, b):
        factor = shardsolve.cho_factor(a)
        return shardsolve.cho_solve(factor, b), shardsolve.inv(factor), shardsolve.logdet(a)

    with jax.set_mesh(mesh):
        run = jax.jit(functions) if way == "jit" else functions
        x, inverse, logdet = run(put(a, mesh, *SPECS[spec]), put(b, mesh))
    assert solves(a, x, b)
    assert inverts(a, inverse)
    assert close(np.array(logdet), np.linalg.slogdet(a)[1])


@pytest.mark.parametrize("way", ("eager", "jit"))
@pytest.mark.parametrize("place", ("rows", "columns", "replicated", "numpy"))
def test_set_mesh_with_auto_axes_passes_gate(place, way):
    a, b = system()
    with jax.set_mesh(row_mesh()):
        assert solves(a, (jax.jit(solve) if way == "jit" else solve)(PLACES[place](a), b), b)


@pytest.mark.parametrize("n", (5, 25))
def test_explicit_axes_size_that_does_not_divide_passes_gate(n):
    a, b = hermitian(n), sides(n)
    mesh = row_mesh(explicit=True)
    with jax.set_mesh(mesh):
        assert solves(a, jax.jit(solve)(put(a, mesh), put(b, mesh)), b)
        assert inverts(a, jax.jit(shardsolve.inv)(put(a, mesh)))


@pytest.mark.parametrize("explicit_axis", ("x", "y"))
@every_spec
def test_mesh_with_explicit_and_auto_axes_passes_gate(spec, explicit_axis):
    """A factor made in jit is used outside, and the other way round."""
    a, b = system(k=2)
    kinds = (AxisType.Explicit, AxisType.Auto)[:: 1 if explicit_axis == "x" else -1]
    mesh = Mesh(grid_mesh().devices, ("x", "y"), axis_types=kinds)
    given, right = put(a, mesh, *SPECS[spec]), put(b, mesh, "x")
    for make in (shardsolve.cho_factor, jax.jit(shardsolve.cho_factor)):
        factor = make(given)
        for use in (shardsolve.cho_solve, jax.jit(shardsolve.cho_solve)):
            assert solves(a, use(factor, right), b)
    assert inverts(a, shardsolve.inv(given))
    assert close(shardsolve.cholesky(given), np.linalg.cholesky(a))


# Of a symmetric a, b and a as a CSR, each with what NumPy says of a and b.
OF_A_SYMMETRIC_MATRIX = {
    "solve": (lambda a, b, csr: solve(a, b), np.linalg.solve),
    "logdet": (lambda a, b, csr: shardsolve.logdet(a), lambda a, b: np.linalg.slogdet(a)[1]),
    "gradient_of_solve": (
        jax.grad(lambda a, b, csr: jnp.sum(solve(a, b))),
        lambda a, b: _outer(-np.linalg.inv(a).sum(axis=1), np.linalg.solve(a, b)),
    ),
    "gradient_of_logdet": (
        jax.grad(lambda a, b, csr: shardsolve.logdet(a)),
        lambda a, b: np.linalg.inv(a),
    ),
    "eigvalsh": (lambda a, b, csr: shardsolve.eigvalsh(a), lambda a, b: np.linalg.eigvalsh(a)),
    "gradient_of_eigvalsh": (
        jax.grad(lambda a, b, csr: jnp.sum(shardsolve.eigvalsh(a) ** 2)),
        lambda a, b: 2 * a,
    ),
    "krylov": (
        lambda a, b, csr: shardsolve.krylov.solve(csr, b, rtol=1e-13),
        np.linalg.solve,
    ),
    "gradient_of_krylov": (
        jax.grad(lambda a, b, csr: jnp.sum(shardsolve.krylov.solve(csr, b, rtol=1e-13) ** 2), 1),
        lambda a, b: 2 * np.linalg.solve(a, np.linalg.solve(a, b)),
    ),
}


def _outer(x, y):
    return (np.outer(x, y) + np.outer(y, x)) / 2


@pytest.mark.parametrize("way", ("eager", more("jit"), "jit_outside"))
@pytest.mark.parametrize("place_b", ("cut", more("whole"), "nowhere"))
@pytest.mark.parametrize("function", OF_A_SYMMETRIC_MATRIX)
def test_mesh_of_make_mesh_serves_every_family(function, place_b, way):
    """Whose axes are Auto in jax 0.8 and Explicit from 0.9 on, if nothing is asked for."""
    a, b = system("float64")
    mesh = jax.make_mesh((DEVICES,), ("x",))
    right = {"cut": put(b, mesh, "x"), "whole": put(b, mesh), "nowhere": b}[place_b]
    ours, numpys = OF_A_SYMMETRIC_MATRIX[function]
    run = ours if way == "eager" else jax.jit(ours)
    arguments = put(a, mesh, "x"), right, shardsolve.CSR.of(a)
    if way == "jit_outside":
        result = run(*arguments)
    else:
        with jax.set_mesh(mesh):
            result = run(*arguments)
    assert close(result, numpys(a, b), 1e6)
