"""The half F of a factor, A = F F^H: solves, products, derivatives, every way in."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from functions import several_devices
from jax.sharding import PartitionSpec as P
from systems import (
    DEVICES,
    DTYPES,
    close,
    grid_mesh,
    hermitian,
    more,
    put,
    row_mesh,
    sides,
    solves,
    spread,
    spread_batch,
    unit_roundoff,
)

import shardsolve

N, TILE = 24, 2  # N is divisible by every number of devices that is tested
HALVES = {
    "half_solve": lambda f, b: jax.scipy.linalg.solve(f, b),
    "half_solve_adjoint": lambda f, b: jax.scipy.linalg.solve(jnp.conj(f.T), b),
    "half_product": lambda f, b: f @ b,
    "half_product_adjoint": lambda f, b: jnp.conj(f.T) @ b,
}
every_half = pytest.mark.parametrize("half", HALVES)


def order(n, ranks, tile=TILE):
    """Row numbers as they are eliminated: block 0 of each device, then block 1, ..."""
    width = -(-n // ranks)
    parts = [np.arange(n)[r * width : (r + 1) * width] for r in range(ranks)]
    blocks = range(-(-width // tile))
    return np.concatenate([part[b * tile : (b + 1) * tile] for b in blocks for part in parts])


def reference_half(a, ranks=DEVICES):
    """F by jnp: the Cholesky factor of the permuted matrix, permuted back."""
    places = order(len(a), ranks)
    back = np.argsort(places)
    a = (a + jnp.conj(a.T)) / 2
    return jnp.linalg.cholesky(a[places][:, places])[back][:, back]


def ours(half, a, b, *, tile=TILE, **where):
    return getattr(shardsolve.cho_factor(a, tile=tile, **where), half)(b, **where)


def reference(half, a, b, ranks=DEVICES):
    return HALVES[half](reference_half(a, ranks), b)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", (1, N - 3, N))
def test_half_product_of_the_identity_is_a_half_of_the_matrix(n, dtype):
    a = hermitian(n, dtype)
    factor = shardsolve.cho_factor(spread(a), tile=TILE)
    half = np.asarray(factor.half_product(np.eye(n, dtype=dtype)))
    error = np.abs(half @ half.conj().T - a).max() / np.abs(a).sum(axis=1).max()
    assert error < 30 * unit_roundoff(dtype)
    places = order(n, DEVICES)
    assert not np.triu(half[places][:, places], 1).any()
    if DEVICES == 1:
        assert close(half, np.linalg.cholesky(a))


@pytest.mark.parametrize("k", (None, 5))
def test_both_half_solves_are_the_solve_and_the_pivots_are_the_determinant(k):
    a, b = hermitian(N, "complex128"), sides(N, k, "complex128")
    factor = shardsolve.cho_factor(spread(a))
    white = factor.half_solve(b)
    assert solves(a, factor.half_solve_adjoint(white), b)
    quadratic = np.sum(np.abs(white) ** 2)
    assert close(quadratic, np.real(np.sum(np.conj(b) * np.linalg.solve(a, b))))
    pivots = jnp.diagonal(factor.half_product(np.eye(N, dtype=a.dtype)))
    assert close(2 * jnp.sum(jnp.log(pivots.real)), shardsolve.logdet(factor))


@pytest.mark.devices
@pytest.mark.parametrize("way", ("eager", "jit", "explicit", more("columns"), "grid", "mesh"))
@every_half
def test_half_by_every_way_is_that_of_jnp(half, way):
    a, b = hermitian(N, "complex128"), sides(N, 3, "complex128")
    run = functools.partial(ours, half)
    if way == "mesh":
        x = jax.jit(functools.partial(run, mesh=row_mesh()))(a, b)
    elif way == "grid":
        x = run(put(a, grid_mesh(), ("x", "y")), put(b, grid_mesh(), "y"))
    elif way == "columns":
        x = jax.jit(run)(put(a, row_mesh(), None, "x"), b)
    else:
        mesh = row_mesh(explicit=way == "explicit")
        run = run if way == "eager" else jax.jit(run)
        x = run(put(a, mesh, "x"), put(b, mesh, "x"))
    assert close(x, reference(half, a, b))


@pytest.mark.one_rank
@every_half
def test_half_of_a_small_matrix_is_that_of_one_rank(half):
    """One rank works for all devices: then F is the Cholesky factor, and so is its derivative."""
    a, b = hermitian(N), sides(N)

    def loss(f):
        return jax.value_and_grad(lambda a, b: jnp.sum(jnp.cos(f(half, a, b))), (0, 1))

    got = jax.jit(loss(functools.partial(ours, tile=None)))(spread(a), spread(b))
    assert close(got, loss(functools.partial(reference, ranks=1))(a, b))


@several_devices
@every_half
def test_half_inside_of_a_shard_map_is_that_of_jnp(half):
    a, b = hermitian(N), sides(N, 2)

    def inside(a, b):
        mapped = jax.shard_map(
            functools.partial(ours, half, axis_name="x"),
            mesh=row_mesh(),
            in_specs=(P("x"), P("x")),
            out_specs=P("x"),
            check_vma=False,
        )
        return jnp.sum(jnp.cos(mapped(a, b)))

    got = jax.jit(jax.value_and_grad(inside, (0, 1)))(spread(a), spread(b))
    wanted = jax.value_and_grad(lambda a, b: jnp.sum(jnp.cos(reference(half, a, b))), (0, 1))(a, b)
    assert close(got, wanted)


# Derivatives


def jvp(f):
    def run(a, b):
        change = np.random.default_rng(7).standard_normal(a.shape).astype(a.dtype)
        return jax.jvp(f, (a, b), (change * a, jnp.sin(b)))

    return run


def gradient(f):
    return jax.grad(lambda a, b: jnp.sum(jnp.cos(jnp.abs(f(a, b)))), (0, 1))


def gradient_of_gradient(f):
    def squares(a, b):
        of_a, of_b = gradient(f)(a, b)
        return jnp.sum(jnp.abs(of_a) ** 2) + jnp.sum(jnp.abs(of_b) ** 2)

    return jax.grad(squares, (0, 1))


def of_sides(f):
    return jax.grad(lambda b, a: jnp.sum(jnp.cos(jnp.abs(f(a, b)))))


TRANSFORMS = {
    "jvp": jvp,
    "grad": gradient,
    "grad_of_grad": gradient_of_gradient,
    "jacfwd": lambda f: jax.jacfwd(f, 1),
    "jacrev": lambda f: jax.jacrev(f, 0),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("half", ("half_solve", "half_product"))
def test_transform_of_a_half_is_that_of_jnp(half, transform):
    a, b = hermitian(12), sides(12)
    transform = TRANSFORMS[transform]
    got = jax.jit(transform(functools.partial(ours, half)))(spread(a), spread(b))
    assert close(got, jax.jit(transform(functools.partial(reference, half)))(a, b))


@pytest.mark.devices
@pytest.mark.parametrize("way", ("jit", "explicit"))
@every_half
def test_gradient_of_a_half_of_a_complex_matrix_is_that_of_jnp(half, way):
    a, b = hermitian(N, "complex128"), sides(N, 2, "complex128")
    mesh = row_mesh(explicit=way == "explicit")
    run = gradient(functools.partial(ours, half))
    got = (run if way == "eager" else jax.jit(run))(put(a, mesh, "x"), put(b, mesh, "x"))
    assert close(got, jax.jit(gradient(functools.partial(reference, half)))(a, b))


@every_half
def test_gradient_by_b_alone_takes_no_solve_with_a_matrix(half):
    a, b = hermitian(N), sides(N)
    factor = shardsolve.cho_factor(spread(a), tile=TILE)
    run = jax.jit(jax.grad(lambda b: jnp.sum(jnp.cos(getattr(factor, half)(b)))))
    assert close(run(spread(b)), of_sides(functools.partial(reference, half))(b, a))
    calls = run.lower(spread(b)).compile().as_text().count("shardsolve_cholesky_half")
    assert calls == 2  # there and back


# vmap


@pytest.mark.parametrize("axes", ((0, 0), (0, None), (None, 0)), ids=str)
@every_half
def test_vmap_of_a_half_is_that_of_jnp(half, axes):
    a = np.stack([hermitian(N, seed=seed) for seed in range(3)]) if axes[0] == 0 else hermitian(N)
    b = sides(N, 3).T.copy() if axes[1] == 0 else sides(N)
    place = spread_batch if axes[0] == 0 else spread
    got = jax.jit(jax.vmap(functools.partial(ours, half), axes))(place(a), b)
    assert close(got, jax.vmap(functools.partial(reference, half), axes)(a, b))


def test_vmap_of_right_hand_sides_makes_one_call_of_them():
    factor = shardsolve.cho_factor(spread(hermitian(N)))
    run = jax.jit(jax.vmap(factor.half_solve))
    text = run.lower(sides(N, 5).T.copy()).compile().as_text()
    assert text.count("shardsolve_cholesky_half") == 1
    assert "while" not in text


# What goes wrong


def test_argument_that_is_not_finite_is_named_and_under_jit_nan():
    factor = shardsolve.cho_factor(spread(hermitian(N)))
    y = sides(N, 2)
    y[7, 1] = np.nan
    with pytest.raises(shardsolve.LinAlgError, match="row 7"):
        factor.half_solve(y)
    assert np.isnan(jax.jit(lambda f, y: f.half_solve(y))(factor, y)).all()


def test_factor_that_is_none_gives_nan_under_jit():
    bad = hermitian(N) - 10 * np.eye(N)
    assert np.isnan(jax.jit(lambda a, b: ours("half_product", a, b))(spread(bad), sides(N))).all()


@pytest.mark.parametrize(
    ("given", "error", "words"),
    (
        (lambda: np.ones(N + 1), ValueError, r"z has shape \(25,\)"),
        (lambda: np.ones(N, "float32"), TypeError, "z has dtype float32"),
        (lambda: "z", TypeError, "z is a str"),
    ),
)
def test_argument_that_does_not_fit_is_refused(given, error, words):
    factor = shardsolve.cho_factor(spread(hermitian(N)))
    with pytest.raises(error, match=words):
        factor.half_product(given())


def test_empty_matrix_has_an_empty_half():
    factor = shardsolve.cho_factor(np.zeros((0, 0)))
    assert factor.half_solve(np.zeros((0, 3))).shape == (0, 3)
    assert factor.half_product(np.zeros(0)).shape == (0,)
