"""Several processes, each with some of the devices, joined by jax.distributed.

On CPU devices, and on GPUs where there are two or more: also on four, where there are as many.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hosts import Hosts

PROGRAM = Path(__file__).with_name("process_program.py")
SECONDS = 5 / 6 * float(os.environ.get("SHARDSOLVE_TEST_SECONDS", "120"))
ANSWERS = "eager,shardings,eigenpairs,natural_gradients,vector,traced,flight,reasons"


def gpus() -> list[str]:
    """The GPUs that JAX can use here, as CUDA_VISIBLE_DEVICES names them."""
    if importlib.util.find_spec("jax_cuda13_plugin") is None:
        return []
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        return [gpu for gpu in os.environ["CUDA_VISIBLE_DEVICES"].split(",") if gpu]
    return [str(number) for number, _ in enumerate(Path("/dev").glob("nvidia[0-9]*"))]


GPUS = gpus()


@dataclass(frozen=True)
class Devices:
    """What the processes of a test have together."""

    platform: str
    count: int
    allocator: str = "default"  # of XLA's memory, on GPUs
    hidden: bool = False  # those of other processes: none reaches their memory

    def environment(self, number: int, processes: int) -> dict[str, str]:
        """Of a process that has its share of them."""
        own = self.count // processes
        if self.platform == "cpu":
            flags = [flag for flag in os.environ["XLA_FLAGS"].split() if "device_count" not in flag]
            flags.append(f"--xla_force_host_platform_device_count={own}")
            return {
                "JAX_PLATFORMS": "cpu",
                "XLA_FLAGS": " ".join(flags),
                "NPROC": str(2 * self.count),
            }
        first = number * own
        seen = GPUS[first : first + own] if self.hidden else GPUS[: self.count]
        # XLA's own products are to have the same bits in each run.
        same = "--xla_gpu_autotune_level=0 --xla_gpu_deterministic_ops=true"
        return {
            "JAX_PLATFORMS": "cuda,cpu",
            "XLA_FLAGS": f"{os.environ['XLA_FLAGS']} {same}",
            "CUDA_VISIBLE_DEVICES": ",".join(seen),
            "OWN_GPUS": " ".join(str(gpu if self.hidden else first + gpu) for gpu in range(own)),
            "XLA_PYTHON_CLIENT_PREALLOCATE": os.environ.get(
                "XLA_PYTHON_CLIENT_PREALLOCATE", "false"
            ),
            "XLA_PYTHON_CLIENT_ALLOCATOR": self.allocator,
        }


CPUS = Devices("cpu", 4)


def on(devices: Devices, *arguments: object) -> object:
    """The case of a test, with devices; left out where they are not there."""
    marks = (
        pytest.mark.cpu_only
        if devices.platform == "cpu"
        else pytest.mark.skipif(len(GPUS) < devices.count, reason=f"needs {devices.count} GPUs")
    )
    of = [] if devices.allocator == "default" else [devices.allocator]
    of += ["hidden"] if devices.hidden else []
    name = "-".join([f"{devices.count} {devices.platform}", *of, *map(str, arguments)])
    return pytest.param(devices, *arguments, marks=marks, id=name)


EACH = [on(CPUS), on(Devices("cuda", 2)), on(Devices("cuda", 2, hidden=True))]


def free_port() -> int:
    """One that the system gives to nobody by itself: it is taken when a process has started."""
    while True:
        with socket.socket() as one:
            try:
                one.bind(("", port := random.randrange(20000, 32000)))
            except OSError:
                continue
            return port


def start(
    part: str,
    devices: Devices,
    processes: int,
    folder: Path,
    hosts: Hosts | None = None,
    program_file: Path = PROGRAM,
) -> list[subprocess.Popen]:
    """One on each of the hosts, if there are any."""
    address = hosts.addresses[0] if hosts else "127.0.0.1"
    arguments = [str(processes), f"{address}:{free_port()}", str(folder)]

    def command(number: int) -> list[str]:
        program = [sys.executable, "-X", "faulthandler", str(program_file), part, str(number)]
        return hosts.on(number, [*program, *arguments]) if hosts else [*program, *arguments]

    return [
        subprocess.Popen(
            command(number),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **devices.environment(number, processes)},
        )
        for number in range(processes)
    ]


def finish(running: list[subprocess.Popen]) -> list[str]:
    """What each process has printed; whoever is not done in time is ended."""
    deadline = time.monotonic() + SECONDS
    printed = []
    try:
        for process in running:
            printed.append(process.communicate(timeout=deadline - time.monotonic())[0])
    finally:
        for process in running:
            process.kill()
    return printed


def run(
    part: str, devices: Devices, processes: int, folder: Path, hosts: Hosts | None = None
) -> None:
    running = start(part, devices, processes, folder, hosts)
    for process, printed in zip(running, finish(running), strict=True):
        assert process.returncode == 0, printed


@pytest.fixture(scope="module")
def one_process(request, tmp_path_factory) -> tuple[Devices, dict[str, np.ndarray]]:
    """Devices, and the answers of one process that has them all."""
    folder = tmp_path_factory.mktemp("one")
    run(ANSWERS, replace(request.param, allocator="default", hidden=False), 1, folder)
    with np.load(folder / "1-0.npz") as file:
        return request.param, dict(file)


def reach_each_other(folder: Path) -> bool:
    """Whether the GPUs of the processes have solved for one right-hand side as those of one do."""
    trace = json.loads((folder / "vector0.json").read_text())
    return any(event["name"] == "solve" for event in trace["traceEvents"])


def is_same(name: str, piece: np.ndarray, expected: np.ndarray, all_bits: bool) -> bool:
    if name.startswith("natural by"):  # XLA adds what several processes have in its own order
        return np.allclose(piece, expected, rtol=1e-10, atol=1e-14)
    if all_bits or (piece.size > 1 and not name.startswith("vector")):
        return piece.tobytes() == expected.tobytes()
    return np.allclose(piece, expected, rtol=1e-3, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    ("one_process", "processes", "parts"),
    [
        on(CPUS, 2, ANSWERS),
        on(CPUS, 4, "eager,vector,reasons"),
        on(Devices("cuda", 2), 2, ANSWERS),
        on(Devices("cuda", 2, "cuda_async"), 2, "eager,vector"),
        on(Devices("cuda", 2, hidden=True), 2, ANSWERS),
        on(Devices("cuda", 4), 4, "eager,vector,reasons"),
    ],
    indirect=["one_process"],
)
def test_Processes_EveryCall_GivesTheBitsOfOneProcess(one_process, processes, parts, tmp_path):
    """On GPUs that reach each other's memory.

    By NCCL, where they do not see each other, all but those of one right-hand side, and of a
    condition number, which needs some.
    """
    devices, answers = one_process
    run(parts, devices, processes, tmp_path)
    all_bits = not devices.hidden
    assert devices.platform == "cpu" or reach_each_other(tmp_path) == all_bits
    seen = set()
    for number in range(processes):
        with np.load(tmp_path / f"{processes}-{number}.npz") as file:
            for name, piece in file.items():
                assert piece.dtype == answers[name].dtype, name
                assert is_same(name, piece, answers[name], all_bits), name
                seen.add(name)
    assert seen == set(answers) or (seen and parts != ANSWERS)


@pytest.fixture
def two_hosts():
    try:
        hosts = Hosts()
    except RuntimeError as error:
        pytest.skip(str(error))
    with hosts:
        yield hosts


@pytest.mark.parametrize("one_process", [on(CPUS)], indirect=True)
def test_TwoHosts_GiveTheBitsOfOneProcess(two_hosts, one_process, tmp_path):
    devices, answers = one_process
    run("eager,reasons", devices, 2, tmp_path, two_hosts)
    for number in range(2):
        with np.load(tmp_path / f"2-{number}.npz") as file:
            assert len(file) > 10
            for name, piece in file.items():
                assert piece.tobytes() == answers[name].tobytes(), name


@pytest.mark.more  # tests/cli cuts one, too
@pytest.mark.cpu_only
def test_TwoHosts_WhoseCableIsCutInACall_NameARankOfTheOther(two_hosts, tmp_path):
    running = start("cut", CPUS, 2, tmp_path, two_hosts)
    lines = iter(running[0].stdout.readline, "")
    try:
        takes = next(line for line in lines if line.startswith("TAKES"))
        time.sleep(float(takes.split()[1]) / 3)
        two_hosts.cut_cable()
        report = next(line for line in lines if line.startswith("REPORT"))
    finally:
        two_hosts.close()
        for process in running:
            process.communicate()
    _, seconds, alone, text = report.split(maxsplit=3)
    assert "rank 2 has been silent" in text or "rank 3 has been silent" in text, report
    assert float(seconds) < float(alone) + 2 + 3, report


@pytest.mark.parametrize("devices", EACH)
def test_Processes_ThatMakeDifferentCalls_AreToldWhatDiffers(devices, tmp_path):
    run("differ", devices, 2, tmp_path)


@pytest.mark.parametrize("devices", EACH)
def test_Processes_Trace_IsThatOfAllRanksWithRank0(devices, tmp_path):
    run("traces", devices, 2, tmp_path)
    trace = json.loads((tmp_path / "trace0.json").read_text())
    assert {event["pid"] for event in trace["traceEvents"] if event["ph"] == "X"} == set(
        range(devices.count)
    )


@pytest.mark.parametrize("how", ["kill", pytest.param("stop", marks=pytest.mark.more)])
@pytest.mark.parametrize("devices", EACH)
def test_Process_ThatIsLostInACall_IsNamedByTheOtherInTime(devices, how, tmp_path):
    running = start(how, devices, 2, tmp_path)
    try:
        printed = running[0].communicate(timeout=SECONDS)[0]
    finally:
        for process in running:
            process.kill()  # also one that is stopped
            process.communicate()
    report = next(line for line in printed.splitlines() if line.startswith("REPORT"))
    _, seconds, alone, text = report.split(maxsplit=3)
    lost = range(devices.count // 2, devices.count)
    assert any(f"rank {rank} " in text for rank in lost), report
    assert ("was closed" in text) if how == "kill" else ("step" in text), report
    assert float(seconds) < float(alone) + 2 + 3, report


@pytest.mark.parametrize("how", ["kill", "stop"])
@pytest.mark.parametrize("devices", EACH[1:])
def test_Process_ThatIsLostBetweenCallsOnGpus_IsNamedAndTheOthersEnd(devices, how, tmp_path):
    """XLA waits there without end, so the call that waits for XLA has to see that it does."""
    running = start(f"{how}-in-a-loop", devices, 2, tmp_path)
    try:
        printed = running[0].communicate(timeout=SECONDS)[0]
    finally:
        for process in running:
            process.kill()  # also one that is stopped
            process.communicate()
    report = next(line for line in printed.splitlines() if line.startswith("REPORT"))
    _, seconds, text = report.split(maxsplit=2)
    assert "rank 1 " in text, report
    assert float(seconds) < 2 + 3, report
    assert running[0].returncode == 1, printed


@pytest.mark.parametrize("how", ["kill-in-rounds", "stop-in-rounds-of-jit"])
@pytest.mark.parametrize("devices", EACH[:2])
def test_Process_ThatIsLostInAKrylovSolve_IsNamedAndTheOthersEnd(devices, how, tmp_path):
    """Outside of jit by the solve itself, inside by `watch`: only XLA waits there."""
    running = start(how, devices, 2, tmp_path)
    try:
        printed = running[0].communicate(timeout=SECONDS)[0]
        ended = time.time()
    finally:
        for process in running:
            process.kill()  # also one that is stopped
            process.communicate()
    named = f"process 1 (pid {running[1].pid} at "
    report = next((line for line in printed.splitlines() if named in line), None)
    assert report is not None, printed
    # XLA for GPUs waits where Python cannot raise
    assert report.startswith("REPORT COMMUNICATION") or devices.platform == "cuda", printed
    assert ("silent" in report) == how.startswith("stop"), report
    lost = next(float(line.split()[1]) for line in printed.splitlines() if line[:4] == "LOST")
    assert ended - lost < 2 + 4 + 4, printed  # the limit, patience, and a machine with other work
    assert running[0].returncode == 1, printed
