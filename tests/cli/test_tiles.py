"""`shardsolve tune`, and the table that it writes: who uses it, who refuses it, what stays."""

import json
import os
import signal
import time

import pytest
from command import contents, finish
from mpi import Processes, missing
from tiles import FORMAT, device_of, entry, write_table

SOLVE = ("solve", "A.npy", "b.npy", "-o", "x.npy", "--force", "--devices", 2)


@pytest.fixture
def table(command, system):
    return write_table(system / "tiles.json", entry(device_of(command)))


def read(path):
    table = json.loads(path.read_text())
    assert {key: table[key] for key in FORMAT} == FORMAT
    return table["entries"]


# ---- use


def test_tile_of_the_table_is_used_and_named(command, system, table):
    assert "tile 25;" in command(*SOLVE).out
    result = command(*SOLVE, "--tile-table", "tiles.json")
    assert "tile 10 (tuned on 2026-01-31, 'tiles.json');" in result.out
    report = command(*SOLVE, "--tile-table", "tiles.json", "--json").json()
    found = [report[key] for key in ("tile", "tile_from", "tile_table", "tile_date")]
    assert found == [10, "table", "tiles.json", "2026-01-31"]
    with_table = (system / "x.npy").read_bytes()
    assert command(*SOLVE, "--tile", 10).code == 0
    assert (system / "x.npy").read_bytes() == with_table


def test_variable_and_usual_place_name_the_table(command, system, table):
    by_variable = command(*SOLVE, env={"SHARDSOLVE_TILE_TABLE": str(table)})
    assert f"tile 10 (tuned on 2026-01-31, '{table}')" in by_variable.out
    usual = system / "config" / "shardsolve" / "tiles.json"
    usual.parent.mkdir(parents=True)
    table.rename(usual)
    env = {"SHARDSOLVE_TILE_TABLE": "", "XDG_CONFIG_HOME": str(system / "config")}
    assert f"tile 10 (tuned on 2026-01-31, '{usual}')" in command(*SOLVE, env=env).out
    assert "tile 25;" in command(*SOLVE, "--tile-table", "none", env=env).out
    usual.unlink()
    assert "tile 25;" in command(*SOLVE, env=env).out


def test_tile_asked_for_goes_before_the_table(command, system, table):
    report = command(*SOLVE, "--tile-table", "tiles.json", "--tile", 7, "--json").json()
    assert (report["tile"], report["tile_from"], report["tile_table"]) == (7, "option", None)
    # and then the table is not even looked at
    assert command(*SOLVE, "--tile-table", "missing.json", "--tile", 7).code == 0


@pytest.mark.parametrize(
    "change",
    [
        {"device": "a CPU from elsewhere"},
        {"ranks": 3},
        {"n": 200},
        {"kept": False},
        {"routine": "eigh"},
    ],
)
def test_entry_for_something_else_is_not_used(command, system, table, change):
    write_table(table, entry(**{"device": device_of(command), **change}))
    report = command(*SOLVE, "--tile-table", "tiles.json", "--json").json()
    assert (report["tile"], report["tile_from"], report["tile_table"]) == (25, "library", None)


# ---- refusal


BAD = {
    "damaged": ('{"format": "shardsolve tile tab', 2, ["no table of tile sizes", "none"]),
    "foreign": ('{"format": "something else"}', 2, ["no table of tile sizes", "Move it away"]),
    "later": (json.dumps({**FORMAT, "version": 3}), 2, ["version 3", "knows version 2"]),
    "earlier": (json.dumps({**FORMAT, "version": 1}), 2, ["version 1", "shardsolve tune"]),
    "unknown key": (json.dumps({**FORMAT, "entries": [], "gemm": 1}), 2, ['"gemm"']),
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("job", ["solve", "tune", "bench"])
def test_table_that_is_not_understood_is_refused_and_kept(command, system, bad, job):
    text, code, words = BAD[bad]
    (system / "tiles.json").write_text(text)
    before = contents(system)
    arguments = {
        "solve": SOLVE,
        "tune": ["tune", "--n", 128],
        "bench": ["bench", "cholesky", "--n", 64],
    }[job]
    result = command(*arguments, "--tile-table", "tiles.json")
    assert (result.code, result.out) == (code, "")
    assert result.says("'tiles.json'", *words)
    assert contents(system) == before


def test_table_that_is_named_and_missing_is_an_error(command, system):
    before = contents(system)
    result = command(*SOLVE, env={"SHARDSOLVE_TILE_TABLE": "missing.json"})
    assert (result.code, result.out) == (3, "")
    assert result.says("'missing.json'", "shardsolve tune", "none")
    assert contents(system) == before
    (system / "directory").mkdir()
    assert command(*SOLVE, "--tile-table", "directory").says("no regular file")


def test_doctor_shows_the_table(command, system, table):
    arguments = ("doctor", "--tile-table", "tiles.json")
    result = command(*arguments)
    assert "tiles     'tiles.json': 1 size, 1 for" in result.out
    tiles = command(*arguments, "--json").json()["tiles"]
    assert (tiles["found"], tiles["entries"], tiles["entries_for_device"]) == (True, 1, 1)
    assert "chosen by the library" in command("doctor").out
    table.write_text("{}")
    result = command(*arguments, "--json")
    assert result.code == 3
    finding = next(one for one in result.json()["findings"] if one["code"] == "tile-table")
    assert finding["severity"] == "error"


def test_processes_need_one_tile(command, system, table):
    if reason := missing(command.binary):
        pytest.skip(reason)
    mpirun = Processes(command)
    job = [str(command.binary), "solve", "A.npy", "b.npy", "-o", "x.npy", "--force"]
    both = mpirun(2, *job[1:], env={"SHARDSOLVE_TILE_TABLE": str(table)})
    assert "tile 10 (tuned on 2026-01-31" in both.out
    one = ["-x", f"SHARDSOLVE_TILE_TABLE={table}", "-np", "1", *job]
    other = ["-x", "SHARDSOLVE_TILE_TABLE=none", "-np", "1", *job]
    result = mpirun.run([*one, ":", *other])
    assert result.code == 2
    assert result.says("rank 1 has the tile 25", "rank 0 has the tile 10", "--tile")


# ---- tune


def test_tune_measures_and_keeps_what_is_there(command, tmp_path):
    device = device_of(command)
    foreign = entry("a CPU from elsewhere")
    near = entry(device, n=128)
    far = entry(device, n=1500)
    unknown = {"routine": "eigh", "band": 64, "half": [0.5, None]}
    path = write_table(tmp_path / "tiles.json", unknown, foreign, near, far)
    arguments = ["--n", "200,128", "--devices", 2, "--tile-table", "tiles.json", "--budget", 60]
    result = command("tune", *arguments, "--json", "--quiet")
    assert (result.code, result.err) == (0, "")
    report = result.json()
    assert (report["device"], report["devices"], report["table"]) == (device, 2, "tiles.json")
    assert report["routine"] == "cholesky"
    # 128 on two devices: slabs of 64 columns, one tile
    assert [size["n"] for size in report["sizes"]] == [128, 200]
    assert "only one tile" in report["sizes"][0]["left_out"]
    measured = report["sizes"][1]
    assert len(measured["shipped_seconds"]) >= 3 and len(measured["best_seconds"]) >= 3
    *known, last = read(path)
    assert last == unknown
    assert report["written"] and report["entries"] == len(known) == 4
    (mine,) = [one for one in known if one not in (foreign, near, far)]
    assert (mine["routine"], mine["device"], mine["n"]) == ("cholesky", device, 200)
    assert (mine["tile"], mine["kept"]) == (measured["best_tile"], measured["kept"])


def test_tune_of_lu_is_for_lu_alone(command, tmp_path):
    cholesky = entry(device_of(command), n=200)
    path = write_table(tmp_path / "tiles.json", cholesky)
    result = command(
        "tune", "lu", "--n", 200, "--devices", 2, "--tile-table", "tiles.json", "--json"
    )
    assert result.code == 0
    report = result.json()
    assert report["routine"] == "lu" and report["written"] and report["entries"] == 2
    mine, theirs = sorted(read(path), key=lambda one: one["routine"], reverse=True)
    assert (mine["routine"], theirs) == ("lu", cholesky)
    assert mine["tile"] == report["sizes"][0]["best_tile"]


def test_size_that_is_measured_again_replaces_its_entry(command, tmp_path):
    stale = entry(device_of(command), n=200, tile=3)
    path = write_table(tmp_path / "tiles.json", stale)
    arguments = ["--n", 200, "--devices", 2, "--tile-table", "tiles.json"]
    report = command("tune", *arguments, "--json").json()
    assert report["written"]
    (fresh,) = read(path)
    assert fresh["n"] == 200 and fresh != stale
    text = command("tune", *arguments).out
    assert "library's" in text and "'tiles.json', 1 entry" in text


def test_tune_makes_the_usual_place(command, tmp_path):
    env = {"SHARDSOLVE_TILE_TABLE": "", "XDG_CONFIG_HOME": str(tmp_path / "config")}
    report = command("tune", "--n", 200, "--devices", 2, "--json", env=env).json()
    path = tmp_path / "config" / "shardsolve" / "tiles.json"
    assert report["table"] == str(path)
    assert report["written"]
    assert [one["kept"] for one in read(path)] == [report["sizes"][0]["kept"]]


@pytest.mark.parametrize(
    ("arguments", "code"), [(["--n", 2_000_000], 3), (["--n", 600, "--budget", 1e-6], 0)]
)
def test_tune_that_writes_nothing_makes_no_directory(command, tmp_path, arguments, code):
    env = {"SHARDSOLVE_TILE_TABLE": "", "XDG_CONFIG_HOME": str(tmp_path / "config")}
    assert command("tune", *arguments, "--devices", 2, env=env).code == code
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_tune_that_is_stopped_leaves_no_directory(command, tmp_path, number):
    usual = {"SHARDSOLVE_TILE_TABLE": "", "XDG_CONFIG_HOME": str(tmp_path / "config")}
    process = command.start("tune", "--n", 2500, "--devices", 2, env={**os.environ, **usual})
    time.sleep(0.7)
    assert process.poll() is None, "the job is too short for this test"
    process.send_signal(number)
    finish(process)
    assert not (tmp_path / "config").exists()


def test_budget_leaves_sizes_out_and_says_so(command, tmp_path):
    arguments = ["--n", 600, "--devices", 2, "--tile-table", "tiles.json", "--budget", 1e-6]
    result = command("tune", *arguments)
    assert result.code == 0
    assert "left out" in result.out and "--budget" in result.out
    assert "Nothing was measured" in result.out
    assert contents(tmp_path) == {}


@pytest.mark.parametrize("delay", [0.0, 0.7])
def test_interrupted_tune_leaves_the_table(command, tmp_path, delay):
    write_table(tmp_path / "tiles.json", entry("a CPU from elsewhere"))
    before = contents(tmp_path)
    arguments = ["--n", 2500, "--devices", 2, "--tile-table", "tiles.json", "--budget", 1000]
    process = command.start("tune", *arguments)
    time.sleep(delay)
    assert process.poll() is None, "the job is too short for this test"
    process.send_signal(signal.SIGINT)
    result = finish(process)
    assert (result.code, result.out) == (130, "")
    assert result.says("interrupted", "nothing was written")
    assert contents(tmp_path) == before


def test_directory_that_cannot_be_written_is_refused_before_the_work(command, tmp_path):
    result = command("tune", "--n", 5000, "--tile-table", tmp_path / "missing" / "tiles.json")
    assert (result.code, result.out) == (3, "")
    assert result.says("missing")
    (tmp_path / "file").touch()
    env = {"SHARDSOLVE_TILE_TABLE": "", "XDG_CONFIG_HOME": str(tmp_path / "file" / "config")}
    result = command("tune", "--n", 5000, env=env)
    assert (result.code, result.out) == (3, "")
    assert result.says("Not a directory", "--tile-table FILE")
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(0o500)
    if os.access(closed, os.W_OK):
        pytest.skip("root may write everywhere")
    result = command("tune", "--n", 5000, "--tile-table", closed / "tiles.json")
    assert (result.code, result.out) == (3, "")
    assert result.says("closed")


def test_tune_without_a_place_is_refused(command):
    result = command("tune", "--tile-table", "none")
    assert result.code == 2 and result.says("--tile-table", "'none'")
    env = {"SHARDSOLVE_TILE_TABLE": "", "XDG_CONFIG_HOME": "", "HOME": ""}
    assert command("tune", env=env).says("--tile-table FILE")


def test_tune_is_for_one_process(command):
    if reason := missing(command.binary):
        pytest.skip(reason)
    result = Processes(command)(2, "tune", "--tile-table", "tiles.json")
    assert (result.code, result.out) == (2, "")
    assert result.says("leave out mpirun", "4 processes")


def test_size_that_does_not_fit_is_refused_with_figures(command, tmp_path):
    result = command("tune", "--n", 2_000_000, "--tile-table", "tiles.json")
    assert (result.code, result.out) == (3, "")
    assert result.says("GB", "free")
    assert contents(tmp_path) == {}
