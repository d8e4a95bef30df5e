"""What is printed: text, JSON, trace and progress."""

import json
import math
import os
import pty
import re
import time
from fractions import Fraction

import numpy as np
import pytest
from command import finish
from problems import hermitian, save, unit_roundoff

KEYS = [
    "command",
    "status",
    "message",
    "n",
    "rows",
    "dtype",
    "rhs",
    "backend",
    "devices",
    "processes",
    "tile",
    "tile_from",
    "tile_table",
    "tile_date",
    "backward_error",
    "component_error",
    "growth",
    "rcond",
    "forward_error",
    "residual",
    "orthogonality",
    "unit_roundoff",
    "error_estimate",
    "rank",
    "logdet",
    "eigenvalues",
    "singular_values",
    "method",
    "preconditioner",
    "blocks",
    "iterations",
    "matvecs",
    "restarts",
    "tolerance",
    "margin",
    "is_marginal",
    "condition",
    "attempts",
    "replay",
    "seconds",
    "read_seconds",
    "write_seconds",
    "flops",
    "gflops",
    "pivot",
    "entry",
    "matrix",
    "right_hand_sides",
    "second_matrix",
    "guess",
    "output",
    "values",
    "vectors",
    "u",
    "vh",
    "best",
    "log",
    "capture",
    "trace",
    "trace_summary",
    "version",
    "blas",
]

JOBS = {
    "solve": ["solve", "A.npy", "b.npy", "-o", "x.npy"],
    "inverse": ["inverse", "A.npy", "-o", "X.npy"],
    "logdet": ["logdet", "A.npy"],
}


def test_solve_text_holds_problem_and_certificate(command, system):
    result = command(*JOBS["solve"], "--devices", 2, "--tile", 7)
    assert (result.code, result.err) == (0, "")
    patterns = [
        r"Solved A x = b for 3 right-hand sides",
        r"A 'A.npy': 50 x 50, float64",
        r"backward error +\d\.\de-\d\d += \S+ u; rounding alone gives .* u = 1.1e-16",
        r"rcond +\d\.\de-\d\d +1 / condition number; relative error of x about .* digits to trust",
        r"time .* GFLOP/s on 2 CPU devices, tile 7; reading .*, writing",
        r"x +'x.npy', float64 of shape \(50, 3\)",
    ]
    assert not [pattern for pattern in patterns if not re.search(pattern, result.out)], result.out


def test_inverse_text_names_inverse(command, system):
    result = command(*JOBS["inverse"])
    assert "Inverted A" in result.out
    assert "'X.npy', float64 of shape (50, 50)" in result.out
    assert "relative error of the inverse" in result.out


def test_logdet_of_a_matrix_that_is_singular_to_rounding_has_no_bound(command, tmp_path):
    numbers = np.arange(12)
    np.save(tmp_path / "H.npy", 1 / (numbers[:, None] + numbers + 1.0))
    assert "nothing bounds the error of log(det(A))" in command("logdet", "H.npy").out


def test_logdet_text_begins_with_value(command, system):
    result = command(*JOBS["logdet"])
    value = re.match(r"log\(det\(A\)\) = (\S+)\n", result.out).group(1)
    assert float(value) == pytest.approx(np.linalg.slogdet(np.load(system / "A.npy"))[1])
    assert "determinant is positive" in result.out


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("job", JOBS)
def test_json_of_success_holds_certificate(command, system, job, dtype):
    save(system / "A.npy", hermitian(50, dtype))
    save(system / "b.npy", np.ones(50, dtype))
    result = command(*JOBS[job], "--json", "--devices", 3, "--tile", 8, "--trace", "t.json")
    assert (result.code, result.err) == (0, "")
    report = result.json()
    assert list(report) == KEYS
    u = unit_roundoff(dtype)
    expected = {
        "command": job,
        "status": "ok",
        "message": "",
        "n": 50,
        "dtype": dtype,
        "rhs": 1 if job == "solve" else None,
        "backend": "cpu",
        "devices": 3,
        "processes": 1,
        "tile": 8,
        "tile_from": "option",
        "tile_table": None,
        "tile_date": None,
        "unit_roundoff": u,
        "matrix": "A.npy",
        "right_hand_sides": "b.npy" if job == "solve" else None,
        "output": {"solve": "x.npy", "inverse": "X.npy", "logdet": None}[job],
        "values": None,
        "vectors": None,
        "eigenvalues": None,
        "trace": "t.json",
        "pivot": None,
        "entry": None,
    }
    assert {key: report[key] for key in expected} == expected
    if job == "logdet":
        assert report["backward_error"] is None
        wide = np.load(system / "A.npy").astype(complex)
        assert report["logdet"] == pytest.approx(np.linalg.slogdet(wide)[1], rel=1e-3)
    else:
        assert 0 <= report["backward_error"] < 10 * u
        assert report["error_estimate"] >= u
        assert report["logdet"] is None
    true_rcond = 1 / np.linalg.cond(np.load(system / "A.npy"), 1)
    assert 0.9 * true_rcond < report["rcond"] < 5 * true_rcond
    assert report["seconds"] > 0
    assert report["gflops"] == pytest.approx(report["flops"] / report["seconds"] / 1e9)


def test_solve_without_rcond_certifies_by_the_backward_error(command, system):
    text = command(*JOBS["solve"], "--no-rcond", "--devices", 2)
    assert (text.code, text.err) == (0, "")
    assert "backward error" in text.out
    assert "rcond" not in text.out
    report = command(*JOBS["solve"], "--no-rcond", "--devices", 2, "--force", "--json").json()
    assert list(report) == KEYS
    assert 0 <= report["backward_error"] < 10 * report["unit_roundoff"]
    assert (report["rcond"], report["error_estimate"]) == (None, None)
    assert command(*JOBS["logdet"], "--no-rcond").code == 2


def test_json_of_numerical_failure_names_pivot(command, system):
    a = np.eye(50)
    a[31, 31] = -1
    save(system / "A.npy", a)
    result = command(*JOBS["solve"], "--json", "--devices", 1)
    report = result.json()
    assert result.code == 1
    assert list(report) == KEYS
    assert report["status"] == "not_positive_definite"
    assert report["pivot"] == {"row": 31, "rows_before": 31}
    assert "not positive definite" in report["message"]
    assert report["message"] in result.err
    assert (report["output"], report["backward_error"], report["rcond"]) == (None, None, None)


@pytest.mark.parametrize(("bad", "row", "column"), [("A", 7, 40), ("b", 9, 2)])
def test_json_of_nonfinite_input_names_entry(command, system, bad, row, column):
    array = np.load(system / f"{bad}.npy")
    array[row, column] = np.nan
    save(system / f"{bad}.npy", array)
    report = command(*JOBS["solve"], "--json", "--devices", 3).json()
    assert report["status"] == "nonfinite_input"
    assert report["entry"] == {"in": bad, "row": row, "column": column}


@pytest.mark.parametrize(
    ("arguments", "code", "status"),
    [
        (["solve", "A.npy", "A.npy", "-o", "A.npy"], 2, "invalid_argument"),
        (["solve", "missing.npy", "A.npy", "-o", "x.npy"], 3, "io"),
    ],
    ids=["misuse", "environment"],
)
def test_json_of_error_has_the_same_keys(command, system, arguments, code, status):
    result = command(*arguments, "--json")
    report = result.json()
    assert (result.code, report["status"]) == (code, status)
    assert list(report) == KEYS
    assert report["message"] in result.err


@pytest.mark.parametrize("job", JOBS)
def test_empty_matrix_gives_json_without_nan(command, system, job):
    save(system / "A.npy", np.zeros((0, 0)))
    save(system / "b.npy", np.zeros((0, 2)))
    result = command(*JOBS[job], "--json")
    assert result.code == 0, result.err
    assert result.json()["n"] == 0
    assert not re.search(r"\b(nan|inf)\b", command(*JOBS[job], "--force").out)


@pytest.mark.parametrize("scale", [3.0, 7.0, 11.0, 13.0])
def test_error_estimate_holds_for_condition_1(command, tmp_path, scale):
    n = 40
    save(tmp_path / "A.npy", scale * np.eye(n))
    b = np.random.default_rng(int(scale)).uniform(1.0, 2.0, n)
    save(tmp_path / "b.npy", b)
    report = command(*JOBS["solve"], "--json").json()
    exact = [Fraction(entry) / Fraction(scale) for entry in b]
    found = [Fraction(entry) for entry in np.load(tmp_path / "x.npy")]
    error = max(abs(x - y) for x, y in zip(found, exact, strict=True)) / max(exact)
    u = report["unit_roundoff"]
    assert error <= report["error_estimate"] < 10 * u
    assert report["error_estimate"] >= 2 * report["backward_error"]


def test_error_that_leaves_no_digit_is_said_to_be_so(command, tmp_path):
    save(tmp_path / "A.npy", np.array([[1.0, 1.0], [1.0, np.nextafter(1.0, 2.0)]]))
    save(tmp_path / "b.npy", np.ones((2, 3)))
    report = command(*JOBS["solve"], "--json").json()
    assert report["status"] == "nearly_singular"
    assert 1 <= report["error_estimate"] == report["forward_error"]
    result = command(*JOBS["solve"], "--force")
    assert "no digit of it is certain" in result.out
    result = command("inverse", "A.npy", "-o", "X.npy")
    assert "nothing bounds the relative error of the inverse: no digit of it" in result.out


def test_quiet_prints_nothing_but_a_value(command, system):
    assert command(*JOBS["solve"], "--quiet").out == ""
    assert re.fullmatch(r"-?\d+\.\d+\n", command(*JOBS["logdet"], "-q").out)


def test_ill_conditioned_matrix_warns_of_digits(command, system):
    a = np.full((50, 50), 1.0) + 1e-14 * np.eye(50)
    save(system / "A.npy", a)
    result = command(*JOBS["solve"])
    assert result.code == 0, result.err
    assert "no digit of it is certain" in result.out or "about 1 digit to trust" in result.out


@pytest.mark.parametrize("job", JOBS)
def test_trace_holds_all_ranks_and_the_flops(command, system, job):
    n = 240
    save(system / "A.npy", hermitian(n))
    save(system / "b.npy", np.ones(n))
    arguments = ["--trace", "t.json", "--json", "--devices", 3, "--tile", 16]
    report = command(*JOBS[job], *arguments).json()
    events = json.loads((system / "t.json").read_text())["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    assert {event["pid"] for event in spans} == {0, 1, 2}
    assert all(event["dur"] >= 0 and event["ts"] >= 0 for event in spans)
    flops = sum(event["args"]["flops"] for event in spans)
    assert flops >= report["flops"] > n**3 / 3


def test_trace_is_summed_up(command, system):
    arguments = ["--trace", "t.json", "--devices", 3, "--tile", 8]
    report = command(*JOBS["solve"], *arguments, "--json").json()
    summary = report["trace_summary"]
    written = json.loads((system / "t.json").read_text())["otherData"]
    assert written.pop("origin_ns") > 0
    assert written == {"clocks": [], "summary": summary}
    assert [rank["rank"] for rank in summary["ranks"]] == [0, 1, 2]
    assert all(0 < rank["busy"] <= 1 for rank in summary["ranks"])
    assert len(summary["links"]) == 6
    assert 0 < summary["steps"]["p50"] <= summary["steps"]["p95"] <= summary["steps"]["p99"]
    assert summary["straggler"]["rank"] in (0, 1, 2)
    text = command(*JOBS["solve"], *arguments, "--force").out
    for words in (
        r"busy +\d+ % +of .*; from \d+ % \(rank \d\) to \d+ % \(rank \d\)",
        r"straggler +rank \d +waited for most, \S+ m?s by all others; rank \d waited most",
        r"moved +\S+ kB +over 6 links; most from rank \d to \d, \S+ kB in \d+ messages",
        r"step +\S+ m?s +in the median of \d+ steps; p95 \S+ m?s, p99 \S+ m?s",
    ):
        assert re.search(words, text), text


def test_trace_of_one_device_has_nobody_to_wait_for(command, system):
    arguments = ["--trace", "t.json", "--devices", 1]
    summary = command(*JOBS["logdet"], *arguments, "--json").json()["trace_summary"]
    assert (summary["links"], summary["straggler"]) == ([], None)
    text = command(*JOBS["logdet"], *arguments, "--force").out
    assert "busy" in text
    assert "straggler" not in text
    assert "moved" not in text


def start_on_terminal(command, arguments):
    """Standard error is a terminal: returns the process and our end of it."""
    terminal, child_end = pty.openpty()
    env = {**os.environ, "TERM": "xterm"}
    process = command.start(*arguments, stderr=child_end, env=env)
    os.close(child_end)
    return process, terminal


def received(stream, enough):
    """Everything that is written until `enough(text)`, or the end."""
    text = ""
    while not enough(text):
        try:
            chunk = os.read(stream, 4096)
        except OSError:  # a terminal ends with its last process
            break
        if not chunk:
            break
        text += chunk.decode()
    return text


def never(text):
    return False


def test_progress_on_terminal_is_a_bar_that_goes_away(command, slow):
    process, terminal = start_on_terminal(command, [*slow, "-o", "x.npy"])
    pattern = r"\rfactor +\[[#.]{30}\] +(\d+) %  about \S+ s left\x1b\[K"
    shown = received(terminal, lambda text: len(re.findall(pattern, text)) >= 5)
    percents = [int(percent) for percent in re.findall(pattern, shown)]
    assert len(percents) >= 5
    assert percents == sorted(percents)
    assert "\n" not in shown
    process.terminate()
    rest = received(terminal, never)
    os.close(terminal)
    assert process.wait() == 143
    assert re.search(r"\r\x1b\[Kstopping; a second signal ends at once\r\n", rest)
    assert rest.endswith("shardsolve: error: interrupted (SIGTERM): nothing was written\r\n")


def test_progress_elsewhere_is_plain_lines(command, slow):
    process = command.start(*slow, "-o", "x.npy")
    shown = received(process.stderr.fileno(), lambda text: text.count(" left\n") >= 2)
    process.terminate()
    assert finish(process).code == 143
    lines = shown.splitlines()
    assert len(lines) >= 2
    # A slow machine knows nothing yet after the first second.
    line = re.compile(r"shardsolve: \w+ *( +\d+ %(  about \S+ (s|min|h) left)?)?")
    assert all(map(line.fullmatch, lines)), lines


def test_progress_of_short_job_shows_nothing(command, system):
    process, terminal = start_on_terminal(command, JOBS["inverse"])
    shown = received(terminal, never)
    os.close(terminal)
    assert (shown, finish(process).code) == ("", 0)


def test_quiet_shows_no_progress(command, slow):
    process = command.start(*slow, "-o", "x.npy", "--quiet")
    time.sleep(3.0)
    process.terminate()
    result = finish(process)
    assert result.err == "shardsolve: error: interrupted (SIGTERM): nothing was written\n"


@pytest.mark.parametrize(
    ("exponent", "bounds"), [(0, (1e-14, 1e-9)), (-1060, (1e-4, 1.0)), (-1070, (1e-1, 1e3))]
)
def test_error_of_logdet_holds_for_matrices_of_any_scale(command, tmp_path, exponent, bounds):
    n = 400
    a = np.ldexp(np.diag(np.linspace(1.0, 30.0, n)), exponent)
    save(tmp_path / "A.npy", a)
    entries = [math.log(math.ldexp(x, -exponent)) for x in np.diag(a)]
    exact = math.fsum([*entries, n * exponent * math.log(2.0)])
    report = command("logdet", "A.npy", "--json").json()
    assert abs(report["logdet"] - exact) <= report["error_estimate"]
    assert bounds[0] < report["error_estimate"] < bounds[1]


def test_log_of_many_equal_pivots_is_as_accurate_as_said(command, tmp_path):
    save(tmp_path / "A.npy", 1e-3 * np.eye(1000))
    report = command("logdet", "A.npy", "--devices", 1, "--json").json()
    assert abs(report["logdet"] + 6907.75527898213704) <= report["error_estimate"] < 1e-11


@pytest.mark.parametrize(
    "arguments", [("logdet",), ("solve", "A.npy", "b.npy"), ("logdet", "A.npy", "--devices", 0)]
)
def test_json_tells_of_misuse_too(command, system, arguments):
    result = command(*arguments, "--json")
    assert result.code == 2
    report = json.loads(result.out)
    assert report["status"] == "invalid_argument"
    assert report["message"].splitlines()[0] in result.err
