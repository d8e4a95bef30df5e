"""Processes on two hosts: network namespaces of this machine."""

import json
import os
import subprocess
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from command import TIMEOUT, Command, Result, contents
from hosts import Hosts
from mpi import OPEN_MPI, missing
from problems import hermitian, save, sides

LIMIT = 2  # seconds of silence


class Cluster:
    """The command in four processes, two on each host."""

    def __init__(self, command: Command, hosts: Hosts, shell: Path):
        self.command, self.hosts, self.shell = command, hosts, shell
        hosts.write_remote_shell(shell)

    def start(self, *arguments: str, by: str = "slot") -> subprocess.Popen:
        """`by`: processes 0 and 1 on the first host ("slot"), or 0 and 2 ("node")."""
        places = ",".join(f"{address}:2" for address in self.hosts.addresses)
        mpirun = ["mpirun", "-np", "4", "--host", places, "--map-by", by]
        return subprocess.Popen(
            self.hosts.on(0, [*mpirun, str(self.command.binary), *arguments]),
            cwd=self.command.directory,
            env={**os.environ, **OPEN_MPI, "OMPI_MCA_plm_rsh_agent": str(self.shell)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *arguments: str, by: str = "slot") -> Result:
        process = self.start(*arguments, by=by)
        out, err = process.communicate(timeout=TIMEOUT)
        return Result(process.returncode, out, err)


@pytest.fixture
def cluster(command, tmp_path_factory):
    if reason := missing(command.binary):
        pytest.skip(reason)
    try:
        hosts = Hosts()
    except RuntimeError as error:
        pytest.skip(str(error))
    with hosts:
        yield Cluster(command, hosts, tmp_path_factory.mktemp("shell") / "remote_shell")


@pytest.mark.parametrize("by", ["slot", "node"])
def test_two_hosts_write_the_bits_of_one(cluster, command, tmp_path, by):
    save(tmp_path / "A.npy", hermitian(130, "complex64"))
    save(tmp_path / "b.npy", sides(130, 7, "complex64"))
    for job in (["solve", "A.npy", "b.npy"], ["inverse", "A.npy"]):
        ours = cluster(*job, "-o", "ours.npy", "--force", by=by)
        assert ours.code == 0, ours.err
        theirs = command(*job, "-o", "theirs.npy", "--force", "--devices", 4)
        assert theirs.code == 0, theirs.err
        assert (tmp_path / "ours.npy").read_bytes() == (tmp_path / "theirs.npy").read_bytes()


@pytest.mark.parametrize("by", ["slot", "node"])
def test_a_panel_crosses_the_cable_once(cluster, tmp_path, by):
    save(tmp_path / "A.npy", hermitian(400))
    result = cluster("logdet", "A.npy", "--quiet", "--tile", "20", "--trace", "t.json", by=by)
    assert result.code == 0, result.err
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    host = {
        event["pid"]: event["args"]["name"].split(" on ")[1]
        for event in events
        if event["ph"] == "M" and event["name"] == "process_name"
    }
    neighbour = 1 if by == "slot" else 2
    names = cluster.hosts.names
    assert {rank for rank in host if host[rank] == names[0]} == {0, neighbour}
    assert set(host.values()) == set(names)
    messages = Counter(
        host[event["args"]["from"]] != host[event["args"]["to"]]
        for event in events
        if event["ph"] == "s" and event["name"] == "broadcast"
    )
    # To three other ranks: two of them on the other host.
    assert messages[True] >= 20
    assert messages[False] == 2 * messages[True]


def test_cut_cable_is_named_in_time(cluster, tmp_path):
    n = 1500
    save(tmp_path / "A.npy", n * np.eye(n))
    save(tmp_path / "b.npy", np.ones(n))
    before = contents(tmp_path)
    job = ["solve", "A.npy", "b.npy", "-o", "x.npy", "--tile", "1", "--timeout", str(LIMIT)]
    process = cluster.start(*job)
    try:
        wait_for(process, "factor")
        cluster.hosts.cut_cable()
        begin = time.monotonic()
        line = wait_for(process, "shardsolve: error:")
        took = time.monotonic() - begin
    finally:
        cluster.hosts.close()  # Open MPI's daemons wait for each other
        process.communicate()
    assert "has been silent for more than" in line
    assert any(f"rank {rank} has" in line for rank in (2, 3)), line
    assert took < LIMIT + 3, took
    assert contents(tmp_path) == before


def wait_for(process: subprocess.Popen, text: str) -> str:
    """The first line on standard error that holds this."""
    seen = []
    for line in process.stderr:
        seen.append(line)
        if text in line:
            return line
    raise AssertionError(f"{text!r} not in: {''.join(seen)}")
