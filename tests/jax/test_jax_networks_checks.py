"""What an outcome says of its answer: the loss between the points, what is left and determined."""

from __future__ import annotations

import re

import jax.numpy as jnp
import numpy as np
import pytest

import shardsolve.fbpinn as fb

pytestmark = pytest.mark.filterwarnings("ignore::shardsolve.fbpinn.TrainingWarning")


def wave(overlap: float, *, n: int = 200, points: np.ndarray | None = None) -> fb.Problem:
    """u_xx = -4 pi^2 sin(2 pi x)."""
    return fb.Problem(
        fb.Boxes([(0, 1)], (6,), overlap),
        axes="x",
        net=fb.Mlp([12]),
        constrain=lambda x, u: x.x * (1 - x.x) * u,
        terms=[
            fb.Interior(
                lambda x, u: u.xx + 4 * np.pi**2 * jnp.sin(2 * np.pi * x.x),
                points=(n,) if points is None else points,
            )
        ],
    )


def exact(x):
    return jnp.sin(2 * np.pi * x.x)


def warned(run: fb.Run, words: str) -> bool:
    return any(words in warning for warning in run.outcome.warnings)


@pytest.mark.parametrize("overlap", [1.01, 1.05])
def test_narrow_strips_get_points_and_the_solution_is_right(overlap):
    problem = wave(overlap)
    assert len(problem.prepared[0].points) == 200 + 5 * 3
    run = problem.train()
    assert run.error(exact) < 1e-5
    assert not warned(run, "strips")


def test_strips_without_a_point_of_ones_own_are_told_of():
    run = wave(1.01, points=np.linspace(0, 1, 200)).train()
    assert run.error(exact) > 0.1 and run.outcome.loss < 1e-9
    assert run.outcome.held_out_loss > 1e3 * run.outcome.loss
    assert warned(run, "no point lies in strips") and warned(run, "points between")
    assert "between the points" in str(run.outcome)


def test_boxes_that_overlap_by_little_in_two_dimensions_are_as_good():
    problem = fb.Problem(
        fb.Boxes([(0, 1), (0, 1)], (4, 4), 1.05),
        axes="x y",
        net=fb.Mlp([12]),
        constrain=lambda x, u: x.x * (1 - x.x) * x.y * (1 - x.y) * u,
        terms=[
            fb.Interior(
                lambda x, u: (
                    u.xx + u.yy + 2 * np.pi**2 * jnp.sin(np.pi * x.x) * jnp.sin(np.pi * x.y)
                ),
                points=(30, 30),
            )
        ],
    )
    assert len(problem.prepared[0].points) == (30 + 3 * 3) ** 2
    assert problem.train().error(lambda x: jnp.sin(np.pi * x.x) * jnp.sin(np.pi * x.y)) < 0.1


def test_points_of_wide_strips_are_those_that_were_asked_for():
    for overlap in (1.5, 2.0, 2.9):
        np.testing.assert_array_equal(
            wave(overlap).prepared[0].points, wave(overlap).boxes.grid((200,))
        )


def test_losses_of_terms_are_told():
    run = fb.Problem(
        fb.Boxes([(0, 1)], (3,)),
        axes="x",
        net=fb.Mlp([8]),
        terms=[
            fb.Interior(lambda x, u: u.x + u.v, points=(80,)),
            fb.Boundary(lambda x, u: u.v - 1, points=(), where="x = 0", weight=10),
            fb.Data(np.array([0.3]), np.array([np.exp(-0.3)]), lambda x, u: u.v),
        ],
    ).train()
    equation, start, data = run.outcome.terms
    assert equation.name == "terms[0], Interior" and equation.held_out_points == 79
    assert start.held_out_points == data.held_out_points == 0
    assert sum(term.loss for term in run.outcome.terms) == pytest.approx(run.outcome.loss)
    assert 0 < run.outcome.loss_left < 1e-6


def test_equation_without_a_condition_is_refused():
    problem = fb.Problem(
        fb.Boxes([(0, 1)], (3,)),
        axes="x",
        net=fb.Mlp([8]),
        terms=[fb.Interior(lambda x, u: u.xx + u.v - 1, points=(80,))],
    )
    with pytest.raises(ValueError, match=r"order 2.*no constraint.*boundary or initial condition"):
        problem.train()


def decay(*terms: fb.Interior) -> fb.Problem:
    """u_t = a u_xx + b u, and data that say b - 9 a = -1 alone."""
    rng = np.random.default_rng(0)
    points = rng.uniform(0, 1, (200, 2))
    values = np.exp(-points[:, 1]) * np.sin(3 * points[:, 0]) + 1e-3 * rng.normal(size=200)
    return fb.Problem(
        fb.Boxes([(0, 1), (0, 1)], (3, 3)),
        axes="x t",
        net=fb.Mlp([16]),
        terms=[
            fb.Interior(lambda x, u, c: u.t - c.a * u.xx - c.b * u.v, points=(24, 24)),
            fb.Data(points, values, lambda x, u: u.v, weight=10),
            *terms,
        ],
        coefficients={"a": fb.Scalar(0.0), "b": fb.Scalar(0.0)},
    )


def test_coefficients_that_data_do_not_tell_apart_are_not_determined():
    run = decay().train()
    assert run.outcome.coefficients_determined < 2
    assert run.coefficient_deviations["a"] > 0.5 * abs(run.coefficients["a"])
    assert warned(run, "not determined by the equations and the data")


def test_term_on_coefficients_alone_says_what_is_known():
    known = fb.Data(np.array([[0.5, 0.5]]), np.array([0.1]), lambda x, u, c: c.a)
    run = decay(known).train()
    assert run.outcome.coefficients_determined == 2
    assert run.coefficients["a"] == pytest.approx(0.1, abs=1e-2)
    assert run.coefficient_deviations["a"] < 0.05
    with pytest.raises(ValueError, match="nothing of u and no coefficient"):
        decay(fb.Interior(lambda x, u, c: x.x, points=(3, 3)))


def test_prior_on_a_function_makes_it_smooth():
    points = np.linspace(0, 0.5, 40)
    terms = [
        fb.Interior(lambda x, u, c: u.v - c.f(x.x), points=np.linspace(0, 0.5, 80)),
        fb.Data(points, 2 + 0 * points, lambda x, u: u.v),
    ]

    def train(*more):
        return fb.Problem(
            fb.Boxes([(0, 1)], (3,)),
            axes="x",
            net=fb.Mlp([8]),
            terms=[*terms, *more],
            coefficients={"f": fb.Grid1D(9, init=7.0)},
        ).train()

    assert train().outcome.coefficients_determined < 9
    near = train(fb.Interior(lambda x, u, c: c.f(x.x) - 2.5, points=(40,), weight=0.1))
    assert near.outcome.coefficients_determined == 9
    assert abs(near.coefficients["f"][-1] - 2.5) < 0.1


def test_features_that_are_not_finite_are_refused():
    def features(params, x):
        return jnp.stack([x[0], jnp.log(x[0] + 0.5) * params])

    problem = fb.Problem(
        fb.Boxes([(0, 1)], (3,)),
        axes="x",
        net=fb.Net(features, np.ones(3)),
        terms=[fb.Interior(lambda x, u: u.v - x.x, points=(40,))],
    )
    with pytest.raises(ValueError, match=r"unit 1 of box 1.*is not finite at \("):
        problem.train()


def test_measurements_outside_of_the_domain_are_refused():
    def problem(*at: float) -> fb.Problem:
        terms = [
            fb.Interior(lambda x, u: u.x + u.v, points=40),
            fb.Data(at, np.ones(len(at)), lambda x, u: u.v),
        ]
        return fb.Problem(fb.Boxes((0, 1), 2), axes="x", net=fb.Mlp([5]), terms=terms)

    words = r"Data: point 1 at \(1.1\) lies outside of the domain \[0, 1\], as do 1 others of 3: no"
    with pytest.raises(ValueError, match=words):
        problem(1.0, 1.1, -0.2)
    problem(0.0, 1 + 1e-12)  # by rounding


def test_points_outside_of_the_domain_are_refused():
    run = wave(2.9, n=100).train()
    assert np.isfinite(run.evaluate(np.array([0.0, 1.0]))).all()
    with pytest.raises(ValueError, match=r"\(1.1\) lies outside of the domain \[0, 1\]"):
        run.evaluate(np.array([0.5, 1.1]))
    # Without a domain of their own boxes are all there is.
    boxes = fb.Boxes.from_arrays(np.array([0.0, 0.5, 1.0]), 0.7)
    free = fb.Problem(
        boxes,
        axes="x",
        net=fb.Mlp([8]),
        terms=[fb.Interior(lambda x, u: u.v - x.x, points=np.linspace(-0.5, 1.5, 60))],
    ).train()
    assert free.evaluate(np.array([-0.4, 1.6])).shape == (2,)


def growth(rate: float, net: fb.Mlp | None = None) -> fb.Problem:
    return fb.Problem(
        fb.Boxes([(0, 1)], (4,)),
        axes="t",
        net=net or fb.Mlp([10]),
        constrain=lambda x, u: 0.5 + x.t * u,
        terms=[fb.Interior(lambda x, u: u.t - rate * u.v * (1 - u.v**2), points=(160,))],
    )


def test_training_begins_with_what_was_found():
    easy, cold = growth(4).train(), growth(5).train()
    warm = growth(5).train(start=easy)
    assert warm.outcome.ok
    assert warm.outcome.losses[0] < cold.outcome.losses[0]
    assert warm.outcome.losses[2] < 1e-3 * cold.outcome.losses[2]
    first = [run.outcome.loss / run.outcome.loss_left for run in (warm, cold)]
    assert first[0] == pytest.approx(first[1])
    descended = growth(5).train(fb.LevenbergMarquardt(max_steps=2), start=easy)
    assert descended.outcome.losses[0] == pytest.approx(warm.outcome.losses[0])
    # Below that they are rounding, and its linear problems keep other columns.
    assert descended.outcome.loss <= 1.1 * warm.outcome.loss + 1e-12 * first[0]


def test_start_that_does_not_fit_is_refused():
    with pytest.raises(TypeError, match="start=3 given"):
        growth(4).train(start=3)
    with pytest.raises(ValueError, match=r"\(4, 1, 9\).*\(4, 1, 11\) are accepted"):
        growth(4).train(start=growth(4, fb.Mlp([8])).train())


def test_what_is_left_of_the_first_loss_is_told():
    # No constant has the slope 1.
    run = fb.Problem(
        fb.Boxes([(0, 1)], (3,)),
        axes="x",
        net=fb.Mlp([8]),
        terms=[
            fb.Interior(lambda x, u: u.v, points=(40,)),
            fb.Data(np.linspace(0, 1, 40), np.ones(40), lambda x, u: u.v),
        ],
    ).train()
    assert run.outcome.loss_left == pytest.approx(0.5, abs=1e-4)
    assert warned(run, "0.5 of the first loss is left, the least there is")


weights = {
    "hidden": (np.zeros((6, 24)), "hidden", (6, 23)),
    "last": (np.zeros((6, 1, 13)), "last", (6, 1, 12)),
    "coefficients": (np.zeros(0), "coefficients", (1,)),
}


@pytest.mark.parametrize("wrong", list(weights))
def test_networks_of_arrays_that_do_not_fit_are_refused(wrong):
    given = {name: array for name, (array, _, _) in weights.items()}
    assert fb.Networks.of(wave(2.9), **given, net_parameters=None).evaluate([0.5]).shape == (1,)
    _, name, shape = weights[wrong]
    message = re.escape(f"{name} of shape {shape} given: {given[wrong].shape} is accepted")
    with pytest.raises(ValueError, match=message):
        fb.Networks.of(wave(2.9), **{**given, wrong: np.zeros(shape)}, net_parameters=None)
    bad = given["last"].copy()
    bad[2, 0, 3] = np.nan
    with pytest.raises(ValueError, match="last has numbers that are not finite"):
        fb.Networks.of(wave(2.9), **{**given, "last": bad}, net_parameters=None)


@pytest.mark.parametrize("held", [False, True])
def test_solution_up_to_a_constant_is_told(held):
    """Slopes alone at both ends."""
    terms = [
        fb.Interior(lambda x, u: u.xx + jnp.pi**2 * jnp.cos(jnp.pi * x.x), points=(60,)),
        fb.Boundary(lambda x, u: u.x, where="x = 0"),
        fb.Boundary(lambda x, u: u.x, where="x = 1"),
    ]
    if held:
        terms.append(fb.Data([0.0], [1.0], lambda x, u: u.v))
    problem = fb.Problem(fb.Boxes([(0, 1)], (3,)), axes="x", terms=terms)
    run = problem.train(fb.LeastSquares())
    assert warned(run, "u is determined up to a constant") != held


def test_residual_whose_squares_are_below_the_range_is_no_success():
    for residual in (lambda x, u: 1e-165 * (u.xx + 1), lambda x, u: u.xx + 1e-200):
        problem = fb.Problem(
            fb.Boxes([(0, 1)], (4,)),
            axes="x",
            net=fb.Mlp([12]),
            constrain=lambda x, u: x.x * (1 - x.x) * u,
            terms=[fb.Interior(residual, points=(200,))],
        )
        for how in (fb.LeastSquares(), fb.LevenbergMarquardt(max_steps=2)):
            run = problem.train(how)
            assert not run.outcome.ok and warned(run, "below the range")


def test_outcome_of_what_left_the_range_can_be_printed():
    problem = fb.Problem(
        fb.Boxes([(0, 1)], (4,)),
        axes="x",
        net=fb.Mlp([12]),
        constrain=lambda x, u: x.x * (1 - x.x) * u,
        terms=[fb.Interior(lambda x, u: u.xx + 1e200, points=(200,))],
    )
    assert str(problem.train().outcome).startswith("overflow: loss nan")
