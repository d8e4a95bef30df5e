"""One job by several engines: ours in one process and over MPI, ScaLAPACK, LAPACK.

All on the same cores with the same OpenBLAS, each program in processes that stay alive; their runs
take turns, and the smallest of at least five counts. Every answer is checked.

    make bench-engines
    .venv/bin/python bench/engines.py --n 4096 --runs 20     # then also this
    .venv/bin/python bench/engines.py --n 4096 --job eigh

Goals, for two ranks at 4096 and 8192. The factorisation: MPI faster than ScaLAPACK with its best
block; one process and MPI within 5 % of each other. All eigenpairs: one process as fast as LAPACK,
and 1.5 times as fast as ScaLAPACK.

Exit status: 0, or 1 if an answer is wrong, a goal is missed, or two programs do not have the same
BLAS or matrix; 3 if a program is missing or fails.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import machine
from contest import (
    ENGINE_JOBS,
    LAPACK,
    OURS,
    OURS_MPI,
    SCALAPACK,
    Comparison,
    Goal,
    Measurement,
    Setting,
    started,
    take_turns,
)
from protocol import BenchError, Contestant, end_with
from run import as_json
from table import Display

BLOCKS = (64, 128, 256)
PROCESSES = Path(__file__).resolve().parent / "engines/processes.sh"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--job", choices=ENGINE_JOBS, default="factor")
    parser.add_argument("--n", type=int, nargs="+", default=[4096, 8192])
    parser.add_argument("--ranks", type=int, default=2, help="devices or processes of each engine")
    parser.add_argument("--runs", type=int, default=5, help="timed runs of each")
    parser.add_argument(
        "--blocks",
        type=int,
        nargs="+",
        default=BLOCKS,
        help="of ScaLAPACK; the best of them counts",
    )
    parser.add_argument("--output", type=Path, default=machine.ROOT / "out/engines.json")
    options = parser.parse_args()
    build = Path(os.environ.get("SHARDSOLVE_BUILD", machine.ROOT / "build/release")).absolute()
    report: dict[str, Any] = {"machine": machine.describe(), "sizes": []}
    with Display() as display:
        display.machine(report["machine"])
        for n in options.n:
            setting = Setting(n, "float64", options.ranks, None, options.runs)
            report["sizes"].append(bench_size(options.job, setting, options.blocks, build, display))
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(report, indent=2) + "\n")
        display.say(f"\nAll timings: {options.output}")
    return 0 if all(size["good"] for size in report["sizes"]) else 1


def bench_size(
    job: str, setting: Setting, blocks: Sequence[int], build: Path, display: Display
) -> dict[str, Any]:
    """All engines at one size: shown, and returned for the file of results."""
    display.doing(f"n = {setting.n}: starting the programs")
    with engines(setting, build) as all_of:
        display.programs(all_of)
        rows = [row for contestant in all_of for row in rows_of(job, contestant, setting, blocks)]
        take_turns(rows, setting.runs, display.run_of(setting.runs))
        by_name = {contestant.name: best_of(rows, contestant.name) for contestant in all_of}
        ours = by_name[OURS_MPI]
        ratios = [Comparison(ours, row, setting) for row in rows]
        if job == "factor":
            goals = [
                Goal(Comparison(ours, by_name[SCALAPACK], setting), 1.0),
                Goal(Comparison(ours, by_name[OURS], setting), 0.95, 1.05),
            ]
        else:
            goals = [
                Goal(Comparison(by_name[OURS], by_name[LAPACK], setting), 1.0),
                Goal(Comparison(by_name[OURS], by_name[SCALAPACK], setting), 1.5),
            ]
        display.engines(setting, rows, ratios, goals)
        return {
            "job": job,
            "n": setting.n,
            "ranks": setting.ranks,
            "programs": {contestant.name: contestant.hello for contestant in all_of},
            "measurements": [
                as_json(row) | {"speed_of_ours_with_mpi": ratio.ratio}
                for row, ratio in zip(rows, ratios, strict=True)
            ],
            "goals": [
                {
                    "beside": goal.comparison.peer.contestant.name,
                    "ratio": goal.comparison.ratio,
                    "goal": goal.text,
                    "reached": goal.reached,
                }
                for goal in goals
            ],
            "good": all(ratio.refused is None for ratio in ratios)
            and all(goal.reached is not False for goal in goals),
        }


def best_of(rows: Sequence[Measurement], name: str) -> Measurement:
    """The fastest of a program's measurements."""
    return min((row for row in rows if row.contestant.name == name), key=lambda row: row.minimum)


def rows_of(
    job: str, contestant: Contestant, setting: Setting, blocks: Sequence[int]
) -> list[Measurement]:
    tiles: Sequence[int | None] = blocks if contestant.name == SCALAPACK else (None,)
    return [Measurement(job, contestant, setting.n, setting.dtype, nb) for nb in tiles]


@contextmanager
def engines(setting: Setting, build: Path) -> Iterator[list[Contestant]]:
    """Starts all engines, and ends them afterwards."""
    problem = ["--n", str(setting.n)]
    ours = [str(build / "bench/shardsolve_bench"), *problem]
    processes = [str(PROCESSES), str(setting.ranks)]
    commands = {
        OURS: [*ours, "--ranks", str(setting.ranks)],
        OURS_MPI: [*processes, *ours, "--mpi"],
        SCALAPACK: [*processes, str(build / "bench/shardsolve_bench_scalapack"), *problem],
        LAPACK: [str(build / "bench/shardsolve_bench_peer"), *problem],
    }
    if not Path(commands[SCALAPACK][2]).is_file():
        raise BenchError(
            "built without ScaLAPACK (Debian: libscalapack-openmpi-dev): 'make bench-engines' "
            "brings it where it can"
        )
    with started(commands, lambda name: machine.cores() if name == LAPACK else 1) as all_of:
        yield all_of


if __name__ == "__main__":
    end_with(main)
