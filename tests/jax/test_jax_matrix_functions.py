"""Functions of matrices and their derivatives, of matrices with equal eigenvalues above all.

The same by JAX on one device, which has no eigenvalues in it: products, expm and inv.
"""

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
import pytest
from eigensystems import random_hermitian, with_eigenvalues
from jax.sharding import PartitionSpec as P
from systems import WAYS, close, hermitian_part, more, put, row_mesh, spread, spread_batch

import shardsolve
from shardsolve import matrix_function, trace_function

N = 4  # divisible by every number of devices that is tested but 6
CLUSTER = np.array([-1.0, 0.5, 0.5, 0.5])
NEAR = CLUSTER + np.array([0.0, 0.0, 3e-14, 2e-9])
PLANE = np.array([[0.0, 1, 0], [1, 0, 0], [0, 0, 0]])  # couples two of three eigenvalues

ORDERS = {
    "reverse_of_reverse": lambda f: jax.grad(jax.grad(f)),
    "forward_of_reverse": lambda f: jax.jacfwd(jax.grad(f)),
    "reverse_of_forward": lambda f: jax.grad(jax.jacfwd(f)),
    "forward_of_forward": lambda f: jax.jacfwd(jax.jacfwd(f)),
}


def power(a):
    return a @ a @ a @ a


def resolvent(a):
    return jnp.linalg.inv(a + 3 * jnp.eye(len(a)))


# f, and the same of a matrix.
FUNCTIONS = {
    "power": (lambda x: x**4, power),
    "exponential": (jnp.exp, jax.scipy.linalg.expm),
    "resolvent": (lambda x: 1 / (x + 3), resolvent),
    "propagator": (lambda x: jnp.exp(-1j * x), lambda a: jax.scipy.linalg.expm(-1j * a)),
}


def scalar(value):
    """Real, of all entries, and not linear."""
    weights = np.sqrt(np.arange(1.0, len(value) + 1))
    return jnp.sum(jnp.real(value) * weights) + jnp.sum(jnp.abs(value) ** 2 * weights[:, None])


@pytest.mark.parametrize(
    "order",
    (
        "reverse_of_reverse",
        "forward_of_reverse",
        more("reverse_of_forward"),
        more("forward_of_forward"),
    ),
)
def test_second_derivative_at_the_identity_is_known(order):
    def run(t):
        squares, logarithms = (
            trace_function(f, jnp.eye(3) + t * PLANE) for f in (lambda w: w**2, jnp.log)
        )
        return squares + 10 * logarithms

    assert close(jax.jit(ORDERS[order](run))(0.0), np.array(4.0 - 10 * 2))


def test_gradient_at_the_identity_changes_as_is_known():
    def gradient(a):
        return jax.grad(lambda a: trace_function(lambda w: w**2, a))(a)

    change = jax.jit(lambda a, d: jax.jvp(gradient, (a,), (d,))[1])(jnp.eye(3), PLANE)
    assert close(change, 2 * PLANE)


@pytest.mark.parametrize(
    ("function", "w", "dtype", "order"),
    [
        ("exponential", NEAR, "float64", "reverse_of_reverse"),
        ("propagator", CLUSTER, "complex128", "forward_of_reverse"),
        more("resolvent", NEAR, "complex128", "reverse_of_forward"),
        more("power", CLUSTER, "float64", "forward_of_forward"),
    ],
    ids=lambda value: "" if isinstance(value, np.ndarray) else None,
)
def test_second_derivative_where_eigenvalues_are_equal_is_that_of_products(
    function, w, dtype, order
):
    a, change = with_eigenvalues(w, dtype), random_hermitian(N, dtype, 1)
    f, of_matrix = FUNCTIONS[function]

    def along(run):
        return jax.jit(ORDERS[order](lambda t: scalar(run(a + t * change + t**2 * power(change)))))

    assert close(along(lambda a: matrix_function(f, a))(0.0), along(of_matrix)(0.0), 1e5)


def test_third_derivative_is_that_of_products():
    a, change = with_eigenvalues(NEAR), random_hermitian(N, seed=1)
    ours = jax.jit(
        jax.jacfwd(
            jax.grad(jax.grad(lambda t: matrix_function(lambda x: x**4, a + t * change)[0, 1]))
        )
    )
    theirs = jax.jacfwd(jax.grad(jax.grad(lambda t: power(a + t * change)[0, 1])))
    assert close(ours(0.0), theirs(0.0), 1e6)


@pytest.mark.parametrize("dtype", ("float32", more("complex64")))
def test_single_precision_gives_what_double_does(dtype):
    a = with_eigenvalues(CLUSTER, dtype)

    def gradient(a):
        return jax.jit(jax.grad(lambda a: scalar(matrix_function(jnp.exp, a))))(a)

    found, wide = gradient(a), gradient(a.astype("complex128" if dtype[0] == "c" else "float64"))
    assert found.dtype == dtype
    assert close(found, np.asarray(wide), 100)


def loss(run):
    return lambda a: scalar(run(a))


def ours(a):
    return matrix_function(jnp.exp, a)


def theirs(a):
    return jax.scipy.linalg.expm(hermitian_part(a))


@pytest.mark.devices
@pytest.mark.parametrize("dtype", (more("float64"), "complex128"))
@pytest.mark.parametrize("way", [more(way) if way == "jit" else way for way in WAYS])
def test_value_and_gradient_by_every_way_are_those_of_expm(way, dtype):
    a = with_eigenvalues(np.repeat([-1.0, 0.5, 1.0], N), dtype)
    compiled, place = WAYS[way]
    given = place(a)
    with jax.set_mesh(row_mesh(explicit=way == "explicit")):
        value = compiled(ours)(given)
        gradient = compiled(jax.grad(loss(ours)))(given)
        trace = compiled(jax.grad(lambda a: trace_function(jnp.exp, a)))(given)
    assert close(value, jax.jit(theirs)(a))
    if way != "one_device":  # the mesh that is set has more
        assert value.sharding.is_equivalent_to(given.sharding, 2)
    assert close(gradient, jax.jit(jax.grad(loss(theirs)))(a))
    assert close(trace, np.asarray(jnp.conj(jax.jit(theirs)(a))))


@pytest.mark.devices
@pytest.mark.parametrize("way", ("shard_map", more("explicit"), more("columns")))
def test_second_derivative_of_a_cut_matrix_is_that_of_expm(way):
    a = with_eigenvalues(np.repeat([-1.0, 0.5, 1.0], N), "complex128")
    change = random_hermitian(3 * N, "complex128", 1)
    mesh = row_mesh(explicit=way == "explicit")
    run = ours
    if way == "shard_map":
        run = jax.shard_map(ours, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)

    def second(run):
        def gradient(a):
            return jax.grad(loss(run))(a)

        return jax.jit(lambda a, d: jax.jvp(gradient, (a,), (d,))[1])

    spec = (None, "x") if way == "columns" else ("x", None)
    with jax.set_mesh(mesh):
        found = second(run)(put(a, mesh, *spec), put(change, mesh, *spec))
    assert close(found, second(theirs)(a, change), 1e5)


@pytest.mark.parametrize("order", ("vmap_of_grad", more("grad_of_vmap")))
def test_gradient_of_a_batch_is_that_of_expm(order):
    a = np.stack([with_eigenvalues(CLUSTER, "complex128", seed) for seed in range(3)])

    def run(function):
        if order == "vmap_of_grad":
            return jax.jit(jax.vmap(jax.grad(loss(function))))
        return jax.jit(jax.grad(lambda a: jnp.sum(jax.vmap(loss(function))(a))))

    assert close(run(ours)(spread_batch(a)), run(theirs)(a))


@pytest.mark.parametrize("what", (more("matrix"), "trace"))
def test_derivatives_by_what_the_function_closes_over_are_those_of_expm(what):
    a, change = with_eigenvalues(CLUSTER), random_hermitian(N, seed=1)

    def hessian(run):
        return jax.jit(jax.hessian(lambda t: run(t[:2], a + t[2] * change)))(
            jnp.array([0.3, 0.2, 0.1])
        )

    def by_function(t, a):
        def f(x):
            return jnp.exp(-t[0] * x + t[1])

        return trace_function(f, a) if what == "trace" else scalar(matrix_function(f, a))

    def by_expm(t, a):
        value = jax.scipy.linalg.expm(-t[0] * a + t[1] * jnp.eye(N))
        return jnp.trace(value) if what == "trace" else scalar(value)

    assert close(hessian(by_function), hessian(by_expm), 1e5)


def test_projection_on_positive_matrices_has_its_derivative():
    """A kink of f between eigenvalues, and two of these equal on a side."""
    a, change = with_eigenvalues([-1.0, -1.0, 1e-9, 2.0]), random_hermitian(N, seed=1)
    w, v = np.linalg.eigh(a)
    positive = np.maximum(w, 0)
    table = np.array(
        [
            [
                (positive[i] - positive[j]) / (w[i] - w[j])
                if (w[i] > 0) != (w[j] > 0)
                else w[i] > 0
                for j in range(N)
            ]
            for i in range(N)
        ]
    )
    wanted = v @ (table * (v.T @ change @ v)) @ v.T

    def projection(a):
        return matrix_function(lambda x: jnp.maximum(x, 0.0), a)

    value, found = jax.jit(lambda a, d: jax.jvp(projection, (a,), (d,)))(spread(a), spread(change))
    assert close(value, (v * positive) @ v.T)
    assert close(found, wanted)


def test_same_function_is_compiled_once():
    a = jnp.asarray(random_hermitian(N))
    compiled = shardsolve._matrix_functions._matrix_function.__wrapped__

    def f(x):
        return x**2

    matrix_function(f, a)
    before = compiled._cache_size()
    matrix_function(f, a + a)
    assert compiled._cache_size() == before


@pytest.mark.parametrize("function", (matrix_function, trace_function))
@pytest.mark.parametrize(
    ("f", "kind", "words"),
    [
        (np.eye(2), TypeError, "f is a ndarray; pass a function of one real number"),
        (lambda x: jnp.stack([x, x]), ValueError, r"f of one number is \(2,\); pass a function"),
        (lambda x: (x, x), ValueError, "f of one number is tuple; pass"),
        (np.exp, TypeError, "f is numpy.exp, which JAX cannot trace; pass jnp.exp"),
        (lambda x: x > 0, TypeError, "f returns bool; pass a function that returns a real or"),
    ],
    ids=("array", "two", "tuple", "numpy", "bool"),
)
def test_what_is_no_function_of_a_number_is_refused(function, f, kind, words):
    with pytest.raises(kind, match=words):
        function(f, jnp.eye(2))


@pytest.mark.parametrize("function", (matrix_function, trace_function))
def test_bad_matrix_is_told(function):
    a = random_hermitian(N)
    a[1, 2] += 1
    with pytest.raises(shardsolve.LinAlgError, match="not Hermitian"):
        function(jnp.exp, a)
    value, info = function(jnp.exp, a, full_output=True)
    assert info.status == shardsolve.Status.NOT_HERMITIAN
    assert np.isnan(value).all()
