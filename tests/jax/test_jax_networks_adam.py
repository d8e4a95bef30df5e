"""Training networks in boxes by gradients: which steps are taken, at which points, on what."""

from __future__ import annotations

import functools
import os
import re
import signal
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from systems import more

import shardsolve.fbpinn as fb
from shardsolve.fbpinn._block import initial_key, parts_of_loss
from shardsolve.fbpinn._cells import cells_of, drawn
from shardsolve.fbpinn._moving import MovingSetup, groups_of_points

pytestmark = [
    pytest.mark.devices,
    pytest.mark.filterwarnings("ignore::shardsolve.fbpinn.TrainingWarning"),
]


def mesh_of(count: int) -> jax.sharding.Mesh:
    return jax.sharding.Mesh(np.array(jax.devices()[:count]), "x")


def most() -> int:
    return len(jax.devices())


def swing(x, u):
    return (u.tt + 0.4 * u.t + 16 * u.v) / 16


@functools.cache
def spring() -> fb.Problem:
    """A swinging mass; what is compiled of it is shared by the tests."""
    return fb.Problem(
        fb.Boxes([(0, 2)], (5,)),
        axes="t",
        net=fb.Mlp([6]),
        constrain=lambda x, u: 1 + x.t**2 * u,
        terms=[fb.Interior(swing, points=40)],
    )


ADAM = fb.Adam(steps=25, rate=0.02, block=10, points="random")


@functools.cache
def by_adam() -> fb.Run:
    return spring().train(ADAM)


# Points


def plane() -> fb.Problem:
    """Two levels, a boundary that moves, measurements that do not, and a mixed derivative."""
    boxes = fb.Boxes([(0, 1), (0, 2)], (3, 2)).with_level(fb.Boxes([(0, 1), (0, 2)], (1, 1)))
    measured = np.random.default_rng(1).uniform(0, 1, (7, 2))
    return fb.Problem(
        boxes,
        axes="x y",
        net=fb.Mlp([3]),
        terms=[
            fb.Interior(lambda x, u: u.xy + u.v * u.y - x.x, points=(11, 9)),
            fb.Boundary(lambda x, u: u.v - x.y, points=6, where="x = 0", weight=3),
            fb.Data(measured, np.ones(7), lambda x, u: u.v),
        ],
    )


@pytest.mark.parametrize("count", [pytest.param(1, marks=pytest.mark.more), 3])
def test_loss_at_drawn_points_is_that_of_these_points(count: int):
    problem = plane()
    loss = problem.loss(mesh=mesh_of(min(count, most())))
    cells, old = cells_of(problem), loss._setup
    setup = MovingSetup(problem, old.mesh, "halo", old.dtype, old.placed, None, cells)
    points = drawn(cells, "latin", jax.random.key(3), old.dtype)
    each = np.split(np.asarray(points), np.cumsum(old.sizes)[:-1])
    assert [len(one) for one in each] == [99, 6, 7]
    assert np.array_equal(each[2], problem.prepared[2].points) and (each[1][:, 0] == 0).all()
    there = loss.with_points({0: each[0], 1: each[1]})
    tables = setup.layout.on_devices(setup.tables())

    def moving(parameters):
        return parts_of_loss(setup, parameters, tables, points).sum()

    value, slope = jax.jit(jax.value_and_grad(moving))(
        setup.layout.spread(setup.layout.begin(None))
    )
    wanted, wanted_slope = jax.jit(jax.value_and_grad(there))(there.parameters())
    assert value == pytest.approx(float(wanted), rel=1e-12)
    pairs = zip(
        jax.tree.leaves(setup.layout.gather(slope)),
        jax.tree.leaves(there.gather(wanted_slope)),
        strict=True,
    )
    for one, other in pairs:
        assert np.abs(one - other).max() <= 1e-12 * max(np.abs(other).max(), 1e-300)


def test_drawn_points_are_one_a_cell_and_latin_ones_one_a_row():
    cells = cells_of(plane())
    for kind in ("random", "latin"):
        points = np.asarray(drawn(cells, kind, jax.random.key(0), np.dtype(np.float64)))[:99]
        number = np.floor(points * [11, 9 / 2]).astype(int)
        assert len({tuple(one) for one in number}) == 99
    for axis, long in enumerate((1, 2)):
        rows = np.floor(points[:, axis] / long * 99).astype(int)
        assert np.array_equal(np.sort(rows), np.arange(99))


def test_points_that_lie_on_no_lattice_stay():
    scattered = np.random.default_rng(0).uniform(0, 2, 20)
    terms = [fb.Interior(swing, points=scattered), fb.Data([0.0], [1.0], lambda x, u: u.v)]
    problem = fb.Problem(fb.Boxes((0, 2), 2), axes="t", terms=terms)
    assert [term.shape for term in cells_of(problem)] == [None, None]
    with pytest.raises(ValueError, match="the points of no term can move"):
        problem.train(fb.Adam(steps=1, points="latin"))


def test_refined_points_gather_where_the_residual_is_and_subdomains_keep_their_numbers():
    def peak(x, u):
        return u.v - jnp.exp(-(((x.t - 1) / 0.05) ** 2))

    problem = fb.Problem(
        fb.Boxes((0, 2), 3), axes="t", net=fb.Mlp([2]), terms=[fb.Interior(peak, points=120)]
    )
    how = fb.Adam(steps=1, rate=1e-9, points=fb.Refined(power=2, floor=0.01))
    from shardsolve.fbpinn._descend import _Training

    training = _Training(problem, how, None, None)
    groups = groups_of_points(training.setup)
    low, high = (
        np.concatenate([getattr(c, name) for c in training.setup.cells]) for name in ("low", "high")
    )
    training.block(1)
    points = np.asarray(training.state.points)
    given = training.loss.problem.prepared[0].points
    near, had = ((np.abs(one - 1) < 0.1).sum() for one in (points, given))
    assert near > 1.5 * had
    for group in range(groups.max() + 1):
        mine = groups == group
        assert len(np.unique(points[mine])) == mine.sum()
        assert points[mine].min() >= low[mine].min() and points[mine].max() <= high[mine].max()


# Steps


def plain_adam(loss_at, parameters, steps: int, rate: float):
    """As the paper has it."""
    mean = square = jax.tree.map(jnp.zeros_like, parameters)
    losses = []
    for number in range(1, steps + 1):
        value, slope = loss_at(number - 1)(parameters)
        losses.append(float(value))
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, slope)
        square = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g**2, square, slope)
        parameters = jax.tree.map(
            lambda p, m, s, n=number: (
                p - rate * m / (1 - 0.9**n) / (jnp.sqrt(s / (1 - 0.999**n)) + 1e-8)
            ),
            parameters,
            mean,
            square,
        )
    return losses, parameters


def test_adam_takes_the_steps_of_the_paper_at_the_points_of_its_key():
    problem = spring()
    loss, cells = problem.loss(), cells_of(problem)
    step = jax.jit(lambda loss, parameters: jax.value_and_grad(loss)(parameters))

    def at(number: int):
        key = jax.random.wrap_key_data(initial_key(0), impl="threefry2x32")
        key = jax.random.fold_in(jax.random.fold_in(key, number), 0)
        there = loss.with_points({0: np.asarray(drawn(cells, "random", key, np.dtype(float)))})
        return lambda parameters: step(there, parameters)

    losses, parameters = plain_adam(at, loss.parameters(), 3, 0.02)
    run = spring().train(replace(ADAM, steps=3))
    assert run.outcome.losses == by_adam().outcome.losses[:3]
    assert np.allclose(run.outcome.losses, losses, rtol=1e-10, atol=0)
    wanted = loss.networks(parameters)
    assert np.allclose(run.weights()[1], wanted.weights()[1], rtol=1e-9, atol=1e-12)
    assert run.outcome.loss == pytest.approx(float(loss(parameters)), rel=1e-9)


def test_the_outcome_says_what_was_done():
    outcome = by_adam().outcome
    assert outcome.ok and outcome.ended == "steps" and outcome.steps == 25
    assert [step for step, _ in outcome.held_out_losses] == [10, 20, 25]
    assert "after 25 steps, ended by steps" in str(outcome)


def test_squares_below_the_range_are_not_called_learned():
    problem = fb.Problem(
        fb.Boxes((0, 1), 2),
        axes="t",
        terms=[
            fb.Interior(lambda x, u: u.t - 1, points=20, weight=1e-25),
            fb.Boundary(lambda x, u: u.v, where="t = 0", weight=1e-25),
        ],
    )
    with pytest.warns(UserWarning, match="squares of residuals are below the range"):
        run = problem.train(fb.Adam(steps=3, dtype=np.float32))
    assert not run.outcome.ok


def test_the_length_of_blocks_changes_no_bit():
    other = spring().train(replace(ADAM, block=25))
    assert other.outcome.losses == by_adam().outcome.losses
    assert np.array_equal(other.weights()[1], by_adam().weights()[1])


def test_another_number_of_devices_gives_the_same_curve():
    on_more = spring().train(ADAM, mesh=mesh_of(min(3, most())))
    wanted = np.array(by_adam().outcome.losses)
    assert np.abs(np.array(on_more.outcome.losses) / wanted - 1).max() < 1e-12


@pytest.mark.more
def test_another_number_of_devices_gives_the_same_curve_in_single_precision():
    single = fb.Adam(steps=100, rate=0.02, block=50, points="random", dtype=np.float32)
    one, more = (
        np.array(spring().train(single, mesh=mesh_of(n)).outcome.losses)
        for n in (1, min(3, most()))
    )
    assert np.abs(more / one - 1).max() < 1e-5


def test_nothing_is_compiled_after_the_first_block():
    compiled, seen = [], []

    def listener(name: str, seconds: float, **_: object) -> None:
        if name.endswith("backend_compile_duration"):
            compiled.append(name)

    jax.monitoring.register_event_duration_secs_listener(listener)
    problem = spring()
    problem._compiled.clear()
    problem.train(ADAM, callbacks=lambda progress: seen.append(len(compiled)))
    assert seen[0] > 0 and seen == [seen[0]] * 3
    compiled.clear()
    problem.train(fb.Adam(steps=12, rate=0.1, block=10, points="random", seed=5))
    assert len(compiled) <= 2  # nothing of the size of a block
    assert not any("block" in one for one in compiled)


def test_optimisers_of_optax_take_their_steps():
    optax = pytest.importorskip("optax")
    run = spring().train(
        fb.Optimiser(transformation=optax.adam(0.02), steps=25, block=10, points="random")
    )
    assert np.allclose(run.outcome.losses, by_adam().outcome.losses, rtol=1e-9, atol=0)


@pytest.mark.more
def test_optimisers_of_optax_get_the_loss_as_a_function():
    optax = pytest.importorskip("optax")
    short = fb.Optimiser(transformation=optax.lbfgs(), steps=8, block=8)
    run = by_adam()
    assert spring().train(short).outcome.loss < 0.1 * run.outcome.losses[0]


def test_accumulated_gradients_are_one_step_of_their_mean():
    optax = pytest.importorskip("optax")
    problem, descent = spring(), optax.sgd(0.5)
    how = fb.Optimiser(transformation=descent, steps=1, block=1, points="latin", accumulate=2)
    run, loss, cells = problem.train(how), problem.loss(), cells_of(problem)
    key = jax.random.wrap_key_data(initial_key(0), impl="threefry2x32")
    key = jax.random.fold_in(key, 0)
    slopes = []
    step = jax.jit(lambda loss, parameters: jax.grad(loss)(parameters))
    for number in range(2):
        points = drawn(cells, "latin", jax.random.fold_in(key, number), np.dtype(float))
        there = loss.with_points({0: np.asarray(points)})
        slopes.append(step(there, loss.parameters()).last)
    wanted = loss.parameters().last - 0.5 * sum(slopes) / 2
    moved = loss.gather(loss.parameters()._replace(last=wanted)).last
    assert np.allclose(run.weights()[1], moved, rtol=1e-10, atol=1e-12)


def test_balanced_terms_get_gradients_of_about_one_length():
    terms = [
        fb.Interior(lambda x, u: 100 * (u.t + u.v), points=30),
        fb.Boundary(lambda x, u: u.v - 1, where="t = 0"),
    ]
    problem = fb.Problem(fb.Boxes((0, 1), 3), axes="t", net=fb.Mlp([4]), terms=terms)
    last = [
        problem.train(fb.Adam(steps=200, rate=0.01, balance=balance)).outcome.terms[1].loss
        for balance in (None, 5)
    ]
    assert last[1] < 0.2 * last[0]


@pytest.mark.parametrize("points", ["random", more("latin")])
def test_points_on_opposite_sides_stay_there(points: str):
    """They were drawn from the halves of the domain, and u was 0."""
    sides = [(x, y) for x in (0.0, 1.0) for y in np.linspace(0, 1, 5)]
    problem = fb.Problem(
        fb.Boxes([(0, 1), (0, 1)], (2, 2)),
        axes="x y",
        net=fb.Mlp([4]),
        terms=[
            fb.Interior(lambda x, u: u.xx + 1, points=(6, 6)),
            fb.Boundary(lambda x, u: u.v, points=sides),
        ],
    )
    lines = np.unique(np.asarray(drawn_points(problem, points))[36:, 0])
    assert lines.tolist() == [0.0, 1.0]
    hole = fb.Problem(
        fb.Boxes((0, 1), 2),
        axes="x",
        terms=[
            fb.Interior(
                lambda x, u: u.x,
                points=np.r_[np.linspace(0, 0.3, 31), np.linspace(0.7, 1, 31)][:, None],
            )
        ],
    )
    found = np.asarray(drawn_points(hole, points))
    assert not ((found > 0.31) & (found < 0.69)).any()


def drawn_points(problem: fb.Problem, kind: str) -> jax.Array:
    return drawn(cells_of(problem), kind, jax.random.key(1), np.float64)


def test_callbacks_end_a_training_by_numpys_true_as_well():
    run = spring().train(replace(ADAM, block=5), callbacks=lambda progress: np.True_)
    assert run.outcome.steps == 5 and run.outcome.ended == "callback"


def test_networks_of_a_problem_like_this_one_begin_it():
    def problem(units: int) -> fb.Problem:
        return fb.Problem(
            fb.Boxes([(0, 2)], (5,)),
            axes="t",
            net=fb.Mlp([units]),
            constrain=lambda x, u: 1 + x.t**2 * u,
            terms=[fb.Interior(lambda x, u: u.tt + u.v, points=40)],
        )

    begin = by_adam()
    run = problem(6).train(fb.Adam(steps=1, rate=1e-12), start=begin)
    np.testing.assert_allclose(run.evaluate([0.5, 1.5]), begin.evaluate([0.5, 1.5]), rtol=1e-9)
    with pytest.raises(ValueError, match=r"as many boxes, fields, units and coefficients"):
        problem(3).train(fb.Adam(steps=1), start=begin)


def test_lbfgs_goes_on_from_adam_and_ends_where_nothing_is_smaller():
    begin = by_adam()
    run = spring().train(fb.LBFGS(steps=150), start=begin)
    losses = np.array(run.outcome.losses)
    assert losses[0] == pytest.approx(begin.outcome.loss, rel=1e-10)
    assert (np.diff(losses) <= 0).all() and run.outcome.loss < 1e-2 * begin.outcome.loss
    flat = fb.Problem(
        fb.Boxes((0, 1), 2),
        axes="t",
        net=fb.Mlp([2]),
        terms=[fb.Interior(lambda x, u: u.v - 1, points=9)],
    )
    ended = flat.train(fb.LBFGS(steps=20_000, block=1000)).outcome
    assert ended.ended == "optimiser" and ended.steps < 20_000 and ended.loss < 1e-12


@pytest.mark.parametrize(
    ("dtype", "unit"),
    [
        ("float64", 2.0**27),
        more("float64", 2.0**-260),
        ("float32", 2.0**-33),
        more("float32", 2.0**30),
    ],
)
def test_lbfgs_takes_the_same_steps_in_other_units(dtype: str, unit: float):
    def losses(unit: float) -> np.ndarray:
        problem = fb.Problem(
            fb.Boxes((0, 1), 3),
            axes="t",
            net=fb.Mlp([4]),
            terms=[
                fb.Interior(lambda x, u: unit * (u.tt + 25 * u.v), points=30),
                fb.Boundary(lambda x, u: unit * (u.v - 1), where="t = 0"),
            ],
        )
        return np.array(problem.train(fb.LBFGS(steps=20, dtype=dtype)).outcome.losses)

    plain = losses(1.0)
    assert plain[-1] < 0.5 * plain[0]
    # The last bits may be others: XLA multiplies constants with each other.
    rtol = 1e-3 if dtype == "float32" else 1e-9
    np.testing.assert_allclose(losses(unit), unit**2 * plain, rtol=rtol)


def test_training_goes_on_from_least_squares():
    least = spring().train()
    run = spring().train(fb.Adam(steps=1, rate=1e-12), start=least)
    assert run.outcome.losses[0] == pytest.approx(least.outcome.loss, rel=1e-6)


def test_callbacks_see_each_block_and_end_the_training(capsys: pytest.CaptureFixture):
    seen = []

    def callback(progress: fb.Progress) -> bool:
        seen.append(progress.step)
        return progress.step >= 20

    run = spring().train(ADAM, callbacks=[print, callback])
    assert seen == [10, 20] and run.outcome.ended == "callback" and run.outcome.ok
    lines = capsys.readouterr().out.splitlines()
    words = r"step 10 of 25: loss \S+, \S+ between the points, \S+ steps/s, \d+ s left"
    assert re.fullmatch(words, lines[0])


def test_callbacks_can_evaluate_what_was_learned_so_far():
    seen = []
    run = spring().train(ADAM, callbacks=lambda progress: seen.append(progress.networks()))
    middle, whole = seen[0].evaluate([0.3, 1.2]), seen[-1].evaluate([0.3, 1.2])
    assert len(seen) == 3 and np.array_equal(whole, run.evaluate([0.3, 1.2]))
    assert (middle != whole).all()


def test_ctrl_c_ends_it_after_the_block_and_keeps_what_was_learned():
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.warns(fb.TrainingWarning, match="Ctrl-C ended it after 10 of 25 steps"):
            run = spring().train(ADAM, callbacks=lambda _: os.kill(os.getpid(), signal.SIGINT))
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert run.outcome.ended == "interrupt" and not run.outcome.ok
    assert run.outcome.losses == by_adam().outcome.losses[:10]


# What is not finite


def rooted(start: float):
    """Its loss falls until a root is of a number below 0."""
    return fb.Problem(
        fb.Boxes((0, 1), 3),
        axes="t",
        net=fb.Mlp([3]),
        terms=[
            fb.Interior(lambda x, u, c: jnp.sqrt(c.a - x.t) * (0.1 + u.v**2) + c.a, points=20),
        ],
        coefficients={"a": fb.Scalar(start)},
    )


@pytest.mark.parametrize("points", [pytest.param("given", marks=pytest.mark.more), "random"])
def test_a_loss_that_is_not_finite_is_told_with_its_point_and_the_last_networks_kept(points: str):
    how = fb.Adam(steps=50, rate=0.05, block=20, points=points)
    words = (
        r"the loss is not finite at step \d+: the residual of terms\[0\], Interior or a derivative "
        r"of it is not finite at its point \d+ at \(\S+\), in box 1 on device 0"
    )
    with pytest.warns(fb.TrainingWarning, match=words):
        run = rooted(1.3).train(how)
    assert run.outcome.ended == "not finite" and run.outcome.status.name == "OVERFLOW"
    assert 0 < run.outcome.steps < 50 and np.isfinite(run.outcome.losses[:-1]).all()
    assert np.isfinite(run.evaluate([0.5])).all() and run.coefficients["a"] > 0.95
    with pytest.raises(ValueError, match="not finite at step 0: the residual of terms"):
        rooted(0.5).train(how)


# What is not accepted

WORDS = {
    "no optimiser": (lambda: spring().train("adam"), "Adam, LBFGS or Optimiser"),
    "a class": (lambda: spring().train(fb.Adam), "the class Adam given"),
    "no optax": (lambda: fb.Optimiser(transformation=3), "an optimiser of optax is accepted"),
    "no transformation": (lambda: fb.Optimiser(), "transformation=None given"),
    "steps": (lambda: fb.Adam(steps=0), "steps=0 given: a whole number from 1 on"),
    "half a step": (lambda: fb.Adam(steps=2.5), "steps=2.5 given"),
    "block": (lambda: fb.Adam(block=0), "block=0 given"),
    "accumulate": (lambda: fb.Adam(accumulate=0), "accumulate=0 given: a whole number from 1 on"),
    "ten times the same": (lambda: fb.Adam(accumulate=10), "so the same; take points='random'"),
    "points": (lambda: fb.Adam(points="sobol"), "given, random, latin are accepted"),
    "an array": (lambda: fb.Adam(points=np.zeros(3)), "are those of the terms"),
    "balance": (lambda: fb.Adam(balance=0), "balance=0 given: None is accepted"),
    "rate": (lambda: fb.Adam(rate=-1), "rate=-1 given"),
    "b1": (lambda: fb.Adam(b1=1), "b1=1 given"),
    "seed": (lambda: fb.Adam(seed=-1), "seed=-1 given"),
    "dtype": (lambda: spring().train(fb.Adam(dtype=np.float16)), "float32 is accepted"),
    "moving lbfgs": (lambda: fb.LBFGS(points="random"), "LBFGS makes one function smaller"),
    "candidates": (lambda: fb.Refined(candidates=1), "nothing to choose from one"),
    "callbacks": (lambda: spring().train(ADAM, callbacks=[1]), "functions of a Progress"),
    "checkpoint": (lambda: spring().train(ADAM, checkpoint="a"), "Checkpoint('a path'"),
    "of least squares": (lambda: spring().train(callbacks=print), "has no steps to call them"),
    "a mesh": (lambda: spring().train(ADAM, mesh=3), "mesh=3 given"),
    "start": (lambda: spring().train(ADAM, start=3), "what training returned is accepted"),
}


@pytest.mark.parametrize("case", WORDS)
def test_what_is_not_accepted_is_told(case: str):
    call, words = WORDS[case]
    with pytest.raises((TypeError, ValueError), match=re.escape(words)):
        call()


@pytest.mark.skipif(len(jax.devices()) < 3, reason="3 devices")
def test_more_devices_than_subdomains_are_told():
    problem = fb.Problem(
        fb.Boxes((0, 1), 2), axes="t", terms=[fb.Interior(lambda x, u: u.v - 1, points=9)]
    )
    with pytest.raises(ValueError, match="3 devices for 2 subdomains given"):
        problem.train(fb.Adam(steps=1), mesh=mesh_of(3))
