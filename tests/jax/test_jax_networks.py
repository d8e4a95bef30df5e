"""Networks in boxes: equations with known solutions, and what is said of bad input."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shardsolve.fbpinn as fb
from shardsolve import Status

pytestmark = pytest.mark.filterwarnings("ignore::shardsolve.fbpinn.TrainingWarning")


def square(counts: tuple[int, int] = (4, 4), overlap: float = 2.9) -> fb.Boxes:
    return fb.Boxes([(0, 1), (0, 1)], counts, overlap)


def wave(x) -> jax.Array:
    return jnp.sin(2 * x.x + 1) * jnp.cos(3 * x.y)


def zero_on_boundary(x, u):
    return x.x * (1 - x.x) * x.y * (1 - x.y) * u


def poisson(**options) -> fb.Problem:
    """u_xx + u_yy = f, u = 0 on the boundary."""

    def source(x):
        return -8 * jnp.pi**2 * solution(x)

    return fb.Problem(
        square(),
        axes="x y",
        constrain=zero_on_boundary,
        terms=[fb.Interior(lambda x, u: u.xx + u.yy - source(x), points=(40, 40))],
        **options,
    )


def solution(x) -> jax.Array:
    return jnp.sin(2 * jnp.pi * x.x) * jnp.sin(2 * jnp.pi * x.y)


# Each: boxes, axes, fields, terms, constrain, exact solution, error that is accepted.
def oscillator() -> tuple:
    d, w0 = 2.0, 20.0
    w = np.sqrt(w0**2 - d**2)
    phase = np.arctan(-d / w)

    def exact(x):
        return jnp.exp(-d * x.t) * jnp.cos(phase + w * x.t) / np.cos(phase)

    terms = [
        fb.Interior(lambda x, u: u.tt + 2 * d * u.t + w0**2 * u.v, points=(240,)),
        fb.Boundary(lambda x, u: u.v - 1, points=(), where="t = 0", weight=1e3),
        fb.Boundary(lambda x, u: u.t, points=(), where="t = 0", weight=10),
    ]
    return fb.Boxes([(0, 1)], (8,)), "t", "u", terms, None, exact, 1e-4


def advection() -> tuple:
    terms = [
        fb.Interior(lambda x, u: u.t + 0.7 * u.x, points=(40, 40)),
        fb.Boundary(lambda x, u: u.v - jnp.sin(4 * x.x), points=(60,), where="t = 0", weight=10),
        fb.Boundary(lambda x, u: u.v + jnp.sin(2.8 * x.t), points=(60,), where="x=0", weight=10),
    ]
    return square(), "x t", "u", terms, None, lambda x: jnp.sin(4 * (x.x - 0.7 * x.t)), 1e-4


def burgers() -> tuple:
    """u_t + u u_x = 0.05 u_xx + f; nonlinear."""

    def exact(x):
        return jnp.sin(2 * x.x) * jnp.exp(-x.t)

    def source(x):
        u, ux = exact(x), 2 * jnp.cos(2 * x.x) * jnp.exp(-x.t)
        return -u + u * ux + 0.2 * u

    terms = [
        fb.Interior(lambda x, u: u.t + u.v * u.x - 0.05 * u.xx - source(x), points=(40, 40)),
        fb.Boundary(lambda x, u: u.v - exact(x), points=(60,), where="t = 0", weight=10),
        fb.Boundary(lambda x, u: u.v, points=(60,), where="x = 0", weight=10),
        fb.Boundary(lambda x, u: u.v - exact(x), points=(60,), where="x = 1", weight=10),
    ]
    return square(), "x t", "u", terms, None, exact, 1e-4


def two_fields() -> tuple:
    """p_x = q, q_x = -p, as two equations of one term."""
    terms = [
        fb.Interior(lambda x, u: (u.p.x - u.q.v, u.q.x + u.p.v), points=(120,)),
        fb.Data(np.array([0.0]), np.array([[0.0, 1.0]]), lambda x, u: (u.p.v, u.q.v), weight=10),
    ]
    return (
        fb.Boxes([(0, 3)], (4,)),
        "x",
        "p q",
        terms,
        None,
        lambda x: (jnp.sin(x.x), jnp.cos(x.x)),
        1e-6,
    )


def biharmonic() -> tuple:
    """u_xxxx + 2 u_xxyy + u_yyyy = f; order 4."""
    terms = [
        fb.Interior(
            lambda x, u: (u.xxxx + 2 * u.xxyy + u.yyyy) / 1000 - 0.064 * jnp.pi**4 * solution(x),
            points=(40, 40),
        )
    ]

    def clamped(x, u):
        return solution(x) + (x.x * (1 - x.x) * x.y * (1 - x.y)) ** 2 * u

    return square(), "x y", "u", terms, clamped, solution, 1e-3


def clamped_beam() -> tuple:
    """u_xxxx = f; order 4."""

    def exact(x):
        return jnp.sin(jnp.pi * x.x) ** 2

    terms = [
        fb.Interior(lambda x, u: u.xxxx / 8 / jnp.pi**4 + jnp.cos(2 * jnp.pi * x.x), points=(120,))
    ]
    return (
        fb.Boxes([(0, 1)], (4,)),
        "x",
        "u",
        terms,
        lambda x, u: (x.x * (1 - x.x)) ** 2 * u,
        exact,
        1e-5,
    )


def three_dimensions() -> tuple:
    def exact(x):
        return jnp.sin(2 * x.x) * jnp.exp(x.y) * jnp.cos(x.z)

    def edge(x, u):
        inside = x.x * (1 - x.x) * x.y * (1 - x.y) * x.z * (1 - x.z)
        return exact(x) * jnp.exp(-inside) + inside * u

    terms = [
        fb.Interior(lambda x, u: u.xx + u.yy + u.zz + 4 * exact(x), points=(10, 10, 10)),
    ]
    boxes = fb.Boxes([(0, 1)] * 3, (2, 2, 2))
    return boxes, "x y z", "u", terms, edge, exact, 1e-4


@pytest.mark.parametrize(
    "case",
    [
        oscillator,
        advection,
        burgers,
        two_fields,
        clamped_beam,
        pytest.param(biharmonic, marks=pytest.mark.more),
        three_dimensions,
    ],
)
def test_solution_is_the_known_one(case):
    boxes, axes, fields, terms, constrain, exact, limit = case()
    problem = fb.Problem(
        boxes,
        axes=axes,
        fields=fields,
        terms=terms,
        constrain=constrain,
        net=fb.Mlp([20]),
    )
    run = problem.train()
    assert run.outcome.ok, run.outcome
    assert not run.error(exact) > limit, run.outcome
    assert run.outcome.is_linear == (case is not burgers)
    # Relative to what was there: where nothing is left but rounding it has no direction.
    left = np.sqrt(run.outcome.loss / run.outcome.losses[0])
    assert not run.outcome.certificate * left > 1e-12


def test_fields_in_units_of_their_own_are_found_alike():
    """Where the functions are called on a GPU their derivatives are scaled there."""
    problem = fb.Problem(
        fb.Boxes([(0, 1)], (3,)),
        axes="x",
        fields="p v",
        net=fb.Mlp([8]),
        constrain=lambda x, u: (1e8 + x.x * u.p, x.x * u.v),
        terms=[
            fb.Interior(
                lambda x, u: (u.v.x - u.p.v / 1e8, u.p.x + 1e8 * u.v.v),
                points=(150,),
            )
        ],
    )
    run = problem.train()
    x = np.linspace(0, 1, 101)
    assert run.outcome.ok
    assert np.abs(run.evaluate(x)[:, 1] - np.sin(x)).max() < 1e-6
    again = problem.train()
    assert np.array_equal(again.evaluate(x), run.evaluate(x))


@pytest.mark.parametrize(
    "activation",
    ["tanh", "sin", *(pytest.param(name, marks=pytest.mark.more) for name in fb.ACTIVATIONS[2:])],
)
def test_derivatives_are_those_of_the_solution(activation):
    run = poisson(net=fb.Mlp([6, 5], activation)).train()
    point, step = np.array([[0.31, 0.62]]), 1e-4
    for name, axis in (("x", 0), ("y", 1)):
        shift = step * np.eye(2)[axis]
        for lower, higher in (("v", name), ("y", name + "y")):
            slope = run.evaluate(point + shift, lower) - run.evaluate(point - shift, lower)
            slope = slope / (2 * step)
            wanted = run.evaluate(point, "".join(sorted(higher)))
            assert not abs(slope - wanted) > 1e-5 * (1 + abs(wanted)), (name, lower)


def test_bits_do_not_depend_on_the_devices():
    points = square().grid((17, 19))
    cpus = jax.devices("cpu")
    runs = [
        poisson().train(mesh=jax.sharding.Mesh(np.array(cpus[:devices]), "x"))
        for devices in {1, len(cpus)}
    ]
    if jax.default_backend() == "cpu":
        runs.append(poisson().train())
    values = [run.evaluate(points) for run in runs]
    assert all(np.array_equal(value, values[0]) for value in values)
    assert np.array_equal(runs[0].evaluate(points, chunk=7), values[0])


def test_coarse_level_is_added_to_the_fine_ones():
    boxes = square((3, 3)).with_level(square((1, 1), overlap=2.0))
    assert boxes.count == 10
    run = fb.Problem(
        boxes,
        axes="x y",
        terms=[fb.Interior(lambda x, u: u.v - wave(x), points=(20, 20))],
    ).train()
    assert run.error(wave) < 1e-4


def test_plan_says_what_training_takes():
    plan = poisson().plan()
    outcome = poisson().train().outcome
    assert (plan.boxes, plan.points, plan.rows) == (16, 1600, 1600)
    assert plan.rows == outcome.rows and plan.columns == outcome.columns
    assert plan.costs["nested_dissection"].flops <= plan.costs["dense"].flops
    assert "16 boxes" in str(plan) and plan.bytes > 0
    assert list(plan.process_bytes) == list(plan.gpu_bytes) == [1, 2, 4, 8]
    assert plan.process_bytes[1] == pytest.approx(plan.bytes)
    assert str(outcome).startswith("ok: loss")


def test_few_points_are_warned_of():
    run = fb.Problem(
        square(),
        axes="x y",
        terms=[fb.Interior(lambda x, u: u.v - wave(x), points=(18, 18))],
    ).train()
    assert any("rows" in warning for warning in run.outcome.warnings), run.outcome


def test_boxes_with_fewer_rows_than_columns_are_warned_of():
    terms = [fb.Interior(lambda x, u: u.v - wave(x), points=(8, 8))]
    run = fb.Problem(square(), axes="x y", terms=terms).train()
    words = r"[1-9]\d* of 16 boxes have fewer rows than their 17 columns"
    assert any(re.match(words, warning) for warning in run.outcome.warnings), run.outcome


def test_bits_do_not_depend_on_how_many_points_a_call_gets():
    points = square().grid((7, 9))
    runs = [poisson().train(fb.LeastSquares(chunk=chunk)) for chunk in (None, 64, 100, 5000)]
    values = [run.evaluate(points) for run in runs]
    assert all(np.array_equal(value, values[0]) for value in values)


def test_scattered_points_keep_their_numbers():
    order = np.random.default_rng(0).permutation(4900)
    points = square().grid((70, 70))[order]

    def measured(x, u):
        return u.v / jnp.where(jnp.all(jnp.asarray(x) == points[2345]), 0.0, 1.0)

    def problem(function):
        values = np.sin(3 * points[:, 0]) + points[:, 1]
        return fb.Problem(square(), axes="x y", terms=[fb.Data(points, values, function)])

    good = problem(lambda x, u: u.v)
    run = good.train()
    found = run.evaluate(points)
    assert np.abs(found - np.sin(3 * points[:, 0]) - points[:, 1]).max() < 1e-3
    assert np.array_equal(found[:9], run.evaluate(points[:9]))
    loss = good.loss()
    assert float(loss(loss.parameters(run))) == pytest.approx(run.outcome.loss, rel=1e-3)
    for way in (lambda: problem(measured).train(), lambda: finite(problem(measured).loss())):
        with pytest.raises(ValueError, match="not finite at its point 2345 at"):
            way()


def finite(loss: fb.Loss) -> None:
    loss.require_finite(loss.parameters())


def test_gauss_newton_that_may_not_go_on_says_so():
    boxes, axes, fields, terms, constrain, _, _ = burgers()
    problem = fb.Problem(boxes, axes=axes, fields=fields, terms=terms, constrain=constrain)
    run = problem.train(fb.LeastSquares(max_iterations=1))
    assert run.outcome.status == Status.NOT_CONVERGED


def interior(function, points=(20, 20), **options):
    return fb.Problem(square(), axes="x y", terms=[fb.Interior(function, points)], **options)


def ok(x, u):
    return u.v - 1


# What is given, and what the message names.
BAD = [
    (lambda: fb.Boxes([(0, 1)], (0,)), "whole numbers from 1 on"),
    (lambda: fb.Boxes([(1, 0)], (2,)), "least coordinate comes first"),
    (lambda: fb.Boxes([(0, 1)], (2,), overlap=0.9), "above 1"),
    (lambda: fb.Boxes.from_arrays([[0.0]], [[-1.0]]), "half_widths[0, 0] = -1.0"),
    (lambda: fb.Boxes.from_arrays([[np.nan]], [[1.0]]), "centers[0, 0] = nan"),
    (lambda: fb.Mlp([]), "one for each hidden layer"),
    (lambda: fb.Mlp([4], "relu"), "tanh, sin"),
    (
        lambda: fb.Problem(square(), axes="x", terms=[fb.Interior(ok, (9, 9))]),
        "2 different letters",
    ),
    (lambda: fb.Problem(square(), axes="x v", terms=[fb.Interior(ok, (9, 9))]), "the value"),
    (lambda: fb.Problem(square(), axes="x y", terms=[]), "at least one"),
    (lambda: fb.Problem(square(), axes="x y", terms=[ok]), "Interior, Boundary and Data"),
    (lambda: interior(lambda x, u: u.tt), "no axis 't'"),
    (lambda: interior(lambda x, u: u.xxxxy), "order 5"),
    (lambda: interior(lambda x, u: u.p.v, fields="p q", points=(9,)), "points=(9,)"),
    (lambda: interior(lambda x, u: u.v, fields="p q"), "the fields are 'p q'"),
    (lambda: interior(lambda x, u: x.z + u.v), "x.z was read"),
    (lambda: interior(lambda x, u: x.x), "reads nothing of u"),
    (lambda: interior(lambda x, u: jnp.stack([u.v, u.x])), "a tuple of numbers"),
    (lambda: interior(lambda x, u, c: u.v), "needs 3 arguments"),
    (lambda: interior(ok, points=np.zeros((4, 3))), "(points, 2) is accepted"),
    (lambda: interior(ok, points=np.array([[np.inf, 0.0]])), "point 0 is not finite"),
    (lambda: interior(ok, constrain=lambda x, u: (u, u)), "a number for each of the fields"),
    (
        lambda: fb.Problem(square(), axes="x y", terms=[fb.Boundary(ok, (9,))]),
        "where='x = 0'",
    ),
    (
        lambda: fb.Problem(square(), axes="x y", terms=[fb.Boundary(ok, (9,), "t = 0")]),
        "an axis and its coordinate",
    ),
    (
        lambda: fb.Problem(
            square(), axes="x y", terms=[fb.Data(np.zeros((3, 2)), np.zeros(4), lambda x, u: u.v)]
        ),
        "(3, 1) is accepted",
    ),
    (lambda: interior(ok).train("adam"), "LeastSquares is accepted"),
    (lambda: fb.LeastSquares(tolerance=2.0), "between 0 and 1"),
    (lambda: fb.LeastSquares(chunk=0), "chunk=0"),
    (lambda: fb.LeastSquares(method="qr"), "automatic, factor, cg"),
    (lambda: fb.LeastSquares(max_cg_steps=0), "max_cg_steps=0"),
    (lambda: fb.LevenbergMarquardt(max_steps=0), "max_steps=0"),
    (lambda: fb.LevenbergMarquardt(damping=-1.0), "damping=-1.0"),
    (lambda: fb.LevenbergMarquardt(gradient_tolerance=0), "gradient_tolerance=0"),
    (lambda: fb.LevenbergMarquardt(equations="both"), "parameters, samples"),
    (
        lambda: fb.Problem(
            square(),
            axes="x y",
            terms=[
                fb.Interior(ok, (20, 20)),
                fb.Data(np.array([[0.5, 0.5], [3.0, 0.5]]), np.zeros(2), lambda x, u: u.v),
            ],
        ).train(),
        "terms[1], Data: point 1 at (3, 0.5) lies outside of the domain",
    ),
    (lambda: interior(ok, points=(30, 30), seed="0"), "seed='0'"),
    (lambda: interior(ok, points=(30, 30), seed=2**63), "a whole number from 0 to 2^63 - 1"),
    (lambda: interior(ok, points=np.array([[2.0, 0.5]])).train(), "point"),
    (lambda: interior(ok, points=np.array([[0.0, 0.0]])).train(), "no point"),
    (
        lambda: interior(lambda x, u: u.v + 1 / (x.y - 1)).train(),
        "'terms[0], Interior' or a derivative of it is not finite at its point 19 at (0, 1), in "
        "box 2",
    ),
    (lambda: interior(lambda x, u: 0 * u.v + x.x).train(), "has the derivative 0"),
    (lambda: poisson().train().evaluate(np.zeros((3, 3))), "(points, 2) is accepted"),
    (lambda: poisson().train().evaluate(np.array([[7.0, 0.0]])), "point"),
    (lambda: poisson().train().error(np.zeros(3)), "pass points="),
]


def test_more_devices_than_boxes_are_refused():
    cpus = jax.devices("cpu")
    if len(cpus) < 2:
        pytest.skip("one device")
    problem = fb.Problem(
        fb.Boxes([(0, 1)], (1,)), axes="x", terms=[fb.Interior(lambda x, u: u.v - 1, (40,))]
    )
    with pytest.raises(ValueError, match="at most as many devices as there are boxes"):
        problem.train(mesh=jax.sharding.Mesh(np.array(cpus[:2]), "x"))


def few_units() -> fb.Problem:
    return fb.Problem(
        square((2, 2)),
        axes="x y",
        net=fb.Mlp([4]),
        constrain=zero_on_boundary,
        terms=[
            fb.Interior(
                lambda x, u: (
                    u.xx + u.yy + 2 * jnp.pi**2 * jnp.sin(jnp.pi * x.x) * jnp.sin(jnp.pi * x.y)
                ),
                points=(12, 12),
            )
        ],
    )


def test_all_weights_do_better_than_the_last_layer():
    def exact(x):
        return jnp.sin(jnp.pi * x.x) * jnp.sin(jnp.pi * x.y)

    least = few_units().train()
    run = few_units().train(fb.LevenbergMarquardt(max_steps=40))
    assert run.error(exact) < 0.2 * least.error(exact), run.outcome
    descent = run.outcome.descent
    assert least.outcome.descent is None and descent.ended in ("limit", "step", "gradient")
    assert run.outcome.ok == (descent.ended != "limit")
    assert len(descent.losses) == descent.steps + 1 and np.all(np.diff(descent.losses) < 0)
    assert not np.array_equal(run.weights()[0], least.weights()[0])


def test_conjugate_gradients_find_the_same_without_a_factor():
    least = fb.LeastSquares(rank_tolerance=1e-4)
    how = fb.LeastSquares(rank_tolerance=1e-4, method="cg", cg_tolerance=1e-8)
    factor, gradients = few_units().train(least), few_units().train(how)
    assert gradients.outcome.ok and gradients.outcome.is_by_cg
    assert gradients.outcome.cg_steps > 0 and not factor.outcome.is_by_cg
    assert gradients.outcome.loss == pytest.approx(factor.outcome.loss, rel=1e-7)
    assert not few_units().plan().is_by_cg
    stopped = few_units().train(fb.LeastSquares(method="cg", max_cg_steps=2))
    assert stopped.outcome.status == Status.NOT_CONVERGED


@pytest.mark.parametrize("number", range(len(BAD)))
def test_bad_input_is_named(number):
    make, named = BAD[number]
    with pytest.raises((ValueError, TypeError, AttributeError), match=re.escape(named)):
        make()


def test_what_a_residual_raises_while_it_trains_comes_out():
    calls = []

    def residual(x, u):
        calls.append(1)
        if len(calls) > 1:
            raise ZeroDivisionError("of the user")
        return u.v

    with pytest.raises(ZeroDivisionError, match="of the user"):
        interior(residual).train()


def test_numbers_of_32_bits_are_refused():
    problem = poisson()
    jax.config.update("jax_enable_x64", False)
    try:
        with pytest.raises(TypeError, match="jax_enable_x64"):
            problem.train()
    finally:
        jax.config.update("jax_enable_x64", True)
