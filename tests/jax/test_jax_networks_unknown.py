"""Unknown coefficients under gradients and under least squares: positive ones, networks, priors."""

from __future__ import annotations

import functools
import re

import jax.numpy as jnp
import numpy as np
import pytest

import shardsolve.fbpinn as fb

pytestmark = pytest.mark.filterwarnings("ignore::shardsolve.fbpinn.TrainingWarning")

TIMES = np.linspace(0, 1, 41)
NOISE = 0.02


def decay(x, u, c):
    return u.t + c.rate * u.v


@functools.cache
def decaying(positive: bool = True, init: float = 1.0) -> fb.Problem:
    """u = exp(-2 t), heard with noise; the rate is 2."""
    heard = np.exp(-2 * TIMES) + NOISE * np.random.default_rng(3).normal(size=41)
    terms = [
        fb.Interior(decay, points=40),
        fb.Data(TIMES, heard, lambda x, u: u.v),
    ]
    return fb.Problem(
        fb.Boxes((0, 1), 2),
        axes="t",
        net=fb.Mlp([6]),
        terms=terms,
        coefficients={"rate": fb.Scalar(init, positive=positive)},
    )


def test_a_number_is_found_by_gradients_with_its_deviation():
    least = decaying().train()
    run = decaying().train(fb.Adam(steps=1500, rate=0.01, block=500))
    run = decaying().train(fb.LBFGS(steps=800, block=400), start=run)
    rate, deviation = run.coefficients["rate"], run.coefficient_deviations["rate"]
    assert least.coefficients["rate"] == pytest.approx(rate, abs=0.05)
    assert abs(rate - 2) < 4 * deviation and 0.005 < deviation < 0.3
    assert deviation == pytest.approx(least.coefficient_deviations["rate"], rel=0.3)
    assert run.outcome.coefficients_determined == 1


def test_positive_numbers_are_the_same_as_others_where_both_are_positive():
    found = [decaying(positive).train() for positive in (True, False)]
    rates = [run.coefficients["rate"] for run in found]
    deviations = [run.coefficient_deviations["rate"] for run in found]
    assert rates[0] == pytest.approx(rates[1], rel=1e-4)
    assert deviations[0] == pytest.approx(deviations[1], rel=1e-2)


def test_a_positive_number_does_not_become_negative():
    terms = [
        fb.Interior(lambda x, u, c: u.v + c.a, points=9),
        fb.Data([0.5], [1.0], lambda x, u: u.v),
    ]
    problem = fb.Problem(
        fb.Boxes((0, 1), 2),
        axes="t",
        net=fb.Mlp([2]),
        terms=terms,
        coefficients={"a": fb.Scalar(0.5, positive=True)},
    )
    run = problem.train(fb.Adam(steps=400, rate=0.1))
    assert 0 < run.coefficients["a"] < 0.05


def grown(x):
    return 1 + 0.5 * jnp.sin(3 * x)


def with_function(coefficient) -> fb.Problem:
    """u' = k(t), from 40 values of u; k is known to be about 1."""
    values = TIMES + (1 - np.cos(3 * TIMES)) / 6
    return fb.Problem(
        fb.Boxes((0, 1), 2),
        axes="t",
        net=fb.Mlp([8]),
        terms=[
            fb.Interior(lambda x, u, c: u.t - c.k(x.t), points=50),
            fb.Data(TIMES, values, lambda x, u: u.v, weight=10),
            fb.Interior(lambda x, u, c: c.k(x.t) - 1, points=12, weight=1e-3),
        ],
        coefficients={"k": coefficient},
    )


@pytest.mark.parametrize("positive", [True, pytest.param(False, marks=pytest.mark.more)])
def test_a_network_is_found_as_a_coefficient(positive: bool):
    problem = with_function(fb.NetFunction(widths=(5,), positive=positive))
    assert problem.unknown.start.shape == (16,)
    run = problem.train(fb.Adam(steps=1000, rate=0.01, block=500))
    run = problem.train(fb.LBFGS(steps=1000, block=500), start=run)
    inside = np.linspace(0.05, 0.95, 30)
    assert np.abs(run.coefficient("k", inside) - grown(inside)).max() < 0.05


def test_a_network_is_found_by_least_squares():
    run = with_function(fb.NetFunction(widths=(5,))).train()
    inside = np.linspace(0.05, 0.95, 30)
    assert np.abs(run.coefficient("k", inside) - grown(inside)).max() < 0.05


def test_a_positive_grid_is_found():
    run = with_function(fb.Grid1D(7, positive=True, kind="cubic")).train()
    inside = np.linspace(0.05, 0.95, 30)
    assert np.abs(run.coefficient("k", inside) - grown(inside)).max() < 0.02
    nodes = run.problem.nodes("k")
    assert np.allclose(run.coefficient("k", nodes), run.coefficients["k"])


def test_a_network_of_several_variables_begins_as_a_constant():
    terms = [
        fb.Interior(lambda x, u, c: u.x - c.k(x.x, x.y), points=(6, 5)),
        fb.Data([[0.0, 0.0]], [1.0], lambda x, u: u.v),
    ]
    problem = fb.Problem(
        fb.Boxes([(0, 1), (0, 2)], (2, 2)),
        axes="x y",
        net=fb.Mlp([3]),
        terms=terms,
        coefficients={"k": fb.NetFunction(2, (4, 3), init=2.5)},
    )
    numbers, points = problem.unknown.start, np.array([[0.2, 0.3], [0.9, 1.7]])
    assert np.allclose(problem.unknown.values("k", numbers, points), 2.5, atol=1e-12)
    assert len(numbers) == 4 * 3 + 3 * 5 + 4


def two_numbers(x, u, c):
    return u.v - c.k(x.t, x.t)


def function_of(coefficient, residual=lambda x, u, c: u.v - c.k(x.t)) -> fb.Problem:
    terms = [fb.Interior(residual, points=9)]
    return fb.Problem(fb.Boxes((0, 1), 2), axes="t", terms=terms, coefficients={"k": coefficient})


WORDS = {
    "negative": (lambda: fb.Scalar(-1, positive=True), "init=-1 given with positive=True"),
    "zero": (lambda: fb.Grid1D(2, [1, 0], positive=True), "numbers above 0 are accepted"),
    "no bool": (lambda: fb.Scalar(positive=1), "positive=1 given: True or False"),
    "inputs": (lambda: fb.NetFunction(0), "inputs=0 given"),
    "domain": (lambda: fb.NetFunction(domain=(1, 0)), "a pair (least, greatest) for each of 1"),
    "too many": (lambda: fb.NetFunction(widths=(100, 100)), "up to 4096 are accepted"),
    "arguments": (
        lambda: function_of(fb.NetFunction(), two_numbers),
        "called with 2 numbers: 1 is",
    ),
    "no coordinate": (
        lambda: function_of(fb.NetFunction(), lambda x, u, c: u.v - c.k(2 * x.t)),
        "pass NetFunction(..., domain=(least, greatest))",
    ),
    "no function": (
        lambda: fb.Networks.coefficient(decaying().train(), "rate", [0.0]),
        "'rate' is no function among the coefficients",
    ),
}


@pytest.mark.parametrize("case", WORDS)
def test_what_is_not_accepted_is_told(case: str):
    call, words = WORDS[case]
    with pytest.raises((TypeError, ValueError), match=re.escape(words)):
        call()
