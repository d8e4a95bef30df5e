"""Several processes under mpirun: one answer, and one end whatever happens to one of them."""

import contextlib
import json
import os
import signal
import subprocess
import time

import numpy as np
import pytest
from command import Command, contents
from mpi import OPEN_MPI, Processes, has_read, missing
from problems import hermitian, save, save_sparse, save_system, sides

SOLVE = ("solve", "A.npy", "b.npy", "-o", "x.npy")


@pytest.fixture
def mpirun(command: Command) -> Processes:
    if reason := missing(command.binary):
        pytest.skip(reason)
    return Processes(command)


@pytest.fixture
def told_pid(tmp_path_factory):
    """A file for the number of a process, which does not outlive the test."""
    path = tmp_path_factory.mktemp("pid") / "pid"
    yield path
    if path.exists():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(path.read_text()), signal.SIGKILL)


@pytest.fixture
def slow_job(slow) -> list[str]:
    """As `slow`, without the devices."""
    at = slow.index("--devices")
    return [*slow[:at], *slow[at + 2 :]]


# ---- answers


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize(
    ("dtype", "order"), [("float64", "C"), ("float32", "F"), ("complex128", "C")]
)
def test_processes_write_the_bits_of_one_process(mpirun, command, tmp_path, count, dtype, order):
    save(tmp_path / "A.npy", hermitian(130, dtype, order))
    save(tmp_path / "b.npy", sides(130, 7, dtype, order))
    for job in (["solve", "A.npy", "b.npy"], ["inverse", "A.npy"]):
        ours = mpirun(count, *job, "-o", "ours.npy", "--force")
        assert ours.code == 0, ours.err
        theirs = command(*job, "-o", "theirs.npy", "--force", "--devices", count)
        assert theirs.code == 0, theirs.err
        assert (tmp_path / "ours.npy").read_bytes() == (tmp_path / "theirs.npy").read_bytes()
    assert sorted(contents(tmp_path)) == ["A.npy", "b.npy", "ours.npy", "theirs.npy"]


def test_only_rank_0_prints(mpirun, command, system):
    result = mpirun(3, *SOLVE, "--json")
    assert result.code == 0, result.err
    ours = result.json()
    assert (ours["devices"], ours["processes"]) == (3, 3)
    theirs = command(*SOLVE, "--json", "--force", "--devices", 3).json()
    same = ("backward_error", "rcond", "flops", "tile", "n", "rhs")
    assert [ours[key] for key in same] == [theirs[key] for key in same]
    text = mpirun(2, *SOLVE, "--force")
    assert text.out.count("Solved") == 1
    assert "on 2 MPI ranks" in text.out


def test_logdet_is_that_of_one_process(mpirun, command, system):
    ours = mpirun(2, "logdet", "A.npy", "--quiet")
    assert ours.code == 0, ours.err
    assert ours.out == command("logdet", "A.npy", "--quiet", "--devices", 2).out


def test_more_processes_than_rows(mpirun, tmp_path):
    save(tmp_path / "A.npy", np.diag([4.0, 4.0]))
    assert mpirun(4, "inverse", "A.npy", "-o", "X.npy").code == 0
    assert np.array_equal(np.load(tmp_path / "X.npy"), np.diag([0.25, 0.25]))


def test_no_answer_has_one_reason(mpirun, system):
    save(system / "A.npy", -np.eye(50))
    before = contents(system)
    result = mpirun(3, *SOLVE)
    assert (result.code, result.out) == (1, "")
    assert result.err.count("not positive definite") == 1
    assert contents(system) == before


def test_off_makes_each_process_work_alone(mpirun, system):
    result = mpirun(2, "logdet", "A.npy", "--quiet", "--devices", 1, "--mpi", "off")
    assert result.code == 0
    assert len(set(result.out.split())) == 1
    assert len(result.out.split()) == 2


def test_one_process_of_mpirun_has_devices(mpirun, system):
    result = mpirun(1, "logdet", "A.npy", "--json", "--devices", 3)
    assert (result.json()["devices"], result.json()["processes"]) == (3, 1)


# ---- traces


def trace_of(path):
    """The spans of a trace file by rank, and what it says of the clocks."""
    document = json.loads(path.read_text())
    spans = {}
    for event in document["traceEvents"]:
        if event["ph"] == "X":
            spans.setdefault(event["pid"], []).append(event)
    return spans, document


@pytest.mark.parametrize("job", [["solve", "A.npy", "b.npy"], ["inverse", "A.npy"]])
def test_trace_is_one_file_of_all_processes(mpirun, tmp_path, job):
    save(tmp_path / "A.npy", hermitian(200))
    save(tmp_path / "b.npy", np.ones(200))
    result = mpirun(3, *job, "-o", "x.npy", "--tile", 16, "--trace", "t.json", "--json")
    assert result.code == 0, result.err
    assert sorted(contents(tmp_path)) == ["A.npy", "b.npy", "t.json", "x.npy"]
    spans, document = trace_of(tmp_path / "t.json")
    assert sorted(spans) == [0, 1, 2]
    events = document["traceEvents"]
    flops = sum(span["args"]["flops"] for rank in spans.values() for span in rank)
    assert flops > 0.999 * result.json()["flops"]
    starts = {event["id"]: event for event in events if event["ph"] == "s"}
    finishes = {event["id"]: event for event in events if event["ph"] == "f"}
    assert len(starts) > 50
    assert starts.keys() == finishes.keys()
    assert len(events) == len({json.dumps(event) for event in events})
    pairs = {(starts[i]["pid"], finishes[i]["pid"]) for i in starts}
    assert pairs == {(a, b) for a in range(3) for b in range(3) if a != b}
    clocks = document["otherData"]["clocks"]
    assert [clock["rank"] for clock in clocks] == [0, 1, 2]
    for clock in clocks:  # of one machine: one clock
        assert abs(clock["offset_us"]) <= clock["uncertainty_us"] + 0.01
    assert document["otherData"]["summary"] == result.json()["trace_summary"]


def test_trace_of_clocks_that_differ_is_aligned(mpirun, command, system):
    shifted = ["unshare", "--time", "--monotonic", "5000", "--fork"]
    if subprocess.run([*shifted, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no time namespaces here (needs root and Linux 5.6)")
    job = [str(command.binary), *SOLVE, "--trace", "t.json"]
    result = mpirun.run(["-np", "1", *job, ":", "-np", "1", *shifted, *job])
    assert result.code == 0, result.err
    spans, document = trace_of(system / "t.json")
    assert sorted(spans) == [0, 1]
    for span in spans[0] + spans[1]:  # microseconds; the clocks are 5000 s apart
        assert 0 <= span["ts"] < 1000e6
        assert 0 <= span["dur"] < 1000e6
    clock = document["otherData"]["clocks"][1]
    assert abs(clock["offset_us"] - 5000e6) <= clock["uncertainty_us"] + 0.01


def test_trace_of_a_job_without_answer_is_not_written(mpirun, system):
    save(system / "A.npy", -np.eye(50))
    before = contents(system)
    assert mpirun(3, *SOLVE, "--trace", "t.json").code == 1
    assert contents(system) == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGSTOP])
def test_trace_of_a_job_that_fails_is_not_written(mpirun, tmp_path, slow_job, number):
    slow_job = [*slow_job, "--timeout", "2"]
    running = mpirun.start(3, *slow_job, "-o", "x.npy", "--trace", "t.json")
    running.send(number, 1)
    result = running.finish()
    assert result.code == (143 if number == signal.SIGTERM else 3)
    assert contents(tmp_path) == {}


# ---- misuse


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["solve", "A.npy"], ["b is required"]),
        ([*SOLVE, "--devices", "2"], ["'2'", "each of the processes is one device"]),
        ([*SOLVE, "--communicator", "ipc"], ["'ipc'", "several processes"]),
        ([*SOLVE, "--communicator", "tcp"], ["tcp", "nccl"]),
        ([*SOLVE, "--backend", "cuda", "--devices", "0,x"], ["'0,x'", "numbers of GPUs"]),
        ([*SOLVE, "--trace", "A.npy"], ["the trace", "same file"]),
        ([*SOLVE, "--trace", "missing/t.json"], ["missing/t.json"]),
        (["solve", "A.npy", "missing.npy", "-o", "x.npy"], ["missing.npy"]),
        (["solve", "A.npy", "A.npy", "-o", "A.npy"], ["same file"]),
        ([*SOLVE, "--mpi", "perhaps"], ["perhaps", "auto", "on", "off"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_misuse_is_explained_once(mpirun, system, arguments, words):
    before = contents(system)
    result = mpirun(3, *arguments)
    assert result.code == (3 if "missing" in " ".join(arguments) else 2)
    assert result.out == ""
    assert result.says(*words)
    assert result.err.count("shardsolve: error") == 1
    assert contents(system) == before


def test_gpus_that_are_not_there_are_missed_by_all(mpirun, system):
    env = {"CUDA_VISIBLE_DEVICES": ""}
    before = contents(system)
    result = mpirun(3, *SOLVE, "--backend", "cuda", "--json", env=env)
    assert (result.code, result.json()["status"]) == (3, "device")
    assert result.says("shardsolve: error", "rank 0: ")
    assert result.err.count("shardsolve: error") == 1
    assert contents(system) == before


def test_help_comes_once(mpirun):
    result = mpirun(2, "solve", "--help")
    assert result.code == 0
    assert result.out.count("Usage:") == 1


def test_existing_output_is_kept(mpirun, system):
    (system / "x.npy").write_text("precious")
    result = mpirun(2, *SOLVE)
    assert result.code == 2
    assert result.says("exists already", "--force")
    assert (system / "x.npy").read_text() == "precious"


def test_different_arguments_are_found_before_the_start(mpirun, command, system):
    before = contents(system)
    one = ["-np", "1", str(command.binary), *SOLVE]
    result = mpirun.run([*one, ":", *one, "--tile", "7"])
    assert (result.code, result.out) == (2, "")
    assert result.says("not given the same job", "rank 1", "'--tile'", "--mpi off")
    assert contents(system) == before


def test_different_files_are_found_before_the_start(mpirun, command, system):
    (system / "other").mkdir()
    save_system(system / "other")
    before = contents(system)
    one = ["-np", "1"]
    job = [str(command.binary), *SOLVE]
    result = mpirun.run([*one, *job, ":", *one, "-wdir", str(system / "other"), *job])
    assert (result.code, result.out) == (2, "")
    assert result.says("not given the same job", "rank 1", "A.npy", "written at")
    assert contents(system) == before


@pytest.mark.parametrize("name", ["A.npy", "b.npy"])
@pytest.mark.parametrize("n", [50, 1000], ids=["small", "large"])  # of 8 MB not all is compared
def test_different_files_of_one_time_are_found_before_the_start(mpirun, command, system, name, n):
    other = system / "other"
    other.mkdir()
    for directory in (system, other):
        save_system(directory, n)
    changed = np.load(other / name)
    changed[n // 2 :] *= 2
    save(other / name, changed)
    for directory in (system, other):
        for file in ("A.npy", "b.npy"):
            os.utime(directory / file, (1e9, 1e9))
    before = contents(system)
    one = ["-np", "1"]
    job = [str(command.binary), *SOLVE]
    result = mpirun.run([*one, *job, ":", *one, "-wdir", str(other), *job])
    assert (result.code, result.out) == (2, "")
    assert result.says("not given the same job", "rank 1", name, "checksum")
    assert contents(system) == before


def test_file_that_one_process_lacks_is_reported(mpirun, command, system):
    (system / "empty").mkdir()
    before = contents(system)
    one = ["-np", "1"]
    job = [str(command.binary), *SOLVE]
    result = mpirun.run([*one, *job, ":", *one, "-wdir", str(system / "empty"), *job])
    assert (result.code, result.out) == (3, "")
    assert result.says("cannot read 'A.npy'", "rank 1 of 2")
    assert contents(system) == before


def test_processes_that_mpi_does_not_connect_are_explained(mpirun, command, system):
    # As under srun of a Slurm that knows another MPI.
    result = command(*SOLVE, env={**OPEN_MPI, "SLURM_STEP_NUM_TASKS": "2"})
    assert result.code == 3
    assert result.says("2 processes were started", "MPI connects 1", "--mpi=pmix")


def test_batch_job_without_srun_is_one_process(command, system):
    environment = {"SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLURM_JOB_ID": "1"}
    result = command("logdet", "A.npy", "--json", env=environment)
    assert (result.code, result.json()["processes"]) == (0, 1)


# ---- disks


def test_disk_that_is_full_for_one_process_leaves_nothing(mpirun, command, system):
    save(system / "b.npy", sides(50, 30))
    job = f"{command.binary} {' '.join(SOLVE)}"
    limited = ["sh", "-c", f"ulimit -f 1; exec {job}"]
    before = contents(system)
    result = mpirun.run(["-np", "2", *job.split(), ":", "-np", "1", *limited])
    assert (result.code, result.out) == (3, "")
    assert result.says("cannot write 'x.npy'", "ulimit -f", "rank 2 of 3")
    assert contents(system) == before


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_process_that_cannot_write_is_named(mpirun, command, system, victim):
    before = contents(system)
    job = [str(command.binary), *SOLVE]
    limited = ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *job]
    ranks = [[":", "-np", "1", *(limited if rank == victim else job)] for rank in range(3)]
    result = mpirun.run([word for rank in ranks for word in rank][1:])
    assert (result.code, result.out) == (3, "")
    assert result.says("cannot write 'x.npy'", "(ulimit -f)", f"rank {victim} of 3")
    assert result.err.count("shardsolve: error") == 1
    assert contents(system) == before


def run_in_own_mounts(system, command, prepare, count, *arguments):
    """Runs mpirun with mounts of its own; skips where none can be made."""
    unshare = ["unshare", "--user", "--map-root-user", "--mount"]
    if subprocess.run([*unshare, "sh", "-c", prepare], cwd=system, check=False).returncode != 0:
        pytest.skip("no file system can be mounted here")
    job = f"mpirun -np {count} {command.binary} {' '.join(map(str, arguments))}"
    return subprocess.run(
        [*unshare, "sh", "-c", f"{prepare} && {job}; code=$?; ls -A disk; exit $code"],
        cwd=system,
        env={**os.environ, **OPEN_MPI},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_full_disk_is_found_before_the_work(mpirun, command, system):
    (system / "disk").mkdir()
    save(system / "A.npy", hermitian(300))
    prepare = "mount -t tmpfs -o size=256k none disk"
    done = run_in_own_mounts(system, command, prepare, 2, "inverse", "A.npy", "-o", "disk/X.npy")
    assert (done.returncode, done.stdout) == (3, "")
    assert "720128 bytes are needed" in done.stderr


def test_file_that_needs_a_name_is_written_by_all(mpirun, command, system):
    # Without /proc other processes cannot open a file that has no name.
    (system / "disk").mkdir()
    prepare = "mount -t tmpfs none disk && mount -t tmpfs none /proc"
    done = run_in_own_mounts(
        system, command, prepare, 3, "solve", "A.npy", "b.npy", "-o", "disk/x.npy", "--quiet"
    )
    assert (done.returncode, done.stdout) == (0, "x.npy\n"), done.stderr


# ---- processes that stop or die


@pytest.mark.parametrize("victim", [0, 1])
def test_stopped_process_is_named_in_time(mpirun, tmp_path, slow_job, victim):
    running = mpirun.start(3, *slow_job, "-o", "x.npy", "--timeout", 2)
    running.send(signal.SIGSTOP, victim)
    begin = time.monotonic()
    running.wait_for("shardsolve: error")
    waited = time.monotonic() - begin
    result = running.finish()
    assert (result.code, result.out) == (3, "")
    assert result.says(f"rank {victim} has been silent", "at step", "waited at", "--timeout")
    assert result.err.count("shardsolve: error") == 1
    assert waited < 2 + 1.5, "the limit is 2 s"
    assert contents(tmp_path) == {}


@pytest.mark.parametrize("victim", [0, 2])
def test_process_that_stops_before_the_start_ends_the_job(
    mpirun, command, system, told_pid, victim
):
    before = contents(system)
    job = [str(command.binary), *SOLVE, "--timeout", "2", "--json"]
    stopped = ["sh", "-c", f'echo $$ > {told_pid}; kill -STOP $$; exec "$@"', "sh", *job]
    ranks = [[":", "-np", "1", *(stopped if rank == victim else job)] for rank in range(3)]
    result = mpirun.run([word for rank in ranks for word in rank][1:])
    assert result.code == 3
    assert result.json()["status"] == "communication"
    assert result.says("MPI has not connected the processes (3) within 10 s", "--timeout, now 2 s")
    assert result.err.count("shardsolve: error") == 1
    assert contents(system) == before


def test_process_that_stops_while_it_reads_is_named(mpirun, tmp_path):
    save_sparse(tmp_path / "A.npy", 20000, "<f4")  # zeros: each of two processes has 800 MB of them
    running = mpirun.start(2, "logdet", "A.npy", "--timeout", "0.5", at_work=has_read(300 << 20))
    running.send(signal.SIGSTOP, 1)
    result = running.finish()
    assert (result.code, result.out) == (3, "")
    assert result.says("rank 1 has been silent", "last seen in 'read', while rank 0 waited in 'the")
    assert "step -1" not in result.err
    assert "earlier call" not in result.err


def test_process_that_does_not_end_keeps_the_others_for_a_limited_time(
    mpirun, command, system, told_pid
):
    full = system / "full"  # where rank 0 waits to print its report
    os.mkfifo(full)
    pipe = os.open(full, os.O_RDWR | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(pipe, bytes(1 << 12))
    job = [str(command.binary), *SOLVE, "--timeout", "2"]
    waiting = ["sh", "-c", f'echo $$ > {told_pid}; exec "$@" > full', "sh", *job]
    begin = time.monotonic()
    result = mpirun.run(["-np", "1", *waiting, ":", "-np", "1", *job])
    os.close(pipe)
    assert result.says("another process does not end; this one ends without it")
    assert time.monotonic() - begin < 30
    assert (system / "x.npy").is_file()


@pytest.mark.parametrize("victim", [0, 2])
def test_killed_process_ends_the_job_and_leaves_nothing(mpirun, tmp_path, slow_job, victim):
    running = mpirun.start(3, *slow_job, "-o", "x.npy")
    running.send(signal.SIGKILL, victim)
    result = running.finish()
    assert result.code != 0
    assert f"rank {victim}" in result.err
    assert "Killed" in result.err
    assert contents(tmp_path) == {}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_to_mpirun_cancels_and_leaves_nothing(mpirun, tmp_path, slow_job, number):
    running = mpirun.start(3, *slow_job, "-o", "x.npy")
    running.send(number)
    result = running.finish()
    assert result.code != 0
    assert result.says("interrupted", "nothing was written")
    assert contents(tmp_path) == {}


@pytest.mark.parametrize("rank", [0, 1])
def test_signal_to_one_process_cancels_all(mpirun, tmp_path, slow_job, rank):
    running = mpirun.start(2, *slow_job, "-o", "x.npy")
    running.send(signal.SIGTERM, rank)
    result = running.finish()
    assert result.code == 143
    assert result.err.count("shardsolve: error: interrupted") == 1
    assert contents(tmp_path) == {}
