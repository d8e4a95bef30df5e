"""Networks in boxes on a GPU: the solution of CPU devices, and the same bits again."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shardsolve.fbpinn as fb
from shardsolve import Status


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
