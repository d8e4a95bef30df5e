"""Processes that watch each other: misuse, and a mesh of one process. Losses: in the processes."""

import jax
import jax.numpy as jnp
import pytest
from systems import row_mesh

import shardsolve


def test_watch_of_one_process_only_calls():
    with shardsolve.watch(row_mesh()) as watched:
        twice = watched.run(jax.jit(lambda x: {"x": 2 * x}), jnp.arange(3.0))
    assert twice["x"].tolist() == [0, 2, 4]


def test_watch_passes_on_what_a_function_raises():
    with shardsolve.watch(row_mesh()) as watched, pytest.raises(ZeroDivisionError):
        watched.run(lambda: 1 / 0)


def test_watch_of_no_mesh_says_what_is_accepted():
    with pytest.raises(TypeError, match=r"a list was given; pass a jax\.sharding\.Mesh"):
        shardsolve.watch(jax.devices()).__enter__()
