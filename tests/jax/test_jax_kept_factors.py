"""A factor is used on the devices that made it, whatever has happened to it in between."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from functions import FACTOR_USES
from jax import lax
from jax.sharding import AxisType, Mesh
from jax.sharding import PartitionSpec as P
from places import N
from systems import DEVICES, close, grid_mesh, hermitian, inverts, put, row_mesh, sides, solves

import shardsolve

pytestmark = pytest.mark.devices


@pytest.mark.parametrize("axes", ((), ("x", "y"), ("y", "x")), ids=str)
@pytest.mark.parametrize("way", ("eager", "jit", "mesh"))
def test_factor_of_a_size_that_only_one_axis_divides_is_used_where_it_was_made(way, axes):
    """XLA cut it along that axis, and it was then used on fewer devices than it was made on."""
    n = 3 * grid_mesh().shape["x"]
    if n % grid_mesh().shape["y"]:
        axes = ()
    a, b = hermitian(n), sides(n)
    keywords = {"mesh": grid_mesh()} if way == "mesh" else {}
    given = a if way == "mesh" else put(a, grid_mesh(), *axes)
    factor = shardsolve.cho_factor(given, **keywords)
    cho_solve = functools.partial(shardsolve.cho_solve, **keywords)
    assert solves(a, (jax.jit(cho_solve) if way == "jit" else cho_solve)(factor, b), b)
    assert inverts(a, shardsolve.inv(factor, **keywords))
    assert 0.3 < float(shardsolve.cond(given, 1, **keywords)) / np.linalg.cond(a, 1) < 1.01


@pytest.mark.parametrize("kept_whole", (False, True))
def test_factor_cut_unevenly_inside_of_a_program_is_used_where_it_was_made(kept_whole):
    """Rows along two axes: JAX would have it leave the program cut along the one that divides."""
    n = 3 * grid_mesh().shape["x"] if kept_whole else 6 * DEVICES + 1
    a, b = hermitian(n), sides(n)
    whole = put(a, grid_mesh()).sharding
    rows = jax.sharding.NamedSharding(grid_mesh(), P(("x", "y") if kept_whole else "x"))

    def make(a):
        factor = shardsolve.cho_factor(jax.lax.with_sharding_constraint(a, rows))
        return jax.lax.with_sharding_constraint(factor, whole) if kept_whole else factor

    factor = jax.jit(make)(put(a, grid_mesh()))
    for run in (shardsolve.cho_solve, jax.jit(shardsolve.cho_solve)):
        assert solves(a, run(factor, b), b)


@pytest.mark.skipif(DEVICES % 4 != 0, reason="needs three axes that count")
def test_uneven_factor_on_some_axes_of_a_mesh_is_used_where_it_was_made():
    a, b = hermitian(6), sides(6)
    devices = np.array(jax.devices()).reshape(2, 1, -1)
    for explicit in (False, True):
        kind = AxisType.Explicit if explicit else AxisType.Auto
        mesh = Mesh(devices, ("x", "y", "z"), axis_types=(kind,) * 3)
        factor = shardsolve.cho_factor(put(a, mesh, "x", "z"))
        assert solves(a, shardsolve.cho_solve(factor, put(b, mesh)), b)


@pytest.mark.parametrize("use", FACTOR_USES)
def test_factor_of_numpy_arrays_is_used_where_mesh_says(use):
    """As jax.device_get and checkpoints leave it."""
    made = shardsolve.cho_factor(hermitian(N), mesh=row_mesh())
    on_host = jax.device_get(made)
    assert isinstance(on_host._slab, np.ndarray)
    use = FACTOR_USES[use]
    assert close(use(on_host, mesh=row_mesh()), use(made))


# Made anew in a loop, on a mesh of several axes


def scan(a, b):
    def step(state, shift):
        factor, x = state
        x = shardsolve.cho_solve(factor, x)
        return (shardsolve.cho_factor(a + shift * jnp.eye(N)), x), x

    return lax.scan(step, (shardsolve.cho_factor(a), b), jnp.arange(1.0, 4.0))[1]


def fori_loop(a, b):
    def step(i, state):
        factor, x, all_x = state
        x = shardsolve.cho_solve(factor, x)
        return shardsolve.cho_factor(a + (i + 1.0) * jnp.eye(N)), x, all_x.at[i].set(x)

    return lax.fori_loop(0, 3, step, (shardsolve.cho_factor(a), b, jnp.zeros((3, N))))[2]


def while_loop(a, b):
    def step(state):
        i, factor, x, all_x = state
        x = shardsolve.cho_solve(factor, x)
        factor = shardsolve.cho_factor(a + (i + 1.0) * jnp.eye(N))
        return i + 1, factor, x, all_x.at[i].set(x)

    state = 0, shardsolve.cho_factor(a), b, jnp.zeros((3, N))
    return lax.while_loop(lambda state: state[0] < 3, step, state)[3]


@pytest.mark.parametrize("loop", (scan, fori_loop, while_loop), ids=lambda loop: loop.__name__)
@pytest.mark.parametrize(
    ("spec_a", "spec_b"),
    (
        (("x",), "y"),
        (("x",), ("y", "x")),
        (("x", "y"), "y"),
        ((None, "x"), ("x", "y")),
        ((("x", "y"),), "y"),
    ),
    ids=str,
)
def test_factor_made_anew_in_a_loop_with_b_along_other_axes_passes_gate(spec_a, spec_b, loop):
    """Shardy brought the slab to where b lay: fewer or more devices than had made it."""
    a, b = hermitian(N), sides(N)
    right = b
    solutions = jax.jit(loop)(put(a, grid_mesh(), *spec_a), put(b, grid_mesh(), spec_b))
    for shift, x in enumerate(np.asarray(solutions)):
        assert solves(a + shift * np.eye(N), x, right)
        right = x


# Under jax.disable_jit


def stack():
    return np.stack([hermitian(N, seed=seed) for seed in range(3)]), sides(N, 3).T.copy()


@pytest.mark.parametrize("kept", (True, False), ids=("kept", "made_there"))
@pytest.mark.parametrize("mesh", (row_mesh, grid_mesh))
def test_vmap_of_factors_under_disable_jit_passes_gate(mesh, kept):
    """Nobody said where they lay: they were taken for one device's."""
    a, b = stack()
    given = put(a, mesh(), None, "x")
    make = jax.vmap(shardsolve.cho_factor)
    factors = make(given) if kept else None
    with jax.disable_jit():
        factors = factors or make(given)
        solutions = jax.vmap(shardsolve.cho_solve)(factors, b)
        inverses = jax.vmap(shardsolve.inv)(factors)
    for each in zip(a, solutions, b, strict=True):
        assert solves(*each)
    assert close(inverses, np.linalg.inv(a))


def test_factor_of_vmap_under_disable_jit_is_used_outside_of_it():
    a, b = stack()
    with jax.disable_jit():
        factors = jax.vmap(shardsolve.cho_factor)(put(a, row_mesh(), None, "x"))
        second = jax.tree.map(lambda leaf: leaf[1], factors)
        assert solves(a[1], shardsolve.cho_solve(second, b[1]), b[1])
