"""Inside of a shard_map of the user: axis_name=, and systems of each device."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from functions import several_devices
from jax.sharding import PartitionSpec as P
from places import N, system
from systems import (
    DEVICES,
    close,
    grid_mesh,
    hermitian,
    inverts,
    row_mesh,
    sides,
    solve,
    solves,
    spread,
)

import shardsolve

pytestmark = pytest.mark.devices


def inside(function, mesh, axes, outputs, check_vma=False, **keywords):
    """`function(a, b)` inside a shard_map, rows of both cut along `axes`."""
    return jax.shard_map(
        lambda a, b: function(a, b, **keywords, axis_name=axes),
        mesh=mesh,
        in_specs=(P(axes), P(axes)),
        out_specs=outputs,
        check_vma=check_vma,
    )


@pytest.mark.parametrize("axes", ("x", "y", ("x", "y"), ("y", "x")), ids=str)
def test_axis_name_solve_passes_gate(axes):
    a, b = system(k=2)
    run = jax.jit(inside(solve, grid_mesh(), axes, P(axes)))
    assert solves(a, run(a, b), b)


@pytest.mark.parametrize("function", ("solve", "inv", "logdet"))
def test_axis_name_under_check_vma_says_what_to_pass(function):
    a, b = system(k=2)
    run = {
        "solve": solve,
        "inv": lambda a, b, axis_name: shardsolve.inv(a, axis_name=axis_name),
        "logdet": lambda a, b, axis_name: shardsolve.logdet(a, axis_name=axis_name)[None],
    }[function]
    with pytest.raises(ValueError, match=r"shardsolve.*check_vma=False"):
        inside(run, row_mesh(), "x", P("x"), check_vma=True)(a, b)


@several_devices
@pytest.mark.parametrize("function", ("solve", "cho_solve"))
def test_right_hand_sides_that_vary_under_check_vma_say_what_to_pass(function):
    run = {
        "solve": solve,
        "cho_solve": lambda a, b: shardsolve.cho_solve(shardsolve.cho_factor(a), b),
    }[function]
    columns = P(None, "x")
    mapped = jax.shard_map(run, mesh=row_mesh(), in_specs=(P(), columns), out_specs=columns)
    with pytest.raises(ValueError, match=r"shardsolve.*check_vma=False"):
        mapped(hermitian(N), sides(N, DEVICES))


@several_devices
def test_shard_map_of_rows_without_axis_name_takes_all_axes():
    a, b = system(k=2)
    both = ("x", "y")
    mapped = jax.shard_map(
        solve, mesh=grid_mesh(), in_specs=(P(both), P(both)), out_specs=P(both), check_vma=False
    )
    assert solves(a, jax.jit(mapped)(a, b), b)


def test_shard_map_of_square_matrices_solves_each_on_its_device():
    """No axis name is needed: every device has a system of its own."""
    a = np.stack([hermitian(N, seed=seed) for seed in range(DEVICES)])
    b = np.stack([sides(N, seed=seed) for seed in range(DEVICES)])
    mapped = jax.shard_map(
        lambda a, b: solve(a[0], b[0])[None],
        mesh=row_mesh(),
        in_specs=(P("x"), P("x")),
        out_specs=P("x"),
        check_vma=False,
    )
    x = jax.jit(mapped)(a, b)
    assert all(solves(*one) for one in zip(a, x, b, strict=True))


def test_axis_name_every_function_agrees_with_numpy():
    a, b = system(k=2)

    def functions(a, b, axis_name):
        factor = shardsolve.cho_factor(a, axis_name=axis_name)
        return (
            shardsolve.cho_solve(factor, b, axis_name=axis_name),
            shardsolve.inv(factor, axis_name=axis_name),
            shardsolve.logdet(factor, axis_name=axis_name)[None],
            shardsolve.cond(factor, 1, axis_name=axis_name)[None],
        )

    x, inverse, logdet, cond = inside(functions, row_mesh(), "x", P("x"))(a, b)
    assert solves(a, x, b)
    assert inverts(a, inverse)
    assert close(np.array(logdet), np.full(DEVICES, np.linalg.slogdet(a)[1]))
    assert np.all(np.abs(np.array(cond) / np.linalg.cond(a, 1) - 1) < 0.7)


NUMBERS = {"logdet": {}, "cond": {"p": 1}}


@pytest.mark.parametrize("function", NUMBERS)
def test_axis_name_scalars_are_the_same_on_all_devices(function):
    """So a replicated result is the right one, whichever device it is read from."""
    number = {"logdet": shardsolve.logdet, "cond": functools.partial(shardsolve.cond, p=1)}[
        function
    ]
    a, b = system()
    run = inside(lambda a, b, axis_name: number(a, axis_name=axis_name), row_mesh(), "x", P())
    parts = [np.asarray(shard.data) for shard in run(a, b).addressable_shards]
    assert len(parts) == DEVICES
    assert all(np.array_equal(part, parts[0]) for part in parts)
    assert close(parts[0], np.asarray(number(spread(a))))


@pytest.mark.parametrize("which", (0, 1), ids=("a", "b"))
def test_axis_name_gradient_is_that_outside(which):
    a, b = system("float64", 2)

    def squares(mapped):
        return lambda a, b: jnp.sum(mapped(a, b) ** 2)

    mapped = inside(solve, row_mesh(), "x", P("x"))
    gradient = jax.jit(jax.grad(squares(mapped), which))(a, b)
    assert close(gradient, jax.grad(squares(solve), which)(spread(a), b))


def test_axis_name_gradient_taken_inside_is_that_outside():
    """Each device's own sum: the gradient of the sum of all."""
    a, b = system("float64", 2)

    def gradient(a, b, axis_name):
        return jax.grad(lambda a: jnp.sum(solve(a, b, axis_name=axis_name) ** 2))(a)

    got = inside(gradient, row_mesh(), "x", P("x"))(a, b)
    expected = jax.grad(lambda a: jnp.sum(solve(a, b) ** 2))(spread(a))
    assert close(got, expected)


def test_axis_name_without_shard_map_says_so():
    a, b = system()
    with pytest.raises(ValueError, match=r"^axis_name is \('x',\).*leave axis_name out outside"):
        solve(a, b, axis_name="x")
