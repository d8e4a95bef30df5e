#!/usr/bin/env python3
"""Plants known mistakes of the solvers one by one and sees that the tests notice each.

A gate that no mistake can miss proves nothing. Each row is one that people have made, or that looks
harmless: a copy of the tree gets it, the tests are built, and the ones that the row names have to
fail. Rows are in the folder mistakes, a module a family: eigensolvers, LU, QR with least squares,
polar factors with singular values. What is copied is what git would commit, into build/mistakes;
nothing of the tree itself is changed. Takes up to some minutes a row.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

from mistakes import FAMILIES
from mistakes.mistake import Mistake

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / "build" / "mistakes"


def copy_tree() -> None:
    """Makes build/mistakes what git would commit; files that are the same keep their times."""
    before = {path for path in PLACE.rglob("*") if path.is_file()}
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    for name in listed:
        source, target = ROOT / name, PLACE / name
        if not source.is_file():
            continue
        before.discard(target)
        if target.is_file() and target.read_bytes() == source.read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    for path in before:
        if PLACE / "build" not in path.parents:  # gone, or under another name
            path.unlink()


def build(binaries: set[str]) -> str:
    """Builds these tests; returns what the compiler said if that failed."""
    command = ["cmake", "--build", "--preset", "release", "--parallel", "--target"]
    command += sorted(binaries)
    done = subprocess.run(command, cwd=PLACE, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout[-2000:] + done.stderr[-2000:]


def failed_tests(binary: str, tests: str) -> list[str]:
    """Returns the names of the tests that failed, or how the run ended if it did not end well."""
    command = [str(PLACE / "build" / "release" / "tests" / binary), f"--gtest_filter={tests}"]
    try:
        done = subprocess.run(
            command, cwd=PLACE, capture_output=True, text=True, check=False, timeout=600
        )
    except subprocess.TimeoutExpired:
        return ["hang"]
    if re.search(r"Running 0 tests", done.stdout):
        sys.exit(f"plant_mistakes.py: no test is called {tests}")
    names = sorted(set(re.findall(r"^\[  FAILED  \] (\S+\.[^\s,]+)", done.stdout, re.MULTILINE)))
    return names or ([] if done.returncode == 0 else [f"exit code {done.returncode}"])


def require_anchors(rows: list[Mistake]) -> None:
    """Raises SystemExit if a row's text is not exactly once in its file."""
    faults = [
        f"{mistake.path}: {mistake.right!r} is there {count} times"
        for mistake in rows
        if (count := (ROOT / mistake.path).read_text(encoding="utf-8").count(mistake.right)) != 1
    ]
    if faults:
        sys.exit("\n".join(f"plant_mistakes.py: {fault}" for fault in faults))


def plant(mistake: Mistake) -> list[str]:
    """Returns the tests that noticed a mistake."""
    path = PLACE / mistake.path
    right = path.read_text(encoding="utf-8")
    path.write_text(right.replace(mistake.right, mistake.wrong), encoding="utf-8")
    try:
        if complaint := build({mistake.binary}):
            sys.exit(f"plant_mistakes.py: {mistake.what}: does not compile\n{complaint}")
        return failed_tests(mistake.binary, mistake.tests)
    finally:
        path.write_text(right, encoding="utf-8")


def main() -> int:
    """Prints who noticed which mistake; 1 if one went unnoticed or the tests fail without any."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--family", choices=sorted(FAMILIES), help="rows of this one alone")
    parser.add_argument("--only", metavar="TEXT", default="", help="rows whose first words have it")
    parser.add_argument("--check", action="store_true", help="only that each row finds its place")
    arguments = parser.parse_args()
    families = [arguments.family] if arguments.family else list(FAMILIES)
    rows = [row for name in families for row in FAMILIES[name] if arguments.only in row.what]
    if not rows:
        sys.exit(f"plant_mistakes.py: no row of {', '.join(families)} has {arguments.only!r}")
    require_anchors(rows)
    if arguments.check:
        return 0
    copy_tree()
    configure = ["cmake", "--preset", "release", "-DSHARDSOLVE_BUILD_TESTS=ON"]
    if shutil.which("ccache"):
        configure += ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"]
    subprocess.run(configure, cwd=PLACE, capture_output=True, check=True)
    if complaint := build({row.binary for row in rows}):
        sys.exit(f"plant_mistakes.py: the tree does not compile\n{complaint}")
    for binary, tests in sorted({(row.binary, row.tests) for row in rows}):
        if failed := failed_tests(binary, tests):
            sys.exit(f"plant_mistakes.py: without a mistake these fail: {', '.join(failed)}")
    unnoticed = 0
    for row in rows:
        noticed = plant(row)
        unnoticed += not noticed
        print(f"{'noticed  ' if noticed else 'UNNOTICED'}  {row.what}: {', '.join(noticed)[:200]}")
        sys.stdout.flush()
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
