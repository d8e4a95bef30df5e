"""An equation of no example against a classical method, and properties of any problem."""

from __future__ import annotations

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import shardsolve.fbpinn as fb

pytestmark = pytest.mark.filterwarnings("ignore::shardsolve.fbpinn.TrainingWarning")

EXAMPLES = int(os.environ.get("SHARDSOLVE_TEST_EXAMPLES", "25"))


def mesh(devices: int) -> jax.sharding.Mesh:
    cpus = jax.devices("cpu")
    if devices > len(cpus):
        pytest.skip(f"{len(cpus)} devices")
    return jax.sharding.Mesh(np.array(cpus[:devices]), "x")


def slowness(x, y):
    return 6 + 3 * x * y


def wanted(x, y):
    return jnp.sin(3 * jnp.pi * x) * jnp.sin(2 * jnp.pi * y)


def source(x, y):
    return (slowness(x, y) ** 2 - 13 * jnp.pi**2) * wanted(x, y)


def error_of_a_band_matrix(n: int) -> float:
    """Differences of second order on n x n cells, by a banded factorisation: mean error / std."""
    at = np.linspace(0, 1, n + 1)[1:-1]
    x, y = np.meshgrid(at, at, indexing="ij")
    m = n - 1
    band = np.zeros((2 * m + 1, m * m))
    along = n**2 * np.ones((m, m))
    band[m] = (slowness(x, y) ** 2 - 4 * n**2).ravel()
    band[0, m:] = band[-1, :-m] = n**2
    next_in_row = along.copy()
    next_in_row[:, -1] = 0
    band[m + 1, :-1] = band[m - 1, 1:] = next_in_row.ravel()[:-1]
    u = scipy.linalg.solve_banded((m, m), band, np.asarray(source(x, y)).ravel())
    true = np.asarray(wanted(x, y)).ravel()
    return float(np.mean(np.abs(u - true)) / np.std(true))


@pytest.mark.parametrize("devices", [4, *(pytest.param(n, marks=pytest.mark.more) for n in (1, 2))])
def test_helmholtz_is_as_good_as_a_banded_reference(devices):
    problem = fb.Problem(
        fb.Boxes([(0, 1), (0, 1)], counts=(10, 6)),
        axes="x y",
        net=fb.Mlp([20]),
        constrain=lambda x, u: x.x * (1 - x.x) * x.y * (1 - x.y) * u,
        terms=[
            fb.Interior(
                lambda x, u: u.xx + u.yy + slowness(x.x, x.y) ** 2 * u.v - source(x.x, x.y),
                points=(84, 54),
            )
        ],
    )
    run = problem.train(mesh=mesh(devices))
    assert run.outcome.ok
    assert run.error(lambda x: wanted(x.x, x.y)) < 10 * error_of_a_band_matrix(100)


@pytest.mark.parametrize(
    "devices", [4, *(pytest.param(n, marks=pytest.mark.more) for n in (1, 2, 3))]
)
def test_gradient_by_a_constant_is_not_summed_over_devices(devices):
    """Inside of a shard_map, jax.grad by jnp.zeros(2) sums over its axis without a word."""

    def equation(x, u):
        shift = jax.grad(lambda d: jnp.sum(jnp.sin(x[0] + d)))(jnp.zeros(2))
        return u.x - jnp.sum(shift) / 2

    run = fb.Problem(
        fb.Boxes([(0, 1)], (4,)),
        axes="x",
        constrain=lambda x, u: x.x * u,
        terms=[fb.Interior(equation, points=(80,))],
    ).train(mesh=mesh(devices))
    assert run.error(lambda x: jnp.sin(x.x)) < 1e-6


@st.composite
def problems(draw):
    dimensions = draw(st.integers(1, 3))
    counts = [draw(st.integers(1, 4 if dimensions < 3 else 2)) for _ in range(dimensions)]
    overlap = draw(st.floats(1.2, 3.2))
    boxes = fb.Boxes([(-1, 2)] * dimensions, counts, overlap)
    if draw(st.booleans()):
        boxes = boxes.with_level(fb.Boxes([(-1, 2)] * dimensions, [1] * dimensions, 2.0))
    if draw(st.booleans()) and len(boxes.levels) == 1:
        moved = np.random.default_rng(draw(st.integers(0, 9))).uniform(
            -0.02, 0.02, boxes.centers.shape
        )
        boxes = fb.Boxes.from_arrays(boxes.centers + moved, 1.1 * boxes.half_widths, boxes.domain)
    return boxes, draw(st.integers(1, 4)), draw(st.integers(0, 3))


@settings(
    max_examples=max(4, EXAMPLES // 5),
    deadline=None,
    derandomize=EXAMPLES <= 25,
    suppress_health_check=list(HealthCheck),
    database=None,
)
@given(problems())
def test_any_boxes_on_any_devices_give_the_same_right_solution(case):
    """A constant and its derivatives: windows that sum to 1, whatever the boxes are."""
    boxes, devices, seed = case
    devices = min(devices, boxes.count, len(jax.devices("cpu")))
    points = boxes.grid([7 * n for n in (boxes.counts or [4] * boxes.dimensions)])
    problem = fb.Problem(
        boxes,
        axes=" ".join("xyz"[: boxes.dimensions]),
        net=fb.Mlp([3]),
        terms=[fb.Interior(lambda x, u: (u.v - 3, u.x), points=points)],
        seed=seed,
    )
    runs = [problem.train(mesh=mesh(n)) for n in (1, devices)]
    values = [run.evaluate(points) for run in runs]
    np.testing.assert_allclose(values[0], 3.0, rtol=1e-7)
    assert np.abs(runs[0].evaluate(points, "x")).max() < 1e-4
    assert np.array_equal(*values)
