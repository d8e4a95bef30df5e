"""What JAX costs: `shardsolve.solve` beside the C++ call and beside jax.scipy on one device.

A x = b with backward error and rcond, A overwritten, the same matrix in all; and the time of a
4 x 4 solve under `jit`, which is that of a call. Each program runs in a process that stays alive;
their runs take turns, and the smallest of at least five counts. Every answer is checked.

    SHARDSOLVE_BUILD=build/release PYTHONPATH=python .venv/bin/python bench/front.py

Exit status: 0, or 1 if an answer is wrong or a target is missed; 3 if a program is missing or
fails.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import machine
from contest import (
    JAX,
    OURS,
    OURS_JAX,
    Measurement,
    Setting,
    environment,
    started,
    take_turns,
)
from protocol import BenchError, end_with
from run import as_json
from table import Display

HERE = Path(__file__).resolve().parent
CALLS = 500  # of the small solve
# Targets: the call from JAX takes at most so many times the C++ call; it is ahead of one device
# from so many rows on; a small solve takes so many seconds (median).
SLOWEST, AT_ROWS = 1.1, 4096
AHEAD_FROM = 2048
SMALL_SECONDS = 1e-3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, nargs="+", default=[512, 1024, 2048, 4096])
    parser.add_argument("--devices", type=int, default=4, help="CPU devices of ours")
    parser.add_argument("--runs", type=int, default=5, help="timed runs of each")
    parser.add_argument("--output", type=Path, default=machine.ROOT / "out/front.json")
    options = parser.parse_args()
    if uneven := [n for n in options.n if n % options.devices != 0]:
        parser.error(f"--n {uneven[0]}: JAX cuts rows only into {options.devices} equal parts")
    build = Path(os.environ.get("SHARDSOLVE_BUILD", machine.ROOT / "build/release")).absolute()
    options.output.parent.mkdir(parents=True, exist_ok=True)
    report: dict[str, Any] = {"machine": machine.describe(), "sizes": []}
    with Display() as display:
        display.machine(report["machine"])
        report["small"] = bench_small(options.devices, display)
        for n in options.n:
            setting = Setting(n, "float64", options.devices, None, options.runs)
            report["sizes"].append(bench_size(setting, build, options.output.parent, display))
            options.output.write_text(json.dumps(report, indent=2) + "\n")
        display.say(f"\nAll timings: {options.output}")
    results = [report["small"], *report["sizes"]]
    return 0 if all(result["good"] for result in results) else 1


def bench_small(devices: int, display: Display) -> dict[str, Any]:
    """A 4 x 4 solve: median and 95th percentile of its seconds."""
    display.doing("a 4 x 4 solve")
    command = [*program(devices), "--latency", str(CALLS)]
    done = subprocess.run(
        command, env=environment(machine.cores(), []), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise BenchError(f"{OURS_JAX}: exit status {done.returncode}\n{done.stderr}")
    seconds = json.loads(done.stdout)
    median, p95 = statistics.median(seconds), statistics.quantiles(seconds, n=20)[-1]
    good = median <= SMALL_SECONDS
    display.say(
        f"4 x 4 solve under jit on {devices} devices: median {median * 1e3:.2f} ms, "
        f"p95 {p95 * 1e3:.2f} ms ({CALLS} calls); {verdict(good, '1 ms')}"
    )
    return {"median": median, "p95": p95, "calls": CALLS, "good": good}


def bench_size(setting: Setting, build: Path, output: Path, display: Display) -> dict[str, Any]:
    """All programs at one size: shown, and returned for the file of results."""
    display.doing(f"n = {setting.n}: starting the programs")
    with tempfile.TemporaryDirectory(prefix="bench-", dir=output) as name:
        ours = [str(build / "bench/shardsolve_bench"), "--n", str(setting.n)]
        commands = {
            OURS: [*ours, "--ranks", str(setting.ranks)],
            OURS_JAX: [*program(setting.ranks), name],
            JAX: [sys.executable, str(HERE / "peer_jax.py"), name],
        }
        with started(commands, lambda _: machine.cores(), Path(name)) as all_of:
            rows = [Measurement("solve", one, setting.n, setting.dtype) for one in all_of]
            take_turns(rows, setting.runs, display.run_of(setting.runs))
    display.front(setting, rows)
    cpp, jax, plain = rows
    good = all(row.passed for row in rows)
    if good and setting.n == AT_ROWS:
        reached = jax.minimum <= SLOWEST * cpp.minimum
        display.say(verdict(reached, f"at most {SLOWEST} of the C++ call's seconds"))
        good &= reached
    if good and setting.n >= AHEAD_FROM:
        reached = jax.minimum < plain.minimum
        display.say(verdict(reached, "ahead of one device"))
        good &= reached
    return {"n": setting.n, "measurements": [as_json(row) for row in rows], "good": good}


def program(devices: int) -> list[str]:
    return [sys.executable, str(HERE / "ours_in_jax.py"), "--devices", str(devices)]


def verdict(reached: bool, target: str) -> str:
    return f"target ({target}) {'reached' if reached else 'MISSED'}"


if __name__ == "__main__":
    end_with(main)
