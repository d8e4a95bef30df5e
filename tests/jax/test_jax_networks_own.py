"""A network of one's own in the boxes."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shardsolve.fbpinn as fb

pytestmark = pytest.mark.filterwarnings("ignore::shardsolve.fbpinn.TrainingWarning")

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


def test_terms_without_a_point_in_some_boxes_are_no_trouble():
    net = fb.Net(lambda w, x: jnp.sin(w @ x), lambda key: jax.random.normal(key, (6, 1)))
    terms = [
        fb.Interior(lambda x, u: u.t + u.v, points=40),
        fb.Boundary(lambda x, u: u.v - 1, where="t = 0", weight=10),
    ]
    run = fb.Problem(fb.Boxes((0, 1), 3), axes="t", net=net, terms=terms).train()
    assert np.abs(run.evaluate([0.5]) - np.exp(-0.5)) < 1e-4


def test_fourier_features_solve_an_equation():
    run = poisson(fb.Net(fourier, frequencies)).train()
    assert run.outcome.ok and run.outcome.is_linear
    assert run.outcome.columns == 9 * (2 * UNITS + 1)
    assert run.error(solution) < 1e-5
    hidden, last = run.weights()
    assert hidden.shape == (9, 2 * UNITS) and last.shape == (9, 1, 2 * UNITS + 1)


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


def exact(x) -> jax.Array:
    return jnp.sin(jnp.pi * x.x) * jnp.sin(jnp.pi * x.y)


def few(net: fb.Mlp | fb.Net) -> fb.Problem:
    """Poisson's equation with few units in each box."""
    return fb.Problem(
        fb.Boxes([(0, 1), (0, 1)], (2, 2)),
        axes="x y",
        net=net,
        constrain=lambda x, u: x.x * (1 - x.x) * x.y * (1 - x.y) * u,
        terms=[fb.Interior(lambda x, u: u.xx + u.yy + 2 * jnp.pi**2 * exact(x), points=(12, 12))],
    )


def sine(params, x):
    scale = jnp.where(params["number"] == 0, 1.0, 0.5)  # a number that is not trained
    return jnp.tanh(params["weights"] @ x * scale + params["more"][0])


def begin(boxes: int) -> dict:
    rng = np.random.default_rng(3)
    return {
        "weights": rng.uniform(-1, 1, (boxes, 4, 2)),
        "more": [rng.uniform(-1, 1, (boxes, 4))],
        "number": np.arange(boxes),
    }


def test_all_parameters_do_better_than_the_linear_layer():
    problem = few(fb.Net(sine, begin(4)))
    least = problem.train()
    run = problem.train(fb.LevenbergMarquardt(max_steps=40))
    assert run.error(exact) < 0.5 * least.error(exact)
    assert np.all(np.diff(run.outcome.descent.losses) < 0)
    assert run.outcome.descent.losses[-1] < 0.3 * least.outcome.loss
    found = run.net_parameters()
    assert np.array_equal(found["number"], [0, 1, 2, 3])
    assert found["weights"].shape == (4, 4, 2) and found["more"][0].shape == (4, 4)
    assert not np.array_equal(found["weights"], begin(4)["weights"])
    assert np.array_equal(least.net_parameters()["weights"], begin(4)["weights"])
    # What is evaluated is the network with these parameters.
    other = few(fb.Net(sine, found)).train()
    assert other.outcome.loss == pytest.approx(run.outcome.loss, rel=1e-3)


def test_steps_are_those_of_the_built_in_network():
    built_in = few(fb.Mlp([4])).train(fb.LevenbergMarquardt(max_steps=8))
    flat = few(fb.Mlp([4])).train().weights()[0]
    parameters = (flat[:, :8].reshape(4, 4, 2), flat[:, 8:])
    own = few(fb.Net(perceptron, parameters)).train(fb.LevenbergMarquardt(max_steps=8))
    assert own.outcome.descent.losses == pytest.approx(built_in.outcome.descent.losses, rel=1e-4)


def test_trained_parameters_go_on_as_a_loss():
    problem = few(fb.Net(sine, begin(4)))
    run = problem.train(fb.LevenbergMarquardt(max_steps=3))
    loss = problem.loss()
    parameters = loss.parameters(run)
    assert float(loss(parameters)) == pytest.approx(run.outcome.loss, rel=1e-6)
    points = problem.boxes.grid((7, 5))
    assert np.array_equal(loss.networks(parameters).evaluate(points), run.evaluate(points))


def wrong(params, x):
    return jnp.tanh(params @ x).sum()


BAD = [
    (lambda: poisson("mlp"), "Net(features, init)"),
    (lambda: fb.Net(3, frequencies), "a function of parameters"),
    (lambda: poisson(fb.Net(wrong, lambda key: jnp.ones((4, 2)))), "(units,), is accepted"),
    (lambda: poisson(fb.Net(wrong, jnp.ones((9, 3, 2)))), "(units,), is accepted"),
    (lambda: poisson(fb.Net(lambda p, x: p @ x, jnp.ones((4, 3, 2)))).train(), "(9, ...)"),
    (
        lambda: few(fb.Net(lambda p, x: jnp.sin(p[0] * x[:1]), np.ones((4, 1), int))).train(
            fb.LevenbergMarquardt()
        ),
        "without parameters",
    ),
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


def test_what_the_network_raises_where_it_is_differentiated_comes_out():
    shapes = []

    def features(params, x):
        # Where it is differentiated by its parameters these are no longer plain arrays of a trace.
        shapes.append(type(params["weights"]))
        if len(set(shapes)) > 1 and shapes[-1] is not shapes[0]:
            raise ZeroDivisionError("of its derivative")
        return jnp.tanh(params["weights"] @ x)

    problem = few(fb.Net(features, begin(4)))
    with pytest.raises(ZeroDivisionError, match="of its derivative"):
        problem.train(fb.LevenbergMarquardt(max_steps=2))
