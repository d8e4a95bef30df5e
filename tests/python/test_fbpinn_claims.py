"""bench/fbpinn_claims.py: what a process that hangs or fails leaves, and the page."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
claims = pytest.importorskip("fbpinn_claims")
claims_page = pytest.importorskip("fbpinn_claims_page")

MACHINE = {"platform": "gpu", "kind": "A GPU", "there": 1, "jax": "0", "cores": 16}
FOUND = {
    "steps_a_second": 2000.0,
    "step_seconds": {"p50": 5e-4, "p95": 6e-4, "p99": 7e-4},
    "loss": 1e-2,
    "gradients": 1000,
    "compile": 7.0,
    "setup": 0.5,
    "peak_bytes": 2**27,
    "devices": "a",
}
# In place of the program's own processes: says what it is told to, then hangs or fails.
PROCESS = """
import json, sys, time
given = json.loads(sys.argv[2])
print(json.dumps({{"machine": {machine}}}), flush=True)
for row in given["rows"]:
    if row["environment"]:
        sys.exit("F parse_flags: Unknown flag " + str(row["environment"]))
    if row["name"] == "float64":
        time.sleep(100)
    if row["what"] == "training":
        print(json.dumps({{"row": row["name"], "found": {found}}}), flush=True)
"""


def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **given) -> dict:
    """The report of a machine whose processes are these."""
    process = tmp_path / "process.py"
    process.write_text(PROCESS.format(machine=MACHINE, found=FOUND))
    monkeypatch.setattr(claims, "__file__", str(process))
    options = {"points": 100, "steps": 10, "rounds": 1, "validated": 100, "only": ""}
    options |= {"json": tmp_path / "claims.json", **given}
    assert claims.measure(argparse.Namespace(**options)) == 0
    return json.loads((tmp_path / "claims.json").read_text())


def test_process_that_hangs_or_fails_is_told_and_the_rest_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    monkeypatch.setattr(claims, "LEAST", 1.0)
    report = measured(tmp_path, monkeypatch, seconds=6.0)
    rows = claims_page.rows_of(report)
    assert rows["plain"]["found"] == FOUND and report["machine"] == MACHINE
    assert rows["a call for 1000 steps"]["found"]["steps_a_second"] == 2000
    assert "not ended" in rows["float64"]["failed"]
    assert "Unknown flag" in rows["no CUDA graphs"]["failed"]
    assert rows["two devices, halo"]["skipped"] == "needs 2 devices"
    assert rows["compiled for one thread"]["skipped"] == "needs a CPU"
    assert {"failed", "skipped"} & rows["points at a time"].keys()
    assert [*tmp_path.glob("*.part")] == []
    assert "| plain | 2000 | 1.00 | plain | 1.0e-02 |" in capsys.readouterr().out


def test_rows_for_which_there_is_no_time_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    report = measured(tmp_path, monkeypatch, seconds=4.0)
    rows = claims_page.rows_of(report)
    assert rows["plain"]["found"] == FOUND
    assert rows["no CUDA graphs"]["skipped"] == "no time was left of 4 s"


def test_page_has_a_line_for_each_claim_and_says_what_is_missing():
    slower = FOUND | {"steps_a_second": 1500.0}
    rows = [
        {"row": {"name": "plain", "beside": "plain"}, "found": FOUND},
        {"row": {"name": "no CUDA graphs", "beside": "plain"}, "found": slower},
        {"row": {"name": "float64", "beside": "plain"}, "failed": "a\nE: no | room\n"},
        {"row": {"name": "two devices, halo", "beside": "plain"}, "skipped": "needs 2 devices"},
        {
            "row": {"name": "points at a time", "beside": "plain"},
            "parts": [{"chunk": 2048, "seconds": 0.5, "peak_bytes": 10**8}],
        },
    ]
    options = {"points": 10_000, "steps": 1000, "rounds": 3}
    text = claims_page.page([{"machine": MACHINE, "options": options, "rows": rows}] * 2)
    lines = {line.split(" | ")[0]: line for line in text.splitlines() if line.startswith("| ")}
    assert len(lines) == len(claims_page.CLAIMS) + 1
    assert all(line.count(" | ") == 4 for line in lines.values())
    assert "+33 %: 2000 steps/s beside 1500" in lines["| CUDA graphs: +30 to 50 %"]
    assert "fails: E: no / room" in text
    assert "not measured: needs 2 devices" in lines["| two GPUs: 1.8 to 2 times"]
    assert "2,048 points: 0.5 s, 100 MB" in text


def test_rows_of_the_page_are_those_of_the_program():
    names = [row.name for row in claims.ROWS]
    assert len({*names}) == len(names)
    for claim in claims_page.CLAIMS:
        assert not claim.row or any(claim.row in name for name in names), claim.row
    for row in claims.ROWS:
        assert row.beside in names
