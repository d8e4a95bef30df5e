"""Speed and memory of shardsolve beside LAPACK, SciPy and JAX: run by `make bench`.

Every program runs in a process of its own that stays alive; their runs take turns, and the smallest
of at least five counts. Every answer is checked, and a program whose answer is wrong has no speed.

Exit status: 0, or 1 if an answer is wrong, a target is missed or a bound is exceeded; 3 if a
program is missing or fails.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import machine
import memory
from contest import (
    JOBS,
    LABELS,
    LAPACK,
    PEERS,
    TARGET,
    TARGET_RANKS,
    TARGET_RUNS,
    TARGET_SIZES,
    Comparison,
    Measurement,
    Setting,
    contestants,
    take_turns,
)
from protocol import Contestant, end_with
from table import Display

SWEEP_TILES = (64, 96, 128, 160, 192, 256, 320, 384, 512)
QUICK_SIZE = 1024
DTYPES = ("float32", "float64", "complex64", "complex128")


def main() -> int:
    options = parse_options()
    with Display() as display:
        return bench(options, display)


def bench(options: argparse.Namespace, display: Display) -> int:
    """All sizes, one after the other. Returns the exit status."""
    described = machine.describe()
    display.machine(described)
    report: dict[str, Any] = {"machine": described, "target": TARGET, "sizes": []}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    for n in options.n:
        setting = Setting(n, options.dtype, options.ranks, options.tile, options.runs)
        report["sizes"].append(bench_size(setting, options, display))
        options.output.write_text(json.dumps(report, indent=2) + "\n")
    display.say(f"\nAll timings: {options.output}")
    return 0 if all(size["good"] for size in report["sizes"]) else 1


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=_positive, nargs="+", default=list(TARGET_SIZES))
    parser.add_argument("--quick", action="store_true", help=f"n = {QUICK_SIZE} only")
    parser.add_argument("--runs", type=_positive, default=TARGET_RUNS, help="timed runs of each")
    parser.add_argument("--ranks", type=_positive, default=TARGET_RANKS, help="CPU devices of ours")
    parser.add_argument("--tile", type=_positive, help="by default the library's choice")
    parser.add_argument("--dtype", choices=DTYPES, default="float64")
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=list(JOBS))
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument(
        "--sweep",
        type=_positive,
        nargs="*",
        metavar="TILE",
        help="only the factorisation, with these tiles (by default, from 64 to 512)",
    )
    parser.add_argument("--output", type=Path, default=machine.ROOT / "out/bench.json")
    build = Path(os.environ.get("SHARDSOLVE_BUILD", machine.ROOT / "build/release"))
    parser.add_argument("--build", type=Path, default=build.absolute())
    options = parser.parse_args()
    if options.quick:
        options.n = [QUICK_SIZE]
    if options.sweep is not None:
        options.peers = [peer for peer in options.peers if peer == LAPACK]
    return options


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} given; at least 1 is needed")
    return number


def bench_size(setting: Setting, options: argparse.Namespace, display: Display) -> dict[str, Any]:
    """Everything for one size: shown, and returned for the file of results."""
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.output.parent) as name:
        folder = Path(name)
        display.doing(f"n = {setting.n}: starting the programs")
        with contestants(setting, options.peers, options.build, folder, machine.cores()) as all_of:
            display.programs(all_of)
            result: dict[str, Any] = {**dataclasses.asdict(setting), "good": True}
            result["programs"] = {contestant.name: contestant.hello for contestant in all_of}
            if options.sweep is not None:
                sweep(setting, options.sweep or SWEEP_TILES, all_of, display, result)
                return result
            result["jobs"] = []
            for job in options.jobs:
                result["jobs"].append(bench_job(setting, job, all_of, display))
                result["good"] &= result["jobs"][-1]["good"]
        display.doing(f"n = {setting.n}: memory")
        use = memory.measure(options.build / "shardsolve", folder, setting.ranks, setting.tile)
        display.memory(use)
        result["memory"] = {**dataclasses.asdict(use), "bound": use.bound, "kept": use.kept}
        result["good"] &= use.kept
        return result


def bench_job(
    setting: Setting, job: str, all_of: Sequence[Contestant], display: Display
) -> dict[str, Any]:
    """One job by all who can do it, in turn."""
    rows = [
        Measurement(job, contestant, setting.n, setting.dtype)
        for contestant in all_of
        if contestant.name in LABELS[job]
    ]
    take_turns(rows, setting.runs, display.run_of(setting.runs))
    peer = next((row for row in rows if row.contestant.name == LAPACK), None)
    comparison = None if peer is None else Comparison(rows[0], peer, setting)
    display.job(setting, rows, comparison)
    result: dict[str, Any] = {"job": job, "measurements": [as_json(row) for row in rows]}
    result["good"] = all(row.passed for row in rows)
    if comparison is not None:
        result["ratio_to_lapack"] = comparison.ratio
        result["ratio_refused"] = comparison.refused
        result["target_reached"] = comparison.reached
        result["good"] &= comparison.reached is not False
    return result


def sweep(
    setting: Setting,
    tiles: Sequence[int],
    all_of: Sequence[Contestant],
    display: Display,
    result: dict[str, Any],
) -> None:
    """The factorisation with several tiles, in turn with each other and with LAPACK."""
    ours, *peers = all_of
    job = "factor"
    # A tile is never wider than the widest slab: beyond it all are the same.
    widest = -(-setting.n // setting.ranks)
    tiles = sorted({min(tile, widest) for tile in (*tiles, ours.hello["tile"])})
    rows = [Measurement(job, ours, setting.n, setting.dtype, tile) for tile in tiles]
    others = [Measurement(job, peer, setting.n, setting.dtype) for peer in peers]
    take_turns([*rows, *others], setting.runs, display.run_of(setting.runs))
    display.sweep(setting, rows, others[0] if others else None)
    result["sweep"] = [as_json(row) for row in [*rows, *others]]
    result["good"] = all(row.passed for row in [*rows, *others])


def as_json(row: Measurement) -> dict[str, Any]:
    """A measurement for the file of results; without seconds where an answer was wrong."""
    result: dict[str, Any] = {"program": row.contestant.name, "label": row.label}
    if row.tile is not None:
        result["tile"] = row.tile
    result["residuals_in_u"] = row.worst
    if row.passed:
        result["seconds"] = row.seconds
        result["min"] = row.minimum
        result["median"] = row.median
        result["gflops"] = row.gflops
    else:
        result["wrong"] = row.failures
    return result


if __name__ == "__main__":
    end_with(main)
