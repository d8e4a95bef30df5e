"""Unknown coefficients of equations, found from data, and what is said of bad ones."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shardsolve.fbpinn as fb

pytestmark = pytest.mark.filterwarnings("ignore::shardsolve.fbpinn.TrainingWarning")


def line(counts: int = 4) -> fb.Boxes:
    return fb.Boxes([(0, 1)], (counts,))


def decay(**options) -> fb.Problem:
    """u_x = -a u with a = 3, u known at ten points."""
    points = np.linspace(0, 1, 10)
    return fb.Problem(
        line(),
        axes="x",
        net=fb.Mlp([10]),
        terms=[
            fb.Interior(lambda x, u, c: u.x + c.a * u.v, points=(80,)),
            fb.Data(points, np.exp(-3 * points), lambda x, u: u.v, weight=10),
        ],
        coefficients={"a": fb.Scalar(init=1.0)},
        **options,
    )


def test_number_is_found():
    run = decay().train()
    assert run.outcome.ok and not run.outcome.is_linear
    assert run.outcome.coefficients_determined == 1
    assert run.coefficients["a"] == pytest.approx(3, abs=1e-6)
    assert run.error(lambda x: jnp.exp(-3 * x.x)) < 1e-6
    assert np.all(np.diff(run.outcome.losses) < 0)


def test_bits_do_not_depend_on_the_devices():
    cpus = jax.devices("cpu")
    runs = [
        decay().train(mesh=jax.sharding.Mesh(np.array(cpus[:devices]), "x"))
        for devices in {1, min(3, len(cpus))}
    ]
    assert all(run.coefficients == runs[0].coefficients for run in runs)


@pytest.mark.parametrize("kind", ["linear", pytest.param("cubic", marks=pytest.mark.more)])
def test_function_on_a_line_is_found(kind):
    def exact(x):
        return 2 * x + jnp.sin(4 * x) / 4

    def conductivity(x):
        return 1 + 0.5 * jnp.sin(3 * x)

    def flux(x, u, c):
        return c.k(x.x) * u.x - conductivity(x.x) * (2 + jnp.cos(4 * x.x))

    points = np.linspace(0, 1, 60)
    problem = fb.Problem(
        line(),
        axes="x",
        terms=[
            fb.Interior(flux, points=(200,)),
            fb.Data(points, np.asarray(exact(points)), lambda x, u: u.v, weight=10),
        ],
        coefficients={"k": fb.Grid1D(9, kind=kind)},
    )
    run = problem.train()
    assert run.outcome.ok
    assert np.array_equal(problem.nodes("k"), np.linspace(0, 1, 9))
    limit = 1e-2 if kind == "linear" else 2e-3
    np.testing.assert_allclose(run.coefficients["k"], conductivity(problem.nodes("k")), atol=limit)


def test_speed_and_damping_of_a_wave_are_found():
    """u_tt + b u_t = c(z)^2 u_zz + f on a square: both unknown at once."""

    def speed(z):
        return 1 + 0.3 * z

    def exact(x):
        return jnp.sin(2 * x.z + 1) * jnp.cos(3 * x.t)

    def wave(x, u, c):
        damping = -0.5 * 3 * jnp.sin(2 * x.z + 1) * jnp.sin(3 * x.t)
        source = (4 * speed(x.z) ** 2 - 9) * exact(x) + damping
        return u.tt + c.b * u.t - c.speed(x.z) ** 2 * u.zz - source

    rng = np.random.default_rng(0)
    points = rng.uniform(size=(200, 2))
    problem = fb.Problem(
        fb.Boxes([(0, 1), (0, 1)], (3, 3)),
        axes="z t",
        net=fb.Mlp([24]),
        terms=[
            fb.Interior(wave, points=(30, 30), weight=0.1),
            fb.Data(
                points, np.sin(2 * points[:, 0] + 1) * np.cos(3 * points[:, 1]), lambda x, u: u.v
            ),
        ],
        coefficients={"speed": fb.Grid1D(5, init=1.5), "b": fb.Scalar(0.0)},
    )
    run = problem.train()
    assert run.outcome.ok, run.outcome
    assert run.coefficients["b"] == pytest.approx(0.5, abs=1e-2)
    np.testing.assert_allclose(run.coefficients["speed"], speed(problem.nodes("speed")), atol=1e-2)
    assert run.outcome.coefficients_determined == 6


@pytest.mark.more
def test_function_of_the_solution_is_found():
    """u_x = k(u): what a law says is found from its solution; u = tan(x)."""
    points = np.linspace(0, 1, 40)
    run = fb.Problem(
        line(),
        axes="x",
        terms=[
            fb.Interior(lambda x, u, c: u.x - c.k(u.v), points=(120,)),
            fb.Data(points, np.tan(points), lambda x, u: u.v, weight=10),
        ],
        coefficients={"k": fb.Grid1D(9, domain=(0, 1.6), kind="cubic")},
    ).train()
    nodes = np.linspace(0, 1.6, 9)[:-1]
    np.testing.assert_allclose(run.coefficients["k"][:-1], 1 + nodes**2, atol=0.05)


def test_what_nothing_determines_stays():
    points = np.linspace(0, 0.5, 60)
    run = fb.Problem(
        line(2),
        axes="x",
        net=fb.Mlp([8]),
        terms=[
            fb.Interior(lambda x, u, c: u.v - c.f(x.x), points=points),
            fb.Data(np.linspace(0, 1, 60), np.full(60, 2.0), lambda x, u: u.v),
        ],
        coefficients={"f": fb.Grid1D(5, init=[7.0, 7, 7, 7, 8])},
    ).train()
    assert run.outcome.coefficients_determined == 3
    assert list(run.coefficients["f"][3:]) == [7.0, 8.0]
    assert any("2 of 5 numbers" in warning for warning in run.outcome.warnings)


@pytest.mark.parametrize("kind", ["linear", "cubic"])
def test_interpolation_goes_through_its_nodes(kind):
    nodes = jnp.array([1.0, 3.0, 2.0, 5.0])
    grid = fb.Grid1D(4, kind=kind)

    def at(x):
        return grid.interpolated(nodes, (0, 3), x)

    np.testing.assert_allclose([at(float(i)) for i in range(4)], nodes)
    assert at(-1.0) == 1 and at(9.0) == 5
    slope = (at(1.3 + 1e-6) - at(1.3 - 1e-6)) / 2e-6
    assert jax.grad(at)(1.3) == pytest.approx(float(slope), abs=1e-6)


def with_coefficients(function, **coefficients) -> fb.Problem:
    return fb.Problem(
        line(), axes="x", terms=[fb.Interior(function, (60,))], coefficients=coefficients
    )


BAD = [
    (lambda: fb.Grid1D(0), "nodes=0"),
    (lambda: fb.Grid1D(3, init=[1.0, 2.0]), "init of shape (2,)"),
    (lambda: fb.Grid1D(3, kind="spline"), "linear and cubic"),
    (lambda: fb.Grid1D(3, domain=(1, 0)), "domain=(1, 0)"),
    (lambda: with_coefficients(lambda x, u, c: u.v - c.a, a=3.0), "Scalar, Grid1D and NetFunction"),
    (lambda: with_coefficients(lambda x, u, c: u.v - c.b, a=fb.Scalar()), "c.b was read"),
    (lambda: with_coefficients(lambda x, u: u.v, a=fb.Scalar()), "no term reads the coefficient"),
    (lambda: with_coefficients(lambda x, u, c: u.v - c.a, a=fb.Scalar(np.nan)), "init=nan"),
    (lambda: with_coefficients(lambda x, u, c: u.v - c.a(u.v), a=fb.Grid1D(3)), "domain="),
    (
        lambda: with_coefficients(lambda x, u, c: u.v + 0 * c.a, a=fb.Scalar()).train(),
        "no term depends on the coefficient 'a'",
    ),
    (lambda: with_coefficients(lambda x, u, c: u.v - c.a, **{"a-b": fb.Scalar()}), "'a-b'"),
    (lambda: decay().nodes("a"), "no Grid1D"),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_bad_input_is_named(number):
    make, named = BAD[number]
    with pytest.raises((ValueError, TypeError, AttributeError), match=re.escape(named)):
        make()
