"""What a training tells of its time: steps, parts by themselves, bytes by link, JSON."""

from __future__ import annotations

import itertools
import json
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import shardsolve
import shardsolve.fbpinn as fb
from shardsolve import _spans

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


def test_trace_has_what_the_host_did_beside_the_devices(tmp_path: Path):
    how = fb.Adam(steps=25, block=10, rate=0.01)
    kept = fb.Checkpoint(tmp_path / "kept", steps=10)
    a = np.eye(60) + 1 / 60
    with shardsolve.trace(tmp_path / "t.json"):
        run = problem().train(how, mesh=MESH, checkpoint=kept, callbacks=lambda progress: None)
        jax.block_until_ready(shardsolve.solve(put(a), np.ones(60), assume_a="pos", tile=8))
    report = json.loads((tmp_path / "t.json").read_text())
    spans = [event for event in report["traceEvents"] if event["ph"] == "X"]
    host = [event for event in spans if event["pid"] >= 1_000_000]
    steps = [event for event in host if event["name"] == "steps"]
    assert [event["args"]["step"] for event in steps] == [0, 10, 20]
    names = {"setup", "compile", "steps", "held_out", "callbacks", "checkpoints"}
    assert {event["name"] for event in host} == names
    for one, other in itertools.pairwise(sorted(host, key=lambda event: event["ts"])):
        assert one["ts"] + one["dur"] <= other["ts"] + 1
    (process,) = report["otherData"]["training"]["processes"]
    assert process["seconds"]["steps"] == pytest.approx(run.outcome.seconds["steps"], rel=0.05)
    assert process["waited_for"] == 0 and report["otherData"]["training"]["straggler"] is None
    devices = [event for event in spans if event["pid"] < 1_000_000]
    last = max(event["ts"] + event["dur"] for event in host)
    assert devices and min(event["ts"] for event in devices) > last  # the solve came afterwards
    assert max(event["ts"] for event in devices) < last + 60e6


def test_trace_of_devices_alone_is_what_it_was(tmp_path: Path):
    with shardsolve.trace(tmp_path / "t.json"):
        jax.block_until_ready(shardsolve.solve(put(np.eye(60)), np.ones(60), assume_a="pos"))
    report = json.loads((tmp_path / "t.json").read_text())
    assert "training" not in report["otherData"] and report["otherData"]["origin_ns"] > 0


def test_spans_cost_less_than_a_hundredth_of_the_time():
    how = fb.Adam(steps=200, rate=0.01)
    with shardsolve.trace("/dev/null"):
        outcome = problem().train(how, callbacks=lambda progress: None).outcome
        spans = len(_spans.current().spans)
    begin, repeats = time.perf_counter(), 10_000
    _spans.begin()
    for number in range(repeats):
        _spans.record("steps", begin, number)
    _spans.end()
    each = (time.perf_counter() - begin) / repeats
    taken = outcome.seconds["steps"] + outcome.seconds["held_out"]
    assert spans < 20 and spans * each < 0.01 * taken


def test_more_spans_than_there_is_room_for_are_counted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_spans, "MOST", 3)
    recording = _spans.Recording()
    for number in range(5):
        recording.add(_spans.Span("steps", 1.0 + number, 1.5 + number, number))
    report: dict = {"traceEvents": [], "otherData": {}}
    recording.into(report)
    assert report["otherData"]["training"]["left_out"] == 2
    assert sum(event["ph"] == "X" for event in report["traceEvents"]) == 3


def test_spans_come_through_words_to_a_microsecond():
    spans = [_spans.Span("compile", 12.5, 13.25), _spans.Span("steps", 13.25, 5000.0, 300)]
    names = ["steps", "compile"]
    again = _spans.unpacked(_spans.packed(spans, names, 12.0), names, 112.0)
    assert again[0] == _spans.Span("compile", 112.5, 113.25, -1)
    assert again[1].begin == 113.25 and again[1].number == 300
    assert again[1].end == pytest.approx(113.25 + 2147.48, abs=0.01)  # 32 bits of microseconds


def put(a: np.ndarray) -> jax.Array:
    return jax.device_put(a, NamedSharding(MESH, PartitionSpec("x", None)))


def test_what_is_not_accepted_is_told():
    loss = problem().loss()
    with pytest.raises(ValueError, match="repeats=0 given"):
        loss.measure(loss.parameters(), repeats=0)
