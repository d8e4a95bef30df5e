"""Derivatives of eigenvalues and eigenvectors: against differences, jnp and what is known.

Differences are taken along Hermitian changes. Functions of eigenvectors are such that do not
depend on the basis inside of a cluster, but where it is said. Those for which no derivative of
vectors is right are those of test_jax_matrix_functions.py; test_jax_eigh_equal.py has more of
equal eigenvalues.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from eigensystems import random_hermitian, with_eigenvalues
from jax import lax
from jax.sharding import PartitionSpec as P
from systems import (
    DEVICES,
    WAYS,
    close,
    hermitian,
    hermitian_part,
    more,
    normal,
    put,
    row_mesh,
    spread,
    spread_batch,
)

import shardsolve

N = 12  # divisible by every number of devices that is tested
DOUBLE = np.r_[-2.0, -1.0, 0.5, 0.5, 2.0:5.0:8j]  # one eigenvalue twice
DISTINCT = np.arange(1.0, N + 1)


def change(dtype, seed=7):
    return np.asarray(hermitian_part(normal(np.random.default_rng(seed), (N, N), dtype)))


@pytest.mark.parametrize("run", (shardsolve.eigvalsh, lambda a: shardsolve.eigh(a)[0]))
def test_forward_derivatives_outside_of_jit_are_those_inside(run):
    a, direction = with_eigenvalues(DISTINCT, "float64"), change("float64")
    forward = functools.partial(jax.jvp, run, tangents=(direction,))
    assert close(forward((spread(a),)), jax.jit(forward)((a,)))
    assert close(jax.jacfwd(run)(a), jax.jacrev(run)(a), 1e3)


def along(f, a, direction, step=1e-5):
    """The derivative of f by a central difference of fourth order."""
    values = {s: float(f(spread(a + s * step * direction))) for s in (-2, -1, 1, 2)}
    return (8 * (values[1] - values[-1]) - (values[2] - values[-2])) / (12 * step)


def of_spectrum(function):
    """The trace of function(a)."""

    def run(a):
        return jnp.sum(function(shardsolve.eigvalsh(a)))

    return run


def of_matrix(function, **options):
    """function(a) = V function(W) V^H."""

    def run(a):
        w, v = shardsolve.eigh(a, **options)
        return jnp.matmul(v * function(w), jnp.conj(v.T), precision="highest")

    return run


def projected(first, last):
    """A smooth function of the projector on the vectors first..last."""
    weights = jnp.asarray(normal(np.random.default_rng(5), (N, N), "float64"))

    def run(a):
        v = shardsolve.eigh(a, subset_by_index=(first, last))[1]
        p = jnp.matmul(v, jnp.conj(v.T), precision="highest")
        return jnp.sum(jnp.real(p) * weights) + jnp.sum(jnp.imag(p) * weights.T)

    return run


# Of a matrix whose third and fourth eigenvalues are equal; but for the last one, whose derivative
# needs what couples these two, and no eigenvalue or vector tells.
SCALARS = {
    "trace_of_cube": of_spectrum(lambda w: w**3),
    "logdet": of_spectrum(lambda w: jnp.log(jnp.abs(w))),
    "lowest": lambda a: shardsolve.eigvalsh(a, subset_by_index=(0, 0))[0],
    "sum_of_the_double": lambda a: jnp.sum(shardsolve.eigvalsh(a, subset_by_index=(2, 3))),
    "projector_of_the_double": projected(2, 3),
    "projector_of_one": projected(0, 0),
    "projector_of_half": projected(0, 5),
    "exponential": lambda a: jnp.real(of_matrix(jnp.exp)(a)[1, 2]),
}


@pytest.mark.parametrize("dtype", (more("float64"), "complex128"))
@pytest.mark.parametrize("function", SCALARS)
def test_gradient_is_the_difference_beside_a_double_eigenvalue(function, dtype):
    w = DISTINCT if function == "exponential" else DOUBLE
    a, direction = with_eigenvalues(w, dtype), change(dtype)
    f = jax.jit(SCALARS[function])
    gradient = np.asarray(jax.jit(jax.grad(f))(spread(a)))
    assert close(gradient, gradient.conj().T, 1e6)
    # JAX's gradient is conjugate: d f = Re sum(grad * change).
    derivative = float(np.real(np.sum(gradient * direction)))
    assert derivative == pytest.approx(along(f, a, direction), rel=1e-7, abs=1e-7)
    value, tangent = jax.jit(lambda a, d: jax.jvp(f, (a,), (d,)))(spread(a), spread(direction))
    assert close(tangent, np.float64(derivative), 1e7)
    assert close(value, np.asarray(f(spread(a))), 1e6)


@pytest.mark.parametrize("dtype", (more("float64"), "complex128"))
@pytest.mark.parametrize("function", ("trace_of_cube", more("projector_of_half"), "exponential"))
def test_second_derivative_is_the_difference_of_the_first(function, dtype):
    """Of eigenvalues that lie apart."""
    a = with_eigenvalues(DISTINCT, dtype)
    first, second = change(dtype), change(dtype, 8)
    f = SCALARS[function]

    def forward(a):
        return jax.jvp(f, (a,), (jnp.asarray(first),))[1]

    wanted = along(jax.jit(forward), a, second, 1e-3)
    forward_of_forward = jax.jit(lambda a: jax.jvp(forward, (a,), (jnp.asarray(second),))[1])
    assert float(forward_of_forward(spread(a))) == pytest.approx(wanted, rel=1e-6, abs=1e-6)
    reverse_of_forward = np.asarray(jax.jit(jax.grad(forward))(spread(a)))
    found = float(np.real(np.sum(reverse_of_forward * second)))
    assert found == pytest.approx(wanted, rel=1e-6, abs=1e-6)
    forward_of_reverse = jax.jit(lambda a: jax.jvp(jax.grad(f), (a,), (jnp.asarray(second),))[1])
    found = float(np.real(np.sum(np.asarray(forward_of_reverse(spread(a))) * first)))
    assert found == pytest.approx(wanted, rel=1e-6, abs=1e-6)


def test_third_derivative_of_the_trace_of_a_cube_is_known():
    """6 tr(D^3)."""
    a, direction = with_eigenvalues(DISTINCT), change("float64")

    def f(t):
        return SCALARS["trace_of_cube"](a + t * direction)

    third = jax.jit(jax.grad(jax.grad(jax.grad(f))))(0.0)
    assert close(third, np.asarray(6 * np.trace(direction @ direction @ direction)), 1e6)


def test_change_of_vectors_is_orthogonal_to_each_of_them():
    a, direction = random_hermitian(N, "complex128"), change("complex128")
    v, of_v = jax.jit(lambda a, d: jax.jvp(lambda a: shardsolve.eigh(a)[1], (a,), (d,)))(
        spread(a), spread(direction)
    )
    inner = np.asarray(v).conj().T @ np.asarray(of_v)
    assert np.abs(np.diag(inner)).max() < 1e-13
    assert close(inner, -inner.conj().T, 1e6)


def test_change_that_is_not_hermitian_counts_by_its_hermitian_part():
    a = spread(random_hermitian(N, "complex128"))
    direction = normal(np.random.default_rng(3), (N, N), "complex128")
    run = jax.jit(lambda d: jax.jvp(shardsolve.eigh, (a,), (d,))[1])
    assert close(run(spread(direction)), run(spread(np.asarray(hermitian_part(direction)))), 1e6)


# By every way, against JAX on one device


def loss(eigh):
    """Smooth, of values and vectors, and blind for phases."""

    def run(a):
        w, v = eigh(a)
        return jnp.sum(jnp.abs(v) ** 4 * jnp.sin(w)) + jnp.sum(w[:3] ** 2)

    return run


def jnp_eigh(a):
    return jnp.linalg.eigh(hermitian_part(a), symmetrize_input=False)


@pytest.mark.devices
@pytest.mark.parametrize("dtype", (more("float64"), "complex128"))
@pytest.mark.parametrize("way", WAYS)
def test_gradient_by_every_way_is_that_of_jnp(way, dtype):
    a = random_hermitian(N, dtype)
    compiled, place = WAYS[way]
    given = place(a)
    with jax.set_mesh(row_mesh(explicit=way == "explicit")):
        got = compiled(jax.grad(loss(shardsolve.eigh)))(given)
    assert close(got, jax.jit(jax.grad(loss(jnp_eigh)))(a), 1e6)


@pytest.mark.devices
@pytest.mark.parametrize("way", ("eager", "jit", "explicit"))
def test_gradient_of_columns_is_that_of_jnp(way):
    a = random_hermitian(N, "complex128")
    mesh = row_mesh(explicit=way == "explicit")
    run = jax.grad(loss(shardsolve.eigh))
    with jax.set_mesh(mesh):
        got = (run if way == "eager" else jax.jit(run))(put(a, mesh, None, "x"))
    assert close(got, jax.jit(jax.grad(loss(jnp_eigh)))(a), 1e6)


@pytest.mark.parametrize("dtype", ("float32", more("complex64")))
def test_gradient_in_single_precision_is_that_of_double(dtype):
    a = with_eigenvalues(DISTINCT, dtype)
    wide = np.asarray(a, "float64" if dtype == "float32" else "complex128")
    expected = jax.jit(jax.grad(loss(jnp_eigh)))(wide)
    got = jax.jit(jax.grad(loss(shardsolve.eigh)))(spread(a))
    assert got.dtype == dtype
    assert np.abs(got - expected).max() < 1e-4 * np.abs(expected).max()


@pytest.mark.devices
def test_gradient_outside_of_a_shard_map_is_that_of_jnp():
    a = random_hermitian(N, "complex128")
    eigh = jax.shard_map(
        shardsolve.eigh,
        mesh=row_mesh(),
        in_specs=P("x"),
        out_specs=(P(), P("x")),
        check_vma=False,
    )
    got = jax.jit(jax.grad(loss(eigh)))(spread(a))
    assert close(got, jax.jit(jax.grad(loss(jnp_eigh)))(a), 1e6)


@pytest.mark.parametrize("order", ("vmap_of_grad", "grad_of_vmap"))
def test_gradient_of_a_batch_is_that_of_jnp(order):
    a = np.stack([random_hermitian(N, "complex128", seed) for seed in range(3)])

    def run(eigh):
        if order == "vmap_of_grad":
            return jax.jit(jax.vmap(jax.grad(loss(eigh))))
        return jax.jit(jax.grad(lambda a: jnp.sum(jax.vmap(loss(eigh))(a))))

    assert close(run(shardsolve.eigh)(spread_batch(a)), run(jnp_eigh)(a), 1e6)


def test_gradient_through_scan_is_that_of_jnp():
    def total(eigvalsh):
        def run(a):
            def step(total, shift):
                return total + jnp.sum(jnp.exp(eigvalsh(a + shift * a @ a)[:4])), None

            return lax.scan(step, 0.0, jnp.arange(3.0) / 4)[0]

        return jax.jit(jax.grad(run))

    a = random_hermitian(N)
    got = total(shardsolve.eigvalsh)(spread(a))
    assert close(got, total(lambda a: jnp_eigh(a)[0])(a), 1e6)


def by_reduction(a, b):
    """By JAX on one device: L^-1 A L^-H."""
    inverse = jnp.linalg.inv(jnp.linalg.cholesky(hermitian_part(b)))
    w, v = jnp_eigh(inverse @ a @ jnp.conj(inverse.T))
    return w, jnp.conj(inverse.T) @ v


@pytest.mark.devices
@pytest.mark.parametrize("dtype", (more("float64"), "complex128"))
@pytest.mark.parametrize("way", WAYS)
def test_gradient_of_two_matrices_is_that_of_jnp(way, dtype):
    a, b = random_hermitian(N, dtype), hermitian(N, dtype)
    compiled, place = WAYS[way]

    def of_both(eigh):
        def run(a, b):
            w, v = eigh(a, b)
            return jnp.sum(jnp.abs(v) ** 4 * jnp.sin(w)) + jnp.sum(w[:3] ** 2)

        return jax.grad(run, (0, 1))

    with jax.set_mesh(row_mesh(explicit=way == "explicit")):
        got = compiled(of_both(shardsolve.eigh))(place(a), place(b))
    assert close(got, jax.jit(of_both(by_reduction))(a, b), 1e7)


def test_gradient_of_values_of_two_matrices_is_that_of_jnp():
    a, b = random_hermitian(N, "complex128"), hermitian(N, "complex128")

    def lowest(eigvalsh):
        return jax.jit(jax.grad(lambda a, b: jnp.sum(eigvalsh(a, b)[:2] ** 2), (0, 1)))

    got = lowest(lambda a, b: shardsolve.eigvalsh(a, b, subset_by_index=(0, 1)))(
        spread(a), spread(b)
    )
    assert close(got, lowest(lambda a, b: by_reduction(a, b)[0])(a, b), 1e7)


def test_second_derivative_of_two_matrices_is_that_of_jnp():
    a, b = random_hermitian(N), hermitian(N)
    first, second = change("float64"), change("float64", 8)

    def hessian(eigh):
        def run(t):
            w, v = eigh(a + t[0] * first, b + t[1] * second / 20)
            return jnp.sum(jnp.abs(v) ** 4 * w)

        return jax.jit(jax.hessian(run))(jnp.zeros(2))

    assert close(hessian(shardsolve.eigh), hessian(by_reduction), 1e8)


def test_vectors_of_two_matrices_stay_normed_where_values_are_equal():
    """v^H b v = I to first order, whatever the basis."""
    b, of_b = hermitian(N, "complex128"), change("complex128", 8)
    v, of_v = jax.jit(lambda b, d: jax.jvp(lambda b: shardsolve.eigh(b, b)[1], (b,), (d,)))(
        spread(b), spread(of_b)
    )
    v, of_v = np.asarray(v), np.asarray(of_v)
    change_of_norm = of_v.conj().T @ b @ v + v.conj().T @ b @ of_v + v.conj().T @ of_b @ v
    assert np.abs(change_of_norm).max() < 1e-10


def test_gradient_of_some_values_needs_only_their_vectors():
    a = random_hermitian(N, "complex128")
    run = jax.grad(lambda a: jnp.sum(shardsolve.eigvalsh(a, subset_by_index=(3, 5)) ** 2))
    got = jax.jit(run)(spread(a))
    assert close(got, jax.jit(jax.grad(lambda a: jnp.sum(jnp_eigh(a)[0][3:6] ** 2)))(a), 1e6)
    text = jax.jit(run).lower(spread(a)).compile().as_text()
    calls = [line for line in text.splitlines() if '_target="shardsolve_eigh"' in line]
    if DEVICES == 1:  # by XLA
        assert not calls and text.count('_target="shardsolve_eigh_look"') == 1
        return
    assert len(calls) == 1
    assert "last = 6" in calls[0] or "last=6" in calls[0]


def test_gradient_of_logdet_is_that_of_the_factor():
    a = spread(hermitian(N, "complex128"))
    got = jax.grad(SCALARS["logdet"])(a)
    assert close(got, jax.grad(shardsolve.logdet)(a), 1e6)


@pytest.mark.parametrize("function", (shardsolve.eigh, shardsolve.eigvalsh))
def test_derivative_of_info_is_zero(function):
    a = spread(random_hermitian(N))
    run = functools.partial(function, full_output=True)
    gradient = jax.grad(lambda a: run(a)[-1].residual)(a)
    assert not np.any(gradient)


def test_products_keep_all_bits_whatever_the_default_precision_is():
    with jax.default_matmul_precision("bfloat16"):
        text = jax.jit(jax.grad(loss(shardsolve.eigh))).lower(spread(random_hermitian(N))).as_text()
    products = [line for line in text.splitlines() if "dot_general" in line]
    assert products
    assert [line for line in products if "precision = [HIGHEST, HIGHEST]" not in line] == []


def test_gradient_of_a_bad_matrix_is_nan():
    a = random_hermitian(N)
    a[2, 3] += 1
    assert np.isnan(jax.jit(jax.grad(loss(shardsolve.eigh)))(spread(a))).all()
