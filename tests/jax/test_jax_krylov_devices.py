"""Krylov solves on several devices: the bits of one, wherever the rows of b lie."""

from __future__ import annotations

import json
import os
import subprocess
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from functions import several_devices
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from krylov_systems import (
    METHODS,
    N,
    bits,
    grid,
    host,
    laplacian,
    matrix,
    on_mesh,
    right,
    same,
    solve,
)
from systems import DEVICES, more

from shardsolve import krylov
from shardsolve._krylov_records import EVENTS

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


def stencil(x):
    """Of a vector that is whole: a ring."""
    return 2.3 * x - 0.9 * jnp.roll(x, 1) - 0.9 * jnp.roll(x, -1)


def own_rows_of_stencil(x):
    """Of a device's own rows, in a shard_map along "x"."""
    devices = lax.axis_size("x")
    above = lax.ppermute(x[-1:], "x", [(i, (i + 1) % devices) for i in range(devices)])
    below = lax.ppermute(x[:1], "x", [((i + 1) % devices, i) for i in range(devices)])
    padded = jnp.concatenate([above, x, below])
    return 2.3 * x - 0.9 * padded[2:] - 0.9 * padded[:-2]


def in_shard_map(function, mesh, spec):
    return jax.jit(
        jax.shard_map(function, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    )


@several_devices
@pytest.mark.parametrize("where", ["auto", "shard_map"])
@pytest.mark.parametrize("method", ["cg", more("bicgstab")])
def test_function_is_solved_with_its_gradient_on_several_devices(where, method):
    b = right()
    options = {"method": method, "rtol": 1e-10, "preconditioner": lambda r: r / 2.3}
    mesh = on_mesh(b).sharding.mesh
    if where == "shard_map":
        run = in_shard_map(
            lambda b: krylov.solve(own_rows_of_stencil, b, axis_name="x", **options),
            mesh,
            PartitionSpec("x"),
        )
    else:
        run = jax.jit(lambda b: krylov.solve(stencil, b, **options))
    alone = krylov.solve(stencil, b, **options)
    gradient = jax.grad(lambda b: jnp.sum(jnp.sin(krylov.solve(stencil, b, **options))))(b)
    # XLA may round products with rows that are cut in another way.
    np.testing.assert_allclose(run(on_mesh(b)), alone, rtol=1e-8, atol=1e-10)
    found = jax.grad(lambda b: jnp.sum(jnp.sin(run(b))))(on_mesh(b))
    np.testing.assert_allclose(found, gradient, rtol=1e-6, atol=1e-9)


@several_devices
@pytest.mark.parametrize("method", ["cg", more("bicgstab")])
def test_function_is_solved_with_its_gradient_on_explicit_axes(method):
    b, weights = right(), 1 + np.arange(N) / N

    def loss(weights, b):
        def product(x):
            return weights * x + 0.01 * jnp.sum(x)

        return jnp.sum(jnp.sin(krylov.solve(product, b, method=method, rtol=1e-10)))

    expected = jax.value_and_grad(loss, (0, 1))(jnp.asarray(weights), b)
    spread = [on_mesh(array, AxisType.Explicit) for array in (weights, b)]
    found = jax.jit(jax.value_and_grad(loss, (0, 1)))(*spread)
    jax.tree.map(
        lambda u, v: np.testing.assert_allclose(u, v, rtol=1e-6, atol=1e-9), found, expected
    )


@several_devices
@pytest.mark.parametrize("where", ["auto", "explicit", "shard_map"])
def test_lanes_of_a_vmap_whose_rows_are_cut_have_the_bits_of_one_device(where):
    a = laplacian()
    b = np.stack([right(seed=1), np.zeros(N), right(seed=2)])
    kind = AxisType.Explicit if where == "explicit" else AxisType.Auto
    mesh = on_mesh(b[0], kind).sharding.mesh
    spec = PartitionSpec(None, "x")
    if where == "shard_map":
        run = in_shard_map(jax.vmap(lambda b: krylov.solve(a, b, axis_name="x")), mesh, spec)
    else:
        run = jax.vmap(lambda b: krylov.solve(a, b))
    x = run(jax.device_put(b, NamedSharding(mesh, spec)))
    assert [bits(lane) for lane in x] == [bits(krylov.solve(a, one)) for one in b]


@pytest.mark.skipif(DEVICES % 2 != 0 or DEVICES < 4, reason="needs a mesh of two dimensions")
@pytest.mark.parametrize("axes", ["y", ("x", "y"), more(("y", "x"))])
def test_rows_may_be_cut_along_several_axes_of_a_mesh(axes):
    a, b = laplacian(), right()
    devices = np.array(jax.devices()).reshape(2, -1)
    mesh = Mesh(devices, ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    spread = jax.device_put(b, NamedSharding(mesh, PartitionSpec(axes)))
    assert same(solve(a, spread), solve(a, b))


@several_devices
def test_second_call_on_several_devices_moves_no_array():
    b = on_mesh(right())
    everywhere = NamedSharding(b.sharding.mesh, PartitionSpec())
    a = jax.device_put(laplacian(), everywhere)  # else its values are copied to all in each call
    jax.block_until_ready(krylov.solve(a, b, full_output=True))
    with jax.transfer_guard("disallow"):
        jax.block_until_ready(krylov.solve(a, b, full_output=True))


# Against C++


needs_command = pytest.mark.skipif(
    "SHARDSOLVE_CLI" not in os.environ, reason="SHARDSOLVE_CLI names no command"
)


@pytest.mark.devices
@needs_command
@one_of_each_kind
@pytest.mark.parametrize("dtype", ["float64", more("complex64")])
def test_bits_are_those_of_the_command(method, dtype, tmp_path):
    compare_with_command(method, matrix(method, dtype, 360), tmp_path)


@pytest.mark.devices
@needs_command
@pytest.mark.parametrize("method", ["cg", more("fgmres")])
def test_bits_of_many_rows_are_those_of_the_command(method, tmp_path):
    """XLA's threads share the rows of a CPU device; the command has one thread a rank."""
    compare_with_command(method, matrix(method, n=66060), tmp_path)


@pytest.mark.devices
@needs_command
@pytest.mark.parametrize(
    ("name", "make", "blocks"),
    [
        ("ic0", krylov.incomplete_cholesky, None),
        ("ic0", krylov.incomplete_cholesky, 4),
        ("ilu0", krylov.incomplete_lu, 3),
        ("block-jacobi", krylov.block_jacobi, 6),
    ],
)
@pytest.mark.parametrize(
    ("method", "dtype"),
    [
        ("cg", "float64"),
        ("bicgstab", "complex128"),
        more("minres", "complex64"),
        more("fgmres", "float32"),
    ],
)
def test_bits_with_blocks_are_those_of_the_command(method, dtype, name, make, blocks, tmp_path):
    """6 blocks end where 2, 3 or 6 devices do, others are cut by devices."""
    options = ["--preconditioner", name, *([] if blocks is None else ["--blocks", str(blocks)])]
    a = grid(method, dtype)
    compare_with_command(method, a, tmp_path, make(a, blocks), options)


@pytest.mark.devices
@needs_command
@pytest.mark.parametrize(
    ("method", "dtype"), [("cg", "float64"), more("minres", "complex64"), more("cg", "float32")]
)
def test_bits_with_chebyshev_are_those_of_the_command(method, dtype, tmp_path):
    a = grid(method, dtype)
    options = ["--preconditioner", "chebyshev", "--degree", "4"]
    compare_with_command(method, a, tmp_path, krylov.chebyshev(a, degree=4), options)


@pytest.mark.devices
@needs_command
@pytest.mark.parametrize(
    ("method", "dtype"),
    [("cg", "float64"), more("bicgstab", "complex128"), more("cg", "float32")],
)
def test_bits_with_multigrid_are_those_of_the_command(method, dtype, tmp_path):
    """Two coarser levels, of pairs and of pairs of pairs of rows."""
    a = grid(method, dtype)
    levels, folder = [SimpleNamespace(A=host(a))], tmp_path / "levels"
    folder.mkdir()
    for number in range(2):
        fine = levels[-1]
        pairs = sp.identity(fine.A.shape[0] // 2, dtype, "csr")
        fine.P = sp.kron(pairs, np.ones((2, 1), dtype), format="csr")
        fine.R = fine.P.T.tocsr()
        levels.append(SimpleNamespace(A=(fine.R @ fine.A @ fine.P).tocsr()))
        levels[-1].A.sort_indices()
        sp.save_npz(folder / f"P{number}.npz", fine.P)
        sp.save_npz(folder / f"A{number + 1}.npz", levels[-1].A)
    m = krylov.from_pyamg(SimpleNamespace(levels=levels))
    options = ["--preconditioner", "multigrid", "--levels", "levels"]
    compare_with_command(method, a, tmp_path, m, options)


def compare_with_command(method, a, tmp_path, m="jacobi", named=("--preconditioner", "jacobi")):
    """x and every number of the log, on each number of devices up to all, of 6 n rows."""
    b = right(a.shape[0], a.dtype.name)
    rtol = 1e-4 if a.dtype in ("complex64", "float32") else 1e-8
    sp.save_npz(tmp_path / "a.npz", host(a))
    np.save(tmp_path / "b.npy", b)
    command = [os.environ["SHARDSOLVE_CLI"], "solve", "a.npz", "b.npy", "-o", "x.npy", "--quiet"]
    options = ["--method", method, *named, "--rtol", str(rtol)]
    files = ["--log", "log.jsonl", "--backend", "cpu"]
    subprocess.run([*command, *options, *files], cwd=tmp_path, check=True)
    records = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    records = [record for record in records if "event" in record]
    for devices in range(1, DEVICES + 1):
        given = on_mesh(b, devices=devices)
        x, info = solve(a, given, method, preconditioner=m, rtol=rtol)
        assert bits(x) == bits(np.load(tmp_path / "x.npy"))
        assert len(records) == len(info.log)
        for record, ours in zip(records, info.log, strict=True):
            assert record["iteration"] == ours["iteration"]
            assert record["event"] == EVENTS[ours["event"]]
            assert float.fromhex(record["residual"]) == ours["residual"]
            for name in ("rho", "alpha", "omega"):
                real, imaginary = map(float.fromhex, record[name])
                assert complex(real, imaginary) == ours[name]
