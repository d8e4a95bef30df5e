"""Compiled programs are kept in a folder for the next process, and found there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import shardsolve.fbpinn as fb

PROGRAM = """
import json, os, sys
import jax, jax.numpy as jnp
jax.config.update("jax_enable_x64", True)
import shardsolve.fbpinn as fb

events = {"/jax/compilation_cache/cache_hits": 0, "/jax/compilation_cache/cache_misses": 0}
def listener(name, **_):
    if name in events:
        events[name] += 1
jax.monitoring.register_event_listener(listener)

(jnp.ones(3) + 1).block_until_ready()  # what is compiled before must not matter
before = dict(os.environ)
fb.keep_compiled(sys.argv[1], seconds=0)
assert dict(os.environ) == before
problem = fb.Problem(
    fb.Boxes((0, 2), 4), axes="t", net=fb.Mlp([5]), constrain=lambda x, u: 1 + x.t * u,
    terms=[fb.Interior(lambda x, u: u.t + u.v, points=40)],
)
run = problem.train(fb.Adam(steps=10, block=5, rate=0.01, points="random"))
print(json.dumps([*events.values(), run.outcome.losses]))
"""


def test_next_process_finds_what_one_has_compiled(tmp_path: Path):
    folder = tmp_path / "made" / "here"
    found = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(folder)],
            env=os.environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        found.append(json.loads(done.stdout.splitlines()[-1]))
    (hits, misses, losses), (hits_again, misses_again, losses_again) = found
    assert hits == 0 < misses and any(folder.iterdir())
    assert misses_again == 0 < hits_again
    assert losses_again == losses


def test_what_is_no_folder_is_told(tmp_path: Path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(FileExistsError):
        fb.keep_compiled(file)
    with pytest.raises(TypeError, match="folder=3 given: a path is accepted"):
        fb.keep_compiled(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="seconds=-1 given"):
        fb.keep_compiled(tmp_path, seconds=-1)
