"""What a training tells of its time: steps, parts by themselves, bytes by link, JSON."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.sharding import Mesh

import shardsolve.fbpinn as fb

pytestmark = pytest.mark.filterwarnings("ignore::shardsolve.fbpinn.TrainingWarning")
DEVICES = min(3, len(jax.devices()))
MESH = Mesh(np.array(jax.devices()[:DEVICES]), "x")


def problem() -> fb.Problem:
    return fb.Problem(
        fb.Boxes([(0, 2)], (6,)),
        axes="t",
        net=fb.Mlp([5]),
        constrain=lambda x, u: 1 + x.t**2 * u,
        terms=[fb.Interior(lambda x, u: (u.tt + 0.4 * u.t + 16 * u.v) / 16, points=60)],
    )


@pytest.mark.parametrize("exchange", ["halo", pytest.param("psum", marks=pytest.mark.more)])
def test_parts_of_a_gradient_are_measured_by_themselves(exchange: str):
    loss = problem().loss(mesh=MESH, exchange=exchange)
    found = loss.measure(loss.parameters(), repeats=5)
    assert 0 < found.gradient["p50"] <= found.gradient["p95"] <= found.gradient["p99"]
    assert len(found.compute) == DEVICES and min(found.compute) > 0
    assert found.slowest == int(np.argmax(found.compute))
    assert (found.exchange["p50"] > 0) == (DEVICES > 1)
    assert found.devices[found.slowest] in str(found)
    # Each pair of a point and a box around it is one device's.
    t, boxes = loss.problem.prepared[0].points[:, 0], loss.problem.boxes.levels[0]
    inside = np.abs(t[:, None] - boxes.centers[:, 0]) < boxes.half_widths[:, 0]
    assert found.pairs == [inside[:, loss.owner == one].sum() for one in range(DEVICES)]
    number = 3 * 8  # value and two derivatives in float64
    for link in found.links:
        there = inside[:, loss.owner == link.source].any(1)
        nearest = np.abs(t[:, None] - boxes.centers[:, 0]).argmin(1)
        points = (there & (loss.owner[nearest] == link.target)).sum()
        assert link.points == points > 0
        assert link.bytes == 0 if exchange == "psum" else link.bytes >= 2 * points * number
    again = json.loads(found.json())
    assert again["links"] == [vars(link) for link in found.links] and again["repeats"] == 5


def test_outcome_has_times_of_steps_and_bytes_by_link(tmp_path: Path):
    run = problem().train(fb.Adam(steps=25, block=10, rate=0.01), mesh=MESH)
    outcome = run.outcome
    assert 0 < outcome.step_seconds["p50"] <= outcome.step_seconds["p99"]
    assert outcome.step_seconds["p99"] * 25 > outcome.seconds["steps"] / 2
    assert len(outcome.links) == 2 * (DEVICES - 1)  # a line of devices, each tells its neighbours
    assert all(size > 0 for _, _, size in outcome.links)
    found = json.loads(outcome.json())
    assert found["status"] == outcome.status.name and found["losses"] == outcome.losses
    run.save(tmp_path / "run")
    assert fb.load(tmp_path / "run", problem()).outcome == outcome


def test_what_is_not_accepted_is_told():
    loss = problem().loss()
    with pytest.raises(ValueError, match="repeats=0 given"):
        loss.measure(loss.parameters(), repeats=0)
