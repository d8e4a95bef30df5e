"""trace, progress, set_timeout; and that small systems are solved by one rank."""

import gc
import json

import jax
import numpy as np
import pytest
from systems import hermitian, inverts, put, row_mesh, sides, solves, spread

import shardsolve
from shardsolve import _session


@pytest.mark.devices
def test_trace_holds_one_process_a_rank(tmp_path):
    a, b = spread(hermitian(24)), sides(24)
    with shardsolve.trace(tmp_path / "t.json"):
        jax.block_until_ready(shardsolve.solve(a, b, assume_a="pos", tile=2))
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert {event["pid"] for event in events} == set(range(len(jax.devices())))
    names = {event["name"] for event in events}
    assert "potrf" in names and {"trsm", "solve"} & names  # GPUs solve in one piece


def test_trace_that_cannot_be_written_fails_before_the_work(tmp_path):
    with pytest.raises(OSError), shardsolve.trace(tmp_path / "no" / "t.json"):
        raise AssertionError("the block must not be entered")


def test_trace_inside_of_trace_is_refused_and_leaves_the_outer_one_alone(tmp_path):
    """It replaced the record: the file of the outer block was empty."""
    a, b = spread(hermitian(24)), sides(24)
    with shardsolve.trace(tmp_path / "outer.json"):
        jax.block_until_ready(shardsolve.solve(a, b, assume_a="pos"))
        with (
            pytest.raises(RuntimeError, match=r"another .* is recording"),
            shardsolve.trace(tmp_path / "inner.json"),
        ):
            raise AssertionError("the block must not be entered")
    assert not (tmp_path / "inner.json").exists()
    assert json.loads((tmp_path / "outer.json").read_text())["traceEvents"]


def test_trace_after_one_that_failed_is_recorded(tmp_path):
    with pytest.raises(OSError), shardsolve.trace(tmp_path / "no" / "t.json"):
        pass
    with pytest.raises(KeyError), shardsolve.trace(tmp_path / "t.json"):
        raise KeyError
    with shardsolve.trace(tmp_path / "t.json"):
        jax.block_until_ready(shardsolve.solve(hermitian(24), sides(24), assume_a="pos"))
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]


def test_progress_names_the_phases(capsys):
    with shardsolve.progress():
        jax.block_until_ready(shardsolve.solve(hermitian(300), sides(300), assume_a="pos"))
    assert "shardsolve: factor" in capsys.readouterr().err


def test_progress_ends_with_its_block(capsys):
    with shardsolve.progress():
        pass
    shardsolve.solve(hermitian(40), sides(40), assume_a="pos")
    assert capsys.readouterr().err == ""


def test_progress_inside_of_progress_shows_again_after_it(capsys):
    with shardsolve.progress():
        with shardsolve.progress():
            pass
        jax.block_until_ready(shardsolve.solve(hermitian(300), sides(300), assume_a="pos"))
    assert "shardsolve: factor" in capsys.readouterr().err


def test_progress_leaves_nothing_behind():
    for _ in range(3):
        with shardsolve.progress():
            jax.block_until_ready(shardsolve.solve(hermitian(40), sides(40), assume_a="pos"))
    gc.collect()
    assert not [one for one in gc.get_objects() if type(one) is _session._Display]


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_timeout_that_makes_no_sense_is_an_error(seconds):
    with pytest.raises(ValueError, match="positive"):
        shardsolve.set_timeout(seconds)


def test_timeout_that_is_no_number_is_an_error():
    with pytest.raises(TypeError, match=r"'5'; pass a number"):
        shardsolve.set_timeout("5")


@pytest.mark.devices
@pytest.mark.parametrize("seconds", [float("inf"), 1e10, 1e300])
def test_timeout_of_more_than_a_year_is_no_timeout_at_once(seconds):
    a, b = hermitian(24), sides(24)
    shardsolve.set_timeout(seconds)
    try:
        assert solves(a, shardsolve.solve(spread(a), b, assume_a="pos"), b)
    finally:
        shardsolve.set_timeout(300)


@pytest.mark.devices
@pytest.mark.one_rank
@pytest.mark.parametrize("n", [1, 7, 24, 256])
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_small_system_is_solved_right_by_one_rank(tmp_path, n, dtype):
    a, b = hermitian(n, dtype), sides(n, 3, dtype)
    with shardsolve.trace(tmp_path / "t.json"):
        factor = shardsolve.cho_factor(spread(a))
        x = shardsolve.cho_solve(factor, b)
        inverse = shardsolve.inv(factor)
        cond = shardsolve.cond(factor, 1)
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert {event["pid"] for event in events} == {0}
    assert solves(a, x, b)
    assert inverts(a, inverse)
    assert np.isfinite(cond)


@pytest.mark.one_rank
def test_small_factor_goes_to_a_file_and_other_devices(tmp_path):
    a, b = hermitian(12), sides(12)
    shardsolve.save_factor(shardsolve.cho_factor(spread(a)), tmp_path / "factor")
    wanted = put(a, row_mesh(jax.devices()[:1])).sharding
    loaded = shardsolve.load_factor(tmp_path / "factor", sharding=wanted)
    assert solves(a, shardsolve.cho_solve(loaded, b), b)
