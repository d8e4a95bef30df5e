"""Speed of shardsolve on GPUs beside cuSOLVER, cuSOLVERMg, cuSOLVERMp and JAXMg.

Every program runs in a process of its own that stays alive; their runs take turns, each peer with
the tile that is fastest here. Every answer is checked on the GPUs, and a program whose answer is
wrong has no speed. The ceiling is the rate of rank-k updates that all GPUs sustain at once,
measured first.

Exit status: 0, or 1 if an answer is wrong; 3 if nothing could be timed.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import gpu_plot
import gpus
import machine
from gpu_contest import (
    CEILING,
    DN,
    ELEMENT_BYTES,
    JOBS,
    MP,
    OURS,
    OURS_JAX,
    OURS_MPI,
    PACKAGES,
    PEER_TILES,
    PEERS,
    PROGRAMS,
    QUICK_TILES,
    SYSTEM_JOBS,
    USABLE,
    Rules,
    Setting,
    as_json,
    contestants,
    time_job,
)
from gpu_table import GpuDisplay
from protocol import ENVIRONMENT_ERROR, BenchError, end_with

MATRICES = ("well_conditioned", "gaussian")
SIZES = (8192, 16384, 32768, 65536, 131072)
# (dtype, matrix, sizes, jobs) in the order in which they are timed when nothing else is asked for.
PLAN = (
    ("float64", "well_conditioned", SIZES, ("factor", "solve", "solve_many", "one_call", "rcond")),
    ("float64", "well_conditioned", (8192, 16384, 32768), ("inverse",)),
    ("float64", "gaussian", (16384,), ("factor", "one_call")),
    ("float32", "well_conditioned", (16384, 32768, 65536), ("factor", "one_call")),
    ("complex64", "well_conditioned", (32768,), ("factor",)),
    ("complex128", "well_conditioned", (32768,), ("factor",)),
)
QUICK_PLAN = (("float64", "well_conditioned", (8192, 16384), ("factor", "solve", "one_call")),)
CEILING_RANKS = (512, 1024, 2048)


def main() -> int:
    options = parse_options()
    with GpuDisplay() as display:
        return bench(options, display)


def bench(options: argparse.Namespace, display: GpuDisplay) -> int:
    """All stages, until the time is over. Returns the exit status."""
    end = time.monotonic() + options.budget
    found = gpus.describe()
    devices = options.devices or [int(gpu["index"]) for gpu in found]
    if not devices:
        raise BenchError("nvidia-smi finds no GPU; name them with --devices if there are some")
    memory = min(
        (gpus.memory_bytes(gpu) for gpu in found if int(gpu["index"]) in devices), default=80e9
    )
    report = describe(found, devices)
    display.machine(report["machine"])
    display.gpus(found, devices)
    names = present(options, len(devices), display)
    settings = [one for one in plan(options, devices) if fits(one, memory, display)]
    options.output.parent.mkdir(parents=True, exist_ok=True)
    if options.ceiling_seconds > 0:
        for dtype in dict.fromkeys(setting.dtype for setting in settings):
            report["ceilings"] += ceilings(options, devices, dtype, display)
        display.ceilings(report["ceilings"])
    for index, setting in enumerate(settings):
        left = end - time.monotonic()
        if left < options.least_stage:
            display.say(f"out of time: {len(settings) - index} of {len(settings)} stages left out")
            report["left_out"] = [dataclasses.asdict(one) for one in settings[index:]]
            break
        budget = min(options.stage_budget, left)
        report["stages"].append(stage(setting, names, options, memory, budget, report, display))
        save(report, options.output)
    save(report, options.output)
    picture(report, options.output.with_suffix(".svg"), display)
    display.say(f"All timings: {options.output}")
    rows = [row for one in report["stages"] for row in one["rows"]]
    if not any("seconds" in row for row in rows):
        return ENVIRONMENT_ERROR
    return 1 if any("wrong" in row for row in rows if row["program"] == OURS) else 0


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", type=_numbers, help="GPUs, e.g. 0,1; by default all")
    parser.add_argument("--n", type=_numbers, help="sizes, e.g. 8192,16384; by default a plan")
    parser.add_argument("--dtype", nargs="+", choices=ELEMENT_BYTES, default=["float64"])
    parser.add_argument("--matrix", nargs="+", choices=MATRICES, default=["well_conditioned"])
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=list(SYSTEM_JOBS))
    parser.add_argument("--columns", type=int, default=64, help="right-hand sides of solve_many")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument("--runs", type=int, default=5, help="timed runs of each")
    parser.add_argument("--sweep", type=_numbers, default=[], help="tiles of ours, e.g. 256,512")
    parser.add_argument(
        "--mp-tiles", type=_numbers, help="of cuSOLVERMp, e.g. 256,512; by default some"
    )
    parser.add_argument("--quick", action="store_true", help="a look of 60 seconds")
    parser.add_argument("--budget", type=float, default=540, help="seconds in all")
    parser.add_argument("--stage-budget", type=float, default=90, help="seconds of one size")
    parser.add_argument("--least-stage", type=float, default=10, help="none starts with less left")
    parser.add_argument("--timeout", type=float, default=120, help="seconds of one answer")
    parser.add_argument(
        "--ceiling-seconds", type=float, default=2.0, help="of each k; 0 leaves it out"
    )
    parser.add_argument("--output", type=Path, default=machine.ROOT / "out/bench-cuda.json")
    build = Path(os.environ.get("SHARDSOLVE_BUILD", machine.ROOT / "build/release"))
    parser.add_argument("--build", type=Path, default=build.absolute() / "bench/cuda")
    parser.add_argument(
        "--mp-libraries",
        default=os.environ.get("SHARDSOLVE_MP_LIBRARIES", ""),
        help="folders of cuSOLVERMp's libraries, separated by colons",
    )
    parser.add_argument(
        "--cusolver", default="", help="folder of another cuSOLVER than the one of CUDA"
    )
    options = parser.parse_args()
    if options.quick:
        options.budget, options.stage_budget = min(options.budget, 55), 25
        options.runs, options.ceiling_seconds = min(options.runs, 3), 1.0
    return options


def _numbers(text: str) -> list[int]:
    numbers = [int(part) for part in text.split(",")]
    if min(numbers) < 0:
        raise argparse.ArgumentTypeError(f"{text} given; numbers separated by commas are needed")
    return numbers


def describe(found: list[dict[str, str]], devices: list[int]) -> dict[str, Any]:
    """The report, before anything is timed."""
    described = machine.describe()
    # A copy of the tree has no history; its sender may say what it is a copy of.
    described["commit"] = os.environ.get("SHARDSOLVE_COMMIT", described["commit"])
    return {
        "command": [without_folder(word) for word in sys.argv],
        "machine": described,
        "gpus": found,
        "devices": devices,
        "ceilings": [],
        "stages": [],
    }


def without_folder(word: str) -> str:
    """A word of the command without folders of this machine, as the report may be published."""
    option, equals, value = word.rpartition("=")
    return option + equals + (Path(value).name if Path(value).is_absolute() else value)


def plan(options: argparse.Namespace, devices: list[int]) -> list[Setting]:
    """The stages: what the options ask for, or the plan."""
    wanted = QUICK_PLAN if options.quick else PLAN
    if options.n:
        wanted = tuple(
            (dtype, matrix, tuple(options.n), tuple(options.jobs))
            for dtype in options.dtype
            for matrix in options.matrix
        )
    return [
        Setting(n, dtype, matrix, tuple(devices), options.columns, jobs)
        for dtype, matrix, sizes, jobs in wanted
        for n in sizes
    ]


def fits(setting: Setting, memory: float, display: GpuDisplay) -> bool:
    """Whether ours fits into the GPUs alone."""
    if setting.held(OURS) < USABLE * memory:
        return True
    display.say(
        f"left out: n = {setting.n}, {setting.dtype} takes about {setting.held(OURS) / 1e9:.0f} GB "
        f"on each GPU"
    )
    return False


def present(options: argparse.Namespace, gpu_count: int, display: GpuDisplay) -> list[str]:
    """The programs that take part, of those that were built."""
    names = []
    for name in (OURS, OURS_MPI, OURS_JAX, *options.peers):
        missing = [one for one in PACKAGES.get(name, ()) if not importlib.util.find_spec(one)]
        if missing:
            display.say(f"left out: {PROGRAMS[name]}; this Python has no {', '.join(missing)}")
        elif name in PACKAGES:
            names.append(name)
        elif not (options.build / PROGRAMS[name]).exists():
            display.say(f"left out: {PROGRAMS[name]} is not in {options.build}")
        elif name == OURS_MPI and (gpu_count == 1 or shutil.which("mpirun") is None):
            display.say("left out: ours with a process for each GPU; it needs two GPUs and mpirun")
        elif name == MP and not options.mp_libraries:
            display.say("left out: cuSOLVERMp needs --mp-libraries or SHARDSOLVE_MP_LIBRARIES")
        else:
            names.append(name)
    if OURS not in names:
        raise BenchError(f"no program in {options.build}; build the target bench/cuda/all")
    if gpu_count > 1 and DN in names:
        display.say("cuSOLVER (not Mg, not Mp) uses the first GPU alone")
    return names


def ceilings(
    options: argparse.Namespace, devices: list[int], dtype: str, display: GpuDisplay
) -> list[dict[str, Any]]:
    """Sustained rank-k updates of one dtype; nothing if that fails."""
    display.doing(f"ceiling of {dtype}")
    ranks = CEILING_RANKS[1:2] if options.quick else CEILING_RANKS
    command = [
        str(options.build / CEILING),
        f"--dtype={dtype}",
        f"--devices={','.join(map(str, devices))}",
        f"--k={','.join(map(str, ranks))}",
        f"--seconds={options.ceiling_seconds}",
    ]
    try:
        answer = subprocess.run(
            command,
            env=gpus.environment(),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=options.timeout,
        )
    except (OSError, subprocess.SubprocessError) as error:
        display.say(f"no ceiling of {dtype}: {error}")
        return []
    return [json.loads(line) for line in answer.stdout.splitlines()]


def stage(
    setting: Setting,
    names: list[str],
    options: argparse.Namespace,
    memory: float,
    budget: float,
    report: dict[str, Any],
    display: GpuDisplay,
) -> dict[str, Any]:
    """All jobs of one setting: shown, and returned for the file of results."""
    deadline = time.monotonic() + budget
    able = [name for name in names if setting.held(name) < USABLE * memory]
    tiles = dict(QUICK_TILES if options.quick else PEER_TILES)
    if options.mp_tiles:
        tiles[MP] = tuple(options.mp_tiles)
    rules = Rules(options.runs, tiles, memory, options.sweep)
    result: dict[str, Any] = {**dataclasses.asdict(setting), "rows": []}
    display.doing(f"n = {setting.n}: starting the programs")
    with contestants(
        setting,
        able,
        options.build,
        options.timeout,
        options.mp_libraries,
        options.cusolver,
        display.say,
    ) as everybody:
        display.contestants(everybody)
        for index, job in enumerate(setting.jobs):
            share = (deadline - time.monotonic()) / (len(setting.jobs) - index)
            rows = time_job(
                setting,
                job,
                everybody,
                rules,
                time.monotonic() + share,
                lambda text: display.doing(f"n = {setting.n}: {text}"),
            )
            if not rows:
                continue
            display.job(setting, rows, gpu_plot.ceiling(report, setting.dtype))
            result["rows"] += [as_json(row) for row in rows]
            if time.monotonic() > deadline:
                display.say("the time of this size is over")
                break
        result["programs"] = {
            one.name: {**one.hello, "loaded": one.loaded_libraries()} for one in everybody
        }
    return result


def save(report: dict[str, Any], output: Path) -> None:
    output.write_text(json.dumps(report, indent=2) + "\n")


def picture(report: dict[str, Any], target: Path, display: GpuDisplay) -> None:
    """Speed over size, if matplotlib is there and something was timed."""
    try:
        if gpu_plot.draw(report, target):
            display.say(f"\nPicture: {target}")
    except ImportError as error:
        display.say(f"\nno picture: {error}")


if __name__ == "__main__":
    end_with(main)
