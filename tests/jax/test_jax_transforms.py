"""What JAX does with programs: vmap, loops, donation, compiling ahead, exporting."""

import functools
import logging
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from functions import several_devices
from jax import export, lax
from jax.sharding import PartitionSpec as P
from systems import (
    BATCHES,
    DEVICES,
    FUNCTIONS,
    WAYS,
    batch,
    batched_arguments,
    close,
    factorisations,
    grid_mesh,
    hermitian,
    put,
    row_mesh,
    sides,
    solve,
    solves,
    spread,
    spread_batch,
)

import shardsolve

N = 12  # divisible by every number of devices that is tested


# vmap


every_batch = pytest.mark.parametrize("axes", BATCHES)


@pytest.mark.parametrize(
    ("function", "way"),
    (("solve", "eager"), ("solve", "jit"), ("inv", "jit"), ("logdet", "jit")),
)
@every_batch
def test_vmap_is_that_of_jnp(function, axes, way):
    ours, reference = (jax.vmap(f, BATCHES[axes]) for f in FUNCTIONS[function])
    a, b = batched_arguments(axes, N)
    run = jax.jit(ours) if way == "jit" else ours
    assert close(run(spread_batch(a) if a.ndim == 3 else spread(a), b), reference(a, b))


def test_vmap_of_vmap_is_that_of_jnp():
    a, b = batch(2, N), np.stack([sides(N, 3, seed=s).T for s in (1, 2, 3, 4)])  # (4, 3, n)
    ours, reference = (
        jax.jit(jax.vmap(jax.vmap(f, (None, 0)), (0, None)))(a, b[0]) for f in FUNCTIONS["solve"]
    )
    assert close(ours, reference)
    ours, reference = (
        jax.vmap(jax.vmap(f, (None, 0)), (None, 0))(hermitian(N), b) for f in FUNCTIONS["solve"]
    )
    assert close(ours, reference)


def test_vmap_of_right_hand_sides_factors_once_and_solves_once():
    a, b = spread(hermitian(N)), sides(N, 5).T
    run = jax.vmap(solve, (None, 0))
    text = jax.jit(run).lower(a, b).compile().as_text()
    assert len(re.findall(r'custom_call_target="shardsolve_(small_)?cholesky_solve"', text)) == 1
    assert "while" not in text
    assert factorisations(run, a, b) == 1


@pytest.mark.devices
def test_vmap_of_kept_factors_is_that_of_jnp():
    a, b = batch(3, N), sides(N, 3).T.copy()
    factors = jax.vmap(shardsolve.cho_factor)(spread_batch(a))
    assert factors.shape == (3, N, N)
    x = jax.vmap(shardsolve.cho_solve)(factors, b)
    assert all(solves(*one) for one in zip(a, x, b, strict=True))
    assert close(jax.vmap(shardsolve.logdet)(factors), np.linalg.slogdet(a)[1])
    inverses = jax.vmap(shardsolve.inv)(factors)
    assert close(inverses, np.linalg.inv(a))
    condition = jax.vmap(lambda factor: shardsolve.cond(factor, 1))(factors)
    assert np.all(np.abs(np.array(condition) / np.linalg.cond(a, 1) - 1) < 0.7)


def test_vmap_under_explicit_axes_is_that_of_jnp():
    mesh = row_mesh(explicit=True)
    a, b = batch(3, N), sides(N, 3).T.copy()
    with jax.set_mesh(mesh):
        x = jax.jit(jax.vmap(solve))(put(a, mesh, None, "x"), put(b, mesh))
    assert all(solves(*one) for one in zip(a, x, b, strict=True))


@several_devices
@pytest.mark.parametrize("spec", (("x",), ("x", "y"), (("x", "y"),)), ids=str)
@pytest.mark.parametrize("function", ("solve", "cho_factor", "inv", "logdet", "cholesky", "eigh"))
def test_vmap_along_an_axis_that_explicit_axes_cut_says_what_to_do(function, spec):
    """JAX's own words were "must refer to an axis marked as manual", and "unbound axis name"."""
    mesh = grid_mesh(explicit=True)
    a, b = batch(DEVICES, N), sides(N, DEVICES).T
    given = put(a, mesh, *spec), put(b, mesh, *spec)
    run = getattr(shardsolve, function)
    mapped = jax.jit(jax.vmap(solve if function == "solve" else lambda a, b: run(a)))
    with pytest.raises(ValueError, match=r"vmap goes along .*reshard"):
        mapped(*given)
    with jax.set_mesh(mesh):  # what the message says
        whole = [jax.sharding.reshard(value, P(None, "x")) for value in given]
        mapped(*whole)


def test_pytree_of_right_hand_sides_keeps_its_form():
    a = spread(hermitian(N))
    tree = {"one": sides(N), "many": (sides(N, 2), sides(N, 4))}
    factor = shardsolve.cho_factor(a)
    mapped = jax.tree.map(lambda b: shardsolve.cho_solve(factor, b), tree)
    jitted = jax.jit(lambda a, tree: jax.tree.map(functools.partial(solve, a), tree))(a, tree)
    expected = jax.tree.map(lambda b: np.linalg.solve(hermitian(N), b), tree)
    assert close(mapped, expected)
    assert close(jitted, expected)
    several = {"left": sides(N, 3).T, "right": sides(N, 3, seed=9).T}
    x = jax.vmap(lambda tree: jax.tree.map(functools.partial(solve, a), tree))(several)
    assert close(x, jax.tree.map(lambda b: np.linalg.solve(hermitian(N), b.T).T, several))


# Control flow


@pytest.mark.devices
def test_scan_of_solves_is_a_python_loop():
    """Refinement of nothing: each turn solves with what the last one gave."""
    a = hermitian(N)
    given = spread(a)

    def step(x, shift):
        x = solve(given + shift * jnp.eye(N), x)
        return x, jnp.sum(x)

    shifts = np.arange(5.0)
    last, sums = jax.jit(lambda b: lax.scan(step, b, shifts))(sides(N))
    x, expected = sides(N), []
    for shift in shifts:
        x = np.linalg.solve(a + shift * np.eye(N), x)
        expected.append(x.sum())
    assert close(last, x)
    assert close(sums, np.array(expected))


def test_while_loop_of_solves_ends_where_numpy_does():
    """Inverse iteration until the vector stays."""
    a = hermitian(N)
    factor = shardsolve.cho_factor(spread(a))

    def go_on(state):
        return (state[2] > 1e-12) & (state[1] < 500)

    def step(state):
        v, count, _ = state
        w = shardsolve.cho_solve(factor, v)
        w = w / jnp.linalg.norm(w)
        return w, count + 1, jnp.linalg.norm(w - v)

    v, count, _ = jax.jit(lambda v: lax.while_loop(go_on, step, (v, 0, jnp.inf)))(
        jnp.ones(N) / np.sqrt(N)
    )
    assert 1 < count < 500
    value = float(v @ a @ v)
    assert value == pytest.approx(np.linalg.eigvalsh(a)[0], rel=1e-9)


@pytest.mark.parametrize("flag", (False, True))
def test_cond_branch_with_a_solve_gives_its_answer(flag):
    a, b = hermitian(N), sides(N)
    run = jax.jit(lambda flag, a, b: lax.cond(flag, solve, lambda a, b: 2 * b, a, b))
    x = run(flag, spread(a), spread(b))
    assert solves(a, x, b) if flag else np.array_equal(x, 2 * b)


def test_fori_loop_of_factorisations_takes_turns():
    a, b = hermitian(N), sides(N)
    run = jax.jit(lambda a, b: lax.fori_loop(0, 4, lambda i, x: solve(a * (i + 1.0), x), b))
    expected = b
    for i in range(4):
        expected = np.linalg.solve(a * (i + 1), expected)
    assert close(run(spread(a), spread(b)), expected)


def test_matrix_as_constant_of_a_jitted_function_solves():
    a, b = hermitian(N), sides(N)
    given = spread(a)
    assert solves(a, jax.jit(lambda b: solve(given, b))(b), b)
    assert solves(a, jax.jit(lambda b: solve(given, b))(spread(b)), b)


def test_unsharded_matrix_made_inside_jit_beside_a_sharded_b_solves():
    b = sides(N)

    def run(b):
        return solve(4 * jnp.eye(N), b)

    assert close(jax.jit(run)(spread(b)), b / 4)


# Donation


@pytest.mark.devices
@pytest.mark.parametrize("function", ("cho_factor", "inv"))
def test_donated_matrix_is_used_up_and_answered(function):
    a = hermitian(N)
    given = spread(a)
    run = jax.jit(getattr(shardsolve, function), donate_argnums=0)
    out = run(given)
    assert given.is_deleted()
    x = shardsolve.inv(out) if function == "cho_factor" else out
    assert close(x, np.linalg.inv(a))


@pytest.mark.parametrize("function", ("solve", "cho_factor", "inv"))
@pytest.mark.filterwarnings("error")
def test_overwrite_a_uses_the_matrix_up_without_a_word(function):
    a, b = hermitian(N), sides(N)
    given = spread(a)
    if function == "solve":
        assert solves(a, solve(given, b, overwrite_a=True), b)
    elif function == "inv":
        assert close(shardsolve.inv(given, overwrite_a=True), np.linalg.inv(a))
    else:
        assert solves(a, shardsolve.cho_solve(shardsolve.cho_factor(given, overwrite_a=True), b), b)
    assert given.is_deleted()


def test_overwrite_a_of_numpy_leaves_it_alone():
    a, b = hermitian(N), sides(N)
    before = a.copy()
    assert solves(a, solve(a, b, overwrite_a=True), b)
    assert np.array_equal(a, before)


def test_overwrite_a_under_jit_has_no_meaning():
    a, b = spread(hermitian(N)), sides(N)
    x = jax.jit(functools.partial(solve, overwrite_a=True))(a, b)
    assert not a.is_deleted()
    assert solves(a, x, b)


# Compiling, ahead and only once


@pytest.mark.devices
@pytest.mark.parametrize("way", WAYS)
def test_lower_and_compile_gives_a_program_that_solves(way):
    a, b = hermitian(N), sides(N)
    place = WAYS[way][1]
    program = jax.jit(solve).lower(place(a), place(b)).compile()
    assert solves(a, program(place(a), place(b)), b)


def test_lower_from_shapes_alone_gives_a_program_that_solves():
    a, b = hermitian(N), sides(N)
    shapes = [
        jax.ShapeDtypeStruct(value.shape, value.dtype, sharding=spread(value).sharding)
        for value in (a, b)
    ]
    assert solves(a, jax.jit(solve).lower(*shapes).compile()(spread(a), spread(b)), b)


@pytest.fixture
def compiled(caplog):
    """Names of what is compiled from here on."""
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        yield lambda: [
            record.message
            for record in caplog.records
            if record.message.startswith(("Finished XLA compilation", "Compiling "))
        ]


CALLS = {
    "solve": lambda a, b: solve(a, b),
    "solve_full_output": lambda a, b: solve(a, b, full_output=True),
    "cho_solve": lambda a, b: shardsolve.cho_solve(shardsolve.cho_factor(a), b),
    "inv": lambda a, b: shardsolve.inv(a),
    "logdet": lambda a, b: shardsolve.logdet(a),
    "slogdet": lambda a, b: shardsolve.slogdet(a),
    "cond": lambda a, b: shardsolve.cond(a, 1),
    "eigh": lambda a, b: shardsolve.eigh(a, subset_by_index=(1, 3)),
    "eigh_by_value": lambda a, b: shardsolve.eigh(a, subset_by_value=(0.0, 1.0)),
    "mesh": lambda a, b: solve(a, b, mesh=row_mesh()),
    "grad": jax.grad(lambda a, b: jnp.sum(solve(a, b))),
}


@pytest.mark.parametrize("call", CALLS)
def test_second_call_compiles_nothing(call, compiled):
    n = N * (5 + list(CALLS).index(call))  # a size that nobody else has compiled for
    a, b = spread(hermitian(n)), spread(sides(n))
    CALLS[call](a, b)
    assert compiled(), "the first call was not seen to compile"
    before = len(compiled())
    CALLS[call](a, b)
    assert compiled()[before:] == []


# Exporting


EXPORTED_CALLS = [
    export.DisabledSafetyCheck.custom_call(f"shardsolve_{name}")
    for name in (
        *(f"cholesky_{call}" for call in ("factor", "solve", "inverse", "condition")),
        *(f"small_cholesky_{call}" for call in ("factor", "solve")),
    )
]


@pytest.mark.parametrize("differentiated", (False, True), ids=("value", "gradient"))
def test_export_with_mesh_gives_a_program_that_solves(differentiated):
    run = functools.partial(solve, mesh=row_mesh())
    if differentiated:
        run = jax.grad(lambda a, b: jnp.sum(solve(a, b, mesh=row_mesh()) ** 2))
    given = spread(hermitian(N)), spread(sides(N))
    program = export.export(jax.jit(run), disabled_checks=EXPORTED_CALLS)(*given)
    assert close(program.call(*given), jax.jit(run)(*given))


@pytest.mark.parametrize("call", ["solve", "eigh", "svd", "krylov"])
def test_export_with_a_size_that_is_a_symbol_is_refused(call):
    (n,) = export.symbolic_shape("n")
    a, b = (jax.ShapeDtypeStruct(shape, jnp.float64) for shape in ((n, n), (n,)))
    run, given = {
        "solve": (shardsolve.solve, (a, b)),
        "eigh": (shardsolve.eigh, (a,)),
        "svd": (shardsolve.svd, (a,)),
        "krylov": (lambda b: shardsolve.krylov.solve(lambda v: 2 * v, b), (b,)),
    }[call]
    with pytest.raises(TypeError, match="a size that is a symbol"):
        export.export(jax.jit(run))(*given)


def test_export_in_another_process_solves(python, tmp_path):
    """A process that only loads the program: the library has to be registered by hand."""
    pytest.importorskip("flatbuffers", reason="jax.export needs it to write programs")
    file = tmp_path / "solve.bin"
    common = f"""
import functools, pathlib
import jax, numpy as np, shardsolve
from jax import export
n = {N}
mesh = jax.sharding.Mesh(np.array(jax.devices()), ("x",))
sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
a, b = jax.device_put(4 * np.eye(n), sharding), jax.device_put(np.ones(n), sharding)
file = pathlib.Path({str(file)!r})
"""
    python(
        common
        + """
checks = [
    export.DisabledSafetyCheck.custom_call(f"shardsolve_{small}cholesky_{name}")
    for name in ("factor", "solve")
    for small in ("", "small_")
]
run = jax.jit(functools.partial(shardsolve.solve, assume_a="pos", mesh=mesh))
file.write_bytes(export.export(run, disabled_checks=checks)(a, b).serialize())
"""
    )
    python(
        common
        + """
from shardsolve import _library
_library.register()
x = export.deserialize(bytearray(file.read_bytes())).call(a, b)
assert np.array_equal(x, np.full(n, 0.25)), x
"""
    )
