"""Derivatives of eigenvalues and eigenvectors where some are equal: right, or NaN if not known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from eigensystems import random_hermitian, with_eigenvalues
from systems import close, more, normal, spread

import shardsolve

N = 12  # divisible by every number of devices that is tested
MATRICES = {
    "identity": np.eye(N, dtype="complex128"),
    "zero": np.zeros((N, N)),
    "three_clusters": with_eigenvalues(
        np.repeat([1.0, 2.0, 3.0], 4) + 1e-15 * np.arange(N), "complex128"
    ),
}
WEIGHTS = np.asarray(normal(np.random.default_rng(5), (N, N), "float64"))


def weighted(a):
    return jnp.sum(jnp.real(a) * WEIGHTS)


# Functions of values and vectors, and where eigenvalues are equal, whether their gradient is known.
USES = {
    "values": (lambda w, v: jnp.sum(w**3), True),
    "all_that_vectors_span": (lambda w, v: weighted(v @ jnp.conj(v.T)), True),
    "what_a_cluster_spans": (lambda w, v: weighted(v[:, :4] @ jnp.conj(v[:, :4].T)), None),
    "vectors": (lambda w, v: weighted(v), False),
    "function_of_the_matrix": (lambda w, v: weighted((v * jnp.exp(w)) @ jnp.conj(v.T)), False),
}


@pytest.mark.parametrize("matrix", MATRICES)
def test_gradient_where_eigenvalues_are_equal_is_right_or_nan(matrix):
    a = MATRICES[matrix]

    def run(a):
        return tuple(
            jax.grad(lambda a, use=use: use(*shardsolve.eigh(a)))(a) for use, _ in USES.values()
        )

    found = dict(zip(USES, jax.jit(run)(spread(a)), strict=True))
    for name, (_, known) in USES.items():
        known = matrix == "three_clusters" if known is None else known
        assert np.isfinite(found[name]).all() if known else np.isnan(found[name]).any(), name
    assert close(found["values"], 3 * (a @ a).conj(), 1e6)
    assert np.abs(found["all_that_vectors_span"]).max() < 1e-12


@pytest.mark.parametrize("matrix", ("identity", more("three_clusters")))
def test_change_where_eigenvalues_are_equal_tells_who_uses_values_and_vectors(matrix):
    """Vectors keep the basis of a cluster, and what is coupled inside is missing in values."""
    a, direction = MATRICES[matrix], random_hermitian(N, "complex128", 7)
    of_w, of_v = jax.jit(lambda a, d: jax.jvp(shardsolve.eigh, (a,), (d,))[1])(
        spread(a), spread(direction)
    )
    assert np.isnan(of_w).all()
    assert np.isfinite(of_v).all()
    if matrix == "identity":
        assert not np.any(of_v)
        of_w = jax.jit(lambda a, d: jax.jvp(shardsolve.eigvalsh, (a,), (d,))[1])(
            spread(a), spread(direction)
        )
        assert close(jnp.sum(of_w), np.asarray(np.trace(direction).real))


PLANE = np.zeros((N, N))
PLANE[0, 1] = PLANE[1, 0] = 1.0
SECOND_ORDERS = {
    "reverse_of_reverse": lambda f: jax.grad(jax.grad(f)),
    "forward_of_reverse": lambda f: jax.jacfwd(jax.grad(f)),
    "reverse_of_forward": lambda f: jax.grad(jax.jacfwd(f)),
    "forward_of_forward": lambda f: jax.jacfwd(jax.jacfwd(f)),
}


@pytest.mark.parametrize("order", SECOND_ORDERS)
def test_second_derivative_where_eigenvalues_are_equal_is_right_or_nan(order):
    """It was 0: what the change couples was missing."""

    def along(direction, function):
        return lambda t: function(shardsolve.eigvalsh(np.eye(N) + t * direction))

    def run(t):
        second = SECOND_ORDERS[order]
        return (
            second(along(PLANE, lambda w: jnp.sum(w**2)))(t),
            second(along(PLANE, lambda w: w[0]))(t),
            second(along(np.eye(N), lambda w: jnp.sum(w**2)))(t),
        )

    coupled, lowest, shifted = jax.jit(run)(0.0)
    assert np.isnan(coupled)
    assert np.isnan(lowest)
    assert close(shifted, np.asarray(2.0 * N))


@pytest.mark.parametrize(
    ("dtype", "n", "gap"),
    [("float32", 100, 1e-5), ("float64", 100, 3e-14)],
    ids=("single", "double"),
)
def test_eigenvalues_that_differ_by_more_than_rounding_are_not_taken_for_equal(dtype, n, gap):
    """The derivative of a vector was 0 up to 16 sqrt(n) u, which is more than both gaps."""
    a = np.diag(np.r_[0.5, 0.5 + gap, np.linspace(-1, 0.4, n - 2)]).astype(dtype)
    gap = float(a[1, 1]) - float(a[0, 0])
    direction = np.zeros_like(a)
    direction[0, 1] = direction[1, 0] = 1

    def entry(t):
        v = shardsolve.eigh(a + t * direction)[1]
        return v[1, n - 2]  # of the vector of the lower one

    for derivative in (jax.grad, jax.jacfwd):
        assert float(jax.jit(derivative(entry))(jnp.zeros((), dtype))) == pytest.approx(
            -1 / gap, rel=1e-3
        )


@pytest.mark.parametrize("condition", [1e3, more(1e5)])
def test_values_that_b_spreads_are_equal_for_gradients(condition):
    """They are 100 u max |w| and more apart, and were taken for different ones."""
    rng = np.random.default_rng(117)
    w = np.repeat([1.0, 2.0], N)
    b = with_eigenvalues(np.geomspace(1, 1 / condition, len(w)), seed=117)
    half = np.linalg.cholesky(b)
    z = np.linalg.qr(rng.standard_normal(b.shape))[0]
    a = half @ (z * w) @ z.T @ half.T
    a = (a + a.T) / 2
    exact = np.linalg.solve(half.T, z)
    group = w == 2.0
    weights = np.asarray(random_hermitian(len(w), seed=1))

    def of_group(a):
        v = shardsolve.eigh(a, spread(b))[1][:, np.flatnonzero(group)]
        return jnp.sum(weights * (v @ v.T))

    inner = exact.T @ weights @ exact
    apart = np.where(w[:, None] == w, 1, w[:, None] - w)
    among = (group[:, None] & ~group) / apart
    right = exact @ ((among + among.T) * inner) @ exact.T
    gradient = np.asarray(jax.jit(jax.grad(of_group))(spread(a)))
    assert np.abs(gradient - right).max() <= 1e-14 * condition * np.abs(right).max()


@pytest.mark.one_rank
def test_double_values_of_lapack_are_equal_for_gradients():
    """They were up to 43 u max |w| apart: a vector of a pair had a gradient of 1e10, not NaN."""
    rng, half = np.random.default_rng(16), 100
    x = np.asarray(rng.integers(-9, 10, (half, half)), "float64")
    x = x + x.T
    order = rng.permutation(half)
    y = x[order][:, order]  # the same eigenvalues, and no rounding below
    a = np.block([[x + y, x - y], [x - y, x + y]])
    weights = np.asarray(random_hermitian(2 * half, seed=1))
    w, v = (np.asarray(part) for part in shardsolve.eigh(a))
    gaps = w[1::2] - w[::2]
    first = 2 * int(gaps.argmax())

    def of_some(a, count):
        v = shardsolve.eigh(a)[1][:, first : first + count]
        return jnp.sum(weights * (v @ v.T))

    both = jax.jit(jax.grad(lambda a: of_some(a, 2)))(a)
    pairs = np.repeat((w[::2] + w[1::2]) / 2, 2)
    group = (np.arange(2 * half) // 2) == first // 2
    apart = np.where(group[:, None] == group, 1, pairs[:, None] - pairs)
    among = (group[:, None] & ~group) / apart
    right = v @ ((among + among.T) * (v.T @ weights @ v)) @ v.T
    assert np.abs(both - right).max() <= 1e-11 * np.abs(right).max()
    assert np.isnan(jax.jit(jax.grad(lambda a: of_some(a, 1)))(a)).any()


def test_values_of_no_rows_have_a_gradient():
    assert jax.grad(lambda a: jnp.sum(shardsolve.eigh(a)[0]))(np.zeros((0, 0))).shape == (0, 0)


def test_many_equal_eigenvalues_are_one_group_however_wide():
    """Neighbours of 40 are closer than the first and the last."""
    w = np.r_[np.linspace(-1, 0.2, 20), np.full(40, 0.5)]
    a, direction = with_eigenvalues(w), np.asarray(random_hermitian(60, seed=3))

    def corner(a):
        v = shardsolve.eigh(a, subset_by_index=(20, 59))[1]
        return (v @ v.T)[0, 1]

    gradient = jax.jit(jax.grad(corner))(a)
    other = jax.jit(jax.grad(lambda a: -(lambda v: v @ v.T)(shardsolve.eigh(a)[1][:, :20])[0, 1]))(
        a
    )
    assert close(np.sum(gradient * direction), np.sum(other * direction), 1e7)
