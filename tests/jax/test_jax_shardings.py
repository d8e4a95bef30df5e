"""Wherever the arrays lie, and by whatever way the call comes in: the same answer, in place."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P
from places import PLACES, every_place, system
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


# Eager, and jit with Auto axes, where Python does not know the sharding


@pytest.mark.parametrize("way", ("eager", "jit"))
@every_place
def test_solve_matrix_anywhere_passes_gate(place, way):
    a, b = system()
    run = jax.jit(solve) if way == "jit" else solve
    assert solves(a, run(PLACES[place](a), b), b)


@every_place
def test_factor_made_anywhere_serves_every_function(place):
    a, b = system("complex64", 2)

    def functions(a, b):
        factor = shardsolve.cho_factor(a)
        return (
            shardsolve.cho_solve(factor, b),
            shardsolve.inv(factor),
            shardsolve.logdet(factor),
            shardsolve.cond(factor, 1),
        )

    x, inverse, logdet, cond = jax.jit(functions)(PLACES[place](a), b)
    assert solves(a, x, b)
    assert inverts(a, inverse)
    wide = a.astype(np.complex128)
    assert close(np.float32(logdet), np.float32(np.linalg.slogdet(wide)[1]))
    assert 0.3 < float(cond) / np.linalg.cond(wide, 1) < 1.01


@pytest.mark.parametrize("way", ("eager", "jit"))
@every_place
def test_cholesky_of_matrix_anywhere_is_that_of_numpy(place, way):
    a, _ = system()
    run = jax.jit(shardsolve.cholesky) if way == "jit" else shardsolve.cholesky
    assert close(run(PLACES[place](a)), np.linalg.cholesky(a))


@pytest.mark.parametrize("way", ("eager", "jit"))
@pytest.mark.parametrize("spec_b", (("x",), ("x", None), (None, "x"), (), None), ids=str)
@pytest.mark.parametrize("place", ("rows", "columns"))
def test_solve_b_elsewhere_than_a_passes_gate(place, spec_b, way):
    k = None if spec_b == ("x",) else 12
    a, b = system("float64", k)
    right = b if spec_b is None else put(b, row_mesh(), *spec_b)
    run = jax.jit(solve) if way == "jit" else solve
    assert solves(a, run(PLACES[place](a), right), b)


B_PLACES = {
    "rows": lambda b: put(b, row_mesh(), "x"),
    "grid": lambda b: put(b, grid_mesh(), "y"),
    "subset": lambda b: put(b, row_mesh(jax.devices()[DEVICES // 2 :])),
    "last_device": lambda b: jax.device_put(b, jax.devices()[-1]),
    "explicit": lambda b: put(b, row_mesh(explicit=True), "x"),
}


@pytest.mark.skipif(len(jax.devices()) < 2, reason="of two devices on")
def test_devices_in_another_order_are_refused_by_name():
    a, b = np.eye(2 * len(jax.devices())), np.ones(2 * len(jax.devices()))
    here, there = (
        jax.sharding.NamedSharding(jax.sharding.Mesh(np.array(devices), "x"), P("x"))
        for devices in (jax.devices(), jax.devices()[::-1])
    )
    with pytest.raises(ValueError, match=r"b lies on a mesh of the devices .* in this order"):
        shardsolve.solve(jax.device_put(a, here), jax.device_put(b, there))


@pytest.mark.parametrize("matrix", (jnp.asarray, more(np.asarray)), ids=("jax", "numpy"))
@pytest.mark.parametrize("way", ("eager", "constant_of_jit", "vmap_of_b"))
@pytest.mark.parametrize("place", B_PLACES)
def test_matrix_that_was_never_put_anywhere_follows_b(place, way, matrix):
    a, b = system()
    given, right = matrix(a), B_PLACES[place](b)
    if way == "vmap_of_b":
        x = jax.vmap(lambda b: solve(given, b))(right[None])[0]
    else:
        run = functools.partial(solve, given)
        x = (run if way == "eager" else jax.jit(run))(right)
    assert solves(a, x, b)
    assert x.sharding.device_set == right.sharding.device_set


ON_GRID = [place for place in PLACES if place.startswith(("blocks", "rows_along", "columns_along"))]
ON_GRID.append("replicated_on_grid")


@pytest.mark.parametrize("spec_b", ("x", more("y"), ("x", "y"), more(("y", "x"))), ids=str)
@pytest.mark.parametrize("place", ON_GRID)
def test_jit_b_along_other_axes_of_a_grid_passes_gate(place, spec_b):
    """XLA may cut the factor as b is: the ranks that make it are then those that use it."""
    a, b = system()
    assert solves(a, jax.jit(solve)(PLACES[place](a), put(b, grid_mesh(), spec_b)), b)


@pytest.mark.parametrize("out", (("x",), ("y",), (None, "y"), ("y", "x")), ids=str)
@pytest.mark.parametrize("place", ON_GRID)
def test_jit_inverse_wanted_along_other_axes_of_a_grid_passes_gate(place, out):
    a, _ = system()
    wanted = jax.sharding.NamedSharding(grid_mesh(), P(*out))
    assert inverts(a, jax.jit(shardsolve.inv, out_shardings=wanted)(PLACES[place](a)))


def test_jit_gradient_with_b_along_another_axis_of_a_grid_is_that_of_jnp():
    a, b = system("float64")

    def loss(solver):
        return lambda a, b: jnp.sum(solver(a, b) ** 2)

    reference = jax.grad(loss(lambda a, b: jnp.linalg.solve((a + a.T) / 2, b)), (0, 1))(a, b)
    for spec_a in ((), (None, "y")):
        given = put(a, grid_mesh(), *spec_a), put(b, grid_mesh(), "x")
        assert close(jax.jit(jax.grad(loss(solve), (0, 1)))(*given), reference)


@pytest.mark.parametrize("way", ("eager", "jit"))
def test_solve_size_that_does_not_divide_passes_gate(way):
    """All that XLA lets a user have: rows in unequal parts exist only inside of a program."""
    n = 6 * DEVICES + 1
    a, b = hermitian(n), sides(n, 2)

    def padded(a, b):
        sharding = jax.sharding.NamedSharding(row_mesh(), P("x"))
        return solve(jax.lax.with_sharding_constraint(a, sharding), b)

    run = jax.jit(padded) if way == "jit" else functools.partial(solve, mesh=row_mesh())
    assert solves(a, run(put(a, row_mesh()), b), b)


# mesh=


@pytest.mark.parametrize("way", ("eager", "jit"))
@pytest.mark.parametrize("mesh", (row_mesh, grid_mesh))
@pytest.mark.parametrize("place", ("rows", "columns", "replicated", "uncommitted", "numpy"))
def test_mesh_keyword_brings_the_matrix_there(place, mesh, way):
    a, b = system()
    run = functools.partial(solve, mesh=mesh())
    x = (jax.jit(run) if way == "jit" else run)(PLACES[place](a), b)
    assert solves(a, x, b)
    assert len(x.sharding.device_set) == DEVICES


@pytest.mark.parametrize("n", (1, 5, 25))
@pytest.mark.parametrize("way", ("eager", "jit"))
def test_mesh_keyword_size_that_does_not_divide_passes_gate(n, way):
    a, b = hermitian(n, "complex128"), sides(n, 2, "complex128")

    def functions(a, b):
        factor = shardsolve.cho_factor(a, mesh=row_mesh())
        x = shardsolve.cho_solve(factor, b, mesh=row_mesh())
        return x, shardsolve.inv(factor, mesh=row_mesh()), shardsolve.logdet(a, mesh=row_mesh())

    x, inverse, logdet = (jax.jit(functions) if way == "jit" else functions)(a, b)
    assert solves(a, x, b)
    assert inverts(a, inverse)
    assert close(np.array(logdet), np.linalg.slogdet(a)[1])
