"""What is said to make training of networks faster, tried one by one on this machine.

    PYTHONPATH=python python bench/fbpinn_claims.py [--points 10000] [--steps 1000] [--rounds 3]
                                    [--seconds 300] [--only TEXT] [--json FILE]
    python bench/fbpinn_claims.py --page FILE [FILE ...] > docs/performance/fbpinn-claims.md

Burgers' equation on 15 x 5 subdomains of one hidden layer of 16, float32, Adam, new points at each
step. A row is the same training with one thing changed. Rows of one environment share a process, in
which each is compiled once and trained in turns with the others; an environment of its own is a
process of its own. The most steps a second of the rounds count, as the machine may have other work.

The file is written anew after each row, so that a run that is killed leaves what it has measured.
Rows for which no time is left of --seconds, or no device, are in it with the reason, and so are
trainings that fail, as with flags that jaxlib does not know. Exit status: 1 if the first one does.

The second form reads such files, of several machines if there are, and prints the page.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

NU = 0.1 / 3.141592653589793
VALIDATED = 262_144  # points, as in the report whose claims these are
LEAST, LONGEST = 20.0, 100.0  # seconds of a process of one row


@dataclass(frozen=True)
class Row:
    """One training, or what else is measured; what is not said is as in the plain training.

    Attributes:
        name: What is changed.
        what: "training", "draws", "batches" or "validation".
        beside: The row that it is compared with.
        environment: Of the process.
        alone: Whether it needs a process of its own for what it measures of memory.
        platform: Where it makes sense; everywhere without.
    """

    name: str = "plain"
    what: str = "training"
    beside: str = "plain"
    block: int = 100
    accumulate: int = 1
    points: str = "random"
    dtype: str = "float32"
    devices: int = 1
    exchange: str = "halo"
    everywhere: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    alone: bool = False
    platform: str = ""


def flag(text: str) -> dict[str, str]:
    return {"XLA_FLAGS": text}


EACH = "a call for each step"
TWO = "two devices, halo"
ROWS = [
    Row(),
    Row(EACH, block=1),
    Row("a call for 1000 steps", block=1000),
    Row("10 gradients accumulated", accumulate=10),
    Row("the same points at each step", points="given"),
    Row("float64", dtype="float64"),
    Row("random numbers of a step", what="draws"),
    Row("no CUDA graphs", environment=flag("--xla_gpu_enable_command_buffer="), platform="gpu"),
    Row("every network at every point", everywhere=True, alone=True),
    Row("subdomains at a time", what="batches", alone=True),
    Row("points at a time", what="validation", alone=True),
    Row("JAX's cache on disk", what="cache", alone=True),
    Row("one thread of OpenMP", block=1, beside=EACH, environment={"OMP_NUM_THREADS": "1"}),
    Row("16 threads of OpenMP", block=1, beside=EACH, environment={"OMP_NUM_THREADS": "16"}),
    Row(
        "compiled for one thread",
        environment=flag("--xla_cpu_multi_thread_eigen=false"),
        platform="cpu",
    ),
    Row(
        "latency hiding scheduler",
        environment=flag("--xla_gpu_enable_latency_hiding_scheduler=true"),
        platform="gpu",
    ),
    Row(
        "no Triton products", environment=flag("--xla_gpu_enable_triton_gemm=false"), platform="gpu"
    ),
    Row("fast min and max", environment=flag("--xla_gpu_enable_fast_min_max=true"), platform="gpu"),
    Row(
        "fast min and max, as the report spells it",
        environment=flag("--xla_gpu_enablefast_min_max=true"),
        platform="gpu",
    ),
    Row(
        "copies in streams of high priority",
        environment=flag("--xla_gpu_enable_highest_priority_async_stream=true"),
        platform="gpu",
    ),
    Row("no autotuning", environment=flag("--xla_gpu_autotune_level=0"), platform="gpu"),
    Row(
        "memory not taken before",
        environment={"XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
        platform="gpu",
    ),
    Row(
        "CUDA's asynchronous allocator",
        environment={"XLA_PYTHON_CLIENT_ALLOCATOR": "cuda_async"},
        platform="gpu",
    ),
    Row("points of a Latin hypercube", points="latin"),
    Row("a call for 10 steps", block=10),
    Row(TWO, devices=2),
    Row("two devices, sums of all", devices=2, exchange="psum"),
    Row(
        "NCCL's tree",
        beside=TWO,
        devices=2,
        environment={"NCCL_ALGO": "Tree"},
        platform="gpu",
    ),
    Row(
        "16 channels of NCCL",
        beside=TWO,
        devices=2,
        environment={"NCCL_MIN_NCHANNELS": "16"},
        platform="gpu",
    ),
    Row(
        "NCCL's low latency protocol",
        beside=TWO,
        devices=2,
        environment={"NCCL_PROTO": "LL"},
        platform="gpu",
    ),
]


# In the process of a few rows


def problem_of(points: int, everywhere: bool = False) -> Any:
    """Burgers' equation with so many points, nearly."""
    import jax.numpy as jnp
    import numpy as np

    import shardsolve.fbpinn as fb

    def burgers(x, u):
        return u.t + u.v * u.x - NU * u.xx

    def from_sine(x, u):
        ends = jnp.tanh(4 * (1 + x.x)) * jnp.tanh(4 * (1 - x.x))
        return -jnp.sin(jnp.pi * x.x) + jnp.tanh(4 * x.t) * ends * u

    boxes = fb.Boxes([(-1, 1), (0, 1)], counts=(15, 5))
    if everywhere:  # as without lists of who is where
        wide = np.full_like(boxes.half_widths, 4.0)
        boxes = fb.Boxes.from_arrays(boxes.centers, wide, boxes.domain)
    side = max(2, round((points * 3 / 2) ** 0.5))
    return fb.Problem(
        boxes,
        axes="x t",
        net=fb.Mlp([16]),
        constrain=from_sine,
        terms=[fb.Interior(burgers, points=(side, max(2, round(points / side))))],
    )


def train(row: Row, problem: Any, steps: int) -> dict[str, Any]:
    """Steps a second, losses, seconds to compile."""
    import jax
    import numpy as np

    import shardsolve.fbpinn as fb

    devices = jax.devices()[: row.devices]
    mesh = jax.make_mesh((row.devices,), ("x",), devices=devices) if row.devices > 1 else None
    how = fb.Adam(
        steps=max(row.block if row.accumulate == 1 else 1, steps // row.accumulate),
        rate=5e-3,
        block=row.block,
        accumulate=row.accumulate,
        points=row.points,
        dtype=np.dtype(row.dtype),
        exchange=row.exchange,
    )
    outcome = problem.train(how, mesh=mesh).outcome
    used = devices[0].memory_stats() or {}
    return {
        "steps_a_second": outcome.steps_a_second,
        "step_seconds": outcome.step_seconds,
        "loss": float(np.mean(outcome.losses[-100 // row.accumulate :])),
        "gradients": outcome.steps * row.accumulate,
        "compile": outcome.seconds["compile"],
        "setup": outcome.seconds["setup"],
        "peak_bytes": used.get("peak_bytes_in_use"),
        "devices": outcome.devices,
    }


def draws(points: int) -> dict[str, float]:
    """Seconds of the random numbers of a step, by generator."""
    import jax
    import jax.numpy as jnp

    found = {}
    for name in ("threefry2x32", "rbg"):

        @jax.jit
        def many(key: jax.Array) -> jax.Array:
            def draw(number: jax.Array, total: jax.Array) -> jax.Array:
                mine = jax.random.fold_in(key, number)
                return total + jax.random.uniform(mine, (points, 2), jnp.float32)

            return jax.lax.fori_loop(0, 1000, draw, jnp.zeros((points, 2), jnp.float32))

        key = jax.random.key(0, impl=name)
        jax.block_until_ready(many(key))
        found[name] = min(took(lambda key=key, many=many: many(key)) for _ in range(3)) / 1000
    return found


def took(work: Any) -> float:
    """Seconds."""
    import jax

    begin = time.perf_counter()
    jax.block_until_ready(work())
    return time.perf_counter() - begin


def batches(points: int) -> Iterator[dict[str, Any]]:
    """Loss and gradient with so many subdomains at a time: seconds, bytes beside the arguments."""
    import jax
    import numpy as np

    problem = problem_of(points)
    for batch in (None, 75, 20, 5):  # None: as the loss has it
        loss = problem.loss(dtype=np.float32, batch=batch)
        given = loss, loss.parameters()
        program = jax.jit(jax.value_and_grad(lambda loss, p: loss(p), argnums=1)).lower(*given)
        compiled = program.compile()
        room = compiled.memory_analysis()
        compiled(*given)
        yield {
            "batch": batch,
            "seconds": min(took(lambda: compiled(*given)) for _ in range(5)),  # noqa: B023
            "temporary_bytes": None if room is None else room.temp_size_in_bytes,
        }


def validation(points: int) -> Iterator[dict[str, Any]]:
    """The solution at many points, so many at a time: seconds, how the process's peak grows."""
    import resource

    import numpy as np

    import shardsolve.fbpinn as fb

    run = problem_of(2000).train(fb.Adam(steps=1, block=1, dtype=np.dtype(np.float32)))
    where = np.random.default_rng(0).uniform([-1, 0], [1, 1], (points, 2))

    def peak() -> int:
        return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = peak()
    for chunk in (2048, 8192, 25_000, 65_536, points):  # the peak of the process only grows
        run.evaluate(where[:chunk], chunk=chunk)  # compiles
        seconds = min(took(lambda: run.evaluate(where, chunk=chunk)) for _ in range(2))  # noqa: B023
        yield {"chunk": chunk, "seconds": seconds, "peak_bytes": peak() - before}


def work(given: dict[str, Any]) -> None:
    """What a process of its own does: a line of JSON for each thing that is known."""
    import jax

    begin = time.perf_counter()
    jax.config.update("jax_enable_x64", True)

    def tell(**what: Any) -> None:
        print(json.dumps(what), flush=True)

    here = jax.devices()
    machine = {"platform": here[0].platform, "kind": here[0].device_kind, "there": len(here)}
    tell(machine=machine | {"jax": jax.__version__, "cores": len(os.sched_getaffinity(0))})
    rows, points = [Row(**one) for one in given["rows"]], given["points"]
    problems: dict[bool, Any] = {}  # shared, so that what rows have in common is compiled once
    for turn in range(given["rounds"]):
        for row in rows:
            if turn > 0 and time.perf_counter() - begin > given["seconds"]:
                return
            try:
                if row.what == "training":
                    if row.everywhere not in problems:
                        problems[row.everywhere] = problem_of(points, row.everywhere)
                    problem = problems[row.everywhere]
                    tell(row=row.name, found=train(row, problem, given["steps"]))
                elif turn == 0 and row.what == "draws":
                    tell(row=row.name, found=draws(points))
                elif turn == 0:
                    parts = {"batches": batches, "validation": validation}[row.what]
                    for part in parts(given["validated"]):
                        tell(row=row.name, part=part)
            except Exception as failure:  # the other rows are to be measured all the same
                tell(row=row.name, failed=f"{type(failure).__name__}: {failure}")


# In the first process


class Report:
    """What is known, in the file after each change."""

    def __init__(self, options: argparse.Namespace):
        self._path = options.json
        self.machine: dict[str, Any] = {}
        self.rows = {row.name: {"row": asdict(row)} for row in ROWS if options.only in row.name}
        names = ("points", "steps", "rounds", "validated", "seconds")
        self.options = {name: getattr(options, name) for name in names}
        self.begin = time.perf_counter()

    def note(self, name: str, **what: Any) -> None:
        """Something of a row."""
        mine = self.rows.setdefault(name, {"row": {"name": name}})
        if "found" in what and what["found"].get("steps_a_second") is not None:
            mine.setdefault("rounds", []).append(what["found"]["steps_a_second"])
            if mine["rounds"][-1] < max(mine["rounds"]):
                what = {}
            elif "found" in mine:  # compiled the first time, and peaks are those of all rows by now
                first = mine["found"]
                what["found"] |= {name: first[name] for name in ("compile", "setup", "peak_bytes")}
        if "part" in what:
            mine.setdefault("parts", []).append(what.pop("part"))
        mine |= what
        self.write()

    def write(self) -> None:
        """Whole or not at all."""
        if self._path is None:
            return
        text = {
            "machine": self.machine,
            "options": self.options,
            "seconds": time.perf_counter() - self.begin,
            "rows": list(self.rows.values()),
        }
        beside = self._path.with_suffix(".part")
        beside.write_text(json.dumps(text, indent=1) + "\n")
        beside.replace(self._path)


def in_process(
    rows: list[Row], report: Report, options: argparse.Namespace, limit: float, rounds: int
) -> list[dict[str, Any]]:
    """Rows of one environment. Returns what the process said; it is ended after `limit` seconds."""
    environment = os.environ | rows[0].environment
    most = max(row.devices for row in rows)
    if most > 1 and report.machine.get("platform") == "cpu":
        count = f"--xla_force_host_platform_device_count={most}"
        environment["XLA_FLAGS"] = f"{environment.get('XLA_FLAGS', '')} {count}".strip()
    given = {
        "rows": [asdict(row) for row in rows],
        "points": options.points,
        "steps": options.steps,
        "validated": options.validated,
        "rounds": rounds,
        "seconds": 0.7 * limit,  # then no round begins
    }
    said: list[dict[str, Any]] = []
    with tempfile.TemporaryFile("w+") as errors:
        command = [sys.executable, __file__, "--worker", json.dumps(given)]
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        over = threading.Timer(max(limit, 1.0), process.kill)
        over.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("{"):
                    said.append(json.loads(line))
                    what = dict(said[-1])
                    if "machine" in what:
                        report.machine = report.machine or what["machine"]
                    elif "row" in what:
                        report.note(what.pop("row"), **what)
            process.wait()
        finally:
            over.cancel()
            process.kill()
        errors.seek(0)
        words = errors.read()[-2000:].strip()
        if process.returncode == -9:
            words = f"not ended after {limit:.0f} s"
        elif process.returncode == 0:
            words = "its process said nothing of it"
        for row in rows:
            if not {"found", "parts", "failed"} & report.rows[row.name].keys():
                report.note(row.name, failed=words)
    return said


def cache(row: Row, report: Report, options: argparse.Namespace, limit: float) -> None:
    """Seconds to compile the first block, and those of the next process with JAX's cache."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            "JAX_COMPILATION_CACHE_DIR": folder,
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        }
        seconds: list[float] = []
        for _ in range(2):
            name = row.name + ", a process"
            report.rows[name] = {"row": asdict(row)}
            said = in_process([Row(name, environment=environment)], report, options, limit / 2, 1)
            report.rows.pop(name)
            seconds += [one["found"]["compile"] for one in said if "found" in one]
        if len(seconds) == 2:
            report.note(row.name, found={"first": seconds[0], "second": seconds[1]})
        else:
            report.note(row.name, failed="a process with the cache did not end well")


def groups(rows: list[Row]) -> Iterator[list[Row]]:
    """Rows that share a process, in the order of the first of each."""
    left = list(rows)
    while left:
        first = left[0]
        mine = [
            row
            for row in left
            if row is first
            or (
                not (row.alone or first.alone)
                and (row.environment, row.devices > 1) == (first.environment, first.devices > 1)
            )
        ]
        left = [row for row in left if row not in mine]
        yield mine


def measure(options: argparse.Namespace) -> int:
    """All rows for which there is time."""
    report = Report(options)
    wanted = [row for row in ROWS if row.name in report.rows]
    first, *others = groups([Row(), *[row for row in wanted if row != Row()]])
    report.rows.setdefault("plain", {"row": asdict(Row())})

    def left() -> float:
        return options.seconds - (time.perf_counter() - report.begin)

    in_process(first, report, options, left() if not others else 0.45 * left(), options.rounds)
    if "found" not in report.rows["plain"]:
        print(report.rows["plain"].get("failed", "the plain training said nothing"))
        return 1
    platform = report.machine["platform"]
    there = max(report.machine["there"], 2 if platform == "cpu" else 1)
    for rows in others:
        row = rows[0]
        if row.platform not in ("", platform):
            words = f"needs a {row.platform.upper()}"
        elif row.devices > there:
            words = f"needs {row.devices} devices"
        elif left() < LEAST:
            words = f"no time was left of {options.seconds:.0f} s"
        else:
            limit = min(left(), LONGEST * len(rows))
            if row.what == "cache":
                cache(row, report, options, limit)
            else:
                in_process(rows, report, options, limit, options.rounds)
            continue
        for one in rows:
            report.note(one.name, skipped=words)
    report.write()
    table(report)
    return 0


def table(report: Report) -> None:
    """For people."""
    machine, options = report.machine, report.options
    print(f"{machine['kind']}, {machine['there']} of them, {machine['cores']} cores, ", end="")
    print(f"jax {machine['jax']}; {options['points']} points, {options['steps']} gradients\n")
    print("| | steps/s | beside | | loss |")
    print("|---|---|---|---|---|")
    for name, one in report.rows.items():
        found = one.get("found", {})
        rate = found.get("steps_a_second")
        if rate is None:
            words = one.get("failed") or one.get("skipped")
            print(f"| {name} | {words or json.dumps(found or one.get('parts'))} | | | |")
            continue
        beside = one["row"]["beside"]
        other = report.rows.get(beside, {}).get("found", {}).get("steps_a_second")
        ratio = f"{rate / other:.2f}" if other else ""
        print(f"| {name} | {rate:.0f} | {ratio} | {beside} | {found['loss']:.1e} |")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=1000, help="gradients, of each training")
    parser.add_argument("--rounds", type=int, default=3, help="at most")
    parser.add_argument("--seconds", type=float, default=3600, help="of all of it")
    parser.add_argument("--validated", type=int, default=VALIDATED, metavar="POINTS")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="rows that have it in their name"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="all figures, as they come")
    parser.add_argument("--page", type=Path, nargs="+", metavar="FILE", help="print the page")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(json.loads(options.worker))
        return 0
    if options.page:
        from fbpinn_claims_page import page

        print(page([json.loads(path.read_text()) for path in options.page]), end="")
        return 0
    return measure(options)


if __name__ == "__main__":
    raise SystemExit(main())
