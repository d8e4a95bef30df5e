"""Krylov solves on several devices: the bits of one, wherever the rows of b lie."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from functions import several_devices
from jax.sharding import AxisType, PartitionSpec
from krylov_systems import METHODS, N, bits, laplacian, matrix, on_mesh, right, same, solve
from systems import DEVICES, more

from shardsolve import krylov

every_method = pytest.mark.parametrize("method", METHODS)
one_of_each_kind = pytest.mark.parametrize(
    "method", ["cg", more("minres"), "bicgstab", more("fgmres")]
)


@pytest.mark.devices
@several_devices
@every_method
@pytest.mark.parametrize("preconditioner", ["jacobi", more(None), more("function")])
def test_bits_are_the_same_on_any_number_of_devices(method, preconditioner):
    a, b = matrix(method), right()
    m = (lambda r: r * 0.4) if preconditioner == "function" else preconditioner
    alone = solve(a, b, method, preconditioner=m)
    for devices in range(2, DEVICES + 1):
        if N % devices == 0:
            assert same(solve(a, on_mesh(b, devices=devices), method, preconditioner=m), alone)
    assert same(solve(a, on_mesh(b, AxisType.Explicit), method, preconditioner=m), alone)


@several_devices
def test_answer_lies_where_b_does():
    b = on_mesh(right())
    assert krylov.solve(laplacian(), b).sharding.is_equivalent_to(b.sharding, 1)
    x = jax.jit(lambda b: krylov.solve(laplacian(), b))(on_mesh(right(), AxisType.Explicit))
    assert x.sharding.is_equivalent_to(b.sharding, 1)


@several_devices
@one_of_each_kind
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=["auto", "explicit"])
def test_bits_are_the_same_in_a_program_of_the_callers(method, kind):
    a, b = matrix(method), right()
    alone = solve(a, b, method, preconditioner="jacobi")
    run = jax.jit(lambda b: solve(a, b, method, preconditioner="jacobi"))
    assert same(run(on_mesh(b, kind)), alone)


@several_devices
@one_of_each_kind
def test_bits_are_the_same_in_a_shard_map_of_the_callers(method):
    a, b = matrix(method), right()
    alone = solve(a, b, method)
    run = jax.shard_map(
        lambda b: solve(a, b, method, axis_name="x"),
        mesh=on_mesh(b).sharding.mesh,
        in_specs=PartitionSpec("x"),
        out_specs=(PartitionSpec("x"), PartitionSpec()),
        check_vma=False,
    )
    assert same(jax.jit(run)(b), alone)


@several_devices
def test_each_device_may_solve_a_system_of_its_own():
    a, b = laplacian(64), np.stack([right(64, seed=s) for s in range(DEVICES)])
    run = jax.shard_map(
        lambda b: krylov.solve(a, b[0])[None],
        mesh=on_mesh(b).sharding.mesh,
        in_specs=PartitionSpec("x"),
        out_specs=PartitionSpec("x"),
        check_vma=False,
    )
    assert [bits(x) for x in jax.jit(run)(b)] == [bits(krylov.solve(a, one)) for one in b]


@several_devices
def test_rows_that_do_not_divide_evenly_are_solved():
    n = N - 1
    a, b = laplacian(n), right(n)
    given = jax.device_put(
        b, jax.sharding.NamedSharding(on_mesh(right()).sharding.mesh, PartitionSpec())
    )
    assert same(solve(a, given), solve(a, b))
