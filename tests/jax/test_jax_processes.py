"""Several processes, each with some of the devices, joined by jax.distributed."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hosts import Hosts

pytestmark = pytest.mark.cpu_only
PROGRAM = Path(__file__).with_name("process_program.py")
DEVICES = 4
SECONDS = 100
ANSWERS = "eager,shardings,traced,flight,reasons"


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def start(
    part: str, processes: int, folder: Path, hosts: Hosts | None = None
) -> list[subprocess.Popen]:
    """One on each of the hosts, if there are any."""
    address = hosts.addresses[0] if hosts else "127.0.0.1"
    arguments = [str(processes), f"{address}:{free_port()}", str(folder)]
    flags = [flag for flag in os.environ["XLA_FLAGS"].split() if "device_count" not in flag]
    flags.append(f"--xla_force_host_platform_device_count={DEVICES // processes}")

    def command(number: int) -> list[str]:
        program = [sys.executable, "-X", "faulthandler", str(PROGRAM), part, str(number)]
        return hosts.on(number, [*program, *arguments]) if hosts else [*program, *arguments]

    return [
        subprocess.Popen(
            command(number),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "XLA_FLAGS": " ".join(flags), "NPROC": str(2 * DEVICES)},
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


def run(part: str, processes: int, folder: Path, hosts: Hosts | None = None) -> None:
    running = start(part, processes, folder, hosts)
    for process, printed in zip(running, finish(running), strict=True):
        assert process.returncode == 0, printed


@pytest.fixture(scope="module")
def one_process(tmp_path_factory) -> dict[str, np.ndarray]:
    folder = tmp_path_factory.mktemp("one")
    run(ANSWERS, 1, folder)
    with np.load(folder / "1-0.npz") as file:
        return dict(file)


@pytest.mark.parametrize(("processes", "parts"), [(2, ANSWERS), (4, "eager,reasons")])
def test_Processes_EveryCall_GivesTheBitsOfOneProcess(processes, parts, one_process, tmp_path):
    run(parts, processes, tmp_path)
    seen = set()
    for number in range(processes):
        with np.load(tmp_path / f"{processes}-{number}.npz") as file:
            for name, piece in file.items():
                assert piece.dtype == one_process[name].dtype, name
                assert piece.tobytes() == one_process[name].tobytes(), name
                seen.add(name)
    assert seen == set(one_process) or (seen and parts != ANSWERS)


@pytest.fixture
def two_hosts():
    try:
        hosts = Hosts()
    except RuntimeError as error:
        pytest.skip(str(error))
    with hosts:
        yield hosts


def test_TwoHosts_GiveTheBitsOfOneProcess(two_hosts, one_process, tmp_path):
    run("eager,reasons", 2, tmp_path, two_hosts)
    for number in range(2):
        with np.load(tmp_path / f"2-{number}.npz") as file:
            assert len(file) > 10
            for name, piece in file.items():
                assert piece.tobytes() == one_process[name].tobytes(), name


def test_TwoHosts_WhoseCableIsCutInACall_NameARankOfTheOther(two_hosts, tmp_path):
    running = start("cut", 2, tmp_path, two_hosts)
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


def test_Processes_ThatMakeDifferentCalls_AreToldWhatDiffers(tmp_path):
    run("differ", 2, tmp_path)


def test_Processes_Trace_IsThatOfAllRanksWithRank0(tmp_path):
    run("traces", 2, tmp_path)
    trace = json.loads((tmp_path / "trace0.json").read_text())
    assert {event["pid"] for event in trace["traceEvents"] if event["ph"] == "X"} == {0, 1, 2, 3}


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_Process_ThatIsLostInACall_IsNamedByTheOtherInTime(how, tmp_path):
    running = start(how, 2, tmp_path)
    try:
        printed = running[0].communicate(timeout=SECONDS)[0]
    finally:
        for process in running:
            process.kill()  # also one that is stopped
            process.communicate()
    report = next(line for line in printed.splitlines() if line.startswith("REPORT"))
    _, seconds, alone, text = report.split(maxsplit=3)
    assert "rank 2 " in text or "rank 3 " in text, report
    assert ("was closed" in text) if how == "kill" else ("step" in text), report
    assert float(seconds) < float(alone) + 2 + 3, report
