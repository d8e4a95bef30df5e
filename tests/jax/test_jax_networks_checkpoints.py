"""Checkpoints of a training: to the same bits after kill -9, and what is not gone on from."""

from __future__ import annotations

import functools
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

import shardsolve.fbpinn as fb
from shardsolve.fbpinn import _archive, _checkpoint

pytestmark = [
    pytest.mark.devices,
    pytest.mark.filterwarnings("ignore::shardsolve.fbpinn.TrainingWarning"),
]

# Also a program of its own, which is killed.
PROBLEM = """
import shardsolve.fbpinn as fb
import numpy as np

def swing(x, u):
    return (u.tt + 0.4 * u.t + 16 * u.v) / 16

def from_one(x, u):
    return 1 + x.t**2 * u

def spring(points=40, equation=swing, **options):
    given = dict(axes="t", net=fb.Mlp([5]), constrain=from_one)
    terms = [fb.Interior(equation, points=points)]
    return fb.Problem(fb.Boxes([(0, 2)], (4,)), terms=terms, **given | options)

def adam(dtype, steps=60):
    return fb.Adam(steps=steps, rate=0.02, block=5, points="random", dtype=dtype)
"""
exec(PROBLEM)  # defines spring and adam here, too


@functools.cache
def problem() -> fb.Problem:
    return spring()  # noqa: F821


HOW = adam(np.float64)  # noqa: F821


@functools.cache
def whole() -> fb.Run:
    """That nobody ends."""
    return problem().train(HOW)


def require_same_bits(one: fb.Run, other: fb.Run) -> None:
    assert one.outcome.losses == other.outcome.losses
    assert one.outcome.held_out_losses == other.outcome.held_out_losses
    for mine, its in zip(one.weights(), other.weights(), strict=True):
        assert np.array_equal(mine, its)


def stop_at(step: int):
    return lambda progress: progress.step >= step


KILLED = """
import os, signal, sys
def kill(progress):
    if progress.step >= {step}:
        os.kill(os.getpid(), signal.SIGKILL)
checkpoint = fb.Checkpoint({path!r}, steps=10, minutes=None)
spring().train(adam(np.{dtype}), checkpoint=checkpoint, callbacks=kill)
"""


def killed(path: Path, dtype: str, step: int) -> subprocess.Popen:
    """A process that trains and is killed when it has taken so many steps."""
    program = PROBLEM + KILLED.format(step=step, path=str(path), dtype=dtype)
    return subprocess.Popen([sys.executable, "-c", program], env=os.environ)


def test_the_bits_are_those_of_a_training_that_was_not_killed(tmp_path: Path):
    luck = random.Random(43)
    cases = [(dtype, luck.randrange(11, 60)) for dtype in ("float32", "float64")]
    processes = [killed(tmp_path / dtype, dtype, step) for dtype, step in cases]
    for (dtype, step), process in zip(cases, processes, strict=True):
        assert process.wait() == -signal.SIGKILL
        how = adam(np.dtype(dtype))  # noqa: F821
        checkpoint = fb.Checkpoint(tmp_path / dtype, steps=10, minutes=None)
        resumed = problem().train(how, checkpoint=checkpoint)
        assert resumed.outcome.began_at == (-(-step // 5) * 5 - 5) // 10 * 10 > 0
        assert resumed.outcome.steps == 60
        require_same_bits(resumed, problem().train(how))
    assert len([*tmp_path.iterdir()]) == 2  # nothing is left beside


@pytest.mark.more
@pytest.mark.parametrize("number", range(20))
def test_the_bits_are_the_same_wherever_it_is_killed(number: int, tmp_path: Path):
    path, step = tmp_path / "kept", random.Random(number).randrange(11, 60)
    assert killed(path, "float64", step).wait() == -signal.SIGKILL
    require_same_bits(problem().train(HOW, checkpoint=fb.Checkpoint(path, steps=10)), whole())


WAYS = {
    "adam": HOW,
    "lbfgs": fb.LBFGS(steps=60, block=10, memory=4),
    "refined and balanced": fb.Adam(
        steps=60, rate=0.02, block=5, points=fb.Refined(every=15), balance=7
    ),
}


STEADY = """
import sys
checkpoint = fb.Checkpoint(sys.argv[1], steps=5, minutes=None)
spring().train(adam(np.float64, 3000), checkpoint=checkpoint)
"""


@functools.cache
def long() -> fb.Run:
    return problem().train(adam(np.float64, 3000))  # noqa: F821


@pytest.mark.more
@pytest.mark.parametrize("number", range(4))
def test_the_bits_are_the_same_whenever_it_is_killed(number: int, tmp_path: Path):
    """At any moment, most of which are in the middle of writing one."""
    path = tmp_path / "kept"
    process = subprocess.Popen([sys.executable, "-c", PROBLEM + STEADY, str(path)])
    while not path.exists():
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(random.Random(number).uniform(0, 1))
    process.kill()
    assert process.wait() == -signal.SIGKILL
    how = adam(np.float64, 3000)  # noqa: F821
    resumed = problem().train(how, checkpoint=fb.Checkpoint(path))
    assert 0 < resumed.outcome.began_at < 3000
    require_same_bits(resumed, long())


@pytest.mark.more
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="/proc")
def test_memory_stays_as_it_is_over_ten_thousand_steps(tmp_path: Path):
    seen = []

    def callback(progress: fb.Progress) -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        seen.append((pages * resource.getpagesize(), len(jax.live_arrays())))

    how = replace(HOW, steps=10_000, block=100)
    problem().train(how, checkpoint=fb.Checkpoint(tmp_path / "kept", steps=500), callbacks=callback)
    assert seen[-1][1] <= seen[20][1]
    assert seen[-1][0] - seen[20][0] < 4 * 2**20  # losses take some of it: a list of 8000 numbers


@pytest.mark.parametrize(
    "way",
    [pytest.param(way, marks=[pytest.mark.more] if way == "lbfgs" else []) for way in WAYS],
)
def test_what_goes_on_has_the_same_bits(way: str, tmp_path: Path):
    how, checkpoint = WAYS[way], fb.Checkpoint(tmp_path / "kept")
    first = problem().train(how, checkpoint=checkpoint, callbacks=stop_at(20))
    assert first.outcome.ended == "callback" and first.outcome.steps == 20
    run = problem().train(how, checkpoint=checkpoint)
    assert run.outcome.began_at == 20
    require_same_bits(run, problem().train(how))
    again = problem().train(how, checkpoint=checkpoint)  # nothing is left to do
    assert again.outcome.began_at == 60
    require_same_bits(again, run)


@pytest.mark.more
def test_state_of_optax_is_kept(tmp_path: Path):
    optax = pytest.importorskip("optax")
    chain = optax.chain(
        optax.clip_by_global_norm(1.0), optax.adam(optax.cosine_decay_schedule(0.02, 60))
    )
    how = fb.Optimiser(transformation=chain, steps=30, block=10)
    checkpoint = fb.Checkpoint(tmp_path / "kept")
    problem().train(how, checkpoint=checkpoint, callbacks=stop_at(10))
    require_same_bits(problem().train(how, checkpoint=checkpoint), problem().train(how))
    other = fb.Optimiser(transformation=optax.sgd(0.1), steps=30)
    with pytest.raises(ValueError, match="another state of the optimiser"):
        problem().train(other, checkpoint=checkpoint)


@pytest.mark.skipif(len(jax.devices()) < 2, reason="2 devices")
def test_it_goes_on_on_another_number_of_devices_and_says_so(tmp_path: Path):
    checkpoint = fb.Checkpoint(tmp_path / "kept")
    problem().train(HOW, checkpoint=checkpoint, callbacks=stop_at(20))
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), "x")
    with pytest.warns(fb.TrainingWarning, match=r"from step 20 on 2 devices .* was on 1 device"):
        run = problem().train(HOW, checkpoint=checkpoint, mesh=mesh)
    assert np.abs(np.array(run.outcome.losses) / whole().outcome.losses - 1).max() < 1e-12


# When it is written


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="SIGUSR1")
def test_signals_ask_for_one(tmp_path: Path):
    checkpoint = fb.Checkpoint(tmp_path / "kept")
    steps = []

    def callback(progress: fb.Progress) -> None:
        if checkpoint.path.exists():
            steps.append(progress.step)
        if progress.step == 10:
            os.kill(os.getpid(), signal.SIGUSR1)
        if progress.step == 30:
            os.kill(os.getpid(), signal.SIGTERM)

    heard = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    try:
        run = problem().train(HOW, checkpoint=checkpoint, callbacks=callback)
        assert heard == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)
    assert steps[0] == 15 and steps[-1] == 30
    assert run.outcome.ended == "signal" and run.outcome.steps == 30
    require_same_bits(problem().train(HOW, checkpoint=checkpoint), whole())


def test_ctrl_c_leaves_one_within_a_block(tmp_path: Path):
    checkpoint = fb.Checkpoint(tmp_path / "kept")
    seen = []

    def callback(progress: fb.Progress) -> None:
        seen.append(progress.step)
        if progress.step == 20:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.warns(fb.TrainingWarning, match="Ctrl-C ended it after 20 of 60 steps"):
            run = problem().train(HOW, checkpoint=checkpoint, callbacks=callback)
    finally:
        signal.signal(signal.SIGINT, before)
    assert run.outcome.ended == "interrupt" and seen[-1] == 20
    again = problem().train(HOW, checkpoint=checkpoint)
    assert again.outcome.began_at == 20
    require_same_bits(again, whole())


def test_it_is_written_every_so_many_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    clock, written = [0.0], []
    monkeypatch.setattr(_checkpoint.time, "monotonic", lambda: clock[0])

    def callback(progress: fb.Progress) -> None:
        clock[0] += 25  # seconds
        written.append(checkpoint.path.exists())

    checkpoint = fb.Checkpoint(tmp_path / "kept", minutes=1)
    problem().train(replace(HOW, steps=20), checkpoint=checkpoint, callbacks=callback)
    assert written == [False, False, False, True]  # after 75 seconds


def test_it_is_written_every_so_many_steps(tmp_path: Path):
    written = []

    def callback(progress: fb.Progress) -> None:
        if checkpoint.path.exists():
            written.append(_archive.read(checkpoint.path, ("checkpoint",))[1]["state0"].item())

    checkpoint = fb.Checkpoint(tmp_path / "kept", steps=12, minutes=None)
    problem().train(HOW, checkpoint=checkpoint, callbacks=callback)
    assert sorted(set(written)) == [15, 25, 40, 50]  # the first end of a block from 12, 24, ... on


def test_a_full_disk_is_told_and_the_training_goes_on(tmp_path: Path):
    folder = tmp_path / "folder"
    folder.mkdir()
    checkpoint = fb.Checkpoint(folder / "kept", steps=10)

    def callback(progress: fb.Progress) -> None:
        if progress.step == 30:
            shutil.rmtree(folder)

    words = r"4 checkpoints could not be written to \S+, the first at step 30 \(No such file"
    with pytest.warns(fb.TrainingWarning, match=words):
        run = problem().train(HOW, checkpoint=checkpoint, callbacks=callback)
    require_same_bits(run, whole())


def test_a_file_that_cannot_grow_is_told_and_the_last_one_stays(tmp_path: Path):
    """As on a full disk: the system refuses to write, in the middle of the file."""
    checkpoint = fb.Checkpoint(tmp_path / "kept", steps=10)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def callback(progress: fb.Progress) -> None:
        if progress.step == 30:
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))

    words = r"4 checkpoints could not .*, the first at step 30 \(File too large\); .* has step 20"
    try:
        with pytest.warns(fb.TrainingWarning, match=words):
            run = problem().train(HOW, checkpoint=checkpoint, callbacks=callback)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    require_same_bits(run, whole())
    assert [*tmp_path.iterdir()] == [checkpoint.path]
    again = problem().train(HOW, checkpoint=checkpoint)
    assert again.outcome.began_at == 20
    require_same_bits(again, whole())


FULL = """
import warnings
problem, how = spring(), adam(np.float64)
checkpoint = fb.Checkpoint("disk/kept", steps=10)
def fills(progress):
    if progress.step == 30:
        with open("disk/other", "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1024))
            except OSError:
                pass
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always", fb.TrainingWarning)
    run = problem.train(how, checkpoint=checkpoint, callbacks=fills)
assert len(run.outcome.losses) == 60, run.outcome
print(seen[0].message)
import os
os.remove("disk/other")
again = problem.train(how, checkpoint=checkpoint)
assert again.outcome.began_at == 20 and again.outcome.losses == run.outcome.losses
"""
MOUNT = "mkdir disk && mount -t tmpfs -o size=256k tmpfs disk"
PRIVATELY = ["unshare", "--map-root-user", "--mount", "sh", "-c"]


@pytest.mark.more
def test_a_disk_that_has_become_full_is_told_and_the_last_one_stays(tmp_path: Path):
    """A file system of its own, of 256 kB."""
    if (
        shutil.which("unshare") is None
        or subprocess.run(
            [*PRIVATELY, MOUNT], cwd=tmp_path, capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("no file system can be mounted")
    (tmp_path / "disk").rmdir()
    (tmp_path / "program.py").write_text(PROBLEM + FULL)
    done = subprocess.run(
        [*PRIVATELY, f"{MOUNT} && exec {sys.executable} program.py"],
        cwd=tmp_path,
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert re.search(r"4 checkpoints .* at step 30 \(No space left on device\)", done.stdout)


def test_what_is_written_half_replaces_nothing(tmp_path: Path, monkeypatch):
    path = tmp_path / "kept"
    _archive.write(path, "checkpoint", {"number": 1}, {"a": np.ones(3)})

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_archive.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        _archive.write(path, "checkpoint", {"number": 2}, {"a": np.zeros(3)})
    assert _archive.read(path, ("checkpoint",))[0]["number"] == 1
    assert [*tmp_path.iterdir()] == [path]


# What it does not go on from


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kept") / "kept"
    problem().train(HOW, checkpoint=fb.Checkpoint(path), callbacks=stop_at(5))
    return path


def other_equation(x, u):
    return (u.tt + 0.5 * u.t + 16 * u.v) / 16


OTHERS = {
    "equation": ({"equation": other_equation}, "terms[0], Interior: function differs"),
    "points": ({"points": 41}, "terms[0], Interior: points differ"),
    "constrain": ({"constrain": lambda x, u: 2 + x.t**2 * u}, "constrain differs"),
    "net": ({"net": fb.Mlp([6])}, "net was Mlp(widths=(5,)"),
    "seed": ({"seed": 1}, "seed was 0, and is 1"),
}


@pytest.mark.parametrize("case", OTHERS)
def test_another_problem_is_refused_with_the_difference(case: str, kept: Path):
    options, words = OTHERS[case]
    with pytest.raises(ValueError, match=re.escape(words)):
        spring(**options).train(HOW, checkpoint=fb.Checkpoint(kept))  # noqa: F821


def test_another_training_is_refused_with_the_difference(kept: Path):
    checkpoint = fb.Checkpoint(kept)
    with pytest.raises(ValueError, match=r"rate was 0.02, and is 0.01\. Pass what it was"):
        problem().train(replace(HOW, rate=0.01), checkpoint=checkpoint)
    with pytest.raises(ValueError, match="has float64 parameters, and this training has float32"):
        problem().train(replace(HOW, dtype=np.float32), checkpoint=checkpoint)


def test_functions_and_refinement_of_a_training_are_compared(tmp_path: Path):
    def slower(step):
        return 0.02 / (1 + step)

    how = replace(HOW, steps=10, rate=slower, points=fb.Refined(every=5))
    checkpoint = fb.Checkpoint(tmp_path / "kept")
    problem().train(how, checkpoint=checkpoint, callbacks=stop_at(5))
    for words, other in (
        ("the function rate differs", replace(how, rate=lambda step: 0.02 / (2 + step))),
        ("rate was a function, .*, and is 0.02", replace(how, rate=0.02)),
        (r"points was Refined\(every=5, .* and is .*every=6", replace(how, points=fb.Refined(6))),
    ):
        with pytest.raises(ValueError, match=words):
            problem().train(other, checkpoint=checkpoint)
    same = replace(how, rate=lambda step: 0.02 / (1 + step))
    assert problem().train(same, checkpoint=checkpoint).outcome.began_at == 5


def changed(path: Path, to: Path, **meta: object) -> Path:
    with np.load(path) as found:
        arrays = {name: found[name] for name in found.files}
    text = json.loads(str(arrays.pop("meta"))) | meta
    with to.open("wb") as file:
        np.savez(file, meta=np.array(json.dumps(text)), **arrays)
    return to


def test_other_files_are_refused(kept: Path, tmp_path: Path):
    of_later = changed(kept, tmp_path / "later", version=99)
    damaged, foreign = tmp_path / "damaged", tmp_path / "foreign"
    damaged.write_bytes(kept.read_bytes()[:-200])
    foreign.write_text("what I keep here")
    for path, words in (
        (of_later, "has version 99 of the format"),
        (changed(kept, tmp_path / "run", kind="run"), "is a run: a checkpoint is accepted here"),
        (damaged, "or it is damaged"),
        (foreign, "is no file of run.save or Checkpoint"),
    ):
        before = path.read_bytes()
        with pytest.raises(ValueError, match=words):
            problem().train(HOW, checkpoint=fb.Checkpoint(path))
        assert path.read_bytes() == before


def test_functions_are_not_compared_between_versions_of_jax(kept: Path, tmp_path: Path):
    path = changed(kept, tmp_path / "old", jax="0.0.1")
    same = spring(equation=other_equation)  # noqa: F821
    few = replace(HOW, steps=5)
    assert same.train(few, checkpoint=fb.Checkpoint(path)).outcome.began_at == 5


WORDS = {
    "no path": (lambda: fb.Checkpoint(3), "path=3 given"),
    "no folder": (lambda: fb.Checkpoint("/nowhere/at/all"), "there is no folder /nowhere/at"),
    "a folder": (lambda: fb.Checkpoint("/tmp"), "/tmp is a folder"),
    "steps": (lambda: fb.Checkpoint("a", steps=0), "steps=0 given"),
    "minutes": (lambda: fb.Checkpoint("a", minutes=-1), "minutes=-1 given"),
    "never": (lambda: fb.Checkpoint("a", minutes=None), "pass one of them"),
}


@pytest.mark.parametrize("case", WORDS)
def test_what_is_not_accepted_is_told(case: str):
    call, words = WORDS[case]
    with pytest.raises((TypeError, ValueError), match=re.escape(words)):
        call()
