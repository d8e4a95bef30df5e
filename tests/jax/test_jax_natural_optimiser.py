"""Training by natural gradients: shardsolve.natural.natural_gradient."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from systems import more

import shardsolve
from shardsolve.natural import natural_gradient

X = np.linspace(-1, 1, 45)
BATCH = {"x": X, "y": np.sin(4 * X) + X}


def network(params, batch):
    """A small network's errors."""
    hidden = jnp.tanh(batch["x"][:, None] * params["in"] + params["bias"])
    return hidden @ params["out"] - batch["y"]


def start(width=12, dtype="float64"):
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal(width).astype(dtype) for name in ("in", "bias", "out")}


def line(params, batch):
    return batch["x"] * params[0] + params[1] - batch["y"]


def plus(params, updates):
    """As optax.apply_updates."""
    return jax.tree.map(jnp.add, params, updates)


def loss(params, residuals=network):
    return float(np.mean(residuals(params, BATCH) ** 2) / 2)


@pytest.mark.parametrize("chunk", [None, 10])
def test_linear_residuals_are_solved_by_one_step(chunk):
    optimiser = natural_gradient(line, 1e-8, chunk=chunk)
    params = jnp.zeros(2)
    updates, state = optimiser.update(BATCH, optimiser.init(params), params)
    wanted = np.linalg.lstsq(np.stack([X, np.ones_like(X)], 1), BATCH["y"], rcond=None)[0]
    assert np.allclose(plus(params, updates), wanted, rtol=0, atol=1e-6)
    assert state.length == 1
    assert state.info.status == shardsolve.Status.OK


@pytest.mark.parametrize("momentum", [0.0, 0.8])
@pytest.mark.parametrize("chunk", [7, 44, more(100)])
def test_chunks_give_the_step_of_all_derivatives(chunk, momentum):
    params = start()
    found = []
    for of in (None, chunk):
        optimiser = natural_gradient(network, 1e-4, momentum, chunk=of)
        state = optimiser.init(params)
        state = state._replace(direction=jnp.arange(36.0) / 100)
        updates, state = optimiser.update(BATCH, state, params)
        found.append((updates, state.direction, state.loss, state.length))
    for one, other in zip(*map(jax.tree.leaves, found), strict=True):
        assert np.allclose(one, other, rtol=1e-8, atol=1e-10)


def test_step_is_that_of_the_definition():
    params = start()
    flat, unravel = jax.flatten_util.ravel_pytree(params)
    j = jax.jacobian(lambda theta: network(unravel(theta), BATCH))(flat)
    r = network(params, BATCH)
    last = np.linspace(-1, 1, 36)
    optimiser = natural_gradient(network, 1e-3, 0.5)
    state = optimiser.init(params)._replace(direction=jnp.asarray(last))
    updates, state = optimiser.update(BATCH, state, params)
    s, right = j.T @ j / 45 + 1e-3 * np.eye(36), j.T @ r / 45 + 1e-3 * 0.5 * last
    wanted = np.linalg.solve(s, right)
    assert np.allclose(state.direction, wanted, rtol=1e-8, atol=1e-9)
    assert float(state.length) in {0.5**i for i in range(20)}
    step = jax.flatten_util.ravel_pytree(updates)[0]
    assert np.allclose(step, -state.length * wanted, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("chunk", [None, 10])
def test_shift_follows_the_lengths_of_steps(chunk):
    optimiser = natural_gradient(network, 1e-2, chunk=chunk, adapt=True)
    params = start()
    state = optimiser.init(params)
    wanted, lengths, shifts = 1e-2, [], []
    for _ in range(25):
        updates, state = optimiser.update(BATCH, state, params)
        params = plus(params, updates)
        assert state.info.shift == pytest.approx(wanted, rel=1e-12)
        lengths.append(float(state.length))
        shifts.append(float(state.info.shift))
        wanted *= 1 / 4 if lengths[-1] >= 1 / 4 else 4 if lengths[-1] < 1 / 8 else 1
    assert {length >= 1 / 4 for length in lengths} == {True, False}
    assert shifts[-1] < 1e-3 * shifts[0] and loss(params) < 1e-3 * loss(start())


def test_network_is_trained_and_no_step_makes_it_worse():
    optimiser = natural_gradient(network, 1e-9, chunk=16)
    params = start()
    state, before = optimiser.init(params), loss(params)
    first = before
    for _ in range(40):
        updates, state = optimiser.update(BATCH, state, params)
        params = plus(params, updates)
        now = loss(params)
        assert np.isclose(state.loss, before)
        assert now <= before
        before = now
    assert first > 0.1
    assert now < 1e-8


@pytest.mark.parametrize("chunk", [None, 10])
def test_several_functions_are_one_with_all_samples(chunk):
    parts = [{name: a[mine] for name, a in BATCH.items()} for mine in (slice(31), slice(31, None))]
    params = start()
    found = []
    for functions, batch in ((network, BATCH), ([network, network], parts)):
        optimiser = natural_gradient(functions, 1e-4, 0.5, chunk=chunk)
        state = optimiser.init(params)._replace(direction=jnp.arange(36.0) / 100)
        found.append(optimiser.update(batch, state, params))
    for one, other in zip(*map(jax.tree.leaves, found), strict=True):
        assert np.allclose(one, other, rtol=1e-7, atol=1e-9)


@pytest.mark.cpu_only  # on GPUs a program has work space of libraries, too
def test_chunks_hold_derivatives_of_two_chunks_alone():
    """Not of all samples: memory goes as chunk times parameters, beside the Gram matrix."""
    n, parameters, chunk = 400, 20_000, 20

    def residuals(theta, batch):
        return batch @ theta[: batch.shape[1]] - 1

    batch, theta = np.ones((n, 3)), jnp.zeros(parameters)
    took = {}
    for of in (None, chunk):
        optimiser = natural_gradient(residuals, 1e-4, chunk=of)
        run = optimiser.update.lower(batch, optimiser.init(theta), theta).compile()
        took[of] = run.memory_analysis().temp_size_in_bytes / 8
    assert took[None] > n * parameters
    assert took[chunk] < 4 * chunk * parameters + 5 * n**2


@pytest.mark.parametrize(("size", "shift"), [(1e-21, 1e-36), (1e20, 1e-6), (3e37, 1e-6)])
def test_squares_of_residuals_that_leave_the_range_are_compared(size, shift):
    def residuals(params, x):
        return jnp.float32(size) * (params["a"] * x - 2 * x)

    optimiser = natural_gradient(residuals, shift=shift)
    params = {"a": jnp.float32(0)}
    x = jnp.linspace(0.1, 1, 20, dtype=jnp.float32)
    update, state = optimiser.update(x, optimiser.init(params), params)
    assert state.length > 0 and state.info.status == 0
    square = float(jnp.square(params["a"] + update["a"] - 2))
    assert square < 4
    assert state.loss in (0, np.inf)  # as float32 has it


def test_residual_that_is_nan_leaves_params_and_says_so():
    params = start()
    bad = {**BATCH, "y": np.where(np.arange(45) == 3, np.nan, BATCH["y"])}
    optimiser = natural_gradient(network, 1e-6)
    updates, state = optimiser.update(bad, optimiser.init(params), params)
    assert all(np.all(leaf == 0) for leaf in jax.tree.leaves(updates))
    assert state.length == 0
    assert state.info.status == shardsolve.Status.NONFINITE_INPUT
    assert "f: the right-hand side holds a NaN or an infinity at row 3" in state.info.message
    assert np.all(state.direction == 0)


WRONG = {
    "functions": (
        lambda: natural_gradient([line, 1.0], 1e-3),
        TypeError,
        "residuals is a list; pass a function",
    ),
    "batches": (
        lambda: natural_gradient([line, line], 1).update([BATCH], None, jnp.zeros(2)),
        ValueError,
        "2 functions and batch is 1 of them; pass a list",
    ),
    "residuals": (lambda: natural_gradient(1.0, 1e-3), TypeError, "residuals is a float; pass a"),
    "shift": (lambda: natural_gradient(line, 0), ValueError, "shift is 0; pass a positive"),
    "momentum": (lambda: natural_gradient(line, 1, 1.0), ValueError, "momentum is 1.0; pass"),
    "chunk": (lambda: natural_gradient(line, 1, chunk=0), ValueError, "chunk is 0; pass"),
    "trials": (lambda: natural_gradient(line, 1, trials=0.5), ValueError, "trials is 0.5; pass"),
    "adapt": (lambda: natural_gradient(line, 1, adapt=1), ValueError, "adapt is 1; pass True or"),
    "params": (lambda: natural_gradient(line, 1).init(1j * X), TypeError, "dtype complex128; pass"),
    "batch": (lambda: step({"x": X, "y": X[1:]}), ValueError, r"shapes \[\(45,\), \(44,\)\]; pass"),
    "number": (
        lambda: step({"x": 1.0, "y": 2.0}),
        ValueError,
        r"shapes \[\(\), \(\)\]; pass arrays",
    ),
    "sum": (lambda: step(BATCH, lambda p, b: line(p, b).sum()), ValueError, r"float64\[\] for 45"),
    "dtype": (lambda: step(BATCH, dtype="float32"), ValueError, r"float64\[45\].*float32"),
}


def step(batch, residuals=line, dtype="float64"):
    optimiser = natural_gradient(residuals, 1e-3)
    params = jnp.zeros(2, dtype)
    return optimiser.update(batch, optimiser.init(params), params)


@pytest.mark.parametrize("wrong", WRONG)
def test_argument_that_does_not_fit_is_named(wrong):
    run, kind, words = WRONG[wrong]
    with pytest.raises(kind, match=re.compile(words)):
        run()
