"""Logs, captures, and the commands that read them."""

import json
import os
import resource
import shutil
import zlib

import numpy as np
import pytest
import scipy.sparse as sp
from command import contents
from problems import save
from sparse_problems import convection, laplacian, save_matrix, save_sparse_system

SOLVE = ("solve", "A.npz", "b.npy", "-o", "x.npy")


@pytest.fixture
def sparse(tmp_path):
    """A directory with A.npz, symmetric positive definite, and b.npy."""
    save_sparse_system(tmp_path)
    return tmp_path


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def write_lines(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_log_has_request_records_and_verdict(command, sparse):
    options = ["--method", "cg", "--preconditioner", "jacobi", "--rtol", "1e-9"]
    report = command(*SOLVE, *options, "--devices", 2, "--log", "log", "--json").json()
    assert report["log"] == "log"
    opening, *records, closing = lines_of(sparse / "log")
    assert opening["kind"] == "krylov log"
    request = opening["request"]
    assert (request["n"], request["method"], request["ranks"]) == (60, "cg", 2)
    assert request["preconditioner"] == {"kind": "jacobi", "blocks": []}
    assert float.fromhex(request["rtol"]) == 1e-9
    verdict = closing["verdict"]
    assert verdict["status"] == "converged_rtol"
    assert float.fromhex(verdict["residual"]) == report["residual"]
    assert float.fromhex(verdict["margin"]) == report["margin"]
    iterations = [record["iteration"] for record in records]
    assert iterations == sorted(iterations)
    assert iterations[-1] == report["iterations"]
    norms = [float.fromhex(record["residual"]) for record in records]
    assert norms[-1] <= 1e-9 < norms[0]


def test_log_of_a_failure_is_kept_and_named(command, sparse):
    result = command(*SOLVE, "--max-iterations", 7, "--log", "log", "--json")
    assert result.code == 1
    assert result.json()["log"] == "log"
    assert result.says("'log' has the log")
    assert lines_of(sparse / "log")[-1]["verdict"]["status"] == "max_iterations"
    assert not (sparse / "x.npy").exists()


def compare(command, a, b, code=0):
    report = command("compare-logs", a, b, "--json")
    assert report.code == code, report.err
    text = command("compare-logs", a, b)
    assert text.code == code
    assert text.out.replace("\n", " ").strip() == report.json()["message"]
    return report.json()


def test_iteration_that_one_log_lacks_is_told(command, sparse):
    assert command(*SOLVE, "--log", "a").code == 0
    lines = (sparse / "a").read_text().splitlines(keepends=True)
    (sparse / "b").write_text("".join(lines[:5] + lines[6:]))
    for order in (("a", "b"), ("b", "a")):
        report = compare(command, *order)
        text = report["message"]
        assert report["missing"] == 1
        assert "1 iteration that one log has is missing in the other." in text
        assert "so are all records that both logs have" in text and "rounding" not in text


def test_logs_of_the_same_solve_are_the_same(command, sparse):
    assert command(*SOLVE, "--log", "a", "--devices", 1).code == 0
    assert command(*SOLVE, "--log", "b", "--devices", 3, "--force").code == 0
    report = compare(command, "a", "b")
    assert (report["same_bits"], report["same_verdict"]) == (True, True)
    assert (report["difference"], report["divergence"]) == (None, None)
    assert report["records"] == len(lines_of(sparse / "a")) - 2
    assert "All bits of iterations" in report["message"]
    assert "to the bit" in report["message"]


def altered(sparse, change):
    lines = lines_of(sparse / "a")
    change(lines)
    write_lines(sparse / "b", lines)


def first_of(lines, iteration):
    return next(
        line
        for line in lines
        if line.get("iteration") == iteration and line["event"] == "iteration"
    )


@pytest.fixture
def logged(command, sparse):
    """The directory with the log `a` of a solve."""
    assert command(*SOLVE, "--log", "a").code == 0
    return sparse


def test_first_bit_that_differs_is_named(command, logged):
    def change(lines):
        for iteration in (9, 11):
            record = first_of(lines, iteration)
            value = float.fromhex(record["alpha"][0])
            record["alpha"][0] = float(np.nextafter(value, 2 * value)).hex()

    altered(logged, change)
    report = compare(command, "a", "b")
    assert (report["same_bits"], report["same_verdict"]) == (False, True)
    assert report["difference"]["iteration"] == 9
    assert report["difference"]["scalar"] == "alpha"
    assert 0 < report["difference"]["relative"] < 3e-16
    assert report["divergence"] is None
    assert "The first difference: alpha at iteration 9, 0x" in report["message"]
    assert "does not matter" in report["message"]


def test_divergence_is_told_apart_from_rounding(command, logged):
    def change(lines):
        for line in lines[1:-1]:
            if line["iteration"] >= 5:
                factor = 1.05 if line["iteration"] < 20 else 1.2
                line["residual"] = (factor * float.fromhex(line["residual"])).hex()
        lines[-1]["verdict"] |= {"status": "stagnated", "message": "stagnated: ...", "margin": None}

    altered(logged, change)
    report = compare(command, "a", "b", 1)
    assert report["difference"]["iteration"] == 5
    assert report["difference"]["scalar"] == "residual"
    assert report["divergence"]["iteration"] == 20
    assert report["divergence"]["b"] == pytest.approx(1.2 * report["divergence"]["a"])
    assert report["b"]["status"] == "stagnated"
    assert "neither is marginal" in report["message"]


def test_marginal_verdict_explains_a_difference(command, logged):
    def change(lines):
        lines[-1]["verdict"] |= {"status": "max_iterations", "is_marginal": True}

    altered(logged, change)
    report = compare(command, "a", "b", 1)
    assert "that of 'b' is marginal" in report["message"]


def test_logs_that_have_lost_records_are_matched_by_iteration(command, logged):
    altered(logged, lambda lines: lines.__delitem__(slice(1, 20)))
    report = compare(command, "a", "b")
    assert report["difference"] is None
    assert report["first_iteration"] > 10
    assert report["last_iteration"] == report["a"]["iterations"]
    assert report["same_bits"] is False


def test_other_events_are_a_difference(command, logged):
    def change(lines):
        first_of(lines, 6)["event"] = "restarted"

    altered(logged, change)
    report = compare(command, "a", "b")
    assert report["difference"] == {
        "iteration": 6,
        "scalar": "event",
        "a": "iteration",
        "b": "restarted",
        "relative": None,
    }


def test_solves_that_were_not_asked_for_the_same_are_told(command, logged):
    assert (
        command(*SOLVE, "--force", "--method", "minres", "--rtol", "1e-5", "--log", "b").code == 0
    )
    report = compare(command, "a", "b")
    assert "--method: cg and minres" in report["requests_differ_in"]
    assert "--rtol: 1e-08 and 1e-05" in report["requests_differ_in"]


def test_other_preconditioner_is_not_called_rounding(command, logged):
    options = ["--force", "--preconditioner", "jacobi", "--max-iterations", 5000, "--log", "b"]
    assert command(*SOLVE, *options).code == 0
    report = compare(command, "a", "b")
    assert report["requests_differ_in"] == [
        "--preconditioner: none and jacobi",
        "--max-iterations: 10000 and 5000",
    ]
    assert (
        "of different solves: see above in what. What differs is not one of rounding"
        in (report["message"])
    )
    assert "does not matter" not in report["message"]


@pytest.mark.parametrize("other", ["A", "b", "x0"])
def test_other_numbers_are_seen(command, sparse, other):
    save(sparse / "x0.npy", np.zeros(60))
    options = ["--force", "--guess", "x0.npy", "--log"]
    assert command(*SOLVE, *options, "a").code == 0
    if other == "A":
        a = sp.load_npz(sparse / "A.npz")
        a[7, 7] += 1e-3
        save_matrix(sparse / "A.npz", a)
    else:
        vector = np.load(sparse / f"{other}.npy")
        vector[7] += 1e-3
        save(sparse / f"{other}.npy", vector)
    assert command(*SOLVE, *options, "b").code == 0
    report = compare(command, "a", "b")
    (difference,) = report["requests_differ_in"]
    assert difference.startswith(f"the numbers of {other} (checksums ")
    assert "not one of rounding" in report["message"]


def test_log_of_before_has_no_checksums(command, logged):
    altered(logged, lambda lines: lines[0]["request"].pop("crc32"))
    report = compare(command, "a", "b")
    assert (report["same_bits"], report["requests_differ_in"]) == (True, [])


def test_numbers_that_are_not_finite_are_compared(command, logged):
    altered(logged, lambda lines: first_of(lines, 8).update(residual=None))
    report = compare(command, "a", "b")
    assert report["difference"]["b"] == "not finite"
    assert report["difference"]["relative"] is None
    assert report["divergence"]["iteration"] == 8
    assert compare(command, "b", "b")["same_bits"] is True


def damage(change):
    def on(directory):
        text = (directory / "a").read_text()
        (directory / "b").write_text(change(text))

    return on


BAD_LOGS = {
    "empty": (damage(lambda text: ""), ["line 1", "cut off"]),
    "no_verdict": (damage(lambda text: text[: text.rindex("{")].rsplit("{", 1)[0]), ["cut off"]),
    "within_a_line": (damage(lambda text: text[:-5]), ["cut off within a line"]),
    "no_json": (damage(lambda text: "hello\n" + text), ["line 1", "no JSON"]),
    "other_json": (damage(lambda text: '{"a": 1}\n'), ["line 1", '"kind"']),
    "two_logs": (damage(lambda text: text + text), ["follows the verdict"]),
    "no_hex": (damage(lambda text: text.replace('"0x', '"x', 9)), ["hexadecimal"]),
    "other_method": (damage(lambda text: text.replace('"cg"', '"sor"')), ['"method"', "knows"]),
    "backwards": (damage(lambda text: swapped(text)), ["before that of the line above"]),
    "other_format": (
        damage(lambda text: text.replace('"format":1', '"format":9', 1)),
        ["format 9"],
    ),
    "binary": (lambda d: shutil.copy(d / "A.npz", d / "b"), ["line 1"]),
}


def swapped(text):
    lines = text.splitlines(keepends=True)
    lines[4], lines[8] = lines[8], lines[4]
    return "".join(lines)


@pytest.mark.parametrize("case", BAD_LOGS)
def test_bad_log_is_refused(command, logged, case):
    change, words = BAD_LOGS[case]
    change(logged)
    result = command("compare-logs", "a", "b", "--json")
    assert result.code == 2
    assert result.says("'b'", *words)
    assert result.json()["status"] in ("invalid_argument", "unsupported")


def test_missing_log_exits_3(command, logged):
    result = command("compare-logs", "a", "missing")
    assert result.code == 3
    assert result.says("'missing'", "No such file")
    assert command("compare-logs", "a").code == 2


@pytest.fixture
def captured(command, tmp_path):
    """A directory with the capture `folder` of a solve that failed, and nothing else."""
    save_sparse_system(tmp_path, convection(60))
    save(tmp_path / "x0.npy", np.linspace(0, 1, 60))
    options = ["--method", "bicgstab", "--preconditioner", "ilu0", "--blocks", 5]
    options += ["--max-iterations", 4, "--guess", "x0.npy", "--capture", "folder"]
    result = command(*SOLVE, *options, "--devices", 2, "--json")
    assert result.code == 1
    assert result.json()["capture"] == "folder"
    assert result.says("shardsolve replay 'folder'")
    for name in ("A.npz", "b.npy", "x0.npy"):
        (tmp_path / name).rename(tmp_path / f"folder-{name}")
    return tmp_path


def test_capture_holds_all_of_the_solve(captured):
    folder = captured / "folder"
    names = {"A.npz", "b.npy", "x0.npy", "log.jsonl", "capture.json"}
    assert {path.name for path in folder.iterdir()} == names
    a = sp.load_npz(folder / "A.npz")
    assert a.format == "csr"
    assert (a != sp.load_npz(captured / "folder-A.npz")).nnz == 0
    for name in ("b.npy", "x0.npy"):
        assert np.array_equal(np.load(folder / name), np.load(captured / f"folder-{name}"))
    index = json.loads((folder / "capture.json").read_text())
    assert index["request"]["preconditioner"]["kind"] == "ilu0"
    assert len(index["request"]["preconditioner"]["blocks"]) == 6
    assert index["verdict"]["status"] == "max_iterations"
    assert lines_of(folder / "log.jsonl")[-1]["verdict"] == index["verdict"]
    assert not [path for path in captured.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("devices", [1, 2, 3])
def test_replay_reproduces_to_the_bit(command, captured, devices):
    result = command("replay", "folder", "--devices", devices)
    assert (result.code, result.err) == (0, "")
    assert (
        "Reproduced 'folder' to the bit: max_iterations after 4 iterations, 5 records" in result.out
    )
    assert "bicgstab with ilu0 with 5 blocks on 2 cpu devices" in result.out
    report = command("replay", "folder", "--devices", devices, "--json", "--log", "log").json()
    assert report["replay"]["reproduced"] is True
    assert (report["status"], report["replay"]["status"]) == ("max_iterations", "max_iterations")
    old, new = lines_of(captured / "folder/log.jsonl"), lines_of(captured / "log")
    assert old[1:] == new[1:]


def test_replay_tries_something_else(command, captured):
    options = ["--max-iterations", 1000, "--preconditioner", "none", "-o", "x.npy"]
    result = command("replay", "folder", *options, "--json")
    assert result.code == 0, result.err
    report = result.json()
    assert report["replay"]["reproduced"] is None
    assert (report["status"], report["output"]) == ("converged_rtol", "x.npy")
    a, x, b = sp.load_npz(captured / "folder/A.npz"), np.load(captured / "x.npy"), None
    b = np.load(captured / "folder/b.npy")
    assert np.linalg.norm(b - a @ x) <= 1.001e-8 * np.linalg.norm(b)
    result = command("replay", "folder", "--method", "cg", "-o", "y.npy", "--trace", "t.json")
    assert result.code == 1
    assert "y.npy" not in result.out
    assert "busy" in result.out
    assert (captured / "t.json").exists()
    assert "captured        bicgstab with ilu0 with 5 blocks on 2 cpu devices" in result.out
    assert "cg with ilu0 with 5 blocks" in result.out
    assert result.says("nonsymmetric_operator")


def test_replay_of_a_failure_says_that_there_is_no_x(command, captured):
    result = command("replay", "folder", "-o", "x.npy")
    assert result.code == 0, result.err
    assert "Reproduced" in result.out and "'x.npy' was not written" in result.out
    assert not (captured / "x.npy").exists()


def test_replay_says_what_was_not_reproduced(command, captured):
    log = captured / "folder/log.jsonl"
    lines = lines_of(log)
    lines[3]["rho"][0] = "0x1p-3"
    write_lines(log, lines)
    index = json.loads((captured / "folder/capture.json").read_text())
    entry = next(file for file in index["files"] if file["name"] == "log.jsonl")
    entry |= {"bytes": log.stat().st_size, "crc32": zlib.crc32(log.read_bytes())}
    (captured / "folder/capture.json").write_text(json.dumps(index))
    result = command("replay", "folder")
    assert result.code == 1
    assert "Did not reproduce" in result.out
    assert result.says("'folder' was not reproduced", "rho at iteration", "0x1p-3")


def edit_index(change):
    def on(folder):
        index = json.loads((folder / "capture.json").read_text())
        change(index)
        (folder / "capture.json").write_text(json.dumps(index))

    return on


BAD_CAPTURES = {
    "no_folder": (shutil.rmtree, 3, ["folder/capture.json", "No such file"]),
    "no_index": (lambda f: (f / "capture.json").unlink(), 3, ["capture.json", "No such file"]),
    "no_json": (lambda f: (f / "capture.json").write_text("{"), 2, ["capture.json", "no JSON"]),
    "other_json": (lambda f: (f / "capture.json").write_text("[]"), 2, ["no JSON object"]),
    "other_version": (
        edit_index(lambda index: index.update(format=9, version="9.9.9")),
        2,
        ["shardsolve 9.9.9", "format 9", "reads formats up to 2"],
    ),
    "file_gone": (lambda f: (f / "b.npy").unlink(), 3, ["b.npy", "No such file"]),
    "cut_off": (lambda f: os.truncate(f / "A.npz", 500), 2, ["A.npz", "copy the folder again"]),
    "changed": (
        lambda f: save(f / "b.npy", np.ones(60)),
        2,
        ["b.npy", "is not the file that was captured"],
    ),
    "file_not_listed": (
        edit_index(lambda index: index["files"].pop(0)),
        2,
        ['"files" has no A.npz'],
    ),
    "leads_out": (
        edit_index(lambda index: index["files"][1].update(name="../b.npy")),
        2,
        ["capture.json"],
    ),
    "no_blocks": (
        edit_index(lambda index: index["request"]["preconditioner"].update(blocks=[0, 70])),
        2,
        ["A.npz"],
    ),
}


@pytest.mark.parametrize("case", BAD_CAPTURES)
def test_bad_capture_is_refused(command, captured, case):
    change, code, words = BAD_CAPTURES[case]
    change(captured / "folder")
    result = command("replay", "folder", "-o", "x.npy", "--json")
    assert result.code == code, result.err
    assert result.says(*words)
    assert not (captured / "x.npy").exists()


FAIL = (*SOLVE, "--max-iterations", 4, "--capture", "folder")


def test_no_capture_of_a_solve_that_converges(command, sparse):
    report = command(*SOLVE, "--capture", "folder", "--json").json()
    assert report["capture"] is None
    assert {path.name for path in sparse.iterdir()} == {"A.npz", "b.npy", "x.npy"}


def test_place_of_a_capture_is_refused_before_the_solve(command, sparse):
    (sparse / "folder").mkdir()
    (sparse / "file").write_text("old")
    before = contents(sparse)
    for place, options, code, words in [
        ("folder", [], 2, ["'folder' exists already", "--force"]),
        ("folder", ["--force"], 2, ["'folder' exists already and is no capture"]),
        ("file", ["--force"], 2, ["'file' exists already and is no capture"]),
        ("missing/folder", [], 3, ["'missing/folder'", "No such file"]),
        ("/proc/folder", [], 3, ["'/proc/folder'"]),
    ]:
        result = command(*SOLVE, "--capture", place, *options)
        assert (result.code, result.out) == (code, ""), result.err
        assert result.says(*words)
    assert contents(sparse) == before


def test_capture_is_replaced_with_force(command, sparse):
    assert command(*FAIL).code == 1
    first = (sparse / "folder/log.jsonl").read_text()
    assert command(*FAIL, "--method", "minres", "--force").code == 1
    assert (sparse / "folder/log.jsonl").read_text() != first
    assert command("replay", "folder").code == 0
    assert {path.name for path in sparse.iterdir()} == {"A.npz", "b.npy", "folder"}


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_force_does_not_replace_what_is_no_part_of_a_capture(command, sparse, kind):
    fails = (*SOLVE, "--max-iterations", 3, "--capture", "failure")
    assert command(*fails).code == 1
    other = sparse / "failure" / "mine.npy"
    if kind == "file":
        shutil.copy(sparse / "b.npy", other)
    elif kind == "folder":
        other.mkdir()
    else:
        other.symlink_to(sparse / "b.npy")
    before = contents(sparse / "failure")
    refused = command(*fails, "--force")
    assert refused.code == 2
    assert refused.says("'failure' holds 'mine.npy', which is no part of a capture")
    assert contents(sparse / "failure") == before


@pytest.mark.parametrize(
    "more",
    [
        ("--log", "failure/run.jsonl"),
        ("--best", "failure/best.npy"),
        ("--trace", "failure/trace.json"),
    ],
)
def test_nothing_else_is_written_into_a_capture(command, sparse, more):
    fails = (*SOLVE, "--max-iterations", 3, "--capture", "failure")
    assert command(*fails).code == 1
    refused = command(*fails, "--force", *more)
    assert refused.code == 2
    assert refused.says("lies in 'failure' (the capture)")
    assert (sparse / "failure" / "capture.json").exists()


def test_capture_does_not_replace_its_own_inputs(command, sparse):
    assert command(*SOLVE, "--max-iterations", 3, "--capture", "failure").code == 1
    before = contents(sparse / "failure")
    inputs = ("failure/A.npz", "failure/b.npy", "-o", "x.npy", "--max-iterations", 2)
    refused = command("solve", *inputs, "--capture", "failure", "--force")
    assert refused.code == 2 and refused.says("(the matrix) lies in 'failure' (the capture)")
    assert contents(sparse / "failure") == before


@pytest.mark.parametrize("option", ["--log", "--trace", "-o"])
@pytest.mark.parametrize("name", ["capture.json", "log.jsonl", "A.npz"])
def test_replay_replaces_no_file_of_its_capture(command, sparse, option, name):
    assert command(*SOLVE, "--max-iterations", 3, "--capture", "failure").code == 1
    before = contents(sparse / "failure")
    refused = command("replay", "failure", option, f"failure/{name}", "--force")
    assert refused.code == 2 and refused.says("replace no input")
    assert contents(sparse / "failure") == before


def test_capture_that_is_too_large_is_not_written(command, sparse):
    result = command(*FAIL, "--capture-limit", 0, "--json")
    assert result.code == 1
    report = result.json()
    assert (report["status"], report["capture"]) == ("max_iterations", None)
    assert result.says("max_iterations", "Not written: the capture would have about", "bytes")
    assert {path.name for path in sparse.iterdir()} == {"A.npz", "b.npy"}


def test_full_disk_leaves_the_verdict(command, tmp_path):
    save_sparse_system(tmp_path, laplacian(3000))
    before = contents(tmp_path)

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))

    result = command(*FAIL, before=limit)
    assert result.code == 1
    assert result.says("max_iterations", "Not written", "ulimit -f")
    assert contents(tmp_path) == before


def test_matrix_that_is_not_finite_is_captured_and_replayed(command, sparse):
    a = sp.load_npz(sparse / "A.npz")
    a[3, 4] = np.nan
    sp.save_npz(sparse / "A.npz", a)
    assert command(*FAIL).code == 1
    result = command("replay", "folder", "--json")
    assert result.code == 0, result.err
    assert result.json()["entry"] == {"in": "A", "row": 3, "column": 4}


def test_log_of_auto_has_every_attempt(command, tmp_path):
    save_sparse_system(tmp_path, convection(60))
    for name, devices in (("a", 1), ("b", 3)):
        options = ["--method", "auto", "--log", name, "--devices", devices, "--force"]
        assert command(*SOLVE, *options).code == 0
    opening, *records, closing = lines_of(tmp_path / "a")
    assert opening["format"] == 2
    of = [(record["attempt"], record["method"]) for record in records]
    assert sorted(set(of)) == [(1, "cg"), (2, "bicgstab")]
    ends = [record["status"] for record in records if record["event"] == "ended"]
    assert ends == [attempt["status"] for attempt in closing["verdict"]["attempts"]]
    report = compare(command, "a", "b")
    assert report["same_bits"] is True
    assert f"All bits of 2 attempts (cg, bicgstab) are the same, in {len(of)}" in report["message"]

    record = next(line for line in records if line["attempt"] == 2 and line["iteration"] == 3)
    record["alpha"][0] = "0x1p-3"
    write_lines(tmp_path / "b", [opening, *records, closing])
    report = compare(command, "a", "b")
    assert report["difference"]["attempt"] == 2
    assert "alpha at iteration 3 of attempt 2 (bicgstab)" in report["message"]


def test_chebyshev_is_replayed(command, sparse):
    assert command(*FAIL, "--preconditioner", "chebyshev", "--degree", 3).code == 1
    index = json.loads((sparse / "folder/capture.json").read_text())
    assert index["request"]["preconditioner"] == {"kind": "chebyshev", "blocks": [], "degree": 3}
    result = command("replay", "folder", "--devices", 3)
    assert result.code == 0, result.err
    assert "cg with chebyshev of degree 3" in result.out
    assert command("replay", "folder", "--degree", 9, "--max-iterations", 1000).code == 0


def test_auto_is_replayed(command, tmp_path):
    save_sparse_system(tmp_path, convection(60))
    assert command(*FAIL, "--method", "auto").code == 1
    result = command("replay", "folder", "--json")
    assert result.code == 0, result.err
    assert [attempt["method"] for attempt in result.json()["attempts"]] == ["cg", "bicgstab"]
    assert result.json()["method"] == "auto"


@pytest.mark.parametrize("dtype", ["float32", "complex64", "complex128"])
def test_capture_keeps_every_dtype(command, tmp_path, dtype):
    save_sparse_system(tmp_path, dtype=dtype)
    assert command(*FAIL, "--method", "bicgstab").code == 1
    a = sp.load_npz(tmp_path / "folder/A.npz")
    assert a.dtype == dtype
    assert (a != sp.load_npz(tmp_path / "A.npz")).nnz == 0
    assert command("replay", "folder").code == 0
