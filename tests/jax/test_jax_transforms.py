"""JAX's transformations: each against jnp.linalg on the Hermitian part, and what they cost.

Gradients are those of f((S + S^H) / 2), whatever triangle a change is made in.
"""

import functools
import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax
from systems import (
    DTYPES,
    FACTOR_CALL,
    close,
    factorisations,
    gaussian_kernel,
    hermitian,
    hermitian_part,
    normal,
    put,
    row_mesh,
    sides,
    solves,
    spread,
)

import shardsolve

N = 12  # divisible by every number of devices that is tested
solve = functools.partial(shardsolve.solve, assume_a="pos")

# Ours, and the same on one device by JAX, as functions of any square matrix.
FUNCTIONS = {
    "solve": (solve, lambda a, b: jnp.linalg.solve(hermitian_part(a), b)),
    "cho_solve": (
        lambda a, b: shardsolve.cho_solve(shardsolve.cho_factor(a), b),
        lambda a, b: jnp.linalg.solve(hermitian_part(a), b),
    ),
    "inv": (
        lambda a, b: shardsolve.inv(a) @ b,
        lambda a, b: jnp.linalg.inv(hermitian_part(a)) @ b,
    ),
    "logdet": (
        lambda a, b: shardsolve.logdet(a) * b,
        lambda a, b: jnp.linalg.slogdet(hermitian_part(a))[1] * b,
    ),
    "slogdet": (
        lambda a, b: shardsolve.slogdet(shardsolve.cho_factor(a))[1] * b,
        lambda a, b: jnp.linalg.slogdet(hermitian_part(a))[1] * b,
    ),
}
SOME_FUNCTIONS = pytest.mark.parametrize("function", ("solve", "inv", "logdet"))

# Ways to have a function compiled, and where its arguments lie then.
WAYS = {
    "eager": (lambda f: f, lambda value: spread(value)),
    "jit": (jax.jit, lambda value: spread(value)),
    "explicit": (jax.jit, lambda value: put(value, row_mesh(explicit=True), "x")),
    "one_device": (jax.jit, jnp.asarray),
}
every_way = pytest.mark.parametrize("way", WAYS)


def scalar(f):
    """A real, smooth, non-linear function of all entries."""
    return lambda a, b: jnp.sum(jnp.abs(f(a, b)) ** 2) + jnp.sum(jnp.real(f(a, b)))


def direction(shape, dtype, seed=7):
    return jnp.asarray(normal(np.random.default_rng(seed), shape, dtype))


def jvp(f):
    def run(a, b):
        tangents = (like(direction(a.shape, a.dtype), a), like(direction(b.shape, b.dtype), b))
        return jax.jvp(f, (a, b), tangents)

    return run


def vjp(f):
    def run(a, b):
        value, pull = jax.vjp(f, a, b)
        return value, pull(like(direction(value.shape, value.dtype), value))

    return run


def like(value, other):
    """`value` placed as `other` is, where types say where that is."""
    sharding = jax.typeof(other).sharding
    kinds = sharding.mesh.axis_types if sharding.mesh.axis_names else ()
    explicit = any(kind == jax.sharding.AxisType.Explicit for kind in kinds)
    return jax.sharding.reshard(value, sharding) if explicit else value


def grad_of_grad(f):
    def squares(a, b):
        of_a, of_b = jax.grad(scalar(f), (0, 1))(a, b)
        return jnp.sum(jnp.abs(of_a) ** 2) + jnp.sum(jnp.abs(of_b) ** 2)

    return jax.grad(squares, (0, 1))


def hessian(f):
    """With respect to b, and to a parameter of a."""

    def run(a, b):
        def along(t, b):
            return scalar(f)(a * (1 + t) + t**2 * jnp.conj(a), b)

        return jax.hessian(along, (0, 1))(jnp.zeros((), a.real.dtype), b)

    return run


TRANSFORMS = {
    "grad": lambda f: jax.grad(scalar(f), (0, 1)),
    "value_and_grad": lambda f: jax.value_and_grad(scalar(f), (0, 1)),
    "jvp": jvp,
    "vjp": vjp,
    "jacfwd": lambda f: jax.jacfwd(f, (0, 1)),
    "jacrev": lambda f: jax.jacrev(f, (0, 1)),
    "grad_of_grad": grad_of_grad,
    "hessian": hessian,
    "linearize": lambda f: lambda a, b: jax.linearize(lambda a: f(a, b), a)[1](a),
    "checkpoint": lambda f: jax.grad(jax.checkpoint(scalar(f)), (0, 1)),
}
FOR_SOLVE_ALONE = ("value_and_grad", "vjp", "linearize", "checkpoint")


def compare(transform, function, a, b, way="jit"):
    ours, reference = FUNCTIONS[function]
    compiled, place = WAYS[way]
    got = compiled(transform(ours))(place(a), place(b))
    return close(got, jax.jit(transform(reference))(a, b))


@pytest.mark.parametrize(
    ("function", "transform"),
    [
        (function, transform)
        for transform in TRANSFORMS
        for function in ("solve", "inv", "logdet")
        if function == "solve" or transform not in FOR_SOLVE_ALONE
    ],
)
def test_transform_under_jit_is_that_of_jnp(transform, function):
    assert compare(TRANSFORMS[transform], function, hermitian(N), sides(N))


@pytest.mark.parametrize("function", ("cho_solve", "slogdet"))
def test_gradient_through_a_factor_is_that_of_jnp(function):
    assert compare(TRANSFORMS["grad"], function, hermitian(N), sides(N))


@pytest.mark.parametrize("way", ("eager", "explicit", "one_device"))
@pytest.mark.parametrize(
    ("function", "transform"),
    (("solve", "grad"), ("inv", "grad"), ("logdet", "grad"), ("solve", "jvp")),
)
def test_transform_by_every_way_is_that_of_jnp(function, transform, way):
    assert compare(TRANSFORMS[transform], function, hermitian(N), sides(N), way)


@pytest.mark.parametrize(
    ("dtype", "transform"),
    (
        ("float32", "vjp"),
        ("complex64", "vjp"),
        ("complex128", "grad"),
        ("complex128", "grad_of_grad"),
    ),
)
@SOME_FUNCTIONS
def test_transform_every_dtype_is_that_of_jnp(function, transform, dtype):
    assert compare(TRANSFORMS[transform], function, hermitian(N, dtype), sides(N, 2, dtype))


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        (function, dtype)
        for function in ("solve", "inv", "logdet")
        for dtype in DTYPES
        if function == "solve" or dtype in ("float64", "complex128")
    ],
)
def test_gradient_every_dtype_is_the_central_difference(function, dtype):
    """Of a Hermitian change of the matrix, and any of b."""
    a, b = hermitian(N, dtype) + np.eye(N, dtype=dtype), sides(N, None, dtype)
    f = jax.jit(scalar(FUNCTIONS[function][0]))
    of_a, of_b = jax.grad(f, (0, 1))(spread(a), spread(b))
    change_a = np.asarray(hermitian_part(direction(a.shape, dtype)))
    change_b = np.asarray(direction(b.shape, dtype))
    step = {4: 1e-2, 8: 1e-5}[np.finfo(dtype).dtype.itemsize]
    low, high = (
        float(f(spread(a + s * step * change_a), spread(b + s * step * change_b))) for s in (-1, 1)
    )
    difference = (high - low) / (2 * step)
    # JAX's gradient is conjugate: d f = Re sum(grad * change).
    derivative = float(np.real(np.sum(of_a * change_a) + np.sum(of_b * change_b)))
    assert derivative == pytest.approx(difference, rel=5e-2 * step**0.5)


@pytest.mark.parametrize("dtype", ("float64", "complex128"))
@SOME_FUNCTIONS
def test_gradient_is_hermitian_and_the_same_from_either_triangle(function, dtype):
    a, b = hermitian(N, dtype), sides(N, None, dtype)
    f = scalar(FUNCTIONS[function][0])
    gradient = np.asarray(jax.grad(f)(spread(a), spread(b)))
    assert close(gradient, gradient.conj().T)

    def from_triangle(triangle):
        """f of a matrix of which one triangle is given, and mirrored."""

        def mirrored(t):
            strict = jnp.tril(t, -1) if triangle == "lower" else jnp.triu(t, 1)
            return strict + jnp.conj(strict.T) + jnp.diag(jnp.real(jnp.diag(t)))

        return np.asarray(jax.grad(lambda t: f(mirrored(t), spread(b)))(spread(a)))

    lower, upper = from_triangle("lower"), from_triangle("upper")
    # An entry of a triangle stands for two of the matrix.
    assert close(lower, 2 * np.tril(gradient, -1) + np.diag(gradient.diagonal().real))
    assert close(upper, lower.conj().T)


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradient_of_logdet_is_the_inverse(dtype):
    a = hermitian(N, dtype)
    gradient = jax.grad(shardsolve.logdet)(spread(a))
    assert close(jnp.conj(gradient), shardsolve.inv(spread(a)))


def test_derivative_of_cond_is_zero():
    gradient = jax.grad(lambda a: shardsolve.cond(a, 1))(spread(hermitian(N)))
    assert not np.any(gradient)


# vmap


def batch(count, n=N, dtype="float64"):
    return np.stack([hermitian(n, dtype, seed) for seed in range(count)])


def spread_batch(value):
    """Each problem cut along its rows."""
    return put(value, row_mesh(), None, "x")


BATCHES = {
    "matrices": (0, None),
    "right_hand_sides": (None, 0),
    "both": (0, 0),
    "right_hand_sides_along_the_last_axis": (None, 1),
}
every_batch = pytest.mark.parametrize("axes", BATCHES)


def batched_arguments(axes, dtype="float64"):
    of_a, of_b = BATCHES[axes]
    a = batch(3, dtype=dtype) if of_a == 0 else hermitian(N, dtype)
    b = sides(N, 3, dtype)
    b = b[:, 0] if of_b is None else (b.T.copy() if of_b == 0 else b)
    return a, b


@pytest.mark.parametrize(
    ("function", "way"),
    (("solve", "eager"), ("solve", "jit"), ("inv", "jit"), ("logdet", "jit")),
)
@every_batch
def test_vmap_is_that_of_jnp(function, axes, way):
    ours, reference = (jax.vmap(f, BATCHES[axes]) for f in FUNCTIONS[function])
    a, b = batched_arguments(axes)
    run = jax.jit(ours) if way == "jit" else ours
    assert close(run(spread_batch(a) if a.ndim == 3 else spread(a), b), reference(a, b))


@pytest.mark.parametrize("axes", ("right_hand_sides", "both"))
@SOME_FUNCTIONS
def test_vmap_of_gradient_is_that_of_jnp(function, axes):
    a, b = batched_arguments(axes, "complex128")
    ours, reference = (
        jax.jit(jax.vmap(jax.grad(scalar(f), (0, 1)), BATCHES[axes])) for f in FUNCTIONS[function]
    )
    assert close(ours(spread_batch(a) if a.ndim == 3 else spread(a), b), reference(a, b))


@pytest.mark.parametrize("axes", ("matrices", "right_hand_sides"))
@SOME_FUNCTIONS
def test_gradient_of_vmap_is_that_of_jnp(function, axes):
    a, b = batched_arguments(axes, "complex128")
    ours, reference = (
        jax.jit(jax.grad(scalar(jax.vmap(f, BATCHES[axes])), (0, 1))) for f in FUNCTIONS[function]
    )
    assert close(ours(spread_batch(a) if a.ndim == 3 else spread(a), b), reference(a, b))


def test_vmap_of_vmap_is_that_of_jnp():
    a, b = batch(2), np.stack([sides(N, 3, seed=s).T for s in (1, 2, 3, 4)])  # (4, 3, n)
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
    assert text.count('custom_call_target="shardsolve_cholesky_solve"') == 1
    assert "while" not in text
    assert factorisations(run, a, b) == 1


def test_vmap_of_kept_factors_is_that_of_jnp():
    a, b = batch(3), sides(N, 3).T.copy()
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
    a, b = batch(3), sides(N, 3).T.copy()
    with jax.set_mesh(mesh):
        x = jax.jit(jax.vmap(solve))(put(a, mesh, None, "x"), put(b, mesh))
    assert all(solves(*one) for one in zip(a, x, b, strict=True))


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


def test_gradient_through_scan_is_that_of_jnp():
    def total(solver):
        def run(a, b):
            def step(x, _):
                return solver(a, x), None

            return jnp.sum(lax.scan(step, b, length=3)[0] ** 2)

        return run

    ours, reference = (jax.jit(jax.grad(total(f), (0, 1))) for f in FUNCTIONS["solve"])
    a, b = hermitian(N), sides(N)
    assert close(ours(spread(a), spread(b)), reference(a, b))


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


EXPORTED_CALLS = [
    export.DisabledSafetyCheck.custom_call(f"shardsolve_cholesky_{name}")
    for name in ("factor", "solve", "inverse", "condition")
]

# Donation, compiling ahead, exporting


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


@every_way
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


@pytest.mark.parametrize("differentiated", (False, True), ids=("value", "gradient"))
def test_export_with_mesh_gives_a_program_that_solves(differentiated):
    run = functools.partial(solve, mesh=row_mesh())
    if differentiated:
        run = jax.grad(lambda a, b: jnp.sum(solve(a, b, mesh=row_mesh()) ** 2))
    given = spread(hermitian(N)), spread(sides(N))
    program = export.export(jax.jit(run), disabled_checks=EXPORTED_CALLS)(*given)
    assert close(program.call(*given), jax.jit(run)(*given))


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
    export.DisabledSafetyCheck.custom_call(f"shardsolve_cholesky_{name}")
    for name in ("factor", "solve")
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


# What it costs


def kernel_of(parameters, points):
    scale, jitter = jnp.exp(parameters["scale"]), jnp.exp(parameters["jitter"])
    square = (points[:, None] - points[None]) ** 2
    return jnp.exp(-square / scale) + jitter * jnp.eye(len(points))


def likelihood_with_kept_factor(parameters, points, y):
    """Of a Gaussian process, but for a constant."""
    factor = shardsolve.cho_factor(kernel_of(parameters, points))
    return (y @ shardsolve.cho_solve(factor, y) + shardsolve.logdet(factor)) / 2


def likelihood_with_two_calls(parameters, points, y):
    k = kernel_of(parameters, points)
    return (y @ solve(k, y) + shardsolve.slogdet(k)[1]) / 2


def likelihood_of_jnp(parameters, points, y):
    k = kernel_of(parameters, points)
    return (y @ jnp.linalg.solve(k, y) + jnp.linalg.slogdet(k)[1]) / 2


def gaussian_process():
    parameters = {"scale": jnp.float64(-1.0), "jitter": jnp.float64(-3.0)}
    points = spread(np.linspace(0, 1, 2 * N))
    return parameters, points, spread(sides(2 * N))


LIKELIHOODS = {"kept factor": likelihood_with_kept_factor, "two calls": likelihood_with_two_calls}


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_value_and_grad_of_likelihood_is_that_of_jnp(likelihood):
    arguments = gaussian_process()
    got = jax.jit(jax.value_and_grad(LIKELIHOODS[likelihood]))(*arguments)
    assert close(got, jax.jit(jax.value_and_grad(likelihood_of_jnp))(*arguments), 1e6)


def test_value_and_grad_of_likelihood_factors_once():
    run = jax.value_and_grad(likelihood_with_kept_factor)
    assert factorisations(run, *gaussian_process()) == 1


def test_value_and_grad_of_likelihood_with_two_calls_factors_once():
    """Of two factorisations of one matrix XLA keeps one."""
    run = jax.value_and_grad(likelihood_with_two_calls)
    assert factorisations(run, *gaussian_process()) == 1


@pytest.mark.parametrize("transform", ("grad", "value_and_grad", "jvp", "vjp", "hessian"))
@pytest.mark.parametrize("function", ("solve", "inv", "logdet"))
def test_transform_factors_once(function, transform):
    def once(f):
        return lambda a, b: jnp.sum(jnp.abs(f(a, b)) ** 2)

    transforms = {
        "grad": lambda f: jax.grad(once(f), (0, 1)),
        "value_and_grad": lambda f: jax.value_and_grad(once(f), (0, 1)),
        "jvp": jvp,
        "vjp": vjp,
        "hessian": lambda f: jax.hessian(once(f), (0, 1)),
    }
    run = transforms[transform](FUNCTIONS[function][0])
    assert factorisations(run, spread(hermitian(N)), spread(sides(N))) == 1


@pytest.mark.parametrize("function", ("cho_solve", "inv", "logdet"))
def test_gradient_through_kept_factor_does_not_factor(function):
    """The cotangent of a factor: its slab stands for the matrix."""
    factor = shardsolve.cho_factor(spread(hermitian(N)))
    b = spread(sides(N))
    of_factor = {
        "cho_solve": lambda factor: jnp.sum(shardsolve.cho_solve(factor, b) ** 2),
        "inv": lambda factor: jnp.sum(shardsolve.inv(factor) ** 2),
        "logdet": shardsolve.logdet,
    }[function]
    run = jax.grad(of_factor, allow_int=True)
    assert factorisations(run, factor) == 0
    of_matrix = jax.grad(lambda a: of_factor(shardsolve.cho_factor(a)))(spread(hermitian(N)))
    assert close(hermitian_part(run(factor)._slab), of_matrix)


def test_gradient_of_b_with_kept_factor_does_not_factor():
    factor = shardsolve.cho_factor(spread(hermitian(N)))
    run = jax.grad(lambda b: jnp.sum(shardsolve.cho_solve(factor, b) ** 2))
    b = spread(sides(N))
    assert factorisations(run, b) == 0
    x = np.linalg.solve(hermitian(N), sides(N))
    assert close(run(b), 2 * np.linalg.solve(hermitian(N), x))


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


def test_kernel_matrix_gradient_is_finite_and_that_of_jnp():
    """Condition 1e6: gradients of ill-conditioned systems keep some digits."""
    a, b = gaussian_kernel(N, 1e-4), sides(N)
    ours, reference = (jax.grad(scalar(f), 1) for f in FUNCTIONS["solve"])
    assert close(ours(spread(a), b), reference(a, b), 1e9)
    assert FACTOR_CALL in jax.jit(ours).lower(spread(a), b).compile().as_text()
