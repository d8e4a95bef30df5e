"""trace, progress, set_timeout; and that small systems are solved by one rank."""

import functools
import gc
import json

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec
from systems import (
    FUNCTIONS,
    close,
    grid_mesh,
    hermitian,
    inverts,
    more,
    put,
    row_mesh,
    scalar,
    sides,
    solves,
    spread,
    tolerance,
)

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


def every_function(a, b, **keywords):
    factor = shardsolve.cho_factor(a, **keywords)
    x, info = shardsolve.cho_solve(factor, b, full_output=True, **keywords)
    inverse = shardsolve.inv(factor, **keywords)
    numbers = shardsolve.logdet(factor, **keywords), shardsolve.cond(factor, 1, **keywords)
    return x, info, inverse, *numbers


def in_shard_map(a, b):
    cut, whole = PartitionSpec("x"), PartitionSpec()
    run = jax.shard_map(
        every_function,
        mesh=row_mesh(),
        in_specs=(cut, cut),
        out_specs=(cut, whole, cut, whole, whole),
        check_vma=False,
    )
    return jax.jit(run)(a, b)


def on_explicit_axes(a, b):
    mesh = row_mesh(explicit=True)
    return jax.jit(every_function)(put(a, mesh), put(b, mesh))


SMALL_WAYS = {
    "eager": every_function,
    "jit": jax.jit(every_function),
    "jit_mesh": jax.jit(functools.partial(every_function, mesh=row_mesh())),
    "explicit": on_explicit_axes,
    "shard_map": in_shard_map,
}


@pytest.mark.devices
@pytest.mark.one_rank
@pytest.mark.parametrize(
    ("way", "n", "dtype"),
    [
        *(("eager", n, dtype) for n in (1, 7, 24, 512) for dtype in ("float32", "complex128")),
        *((way, 24, "complex128") for way in ("jit", "jit_mesh", "explicit")),
        *(more(way, n, "complex128") for way in ("jit", "jit_mesh", "explicit") for n in (7, 512)),
        ("shard_map", 24, "complex128"),  # rows that are cut evenly
    ],
)
def test_small_system_is_solved_right_by_one_rank(tmp_path, n, dtype, way):
    a, b = hermitian(n, dtype), sides(n, 3, dtype)
    with shardsolve.trace(tmp_path / "t.json"):
        results = jax.block_until_ready(SMALL_WAYS[way](spread(a), spread(b)))
    x, info, inverse, logdet, cond = results
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert {event["pid"] for event in events} == {0}
    assert solves(a, x, b)
    assert 0 <= float(info.backward_error) < tolerance(dtype, 10)
    assert inverts(a, inverse)
    wide = a.astype(np.result_type(dtype, np.float64))
    assert close(np.asarray(logdet), np.asarray(np.linalg.slogdet(wide)[1], logdet.dtype))
    assert 0.3 < float(cond) / np.linalg.cond(wide, 1) < 1.01


@pytest.mark.devices
@pytest.mark.one_rank
def test_small_systems_of_groups_and_batches_are_solved_by_one_rank_under_jit():
    """Devices along the other axis of a grid do the same, in a gang of their own."""
    a, b = np.stack([hermitian(24, seed=seed) for seed in range(3)]), sides(24, 3).T.copy()
    run = jax.jit(jax.vmap(functools.partial(shardsolve.solve, assume_a="pos")))
    for each in zip(a, run(put(a, grid_mesh(), None, "y"), b), b, strict=True):
        assert solves(*each)


@pytest.mark.one_rank
@pytest.mark.parametrize("n", (24, 512))
def test_gradient_of_a_small_system_by_one_rank_is_that_of_jnp(n):
    a, b = hermitian(n), sides(n)
    ours, reference = (jax.jit(jax.value_and_grad(scalar(f), (0, 1))) for f in FUNCTIONS["solve"])
    assert close(ours(spread(a), spread(b)), reference(a, b))


@pytest.mark.one_rank
def test_bad_small_system_under_jit_gives_nan_and_info():
    a, b = hermitian(24), sides(24)
    a[13, 13] = -1
    run = jax.jit(functools.partial(shardsolve.solve, assume_a="pos", full_output=True))
    x, info = run(spread(a), b)
    assert np.isnan(x).all()
    assert info.status is shardsolve.Status.NOT_POSITIVE_DEFINITE
    assert info.pivot == 13


@pytest.mark.one_rank
def test_small_factor_goes_to_a_file_and_other_devices(tmp_path):
    a, b = hermitian(12), sides(12)
    shardsolve.save_factor(shardsolve.cho_factor(spread(a)), tmp_path / "factor")
    wanted = put(a, row_mesh(jax.devices()[:1])).sharding
    loaded = shardsolve.load_factor(tmp_path / "factor", sharding=wanted)
    assert solves(a, shardsolve.cho_solve(loaded, b), b)
