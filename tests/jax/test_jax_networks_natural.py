"""Networks trained by natural gradients: fb.NaturalGradient."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

import shardsolve
import shardsolve.fbpinn as fb
from shardsolve.fbpinn._pointwise import Pointwise
from shardsolve.natural import _optimiser

pytestmark = [pytest.mark.filterwarnings("error::shardsolve.fbpinn.TrainingWarning")]


def exact(x):
    return jnp.sin(jnp.pi * x.x) * jnp.sin(jnp.pi * x.y)


def poisson(points=20, widths=(32, 32)) -> fb.Problem:
    """Poisson's equation in a square with one network."""
    return fb.Problem(
        fb.Boxes([(0, 1), (0, 1)], (1, 1)),
        axes="x y",
        net=fb.Mlp(widths),
        constrain=lambda x, u: 16 * x.x * (1 - x.x) * x.y * (1 - x.y) * u,
        terms=[
            fb.Interior(
                lambda x, u: u.xx + u.yy + 2 * jnp.pi**2 * exact(x), points=(points, points)
            )
        ],
    )


def error(run) -> float:
    """Relative, in L2."""
    points = np.random.default_rng(0).uniform(0, 1, (2000, 2))
    true = np.asarray(run.problem.values(exact, points))
    return float(np.linalg.norm(run.evaluate(points) - true) / np.linalg.norm(true))


def line(net=None, boxes=1, **options) -> fb.Problem:
    """u' = k u, and measurements of exp(-2 t)."""
    t = np.linspace(0, 1, 12)
    return fb.Problem(
        fb.Boxes([(0, 1)], (boxes,)),
        axes="t",
        net=fb.Mlp([6, 6]) if net is None else net,
        terms=[
            fb.Interior(
                lambda x, u, c: (u.t - c.k * u.v, 0.1 * (u.tt - c.k * u.t)),
                points=(20,),
                weight=0.1,
            ),
            fb.Data(t, np.exp(-2 * t), lambda x, u: u.v, weight=3),
        ],
        coefficients={"k": fb.Scalar(-1.0)},
        **options,
    )


def fourier() -> fb.Net:
    """With a parameter that is a whole number, and cannot be trained."""

    def features(params, x):
        z = params["w"] @ x + params["k"]
        return jnp.concatenate([jnp.sin(z), jnp.cos(z)])

    def init(key):
        return {"w": jax.random.normal(key, (4, 1)), "k": jnp.arange(4)}

    return fb.Net(features, init)


def test_poisson_by_a_deep_network_has_six_digits():
    """The problem of the paper on ENGD-W, one network of 2 x 32."""
    run = poisson().train(fb.NaturalGradient(steps=100))
    outcome = run.outcome
    assert outcome.status == shardsolve.Status.OK, outcome
    assert error(run) < 1e-6
    assert (outcome.rows, outcome.columns) == (400, 1185)
    assert len(outcome.losses) == 101
    assert all(np.diff(outcome.losses) <= 0)
    assert outcome.loss < 1e-9
    assert outcome.loss == outcome.losses[-1]


@pytest.mark.parametrize(
    "problem",
    [
        lambda: line(),
        lambda: line(boxes=4),
        lambda: line(fourier(), boxes=3),
        lambda: poisson(5, [3]),
    ],
    ids=("one_box", "boxes", "own_net", "constrained"),
)
def test_residuals_point_by_point_are_those_of_the_loss(problem):
    problem = problem()
    loss = problem.loss()
    begun = loss.parameters()
    pointwise = Pointwise(problem, loss._setup.placed)
    parameters = jax.tree.map(jnp.asarray, loss.gather(begun))

    def mean_square(parameters):
        parts = zip(pointwise.functions, pointwise.batches, strict=True)
        return sum(jnp.sum(f(parameters, batch) ** 2) for f, batch in parts) / pointwise.count

    value, gradient = jax.jit(jax.value_and_grad(mean_square, allow_int=True))(parameters)
    wanted, wanted_gradient = jax.jit(jax.value_and_grad(loss, allow_int=True))(begun)
    assert np.isclose(value, wanted, rtol=1e-13)
    wanted_gradient = loss.gather(wanted_gradient)
    for one, other in zip(*map(jax.tree.leaves, (gradient, wanted_gradient)), strict=True):
        if np.asarray(other).dtype.kind == "f":
            assert np.allclose(one, other, rtol=1e-11, atol=1e-12 * np.abs(other).max())


@pytest.mark.parametrize(
    ("net", "boxes"), ((None, 1), (None, 3), (fourier, 1)), ids=("one", "three", "own")
)
def test_coefficient_is_found_with_the_network(net, boxes):
    problem = line(net and net(), boxes)
    run = problem.train(fb.NaturalGradient(steps=30, shift=1e-6))
    assert abs(run.coefficients["k"] + 2) < 0.1
    assert run.outcome.coefficients_determined == 1
    assert run.coefficient_deviations["k"] < 0.1
    again = pickle.loads(pickle.dumps(run.outcome))
    assert again == run.outcome


def test_chunks_of_points_take_the_same_steps():
    runs = [
        poisson(7, [5, 4]).train(fb.NaturalGradient(steps=4, shift=1e-6, momentum=0.3, chunk=chunk))
        for chunk in (None, 10)
    ]
    assert np.allclose(*(run.outcome.losses for run in runs), rtol=1e-6)


@pytest.mark.devices
@pytest.mark.parametrize(("points", "chunk"), ((6, None), (7, 10)))
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_devices_of_a_mesh_share_points_and_solves(points, chunk, kind):
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("x",), axis_types=(kind,))
    how = fb.NaturalGradient(steps=3, shift=1e-6, chunk=chunk)
    runs = [poisson(points, [5, 4]).train(how, mesh=on) for on in (None, mesh)]
    assert np.allclose(*(run.outcome.losses for run in runs), rtol=1e-6)
    assert runs[1].outcome.devices.count("cpu") in (0, len(jax.devices()))


def test_training_goes_on_from_a_run():
    problem = line()
    how = fb.NaturalGradient(steps=3, shift=1e-6)
    first = problem.train(how)
    further = problem.train(how, start=first)
    assert np.isclose(further.outcome.losses[0], first.outcome.loss)
    assert further.outcome.loss < first.outcome.loss


def test_training_ends_where_no_length_helps():
    """Two measurements contradict each other."""
    problem = fb.Problem(
        fb.Boxes([(0, 1)], (1,)),
        axes="t",
        net=fb.Mlp([3]),
        terms=[fb.Data([0.5, 0.5], [0.0, 1.0], lambda x, u: u.v)],
    )
    outcome = problem.train(fb.NaturalGradient(steps=100)).outcome
    assert outcome.ended == "length"
    assert outcome.ok
    assert outcome.lengths[-1] == 0
    assert len(outcome.losses) < 101


def test_steps_that_are_all_short_are_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch):
    """How short they are by themselves, rounding decides."""

    def short(self, x, trials):
        return self.loss(self.theta), jnp.full((), 0.5**14)

    monkeypatch.setattr(_optimiser._System, "search", short)
    with pytest.warns(fb.TrainingWarning, match=r"steps were shorter than .* larger shift than 1"):
        line().train(fb.NaturalGradient(steps=12))


def test_loss_between_the_points_is_in_the_outcome():
    problem = line()
    outcome = problem.train(fb.NaturalGradient(steps=30, shift=1e-6)).outcome
    equation, slope_or_data = outcome.terms[0], outcome.terms[-1]
    assert (equation.held_out_points, slope_or_data.held_out_points) == (20, 0)
    assert slope_or_data.held_out == slope_or_data.loss
    assert np.isclose(sum(term.loss for term in outcome.terms), outcome.loss)
    assert np.isclose(sum(term.held_out for term in outcome.terms), outcome.held_out_loss)
    assert 0 < outcome.held_out_loss < 5 * outcome.loss
    assert outcome.held_out_loss != outcome.loss
    assert "between the points" in str(outcome)


def test_loss_far_above_between_few_points_is_told(tmp_path):
    """Sixteen points, and a network that can be anything between them."""
    with pytest.warns(fb.TrainingWarning, match=r"at its points and .* between them: the error"):
        run = poisson(4, [16, 16]).train(fb.NaturalGradient(steps=40, shift=1e-8))
    outcome = run.outcome
    assert outcome.held_out_loss > 5 * outcome.loss
    assert error(run) > 1e-3
    run.save(tmp_path / "run")
    assert fb.load(tmp_path / "run", run.problem).outcome == outcome


def test_interrupt_keeps_what_was_learned(monkeypatch):
    from shardsolve.fbpinn import _natural_gradient

    whole = _natural_gradient._Training.step

    def step(self):
        if len(self.losses) == 2:
            raise KeyboardInterrupt
        return whole(self)

    monkeypatch.setattr(_natural_gradient._Training, "step", step)
    with pytest.warns(fb.TrainingWarning, match="Ctrl-C ended it after 2 of 200 steps"):
        run = poisson(5, [4]).train(fb.NaturalGradient())
    assert run.outcome.status == shardsolve.Status.NOT_CONVERGED
    assert run.outcome.loss < run.outcome.losses[0]


def test_callbacks_see_each_block_of_steps_and_end_the_training(capsys: pytest.CaptureFixture):
    seen = []

    def callback(progress: fb.Progress) -> bool:
        seen.append((progress.step, error(progress.networks())))
        return progress.step >= 8

    how = fb.NaturalGradient(steps=20, shift=1e-4, block=4)
    run = poisson(6, [6]).train(how, callbacks=[callback, print])
    assert [step for step, _ in seen] == [4, 8] and run.outcome.ended == "callback"
    assert len(run.outcome.lengths) == 8 and seen[1][1] == error(run) != seen[0][1]
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith(f"step  4 of 20: loss {run.outcome.losses[3]:.3e}, ")


def test_callbacks_see_the_last_steps_of_a_short_training():
    seen = []
    how = fb.NaturalGradient(steps=3, shift=1e-4, block=2)
    run = poisson(4, [3]).train(how, callbacks=seen.append)
    assert [progress.step for progress in seen] == [2, 3]
    assert seen[-1].held_out_loss == run.outcome.held_out_loss


def test_shift_that_adapts_follows_the_lengths_of_steps():
    how = fb.NaturalGradient(steps=12, shift=1e-3, adapt=True)
    outcome = poisson(6, [8]).train(how).outcome
    lengths = np.array(outcome.lengths[:-1])
    factors = np.where(lengths >= 1 / 4, 1 / 4, np.where(lengths < 1 / 8, 4, 1))
    assert np.allclose(outcome.shifts, 1e-3 * np.cumprod([1, *factors]))
    assert {1 / 4, 4} <= set(factors)


def test_training_whose_shift_adapts_ends_after_eight_steps_that_lead_nowhere(
    monkeypatch: pytest.MonkeyPatch,
):
    def nowhere(self, x, trials):
        return self.loss(self.theta), jnp.zeros(())

    monkeypatch.setattr(_optimiser._System, "search", nowhere)
    with pytest.warns(fb.TrainingWarning, match="no length of a step made it smaller"):
        outcome = poisson(4, [3]).train(fb.NaturalGradient(shift=1e-3, adapt=True)).outcome
    assert outcome.ended == "length" and len(outcome.lengths) == 8
    assert np.allclose(outcome.shifts, 1e-3 * 4.0 ** np.arange(8))


def test_residual_that_is_not_finite_is_named():
    problem = fb.Problem(
        fb.Boxes([(0, 1)], (1,)),
        axes="t",
        terms=[fb.Interior(lambda x, u: u.t - 1 / x.t, points=(5,))],
    )
    with pytest.raises(ValueError, match=r"not finite at its point 0 at \(0\)"):
        problem.train(fb.NaturalGradient())


@pytest.mark.parametrize(
    ("given", "words"),
    (
        ({"steps": 0}, "steps=0 given: a whole number from 1"),
        ({"shift": 0}, "shift=0 given: a number above 0"),
        ({"momentum": 1}, "momentum=1 given: a number from 0 to less than 1"),
        ({"trials": 1.5}, "trials=1.5 given"),
        ({"chunk": 0}, "chunk=0 given"),
        ({"block": 0}, "block=0 given"),
        ({"adapt": 1}, "adapt=1 given: True or False"),
    ),
)
def test_option_that_does_not_fit_is_refused(given, words):
    with pytest.raises((ValueError, TypeError), match=words):
        fb.NaturalGradient(**given)
