"""Whatever ends the command, no half-written file is left."""

import signal
import time

import numpy as np
import pytest
from command import contents, default_signals, finish, has_unnamed_files
from problems import save, save_sparse

STOPS = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129}


@pytest.mark.parametrize("delay", [0.0, 0.5])
@pytest.mark.parametrize("name", STOPS)
def test_signal_during_work_leaves_nothing(command, tmp_path, slow, name, delay):
    (tmp_path / "x.npy").write_text("old")
    before = contents(tmp_path)
    process = command.start(*slow, "-o", "x.npy", "--trace", "t.json", "--force")
    time.sleep(delay)
    assert process.poll() is None, "the job is too short for this test"
    process.send_signal(getattr(signal, name))
    result = finish(process)
    assert (result.code, result.out) == (STOPS[name], "")
    assert result.says("interrupted", name, "nothing was written")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("delay", [0.0, 0.5])
def test_kill_during_work_leaves_nothing(command, tmp_path, slow, delay):
    if not has_unnamed_files(tmp_path):
        pytest.skip("this file system has no files without a name")
    process = command.start(*slow, "-o", "x.npy", "--trace", "t.json")
    time.sleep(delay)
    assert process.poll() is None, "the job is too short for this test"
    process.kill()
    assert finish(process).code == -signal.SIGKILL
    assert contents(tmp_path) == {}


def test_signal_during_inverse_with_json_reports_cancelled(command, tmp_path, slow):
    process = command.start("inverse", *slow[1:2], *slow[3:], "-o", "X.npy", "--json")
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    result = finish(process)
    assert result.code == 143
    assert result.json()["status"] == "cancelled"
    assert contents(tmp_path) == {}


def test_signal_while_reading_leaves_nothing(command, tmp_path):
    # A gigabyte of zeros; if it were read to the end the exit code would be 1.
    save_sparse(tmp_path / "A.npy", 16000, "<f4")
    process = command.start("inverse", "A.npy", "-o", "X.npy", "--devices", "2")
    process.send_signal(signal.SIGINT)
    result = finish(process)
    assert result.code == 130
    assert result.says("interrupted")
    assert [path.name for path in tmp_path.iterdir()] == ["A.npy"]


def test_second_signal_ends_at_once(command, tmp_path, slow):
    process = command.start(*slow, "-o", "x.npy")
    # Both are pending when the process goes on; the handler of the second one ends it.
    process.send_signal(signal.SIGSTOP)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGCONT)
    result = finish(process)
    assert result.code in (130, 143)
    assert "interrupted" not in result.err
    assert contents(tmp_path) == {}


def test_signal_ignored_from_the_start_stays_ignored(command, tmp_path):
    n = 300
    save(tmp_path / "A.npy", np.eye(n))

    def ignore():
        default_signals()
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    process = command.start("logdet", "A.npy", "--tile", "1", "--devices", "2", preexec_fn=ignore)
    process.send_signal(signal.SIGINT)
    assert finish(process).code == 0


def test_silent_rank_exits_3_and_names_it(command, tmp_path):
    # One tile is factored for longer than the limit while the other rank waits for it.
    n = 3000
    save(tmp_path / "A.npy", (np.eye(n) + 1e-4).astype("complex128"))
    save(tmp_path / "b.npy", np.ones(n, "complex128"))
    before = contents(tmp_path)
    arguments = ["--devices", 2, "--tile", 1500, "--timeout", 0.001]
    result = command("solve", "A.npy", "b.npy", "-o", "x.npy", *arguments)
    assert (result.code, result.out) == (3, "")
    assert result.says("silent", "rank", "--timeout")
    assert contents(tmp_path) == before
