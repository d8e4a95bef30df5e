"""One of several processes that train networks together: see test_jax_networks_processes.py.

networks_process_program.py <part> <number> <processes> <address:port> <folder>
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
from jax.sharding import Mesh

import shardsolve
import shardsolve.fbpinn as fb
from shardsolve.fbpinn import _archive


def swing(x, u):
    return (u.tt + 0.4 * u.t + 16 * u.v) / 16


def spring(equation=swing) -> fb.Problem:
    return fb.Problem(
        fb.Boxes([(0, 2)], (6,)),
        axes="t",
        net=fb.Mlp([5]),
        constrain=lambda x, u: 1 + x.t**2 * u,
        terms=[fb.Interior(equation, points=60), fb.Data([0.5, 1.0], [0.1, -0.2], reading)],
        coefficients={"shift": fb.Scalar(0.0)},
    )


def reading(x, u, c):
    return u.v + c.shift


ADAM = fb.Adam(steps=40, rate=0.02, block=10, points="random")
FURTHER = {
    "refined": replace(ADAM, points=fb.Refined(every=15), balance=20, steps=30),
    "sum": replace(ADAM, points="given", exchange="psum", steps=20),
    "float32": replace(ADAM, dtype=np.float32),
}


def curves(problem: fb.Problem, mesh: Mesh, further: bool = False) -> dict[str, np.ndarray]:
    """Losses and weights of some trainings, L-BFGS behind Adam among them."""
    found: dict[str, np.ndarray] = {}
    if further:
        runs = {name: problem.train(how, mesh=mesh) for name, how in FURTHER.items()}
    else:
        runs = {"random": problem.train(ADAM, mesh=mesh)}
        newton = fb.LBFGS(steps=20, block=10)
        runs["lbfgs"] = problem.train(newton, mesh=mesh, start=runs["random"])
    for name, run in runs.items():
        outcome = run.outcome
        found[f"{name} losses"] = np.array(outcome.losses)
        found[f"{name} between"] = np.array(outcome.held_out_losses)
        found[f"{name} last"] = run.weights()[1]
        found[f"{name} deviations"] = np.array(outcome.coefficient_deviations)
    return found


def raised(kind: type[Exception], call: Callable[[], object]) -> str:
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


def checkpoints(problem: fb.Problem, mesh: Mesh, number: int, folder: str) -> None:
    """One process stops, one process writes, and both go on."""
    writes = []
    write = _archive.write

    def counted(path, *rest) -> None:
        writes.append(path)
        write(path, *rest)

    _archive.write = counted
    kept = fb.Checkpoint(f"{folder}/kept", steps=10)

    def only_in_process_1(progress: fb.Progress) -> bool:
        return number == 1 and progress.step == 20

    first = problem.train(ADAM, mesh=mesh, checkpoint=kept, callbacks=only_in_process_1)
    assert (first.outcome.ended, first.outcome.steps) == ("callback", 20)
    assert len(writes) == (2 if number == 0 else 0), writes
    again = problem.train(ADAM, mesh=mesh, checkpoint=kept)
    assert again.outcome.began_at == 20
    whole = problem.train(ADAM, mesh=mesh)
    assert again.outcome.losses == whole.outcome.losses
    assert np.array_equal(again.weights()[1], whole.weights()[1])
    os.chdir(folder if number == 0 else "/")
    other = fb.Checkpoint("/proc/self/cwd/kept")  # another place in each process
    text = raised(ValueError, lambda: problem.train(ADAM, mesh=mesh, checkpoint=other))
    assert "process 1 does not find the same at /proc/self/cwd/kept as process 0" in text, text


def misuse(problem: fb.Problem, mesh: Mesh, number: int) -> None:
    """What goes wrong in one process is known to all, and the next training works."""
    other = replace(ADAM, rate=0.01 * (1 + number))
    text = raised(ValueError, lambda: problem.train(other, mesh=mesh))
    assert "process 1 has another optimiser than process 0" in text, text

    def fails_in_process_1(progress: fb.Progress) -> None:
        if number == 1:
            raise ArithmeticError("of the user")

    kind = ArithmeticError if number == 1 else shardsolve.SolverError
    text = raised(kind, lambda: problem.train(ADAM, mesh=mesh, callbacks=fails_in_process_1))
    assert text == "of the user" or "a callback of process 1 has raised" in text, text
    if number == 1:
        alone = Mesh(np.array(jax.devices()[:2]), "x")
        text = raised(ValueError, lambda: problem.train(ADAM, mesh=alone))
        assert "a mesh without devices of this process (1)" in text, text
    assert problem.train(replace(ADAM, steps=5), mesh=mesh).outcome.steps == 5


def measured(mesh: Mesh) -> None:
    """All processes get the same times of all devices."""
    loss = spring().loss(mesh=mesh)
    found = loss.measure(loss.parameters(), repeats=5)
    assert len(found.compute) == 4 and min(found.compute) > 0, found
    assert found.processes == [0, 0, 1, 1] and found.links, found


def traced(problem: fb.Problem, mesh: Mesh, number: int, folder: str) -> None:
    """Process 1 is waited for, and the first one's trace has both."""

    def slow_in_process_1(progress: fb.Progress) -> None:
        time.sleep(0.2 * number)

    path, calls = f"{folder}/trace.json", {"mesh": mesh, "callbacks": slow_in_process_1}
    with shardsolve.trace(path) if number == 0 else contextlib.nullcontext():
        outcome = problem.train(ADAM, **calls).outcome
    waits = dict(outcome.waits)
    assert waits[1] > 0.5 and waits.get(0, 0.0) < 0.2 * waits[1], waits
    assert (outcome.seconds["waiting"] > 0.5) == (number == 0), outcome.seconds
    if number == 0:
        report = json.loads(Path(path).read_text())
        training = report["otherData"]["training"]
        assert training["straggler"] == 1 and len(training["processes"]) == 2, training
        steps = [one["seconds"]["steps"] for one in training["processes"]]
        assert min(steps) > 0, training
        begins: dict[int, list[float]] = {}
        for event in report["traceEvents"]:
            if event["name"] == "steps":
                begins.setdefault(event["pid"], []).append(event["ts"])
        one, other = (np.array(sorted(each)) for each in begins.values())
        assert len(one) == len(other) == 4
        assert np.abs(one - other).max() < 1e5, (one, other)  # microseconds: they begin together


def not_finite(mesh: Mesh) -> None:
    """The point is named in all processes."""
    never = spring(lambda x, u: swing(x, u) / (x.t > 1.9))
    text = raised(ValueError, lambda: never.train(ADAM, mesh=mesh))
    assert "not finite at step 0" in text and "in box 0 on device 0" in text, text


def lose(mesh: Mesh, number: int, signal_number: int) -> None:
    """Process 1 is lost between two blocks."""
    shardsolve.set_timeout(3)
    begin = [0.0]

    def callback(progress: fb.Progress) -> None:
        begin[0] = time.monotonic()
        if number == 1 and progress.step == 20:
            threading.Timer(0.05, lambda: os.kill(os.getpid(), signal_number)).start()

    long = replace(ADAM, steps=1_000_000)
    try:
        spring().train(long, mesh=mesh, callbacks=callback)
        text = "no error"
    except shardsolve.SolverError as error:
        text = f"{error.status.name} {error}"
    print(f"REPORT {time.monotonic() - begin[0]:.1f} {text}", flush=True)
    os._exit(0)  # JAX would wait for the others


def main() -> None:
    part, number, processes, coordinator, folder = sys.argv[1:]
    jax.distributed.initialize(coordinator, int(processes), int(number))
    warnings.simplefilter("ignore", fb.TrainingWarning)
    mesh, problem = Mesh(np.array(jax.devices()), "x"), spring()
    if part in ("kill", "stop"):
        lose(mesh, int(number), {"kill": 9, "stop": 19}[part])
    np.savez(f"{folder}/{number}.npz", **curves(problem, mesh, part == "further"))
    if part == "further":
        not_finite(mesh)
        measured(mesh)
    else:
        checkpoints(problem, mesh, int(number), folder)
        misuse(problem, mesh, int(number))
        traced(problem, mesh, int(number), folder)


if __name__ == "__main__":
    main()
