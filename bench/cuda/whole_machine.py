"""What a machine of several GPUs is asked to show, in stages: right first, then fast, then large.

  tests    the device, distributed and MPI tiers of the tests on all GPUs
  bits     the command in one process and in a process for each GPU writes the same files
  faults   a process stopped, one killed, memory taken by another program; the next job works
  hosts    two hosts of half of the GPUs each, by NCCL: the bits of one
  jax      eigenpairs and Krylov solves from JAX over all GPUs, right and with the same bits
  speeds   bench/cuda/run.py with the sizes that this many GPUs are for
  largest  the largest n that fits: one call in float32, eigenpairs in float64, certified

A stage that takes longer than its share of --budget is ended and says so. After each the file of
results is written anew.

Exit status: 0; 1 if something is wrong; 3 if there are no GPUs or programs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "tests/support"))

import gpus
import machine
from gpu_contest import ELEMENT_BYTES, MPIRUN, OURS, GpuContestant, Setting, command_of
from hosts import Hosts
from protocol import BenchError, end_with

# They look into memory of the host, or at waits that GPUs do not have.
NOT_ON_GPUS = "*Meshes/Waits.*:*LuFactorFile*:*Workspace*"
# Of the distributed tier what depends on how many GPUs there are.
OF_SEVERAL_GPUS = (
    "*Cholesky*:*Factor*:*Solve*:*Inverse*:*Eigh*:*Lu*:*Qr*:*Svd*:*Krylov*:*Process*:*Faults*"
)
# (GPUs, dtype, job): {n: seconds that were set as a goal}.
GOALS: dict[tuple[int, str, str], dict[int, float]] = {
    (4, "float64", "factor"): {32768: 0.073, 65536: 0.50, 131072: 3.8},
    (8, "float64", "factor"): {65536: 0.32, 131072: 2.0, 262144: 15.0},
    (8, "float32", "factor"): {131072: 1.1, 262144: 8.0},
    (8, "float64", "eigh"): {32768: 1.6, 65536: 9.0},
}
# What is timed where there are no goals, and of --reduced.
USUAL = {("float64", "factor"): (16384, 32768), ("float64", "eigh"): (8192, 16384)}
REDUCED = {
    ("float64", "factor"): (8192,),
    ("float32", "factor"): (8192,),
    ("float64", "eigh"): (2048,),
}
SEED_N = 524288  # of the field's headline, in float32 on eight GPUs
SILENCE = 5  # seconds
Row = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """Where everything runs, and until when."""

    devices: tuple[int, ...]
    memory: float  # bytes of one GPU
    build: Path
    reduced: bool
    mp_libraries: str
    end: float

    @property
    def listed(self) -> str:
        """The GPUs, as commands take them."""
        return ",".join(map(str, self.devices))

    @property
    def command(self) -> str:
        """The program shardsolve."""
        return str(self.build / "shardsolve")

    def environment(self, **more: str) -> dict[str, str]:
        """Of all programs."""
        return {**gpus.environment(str(self.build)), **more}

    def left(self) -> float:
        """Seconds of the stage."""
        return max(self.end - time.monotonic(), 1.0)

    def in_processes(self, *command: str) -> list[str]:
        """The command in a process for each GPU."""
        return [*MPIRUN, "-np", str(len(self.devices)), *command]


def main() -> int:
    options = parse_options()
    found = gpus.describe()
    devices = options.devices or [int(gpu["index"]) for gpu in found]
    if len(devices) < 2:
        raise BenchError(f"{len(devices)} GPUs found or named; at least two are needed")
    if not (options.build / "shardsolve").exists():
        raise BenchError(f"no shardsolve in {options.build}; build all and bench/cuda/all there")
    memory = min(gpus.memory_bytes(gpu) for gpu in found if int(gpu["index"]) in devices)
    report: dict[str, Any] = {"machine": machine.describe(), "gpus": found, "devices": devices}
    end = time.monotonic() + options.budget
    wrong = False
    for index, name in enumerate(options.stages):
        to_come = sum(WEIGHTS[one] for one in options.stages[index:])
        share = (end - time.monotonic()) * WEIGHTS[name] / to_come
        place = Place(
            tuple(devices), memory, options.build, options.reduced, options.mp_libraries,
            time.monotonic() + share,
        )  # fmt: skip
        print(f"\n{name}, at most {share:.0f} s", flush=True)
        report[name] = []
        for row in rows_of(STAGES[name], place):
            report[name].append(row)
            wrong = wrong or row["result"] == "wrong"
            print("  " + "  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
            options.output.parent.mkdir(parents=True, exist_ok=True)
            options.output.write_text(json.dumps(report, indent=2) + "\n")
    print(f"\nAll results: {options.output}")
    return 1 if wrong else 0


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--devices", type=lambda text: [int(one) for one in text.split(",")])
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=list(STAGES))
    parser.add_argument("--budget", type=float, default=570, help="seconds in all")
    parser.add_argument("--reduced", action="store_true", help="small sizes, to try the script")
    parser.add_argument("--output", type=Path, default=machine.ROOT / "out/whole-machine.json")
    build = Path(os.environ.get("SHARDSOLVE_BUILD", machine.ROOT / "build/release"))
    parser.add_argument("--build", type=Path, default=build.absolute())
    parser.add_argument("--mp-libraries", default=os.environ.get("SHARDSOLVE_MP_LIBRARIES", ""))
    return parser.parse_args()


def rows_of(stage: Callable[[Place], Iterator[Row]], place: Place) -> Iterator[Row]:
    """What a stage finds; what it cannot do is a row, too."""
    try:
        yield from stage(place)
    except (BenchError, RuntimeError, OSError) as error:
        yield {"what": "stage", "result": "not done", "said": str(error)}
    except subprocess.TimeoutExpired as error:
        yield {"what": "stage", "result": "not done", "said": f"no end after {error.timeout:.0f} s"}


def run(place: Place, command: Sequence[str], **more: Any) -> subprocess.CompletedProcess[str]:
    """Within what is left of the stage."""
    options = {"env": place.environment(), "timeout": place.left(), **more}
    return subprocess.run(command, text=True, capture_output=True, **options)


def row(what: str, is_right: bool, said: str = "", **figures: Any) -> Row:
    return {"what": what, "result": "right" if is_right else "wrong", **figures, "said": said}


def last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""


# The stages


def tests(place: Place) -> Iterator[Row]:
    """Each tier has a third of the time; one that is not through has failed nothing until then."""
    folder = place.build / "tests"
    tiers = {
        "device tests": ([str(folder / "shardsolve_device_tests")], "*"),
        "distributed tests": ([str(folder / "shardsolve_distributed_tests")], OF_SEVERAL_GPUS),
        "MPI tests": (place.in_processes(str(folder / "shardsolve_mpi_tests")), "*ProcessGpus*"),
    }
    for index, (name, (command, wanted)) in enumerate(tiers.items()):
        begin = time.monotonic()
        seconds = place.left() / (len(tiers) - index)
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(
                [*command, f"--gtest_filter={wanted}-{NOT_ON_GPUS}"],
                env=place.environment(SHARDSOLVE_TEST_GPUS=place.listed),
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                process.wait(seconds)
                through = True
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                through = False
            output.seek(0)
            text = output.read()
        failed = sorted(set(re.findall(r"\[  FAILED  \] (\S+?),? ", text)))
        passed = len(re.findall(r"\[       OK \]", text))
        yield row(
            name,
            not failed and passed > 0 and (not through or process.returncode == 0),
            "; ".join(failed[:8]) or ("" if through else "the time was over"),
            passed=passed,
            failed=len(failed),
            seconds=round(time.monotonic() - begin),
        )


def bits(place: Place) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        make_systems(Path(folder), 1000 if place.reduced else 6000)
        for name, job in JOBS.items():
            outputs = {}
            for who, command in {
                "one process": [
                    place.command,
                    *job,
                    "--backend",
                    "cuda",
                    "--devices",
                    place.listed,
                ],
                "ipc": place.in_processes(place.command, *job, *BY_MPI, "ipc"),
                "nccl": place.in_processes(place.command, *job, *BY_MPI, "nccl"),
            }.items():
                target = Path(folder) / "out"
                shutil.rmtree(target, ignore_errors=True)
                target.mkdir()
                done = run(place, command, cwd=folder)
                outputs[who] = done.stderr if done.returncode else contents(target)
            alone = outputs.pop("one process")
            for who, found in outputs.items():
                same = found == alone and not isinstance(alone, str)
                said = next((last_line(one) for one in (alone, found) if isinstance(one, str)), "")
                yield row(f"{name}, processes by {who}", same, said)


BY_MPI = ("--backend", "cuda", "--mpi", "on", "--communicator")
# Three right-hand sides: of a single one NCCL has other bits (docs/site/gpus.md).
JOBS = {
    "solve": ("solve", "P.npy", "b.npy", "-o", "out/x.npy"),
    "solve by LU": ("solve", "G.npy", "b.npy", "-o", "out/x.npy", "--assume", "gen"),
    "eigh": ("eigh", "P.npy", "-o", "out/h"),
}


def make_systems(folder: Path, n: int) -> None:
    """P, positive definite, G, general, and b."""
    import numpy as np

    numbers = np.random.default_rng(0)
    g = numbers.standard_normal((n, n))
    np.save(folder / "G.npy", g)
    np.save(folder / "P.npy", g + g.T + 4 * np.sqrt(n) * np.eye(n))
    np.save(folder / "b.npy", numbers.standard_normal((n, 3)))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def faults(place: Place) -> Iterator[Row]:
    n = "8192" if place.reduced else "49152"
    bench = ("bench", "cholesky", "--backend", "cuda", "--n", n)
    many = (*bench, "--runs", "1000", "--mpi", "on", "--timeout", str(SILENCE))
    for name, number, words in (
        ("a process stopped", signal.SIGSTOP, "silent for more than"),
        ("a process killed", signal.SIGKILL, "signal 9|has ended|is gone"),
    ):
        yield disturb(place, name, number, words, place.in_processes(place.command, *many))
        yield works(place, f"after {name}")
    yield without_memory(place)
    yield works(place, "after memory was taken")


def works(place: Place, when: str) -> Row:
    """The next job on the same GPUs."""
    job = ("bench", "cholesky", "--backend", "cuda", "--n", "8192", "--runs", "1", "--json")
    done = run(place, [place.command, *job, "--devices", place.listed])
    return row(f"next job {when}", done.returncode == 0, last_line(done.stderr))


def disturb(place: Place, name: str, number: int, words: str, command: list[str]) -> Row:
    """A signal to the process of the last rank in the middle of its work."""
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder) / "stderr"
        with said.open("w") as errors:
            process = subprocess.Popen(
                command,
                env=place.environment(),
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )
        ranks = []
        try:
            time.sleep(8 if place.reduced else 20)
            ranks = children_of(process.pid)
            if process.poll() is not None or not ranks:
                return row(name, False, "the job was not at work: " + last_line(said.read_text()))
            begin = time.monotonic()
            os.kill(ranks[-1], number)
            while not re.search(words, said.read_text()):
                if time.monotonic() - begin > SILENCE + 20:
                    return row(name, False, "nobody named it: " + last_line(said.read_text()))
                time.sleep(0.1)
            took = time.monotonic() - begin
            lines = said.read_text().splitlines()
            line = next((one for one in lines if re.search(words, one)), "")
            return row(name, took < SILENCE + 10, line.strip(), took=round(took, 1))
        finally:
            for one in {*ranks, *children_of(process.pid)}:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(one, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def children_of(process: int) -> list[int]:
    answer = subprocess.run(["pgrep", "-P", str(process)], capture_output=True, text=True)
    return sorted(int(word) for word in answer.stdout.split())


def without_memory(place: Place) -> Row:
    """Another program has most of the memory of the last GPU."""
    script = (
        "import ctypes, sys, time\n"
        "cuda = ctypes.CDLL('libcudart.so.13')\n"
        "place = ctypes.c_void_p()\n"
        "cuda.cudaSetDevice(int(sys.argv[1]))\n"
        "size = ctypes.c_size_t(int(sys.argv[2]))\n"
        "print(cuda.cudaMalloc(ctypes.byref(place), size), flush=True)\n"
        "time.sleep(600)\n"
    )
    taken = 0.9 * place.memory
    command = [sys.executable, "-c", script, str(place.devices[-1]), str(int(taken))]
    thief = subprocess.Popen(command, env=place.environment(), stdout=subprocess.PIPE, text=True)
    try:
        assert thief.stdout is not None
        if thief.stdout.readline().strip() != "0":
            return row("memory taken", False, "the memory could not be taken")
        n = int((0.3 * place.memory * len(place.devices) / 8) ** 0.5)
        job = ("bench", "cholesky", "--backend", "cuda", "--n", str(n), "--runs", "1")
        done = run(place, [place.command, *job, "--devices", place.listed])
        said = last_line(done.stderr)
        return row("memory taken by another program", done.returncode == 3 and "GB" in said, said)
    finally:
        thief.kill()
        thief.communicate()


def hosts(place: Place) -> Iterator[Row]:
    """As tests/cli/test_hosts.py has them, with GPUs."""
    half = len(place.devices) // 2
    with Hosts() as two, tempfile.TemporaryDirectory() as folder:
        make_systems(Path(folder), 1000 if place.reduced else 6000)
        shell = Path(folder) / "remote_shell"
        two.write_remote_shell(shell)
        for name, job in JOBS.items():
            target = Path(folder) / "out"
            found = []
            for command in (
                [place.command, *job, "--backend", "cuda", "--devices", place.listed],
                two.on(0, on_two_hosts(place, two, half, (*job, *BY_MPI, "nccl"))),
            ):
                shutil.rmtree(target, ignore_errors=True)
                target.mkdir()
                environment = place.environment(OMPI_MCA_plm_rsh_agent=str(shell))
                done = run(place, command, cwd=folder, env=environment)
                found.append(done.stderr if done.returncode else contents(target))
            said = next((last_line(one) for one in found if isinstance(one, str)), "")
            yield row(f"{name} on two hosts", found[0] == found[1] and not said, said)


def on_two_hosts(place: Place, two: Hosts, half: int, job: Sequence[str]) -> list[str]:
    """Each sees its half of the GPUs alone."""
    command = list(MPIRUN)
    for number, address in enumerate(two.addresses):
        own = place.devices[number * half : (number + 1) * half]
        seen = ",".join(map(str, own))
        command += [":"] if number else []
        command += ["--host", f"{address}:{half}", "-np", str(half)]
        command += ["-x", f"CUDA_VISIBLE_DEVICES={seen}", "-x", "LD_LIBRARY_PATH"]
        command += ["-x", "NCCL_NVLS_ENABLE", "-x", "NCCL_SOCKET_IFNAME=cable"]
        command += [place.command, *job]
    return command


def jax(place: Place) -> Iterator[Row]:
    script = str(Path(__file__).parent / "on_all_gpus.py")
    environment = place.environment(
        CUDA_VISIBLE_DEVICES=place.listed, XLA_PYTHON_CLIENT_PREALLOCATE="false"
    )
    size = ["--n", "600" if place.reduced else "8192"]
    done = run(place, [sys.executable, script, *size], env=environment)
    for line in done.stdout.splitlines():
        found = json.loads(line)
        yield row(found.pop("what"), found.pop("right"), **found)
    if done.returncode != 0:
        yield row("JAX", False, last_line(done.stderr))


def speeds(place: Place) -> Iterator[Row]:
    """By run.py, beside its peers."""
    count = len(place.devices)
    wanted: dict[tuple[str, str], Sequence[int]] = {
        (dtype, job): tuple(sizes) for (many, dtype, job), sizes in GOALS.items() if many == count
    }
    wanted = dict(REDUCED) if place.reduced else wanted or dict(USUAL)
    for index, ((dtype, job), sizes) in enumerate(wanted.items()):
        seconds = place.left() / (len(wanted) - index)
        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder) / "speeds.json"
            command = [sys.executable, str(Path(__file__).parent / "run.py")]
            command += ["--devices", place.listed, "--n", ",".join(map(str, sizes))]
            command += ["--dtype", dtype, "--jobs", job, "--runs", "3", "--ceiling-seconds", "0"]
            command += ["--budget", f"{seconds:.0f}", "--stage-budget", f"{seconds / 2:.0f}"]
            command += ["--build", str(place.build / "bench/cuda"), "--output", str(output)]
            command += ["--mp-libraries", place.mp_libraries]
            done = run(place, command)
            if not output.exists():
                yield row(f"{job} in {dtype}", False, last_line(done.stderr))
                continue
            stages = json.loads(output.read_text())["stages"]
        for stage in stages:
            goal = GOALS.get((count, dtype, job), {}).get(stage["n"])
            for one in stage["rows"]:
                figures = {key: one[key] for key in ("min", "median", "tflops") if key in one}
                is_ours = one["program"].startswith(OURS)
                said = str(one.get("wrong") or one.get("error") or "")
                name = f"{job} {stage['n']} in {dtype} on {count}: {one['label']}"
                yield row(name, "min" in one or not is_ours, said, goal=goal, **figures)


def largest(place: Place) -> Iterator[Row]:
    for job, dtype, most in (("one_call", "float32", SEED_N), ("eigh", "float64", SEED_N)):
        yield largest_of(place, job, dtype, 8192 if place.reduced else most)


def largest_of(place: Place, job: str, dtype: str, most: int) -> Row:
    """The largest n that is not refused, downwards from what the bytes of the matrix allow."""
    count = len(place.devices)
    room = place.memory * count / ELEMENT_BYTES[dtype]
    n = min(most, int((0.99 * room / (1 if job == "one_call" else 5)) ** 0.5) // 512 * 512)
    said = ""
    while n > 0 and place.left() > 5:
        setting = Setting(n, dtype, "well_conditioned", place.devices, 1, (job,))
        command = [
            *command_of(OURS, place.build / "bench/cuda", count),
            *setting.arguments(OURS),
        ]
        try:
            program = GpuContestant(OURS, command, place.environment(), place.left())
            try:
                done = program.run(job)
            finally:
                program.close()
            return row(
                f"largest {job} in {dtype}",
                all(one.passed for one in done.residuals),
                "; ".join(map(str, done.residuals)),
                n=n,
                seconds=round(done.seconds, 2),
                gigabytes=round(done.bytes / 1e9, 1),
                certificate=done.certificate,
            )
        except BenchError as error:
            said = str(error)
            n = int(n * 0.98) // 512 * 512
    return row(f"largest {job} in {dtype}", False, f"none was solved: {said}")


STAGES: dict[str, Callable[[Place], Iterator[Row]]] = {
    "tests": tests,
    "bits": bits,
    "faults": faults,
    "hosts": hosts,
    "jax": jax,
    "speeds": speeds,
    "largest": largest,
}
# Of the time that there is.
WEIGHTS = {"tests": 3, "bits": 1, "faults": 2, "hosts": 1, "jax": 1, "speeds": 3, "largest": 3}


if __name__ == "__main__":
    end_with(main)
