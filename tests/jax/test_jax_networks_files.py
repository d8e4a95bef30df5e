"""A run is a value: a function, a file, a picture, and the beginning of another run."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shardsolve.fbpinn as fb

pytestmark = pytest.mark.filterwarnings("ignore::shardsolve.fbpinn.TrainingWarning")


def edge(x, u):
    return x.x * x.y * u.p + x.y, u.q


def two_fields(x, u):
    return u.p.xx + u.q.y - x.x, u.q.v - u.p.v


@functools.cache
def trained() -> fb.Run:
    """Two levels, two fields, a condition that holds exactly."""
    boxes = fb.Boxes([(0, 1), (0, 2)], (4, 3)).with_level(fb.Boxes([(0, 1), (0, 2)], (2, 1)))
    return fb.Problem(
        boxes,
        axes="x y",
        fields="p q",
        net=fb.Mlp([4], "sin"),
        constrain=edge,
        terms=[fb.Interior(two_fields, points=(16, 14))],
    ).train()


def others() -> np.ndarray:
    return np.random.default_rng(0).uniform(0, [1, 2], (50, 2))


def test_u_is_the_solution_and_has_its_derivatives():
    run, points = trained(), others()
    wanted = run.evaluate(points)
    size = np.abs(wanted).max()
    assert np.abs(jax.jit(jax.vmap(run.u))(points) - wanted).max() < 1e-12 * size
    slope = jax.jit(jax.vmap(jax.hessian(run.u)))(points)
    for axes, name in (((0, 0), "xx"), ((0, 1), "xy")):
        wanted = run.evaluate(points, name)
        assert np.abs(slope[:, :, axes[0], axes[1]] - wanted).max() < 1e-10 * np.abs(wanted).max()
    with pytest.raises(ValueError, match=re.escape("(2,) is accepted; for many points")):
        run.u(points)


def test_u_of_own_networks_in_boxes_anywhere_and_single_precision():
    def fourier(params, x):
        return jnp.sin(params["a"] @ x)

    boxes = fb.Boxes.from_arrays([0.1, 0.35, 0.6, 0.9], [0.3, 0.25, 0.35, 0.3], [(0, 1)])
    problem = fb.Problem(
        boxes,
        axes="t",
        net=fb.Net(fourier, lambda key: {"a": jax.random.normal(key, (5, 1))}),
        terms=[fb.Interior(lambda x, u: u.v - jnp.exp(x.t), points=40)],
    )
    run, points = problem.train(), np.linspace(0, 1, 33)
    assert np.abs(jax.vmap(run.u)(points) - run.evaluate(points)).max() < 1e-7
    single = jax.vmap(run.u)(points.astype(np.float32))
    assert single.dtype == np.float32
    there = run.evaluate(points.astype(np.float32).astype(float))
    assert np.abs(single - there).max() < 1e-6 * np.abs(there).max()


@pytest.mark.parametrize("kind", [np.float32, np.float16, jnp.bfloat16])
def test_the_end_of_a_domain_is_what_a_short_float_has_for_it(kind):
    low, high = 0.7, 0.8  # each of the three lies outside at one of them
    ends = jnp.asarray([low, high], kind)
    terms = [
        fb.Interior(lambda x, u: u.t + u.v, points=20),
        fb.Data(ends, [1.0, 2.0], lambda x, u: u.v),
    ]
    run = fb.Problem(fb.Boxes([(low, high)], (2,)), axes="t", net=fb.Mlp([4]), terms=terms).train()
    assert np.array_equal(run.evaluate(ends), run.evaluate(np.array([low, high])))
    with pytest.raises(ValueError, match="outside of the domain"):
        run.evaluate(ends + jnp.asarray([0, 0.01], kind))


def test_u_is_used_in_the_functions_of_another_problem():
    rough = fb.Problem(
        fb.Boxes((0, 1), 3),
        axes="t",
        net=fb.Mlp([4]),
        terms=[fb.Interior(lambda x, u: u.v - jnp.sin(5 * x.t), points=30)],
    ).train()
    finer = fb.Problem(
        fb.Boxes((0, 1), 4),
        axes="t",
        net=fb.Mlp([8]),
        constrain=lambda x, u: rough.u(x) + x.t * u,
        terms=[fb.Interior(lambda x, u: u.t - 5 * jnp.cos(5 * x.t), points=60)],
    ).train()
    begin = rough.evaluate([0.0])[0]
    t = np.linspace(0, 1, 50)
    assert np.abs(finer.evaluate(t) - np.sin(5 * t) - begin).max() < 1e-4
    assert finer.evaluate([0.0])[0] == pytest.approx(begin, abs=1e-12)  # sums of order 1


# Files


def test_a_run_comes_back_from_its_file(tmp_path: Path):
    run, path = trained(), tmp_path / "run"
    run.save(path)
    again = fb.load(path, run.problem)
    assert type(again) is fb.Run and again.outcome == run.outcome
    assert np.array_equal(again.evaluate(others()), run.evaluate(others()))
    with pytest.raises(FileExistsError, match="overwrite=True"):
        run.save(path)
    run.save(path, overwrite=True)
    assert [*tmp_path.iterdir()] == [path]
    bare = fb.Networks.of(run.problem, *run.weights(), run.coefficient_numbers, None)
    bare.save(tmp_path / "bare")
    assert type(fb.load(tmp_path / "bare", run.problem)) is fb.Networks


def growth(start: float = 0.5, weight: float = 1.0, **options) -> fb.Problem:
    given = {
        "axes": "t",
        "net": fb.Net(
            lambda p, x: jnp.sin(p[0] * x + p[1]), lambda key: jax.random.normal(key, (2, 4))
        ),
        "coefficients": {"rate": fb.Scalar(start), "k": fb.Grid1D(3)},
    }
    terms = [
        fb.Interior(lambda x, u, c: u.t - c.rate * u.v + 0 * c.k(x.t), points=30, weight=weight),
        fb.Data([0.0, 1.0], [1.0, 2.0], lambda x, u: u.v),
        fb.Interior(lambda x, u, c: c.k(x.t) - x.t, points=5),
    ]
    return fb.Problem(fb.Boxes((0, 1), 3), terms=terms, **given | options)


def test_gradients_coefficients_and_own_networks_come_back(tmp_path: Path):
    problem = growth()
    checkpoint = fb.Checkpoint(tmp_path / "checkpoint")
    run = problem.train(fb.Adam(steps=6, block=3, rate=0.01), checkpoint=checkpoint)
    run.save(tmp_path / "run")
    for name in ("run", "checkpoint"):
        again = fb.load(tmp_path / name, problem)
        assert np.array_equal(again.evaluate([0.3, 0.7]), run.evaluate([0.3, 0.7]))
        assert again.coefficients["rate"] == run.coefficients["rate"]
        assert np.array_equal(again.coefficients["k"], run.coefficients["k"])
    assert fb.load(tmp_path / "run", problem).outcome == run.outcome
    for words, other in (
        (
            r"coefficients was rate=Scalar\(init=0.5, .* and is rate=Scalar\(init=0.6",
            growth(0.6),
        ),
        (r"terms\[0\], Interior: weight was 1.0, and is 2", growth(weight=2)),
        ("net was Net with parameters .*, and is Mlp", growth(net=fb.Mlp([4]))),
    ):
        with pytest.raises(ValueError, match=words):
            fb.load(tmp_path / "run", other)


def test_what_is_not_accepted_is_told(tmp_path: Path):
    (tmp_path / "text").write_text("words")
    for words, call in (
        ("problem=3 given: the Problem that was saved", lambda: fb.load(tmp_path / "text", 3)),
        ("is no file of run.save", lambda: fb.load(tmp_path / "text", trained().problem)),
        ("there is no folder", lambda: trained().save(tmp_path / "no" / "run")),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            call()
    with pytest.raises(FileNotFoundError):
        fb.load(tmp_path / "none", trained().problem)


def test_a_byte_that_is_damaged_is_told_or_changes_nothing(tmp_path: Path):
    path, other = tmp_path / "run", tmp_path / "damaged"
    trained().save(path)
    good = path.read_bytes()
    wanted = fb.load(path, trained().problem).evaluate(others())
    told = 0
    places = [*range(0, 400), *range(400, len(good), len(good) // 400)]
    for place in places:
        other.write_bytes(good[:place] + bytes([good[place] ^ 0x10]) + good[place + 1 :])
        try:
            found = fb.load(other, trained().problem)
        except ValueError as error:
            told += 1
            assert "or it is damaged" in str(error)
        else:  # names and dates in the archive are nobody's
            assert np.array_equal(found.evaluate(others()), wanted)
    assert told > 0.9 * len(places)


# A picture


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_a_run_is_drawn(dimensions: int, tmp_path: Path):
    pytest.importorskip("matplotlib")
    boxes = fb.Boxes([(0, 1)] * dimensions, (2,) * dimensions)
    terms = [fb.Interior(lambda x, u: u.v - x[0], points=(6,) * dimensions)]
    problem = fb.Problem(boxes, axes="x y z"[: 2 * dimensions - 1], net=fb.Mlp([2]), terms=terms)
    for how in (None, fb.Adam(steps=3)):
        path = tmp_path / f"{how is None}.png"
        problem.train(how).plot().savefig(path)
        assert path.stat().st_size > 10_000


# Windows in time


def lorenz(x, u):
    return (
        u.x.t - 10 * (u.y.v - u.x.v),
        u.y.t - u.x.v * (28 - u.z.v) + u.y.v,
        u.z.t - u.x.v * u.y.v + 8 / 3 * u.z.v,
    )


def lorenz_window(**options) -> fb.Problem:
    beginning = fb.Data([0.0], [[1.0, 1.0, 1.0]], lambda x, u: (u.x.v, u.y.v, u.z.v), weight=100)
    return fb.Problem(
        fb.Boxes((0, 0.25), 4),
        axes="t",
        fields="x y z",
        net=fb.Mlp([8]),
        terms=[fb.Interior(lorenz, points=120), beginning],
        **options,
    )


def test_lorenz_in_twelve_windows_compiles_for_one():
    integrate = pytest.importorskip("scipy.integrate")
    compiled, seen = [], []

    def listener(name: str, seconds: float, **_: object) -> None:
        if name.endswith("backend_compile_duration"):
            compiled.append(name)

    def train(problem: fb.Problem, before: fb.Run | None) -> fb.Run:
        run = problem.train(start=before)
        seen.append(len(compiled))
        return run

    jax.monitoring.register_event_duration_secs_listener(listener)
    windows = fb.in_windows(lorenz_window(), 12, train=train)
    assert windows.ok and len(windows.runs) == 12 and windows.edges[-1] == 3
    assert seen[-1] == seen[1]  # of the second window: what the first ends with

    def right(t, y):
        return [10 * (y[1] - y[0]), y[0] * (28 - y[2]) - y[1], y[0] * y[1] - 8 / 3 * y[2]]

    t = np.linspace(0, 3, 121)
    true = integrate.solve_ivp(right, (0, 3), [1, 1, 1], rtol=1e-11, atol=1e-11, t_eval=t).y.T
    assert np.abs(windows.evaluate(t) - true).max() < 1e-3


def test_windows_by_gradients_compile_for_one():
    def decay(x, u):
        return u.t + x.t * u.v

    problem = fb.Problem(
        fb.Boxes([(0, 1), (0, 0.5)], (2, 2)),
        axes="x t",
        net=fb.Mlp([3]),
        terms=[
            fb.Interior(decay, points=(5, 8)),
            fb.Data(
                [(x, 0.0) for x in np.linspace(0, 1, 5)], np.ones(5), lambda x, u: u.v, weight=3
            ),
        ],
    )
    steps = fb.LBFGS(steps=300, block=100)
    windows = fb.in_windows(problem, 3, train=lambda here, before: here.train(steps, start=before))
    points = np.stack([np.full(13, 0.3), np.linspace(0, 1.5, 13)], 1)
    assert np.abs(windows.evaluate(points) - np.exp(-(points[:, 1] ** 2) / 2)).max() < 0.02
    blocks = [key for key in problem._compiled if key[0] == "block"]
    assert len(blocks) == 1


@pytest.mark.parametrize(("begin", "length"), [(2000.0, 0.01), (0.0, 1e-9)])
def test_windows_begin_where_they_begin(begin, length):
    """Near the beginning is a part of the window's length: further data keep their values."""
    quarter = begin + length / 4
    problem = fb.Problem(
        fb.Boxes((begin, begin + length), 2),
        axes="t",
        net=fb.Mlp([16]),
        terms=[
            fb.Interior(lambda x, u: length**2 * u.tt + 4 * np.pi**2 * u.v, points=60),
            fb.Data([[begin]], [0.0], lambda x, u: u.v),
            fb.Data([[quarter]], [1.0], lambda x, u: u.v),
        ],
    )
    windows = fb.in_windows(problem, 2)
    values = windows.evaluate([quarter, quarter + length])
    assert np.abs(values - 1).max() < 1e-3


def test_windows_refuse_what_would_hold_again_at_the_beginning_of_each():
    problem = fb.Problem(
        fb.Boxes((0, 1), 2),
        axes="t",
        terms=[
            fb.Interior(lambda x, u: u.tt + 4 * u.v, points=20),
            fb.Data([0.0], [1.0], lambda x, u: u.v),
            fb.Boundary(lambda x, u: u.t, where="t = 0"),
        ],
    )
    with pytest.raises(ValueError, match=r"terms\[2\], Boundary says something of t = 0 alone"):
        fb.in_windows(problem, 2)


def test_arrays_of_functions_that_are_compiled_tell_problems_apart(tmp_path):
    def problem(last: float) -> fb.Problem:
        heights = jnp.linspace(1, last, 10)
        source = jax.jit(lambda t: jnp.interp(t, jnp.linspace(0, 1, 10), heights))
        return fb.Problem(
            fb.Boxes((0, 1), 2),
            axes="t",
            net=fb.Mlp([4]),
            constrain=lambda x, u: source(x.t) + x.t * u,
            terms=[fb.Interior(lambda x, u: u.t + u.v, points=20)],
        )

    problem(2.0).train().save(tmp_path / "run")
    fb.load(tmp_path / "run", problem(2.0))
    with pytest.raises(ValueError, match="constrain differ"):
        fb.load(tmp_path / "run", problem(5.0))


def test_networks_of_ones_own_are_compared(tmp_path):
    def problem(wave) -> fb.Problem:
        net = fb.Net(lambda w, x: wave(w @ x), lambda key: jax.random.normal(key, (4, 1)))
        terms = [fb.Interior(lambda x, u: u.t + u.v - 1, points=20)]
        return fb.Problem(
            fb.Boxes((0, 1), 2), axes="t", net=net, constrain=lambda x, u: x.t * u, terms=terms
        )

    problem(jnp.sin).train().save(tmp_path / "run")
    fb.load(tmp_path / "run", problem(jnp.sin))
    with pytest.raises(ValueError, match="net: function"):
        fb.load(tmp_path / "run", problem(jnp.cos))


def test_what_trains_a_window_returns_its_run():
    start = fb.Data([[0.0]], [[1.0]], lambda x, u: u.v)
    terms = [fb.Interior(lambda x, u: u.t + u.v, points=20), start]
    problem = fb.Problem(fb.Boxes([(0, 1)], (2,)), axes="t", net=fb.Mlp([4]), terms=terms)
    with pytest.raises(TypeError, match="train returned None: the run of the problem"):
        fb.in_windows(problem, 2, train=lambda problem, before: None)


def test_windows_need_a_beginning():
    terms = [
        fb.Interior(lambda x, u: u.t - 1, points=20),
        fb.Boundary(lambda x, u: u.v, where="t = 0"),
    ]
    without = fb.Problem(fb.Boxes((0, 1), 2), axes="t", terms=terms)
    for words, call in (
        ("no term is Data at t = 0", lambda: fb.in_windows(without, 2)),
        ("count=0 given", lambda: fb.in_windows(without, 0)),
        ("axis='z' given", lambda: fb.in_windows(without, 2, axis="z")),
        ("train=3 given", lambda: fb.in_windows(without, 2, train=3)),
        ("each window would find its own", lambda: fb.in_windows(growth(), 2)),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            call()


MANY = """
import resource
import jax, numpy as np
import shardsolve.fbpinn as fb
jax.config.update("jax_enable_x64", True)
problem = fb.Problem(
    fb.Boxes([(-1, 1), (0, 1)], counts=(15, 5)), axes="x t", net=fb.Mlp([16]),
    constrain=lambda x, u: x.t * u,
    terms=[fb.Interior(lambda x, u: u.t - u.xx, points=(60, 30))],
)
networks = fb.Networks.of(problem, np.ones((75, 48)), np.ones((75, 1, 17)), np.zeros(0), None)
points = np.random.default_rng(0).uniform([-1, 0], [1, 1], (262_144, 2))
networks.evaluate(points[:100])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert np.isfinite(networks.evaluate(points)).all()
print(1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))
"""


def test_a_quarter_of_a_million_points_take_little_memory():
    """All 75 networks at all of them at once would be 0.24 GB of jets in single precision."""
    done = subprocess.run(
        [sys.executable, "-c", MANY], env=os.environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout.splitlines()[-1]) < 60e6
