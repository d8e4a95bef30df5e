"""A network of one's own in the boxes."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shardsolve.fbpinn as fb

UNITS = 12


def solution(x) -> jax.Array:
    return jnp.sin(2 * jnp.pi * x.x) * jnp.sin(jnp.pi * x.y)


def poisson(net: fb.Mlp | fb.Net, **options) -> fb.Problem:
    def equation(x, u):
        return u.xx + u.yy + 5 * jnp.pi**2 * solution(x)

    return fb.Problem(
        fb.Boxes([(0, 1), (0, 1)], (3, 3)),
        axes="x y",
        net=net,
        constrain=lambda x, u: x.x * (1 - x.x) * x.y * (1 - x.y) * u,
        terms=[fb.Interior(equation, points=(24, 24))],
        **options,
    )


def perceptron(params, x) -> jax.Array:
    weights, biases = params
    return jnp.tanh(weights @ x + biases)


def fourier(params, x) -> jax.Array:
    phase = params["frequency"] @ x
    return jnp.concatenate([jnp.sin(phase), jnp.cos(phase)])


def frequencies(key) -> dict[str, jax.Array]:
    return {"frequency": 1.5 * jax.random.normal(key, (UNITS, 2))}


def test_the_same_network_as_the_built_in_one_gives_the_same_solution():
    built_in = poisson(fb.Mlp([UNITS]))
    theirs = built_in.train()
    hidden, last = theirs.weights()
    assert hidden.shape == (9, 3 * UNITS) and last.shape == (9, 1, UNITS + 1)
    params = (hidden[:, : 2 * UNITS].reshape(9, UNITS, 2), hidden[:, 2 * UNITS :])
    own = poisson(fb.Net(perceptron, params)).train()
    points = built_in.boxes.grid((17, 19))
    for derivative in ("v", "x", "xy"):
        ours, wanted = own.evaluate(points, derivative), theirs.evaluate(points, derivative)
        assert np.abs(ours - wanted).max() < 1e-6 * np.abs(wanted).max(), derivative
    assert own.outcome.loss == pytest.approx(theirs.outcome.loss, rel=1e-4)
    assert own.error(solution) == pytest.approx(theirs.error(solution), rel=1e-3)


def test_fourier_features_solve_an_equation():
    run = poisson(fb.Net(fourier, frequencies)).train()
    assert run.outcome.ok and run.outcome.is_linear
    assert run.outcome.columns == 9 * (2 * UNITS + 1)
    assert run.error(solution) < 1e-5
    hidden, last = run.weights()
    assert hidden.shape == (9, 0) and last.shape == (9, 1, 2 * UNITS + 1)


@pytest.mark.more
def test_derivatives_are_those_of_the_solution():
    run = poisson(fb.Net(fourier, frequencies)).train()
    point, step = np.array([[0.31, 0.62]]), 1e-4
    shift = np.array([[step, 0.0]])
    slope = (run.evaluate(point + shift, "y") - run.evaluate(point - shift, "y")) / (2 * step)
    assert run.evaluate(point, "xy") == pytest.approx(slope, rel=1e-5)


@pytest.mark.more
def test_bits_do_not_depend_on_the_devices():
    cpus = jax.devices("cpu")
    runs = [
        poisson(fb.Net(fourier, frequencies)).train(
            mesh=jax.sharding.Mesh(np.array(cpus[:devices]), "x")
        )
        for devices in (1, len(cpus))
    ]
    assert np.array_equal(runs[0].weights()[1], runs[1].weights()[1])


@pytest.mark.more
def test_seed_chooses_the_parameters():
    runs = [poisson(fb.Net(fourier, frequencies), seed=seed).train() for seed in (0, 0, 1)]
    assert runs[0].outcome.loss == runs[1].outcome.loss != runs[2].outcome.loss


def wrong(params, x):
    return jnp.tanh(params @ x).sum()


BAD = [
    (lambda: poisson("mlp"), "Net(features, init)"),
    (lambda: fb.Net(3, frequencies), "a function of parameters"),
    (lambda: poisson(fb.Net(wrong, lambda key: jnp.ones((4, 2)))), "(units,), is accepted"),
    (lambda: poisson(fb.Net(wrong, jnp.ones((4, 3, 2)))), "(units,), is accepted"),
    (lambda: poisson(fb.Net(lambda p, x: p @ x, jnp.ones((4, 3, 2)))).train(), "(9, ...)"),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_bad_input_is_named(number):
    make, named = BAD[number]
    with pytest.raises((ValueError, TypeError), match=re.escape(named)):
        make()


def test_what_the_network_raises_while_it_trains_comes_out():
    calls = []

    def features(params, x):
        calls.append(1)
        if len(calls) > 1:
            raise ZeroDivisionError("of the user")
        return jnp.tanh(params @ x)

    problem = poisson(fb.Net(features, lambda key: jnp.ones((4, 2))))
    with pytest.raises(ZeroDivisionError, match="of the user"):
        problem.train()
