"""Networks in boxes: where training runs, how it ends early, what is compiled and what is said."""

from __future__ import annotations

import contextlib
import copy
import pickle
import re
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shardsolve.fbpinn as fb
from shardsolve.fbpinn import _devices, _train


def source(x):
    return 2 * jnp.pi**2 * jnp.sin(jnp.pi * x.x) * jnp.sin(jnp.pi * x.y)


def equation(x, u):
    return u.xx + u.yy + source(x)


def zero_around(x, u):
    return x.x * (1 - x.x) * x.y * (1 - x.y) * u


def poisson(**options) -> fb.Problem:
    return fb.Problem(
        fb.Boxes([(0, 1), (0, 1)], (2, 2)),
        axes="x y",
        **{
            "net": fb.Mlp([4]),
            "constrain": zero_around,
            "terms": fb.Interior(equation, (12, 12)),
            **options,
        },
    )


# Ctrl-C


@contextlib.contextmanager
def signals(number: int, after: float) -> Iterator[None]:
    """Sends it to the main thread until the block ends, as somebody who types Ctrl-C again.

    Python drops what a handler raises while the garbage collector runs callbacks, as JAX has one.
    """
    main, ended = threading.main_thread().ident, threading.Event()

    def send() -> None:
        wait = after
        while not ended.wait(wait):
            signal.pthread_kill(main, number)
            wait = 5

    threading.Thread(target=send, daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def test_interrupt_ends_training_soon_and_breaks_nothing():
    problem = poisson()
    points = problem.boxes.grid((7, 9))
    before = problem.train().evaluate(points)
    forever = fb.LevenbergMarquardt(10**6, gradient_tolerance=1e-16, step_tolerance=1e-300)
    problem.train(fb.LevenbergMarquardt(max_steps=1))  # so that all is compiled
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt), signals(signal.SIGINT, 0.5):
        problem.train(forever)
    assert time.monotonic() - begin < 20  # 0.51 on a machine with little else to do
    assert np.array_equal(problem.train().evaluate(points), before)


def test_what_a_handler_of_a_signal_raises_comes_out():
    def handler(*_):
        raise TimeoutError("it takes too long")

    forever = fb.LevenbergMarquardt(10**6, gradient_tolerance=1e-16, step_tolerance=1e-300)
    old = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(TimeoutError, match="too long"), signals(signal.SIGUSR1, 0.3):
            poisson().train(forever)
    finally:
        signal.signal(signal.SIGUSR1, old)


def test_threads_that_hear_no_signals_train_too():
    found = []
    thread = threading.Thread(target=lambda: found.append(poisson().train().outcome.ok))
    thread.start()
    thread.join()
    assert found == [True]


def test_double_precision_of_a_block_is_that_of_all_threads():
    """Threads of the library do not see what `jax.enable_x64` sets for one thread."""

    def loss_and_slope() -> tuple:
        run = poisson(net=fb.Mlp([8])).train()
        return run.outcome.loss, run.evaluate([[0.3, 0.4]], "x")[0]

    wanted = loss_and_slope()
    jax.config.update("jax_enable_x64", False)
    try:
        with jax.enable_x64(True):
            assert loss_and_slope() == wanted
    finally:
        jax.config.update("jax_enable_x64", True)


# Where it runs


@pytest.mark.cpu_only
def test_without_a_mesh_the_default_device_trains(monkeypatch):
    """A GPU that is made up: whether it is asked to train, and what happens if it has no room."""
    gpu = SimpleNamespace(platform="gpu", local_hardware_id=3, process_index=0)
    taken = []

    def train_on(problem, how, mesh, start):
        taken.append(None if mesh is None else list(mesh.devices.flat))
        if mesh is not None and no_room:
            raise MemoryError("7.1 GB are needed, and 2.0 are free")
        return real(problem, how, None, start)

    real = _train.train_on
    monkeypatch.setattr(_train, "train_on", train_on)
    monkeypatch.setattr(_train, "default_device", lambda: gpu)
    monkeypatch.setattr(_train, "Mesh", lambda devices, _: SimpleNamespace(devices=devices))
    monkeypatch.setattr(_train, "has_cuda", lambda: there)
    there, no_room = True, False
    poisson().train()
    there = False
    poisson().train()
    there, no_room = True, True
    with pytest.warns(fb.TrainingWarning, match="the CPU trained"):
        run = poisson().train()
    assert taken == [[gpu], None, [gpu], None]
    assert any("7.1 GB are needed" in warning for warning in run.outcome.warnings)


def test_default_device_is_that_of_jax():
    last = jax.devices("cpu")[-1]
    with jax.default_device(last):
        assert _devices.default_device() == last
        assert [*poisson().loss().mesh.devices.flat] == [last]
    with jax.default_device("cpu"):
        assert _devices.default_device() == jax.local_devices(backend="cpu")[0]
    assert _devices.default_device() == jax.local_devices()[0]


@pytest.mark.cpu_only
def test_outcome_says_where_it_ran():
    mesh = jax.sharding.Mesh(np.array(jax.devices("cpu")[:1]), "x")
    outcome = poisson().train(mesh=mesh).outcome
    assert outcome.devices == "1 thread of the CPU" and "1 thread of the CPU" in str(outcome)
    assert poisson().train().outcome.devices.endswith("of the CPU")


# Warnings


def test_each_training_warns_once_where_it_was_called():
    few = poisson(net=fb.Mlp([40]))
    for _ in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            outcome = few.train().outcome
        assert len(outcome.warnings) >= 1
        (warning,) = (one for one in caught if issubclass(one.category, fb.TrainingWarning))
        assert all(sentence in str(warning.message) for sentence in outcome.warnings)
        assert warning.filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert poisson().train().outcome.warnings == []


# What is compiled


class Compilations:
    """How often XLA compiles inside of the block."""

    def __enter__(self) -> Compilations:
        self.count = 0
        jax.monitoring.register_event_duration_secs_listener(self._hear)
        self._is_on = True
        return self

    def _hear(self, name: str, *_, **__) -> None:
        if self._is_on and name.endswith("backend_compile_duration"):
            self.count += 1

    def __exit__(self, *_) -> None:
        self._is_on = False


def cosines(params, x):
    return jnp.cos(params @ x)


@pytest.mark.filterwarnings("ignore::shardsolve.fbpinn.TrainingWarning")
@pytest.mark.parametrize(
    "net", [fb.Mlp([4]), fb.Net(cosines, lambda key: jax.random.normal(key, (5, 2)))]
)
def test_a_second_call_compiles_nothing(net):
    problem = poisson(net=net)
    loss = problem.loss()
    parameters = loss.parameters()

    def calls(shift: float) -> None:
        points = problem.boxes.grid((9, 8)) * (1 - shift)
        run = problem.train()
        run.evaluate(points)
        run.evaluate(points, "xy")
        run.error(source, points)
        problem.with_points({0: (11, 12)}).train()
        loss(parameters)
        loss.gather(parameters)
        loss.networks(parameters).evaluate(points)

    calls(0.0)
    with Compilations() as found:
        calls(0.1)
    assert found.count == 0
    with Compilations() as found:
        jax.jit(lambda x: 7 * x + shift_of_test)(1.0)
    assert found.count == 1  # it is counted


shift_of_test = 3.0


def test_reference_sees_what_has_changed():
    run, points = poisson().train(), poisson().boxes.grid((5, 5))
    shift = 0.0

    def reference(x):
        return x.x + shift

    run.error(reference, points)
    shift = 100.0
    wanted = run.error(points[:, 0] + 100, points)
    assert run.error(reference, points) == pytest.approx(wanted, rel=1e-12)


# Pickling


def own_features(params, x):
    return jnp.sin(params["w"] @ x + params["b"] * params["number"])


def own_start(key):
    return {"w": jax.random.normal(key, (4, 1)), "b": jnp.ones(4), "number": jnp.arange(4)}


def with_a_coefficient(x, u, c):
    return u.x - c.a * jnp.sin(x.x)


def line(net, **options) -> fb.Problem:
    terms = [fb.Interior(with_a_coefficient, 60), fb.Data([0.5, 1], [0.5, 0.7], value)]
    coefficients = {"a": fb.Scalar(0.5)}
    return fb.Problem(
        fb.Boxes((0, 1), 3),
        axes="x",
        **{"net": net, "terms": terms, "coefficients": coefficients, **options},
    )


@pytest.mark.parametrize("net", [fb.Mlp([4]), fb.Net(own_features, own_start)])
def test_run_is_pickled(net):
    problem = line(net)
    run = problem.train()
    points = problem.boxes.grid(9)
    found = pickle.loads(pickle.dumps(run))
    assert same_values(found.evaluate(points, "x"), run.evaluate(points, "x"))
    assert found.outcome == run.outcome and found.coefficients == run.coefficients
    assert found.coefficient_deviations == run.coefficient_deviations
    assert found.problem.plan() == problem.plan()
    networks = pickle.loads(
        pickle.dumps(
            fb.Networks.of(problem, *run.weights(), run.coefficient_numbers, run.net_parameters())
        )
    )
    assert same_values(networks.evaluate(points), run.evaluate(points))


def same_values(one, other):
    """The same bits, but where a run has been trained on a GPU: what is made of it is not there."""
    return np.array_equal(one, other) or (
        jax.default_backend() != "cpu" and np.allclose(one, other, rtol=1e-6)
    )


def value(x, u):
    return u.v


def test_what_cannot_be_pickled_is_named(monkeypatch):
    for other in ("cloudpickle", "dill"):  # where they are loaded, functions are theirs to keep
        monkeypatch.delitem(sys.modules, other, raising=False)
    net = fb.Net(own_features, own_start)
    for problem, name in (
        (line(net, terms=fb.Interior(lambda x, u: u.v - 1, 60), coefficients=None), "terms[0]"),
        (line(net, constrain=lambda x, u: x.x * u), "constrain"),
        (line(fb.Net(lambda p, x: own_features(p, x), own_start)), "features"),
    ):
        with pytest.raises(pickle.PicklingError, match=re.escape(name) + ".*top level"):
            pickle.dumps(problem)
    run = line(net, terms=fb.Interior(lambda x, u: u.v - 1, 60), coefficients=None).train()
    with pytest.raises(pickle.PicklingError, match="top level"):
        pickle.dumps(run)
    assert copy.deepcopy(run) is run and copy.copy(run.problem) is run.problem
    with pytest.raises(TypeError, match=r"call problem\.loss"):
        pickle.dumps(run.problem.loss())
