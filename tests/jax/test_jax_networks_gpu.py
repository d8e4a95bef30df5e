"""Networks in boxes on a GPU: the solution of CPU devices, and the same bits again."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shardsolve.fbpinn as fb
from shardsolve import Status
from shardsolve.fbpinn import _call, _on_devices


def mesh_of(platform: str, count: int = 1) -> jax.sharding.Mesh:
    return jax.make_mesh((count,), ("x",), devices=jax.devices(platform)[:count])


def problem(nonlinear: bool) -> fb.Problem:
    def solution(x):
        return jnp.sin(2 * jnp.pi * x.x) * jnp.sin(jnp.pi * x.y)

    def equation(x, u):
        f = -5 * jnp.pi**2 * solution(x)
        return u.xx + u.yy - f + (u.v**3 - solution(x) ** 3 if nonlinear else 0.0)

    return fb.Problem(
        fb.Boxes([(0, 1), (0, 1)], (4, 3), 2.9),
        axes="x y",
        constrain=lambda x, u: x.x * (1 - x.x) * x.y * (1 - x.y) * u,
        terms=[fb.Interior(equation, points=(36, 30))],
    )


@pytest.mark.gpu_only
@pytest.mark.parametrize("nonlinear", [False, True])
def test_gpu_has_the_solution_of_the_cpu(nonlinear: bool) -> None:
    points = np.random.default_rng(3).uniform(0, 1, (200, 2))
    of_cpu = problem(nonlinear).train(mesh=mesh_of("cpu"))
    run = problem(nonlinear).train(mesh=mesh_of("gpu"))
    assert run.outcome.status == Status.OK
    expected, found = of_cpu.evaluate(points), run.evaluate(points)
    assert np.max(np.abs(found - expected)) <= 1e-9 * np.max(np.abs(expected))
    again = problem(nonlinear).train(mesh=mesh_of("gpu"))
    assert np.array_equal(again.evaluate(points), found)


@pytest.mark.gpu_only
@pytest.mark.parametrize("count", [2, 4])
def test_several_gpus_have_the_solution_of_one(count: int) -> None:
    if len(jax.devices("gpu")) < count:
        pytest.skip(f"fewer than {count} GPUs")
    points = np.random.default_rng(3).uniform(0, 1, (200, 2))
    of_one = problem(nonlinear=True).train(mesh=mesh_of("gpu"))
    run = problem(nonlinear=True).train(mesh=mesh_of("gpu", count))
    assert run.outcome.status == Status.OK
    expected, found = of_one.evaluate(points), run.evaluate(points)
    assert np.max(np.abs(found - expected)) <= 1e-9 * np.max(np.abs(expected))
    again = problem(nonlinear=True).train(mesh=mesh_of("gpu", count))
    assert np.array_equal(again.evaluate(points), found)


@pytest.mark.gpu_only
def test_without_a_mesh_jaxs_default_device_trains() -> None:
    points = np.random.default_rng(3).uniform(0, 1, (50, 2))
    of_one = problem(nonlinear=False).train(mesh=mesh_of("gpu"))
    run = problem(nonlinear=False).train()
    assert run.outcome.devices == of_one.outcome.devices == str(jax.devices()[0])
    assert np.array_equal(run.evaluate(points), of_one.evaluate(points))
    with jax.default_device(jax.devices("cpu")[0]):
        assert problem(nonlinear=False).train().outcome.devices.endswith("of the CPU")


def with_data() -> fb.Problem:
    """u'' + a u = 0 for an unknown a, and measurements whose noise keeps the loss from rounding."""
    x = np.linspace(0, 1, 30)[:, None]
    noise = 1e-2 * np.random.default_rng(5).standard_normal(30)
    return fb.Problem(
        fb.Boxes([(0, 1)], (4,), 2.9),
        axes="x",
        net=fb.Mlp([8]),
        coefficients={"a": fb.Scalar(20.0)},
        terms=[
            fb.Interior(lambda x, u, c: u.xx + c.a * u.v, points=80, weight=1e-2),
            fb.Data(x, np.cos(5 * x[:, 0]) + noise, lambda x, u: u.v),
        ],
    )


@pytest.mark.gpu_only
@pytest.mark.parametrize("made", [lambda: problem(False), lambda: problem(True), with_data])
@pytest.mark.parametrize("how", [fb.LeastSquares(), fb.LevenbergMarquardt(max_steps=3)])
def test_functions_are_called_on_the_gpu(made, how, monkeypatch: pytest.MonkeyPatch) -> None:
    # `padded` is what calls them on the CPU.
    expected = made().train(how, mesh=mesh_of("cpu"))
    called = []
    original = _call.padded
    monkeypatch.setattr(_call, "padded", lambda *given: called.append(given) or original(*given))
    run = made().train(how, mesh=mesh_of("gpu"))
    assert not called
    assert np.allclose(run.outcome.loss, expected.outcome.loss, rtol=1e-4, atol=1e-20)
    assert run.outcome.is_linear == expected.outcome.is_linear


@pytest.mark.gpu_only
def test_what_jax_cannot_call_on_the_gpu_is_called_on_the_cpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: object) -> None:
        raise NotImplementedError("planted")

    points = np.random.default_rng(3).uniform(0, 1, (50, 2))
    expected = problem(True).train(mesh=mesh_of("gpu"))
    monkeypatch.setattr(_on_devices, "_called", fails)
    with pytest.warns(fb.TrainingWarning, match="on the CPU, as JAX could not call.*planted"):
        run = problem(True).train(mesh=mesh_of("gpu"))
    found, wanted = run.evaluate(points), expected.evaluate(points)
    assert np.max(np.abs(found - wanted)) <= 1e-9 * np.max(np.abs(wanted))


@pytest.mark.gpu_only
def test_a_residual_that_is_not_finite_is_named_as_on_the_cpu() -> None:
    def made() -> fb.Problem:
        return fb.Problem(
            fb.Boxes([(0, 1)], (4,), 2.9),
            axes="x",
            terms=[fb.Interior(lambda x, u: u.x / (x.x - 0.5), points=41)],
            constrain=lambda x, u: 1 + x.x * u,
        )

    words = []
    for platform in ("cpu", "gpu"):
        with pytest.raises(ValueError, match="not finite at its point") as raised:
            made().train(mesh=mesh_of(platform))
        words.append(str(raised.value))
    assert words[0] == words[1]
