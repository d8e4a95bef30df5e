"""Derivatives: each against jnp.linalg on the Hermitian part, and what they cost.

Gradients are those of f((S + S^H) / 2), whatever triangle a change is made in.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from systems import (
    BATCHES,
    DTYPES,
    FUNCTIONS,
    WAYS,
    batched_arguments,
    close,
    factorisations,
    hermitian,
    hermitian_part,
    normal,
    put,
    row_mesh,
    scalar,
    sides,
    solve,
    some_functions,
    spread,
    spread_batch,
)

import shardsolve

N = 12  # divisible by every number of devices that is tested


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


@pytest.mark.devices
@pytest.mark.parametrize("way", ("eager", "explicit", "one_device"))
@pytest.mark.parametrize(
    ("function", "transform"),
    (("solve", "grad"), ("inv", "grad"), ("logdet", "grad"), ("solve", "jvp")),
)
def test_transform_by_every_way_is_that_of_jnp(function, transform, way):
    assert compare(TRANSFORMS[transform], function, hermitian(N), sides(N), way)


@pytest.mark.parametrize(
    ("dtype", "transform"),
    (("float32", "vjp"), ("complex64", "vjp")),
)
def test_transform_of_solve_in_single_precision_is_that_of_jnp(transform, dtype):
    assert compare(TRANSFORMS[transform], "solve", hermitian(N, dtype), sides(N, 2, dtype))


@pytest.mark.parametrize("transform", ("grad", "grad_of_grad"))
@some_functions
def test_transform_of_complex_numbers_is_that_of_jnp(function, transform):
    a, b = hermitian(N, "complex128"), sides(N, 2, "complex128")
    assert compare(TRANSFORMS[transform], function, a, b)


@pytest.mark.devices
@pytest.mark.parametrize("way", ("eager", "jit", "explicit"))
@some_functions
def test_gradient_of_columns_is_that_of_jnp(function, way):
    """Solved as the rows of the conjugate transpose: the convention is the same."""
    ours, reference = (jax.grad(scalar(f), (0, 1)) for f in FUNCTIONS[function])
    a, b = hermitian(N, "complex128"), sides(N, None, "complex128")
    mesh = row_mesh(explicit=way == "explicit")
    run = ours if way == "eager" else jax.jit(ours)
    assert close(run(put(a, mesh, None, "x"), put(b, mesh)), jax.jit(reference)(a, b))


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


@some_functions
def test_gradient_is_hermitian_and_the_same_from_either_triangle(function):
    a, b = hermitian(N, "complex128"), sides(N, None, "complex128")
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


@pytest.mark.devices
@pytest.mark.parametrize("way", WAYS)
@some_functions
def test_gradient_of_a_kernels_parameters_is_that_of_jnp(function, way):
    """Through the matrix. Condition 1e6: gradients of ill-conditioned systems keep some digits."""
    t, y = np.linspace(0, 1, N), sides(N)
    squares, unit = (t[:, None] - t) ** 2, np.eye(N)

    def loss(f):
        def of_parameters(parameters, squares, unit, y):
            scale, jitter = parameters
            return scalar(f)(jnp.exp(-squares / jnp.exp(scale)) + jnp.exp(jitter) * unit, y)

        return of_parameters

    ours, reference = (jax.grad(loss(f)) for f in FUNCTIONS[function])
    compiled, place = WAYS[way]
    parameters = jnp.log(0.02), jnp.log(1e-4)
    got = compiled(ours)(parameters, place(squares), place(unit), place(y))
    assert close(got, reference(parameters, squares, unit, y), 1e9)


# Products of ours in derivatives: GPUs would take fewer bits of them, CPUs show in the program.
PRODUCTS = {
    "solve": jax.grad(scalar(FUNCTIONS["solve"][0])),
    "solve_forward": lambda a, b: jax.jvp(lambda a: solve(a, b), (a,), (a,)),
    "inv": jax.grad(lambda a, b: jnp.sum(jnp.abs(shardsolve.inv(a)) ** 2)),
    "cholesky": jax.grad(lambda a, b: jnp.sum(shardsolve.cholesky(a) ** 2)),
}


@pytest.mark.parametrize("function", PRODUCTS)
def test_products_keep_all_bits_whatever_the_default_precision_is(function):
    with jax.default_matmul_precision("bfloat16"):
        text = jax.jit(PRODUCTS[function]).lower(spread(hermitian(N)), spread(sides(N))).as_text()
    products = [line for line in text.splitlines() if "dot_general" in line]
    assert products
    assert [line for line in products if "precision = [HIGHEST, HIGHEST]" not in line] == []


# With other transformations


@pytest.mark.parametrize("axes", ("right_hand_sides", "both"))
@some_functions
def test_vmap_of_gradient_is_that_of_jnp(function, axes):
    a, b = batched_arguments(axes, N, "complex128")
    ours, reference = (
        jax.jit(jax.vmap(jax.grad(scalar(f), (0, 1)), BATCHES[axes])) for f in FUNCTIONS[function]
    )
    assert close(ours(spread_batch(a) if a.ndim == 3 else spread(a), b), reference(a, b))


@pytest.mark.parametrize("axes", ("matrices", "right_hand_sides"))
@some_functions
def test_gradient_of_vmap_is_that_of_jnp(function, axes):
    a, b = batched_arguments(axes, N, "complex128")
    ours, reference = (
        jax.jit(jax.grad(scalar(jax.vmap(f, BATCHES[axes])), (0, 1))) for f in FUNCTIONS[function]
    )
    assert close(ours(spread_batch(a) if a.ndim == 3 else spread(a), b), reference(a, b))


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


# What they cost


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
