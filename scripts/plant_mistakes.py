#!/usr/bin/env python3
"""Plants the known mistakes of eigensolvers one by one and sees that the tests notice each.

A gate that no mistake can miss proves nothing. Each row of MISTAKES is one that people have made,
or that looks harmless: a copy of the tree gets it, the tests are built, and the ones that the row
names have to fail. What is copied is what git would commit, into build/mistakes; nothing of the
tree itself is changed. Takes some minutes a row.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / "build" / "mistakes"
TARGETS = ("shardsolve_unit_tests", "shardsolve_distributed_tests")
WHOLE = "Eigh/float64.OfEveryMatrix*:Eigh/float64.OnEveryCut*:Eigh/float64.OfManyRows*"


@dataclass(frozen=True)
class Mistake:
    """One change of one file, and the tests that are to notice it."""

    what: str
    path: str
    right: str
    wrong: str
    tests: str = WHOLE
    binary: str = TARGETS[1]


MISTAKES = (
    Mistake(
        "vectors of a merge from z itself, not from the weights for which the roots are exact",
        "src/runtime/host/secular.cpp",
        "std::copysign(std::sqrt(std::abs(weights[i])), equation.weights[i])",
        "equation.weights[i]",
    ),
    Mistake(
        "distances to poles from the rounded root",
        "src/runtime/secular_search.hpp",
        "(equation.poles[root.origin] - equation.poles[pole]) + root.offset",
        "(equation.poles[root.origin] + root.offset) - equation.poles[pole]",
    ),
    Mistake(
        "deflation with a tolerance that is 10000 times too large",
        "src/dense/eigh/deflation.cpp",
        "tolerance_ = 8 *",
        "tolerance_ = 80000 *",
    ),
    Mistake(
        "no rotation of close poles",
        "src/dense/eigh/deflation.cpp",
        "if (!(std::abs((upper - lower) * c * s) <= tolerance_)) {",
        "if (tolerance_ >= 0) {",
    ),
    Mistake(
        "roots that are found to ten digits only",
        "src/runtime/secular_search.hpp",
        "if (std::abs(g) <= noise * size",
        "if (std::abs(g) <= Real(1e-10) * size",
    ),
    Mistake(
        "reflectors that begin at the next block, on ragged slabs",
        "src/dense/eigh/full_to_band.cpp",
        "begin(std::min(first + layout.tile(), layout.size()))",
        "begin(std::min(first + columns, layout.size()))",
    ),
    Mistake(
        "0.45 in place of 1/2 in w",
        "src/dense/eigh/full_to_band.cpp",
        "T{-0.5}",
        "T{-0.45}",
    ),
    Mistake(
        "no scaling of A",
        "src/dense/eigh/calls.cpp",
        "return std::abs(size.exponent) > limit ? -size.exponent : 0;",
        "return limit > 0 ? 0 : -size.exponent;",
    ),
    Mistake(
        "sweeps that follow each other one task behind, not two",
        "src/runtime/chase.hpp",
        "return 2 * sweep + number;",
        "return sweep + number;",
        "*Chase*",
        TARGETS[0],
    ),
    Mistake(
        "a diagonal that is rounded in every sweep",
        "src/runtime/host/band_kernels.cpp",
        "remainder = (number - (sum - part)) + (change - part);",
        "remainder = 0 * part;",
        "BandKernels*Drift*",
        TARGETS[0],
    ),
    Mistake(
        "two-sided updates of a chase with the share of the identity",
        "src/runtime/host/band_kernels.cpp",
        "const RealOf<T> shift = std::real(d(0, 0));",
        "const RealOf<T> shift = 0;",
        "BandKernels*Drift*",
        TARGETS[0],
    ),
    Mistake(
        "products with panels with the share of the identity",
        "src/dense/eigh/full_to_band.cpp",
        "shift_ = mean_of_diagonal();",
        "shift_ = 0 * mean_of_diagonal();",
        "Eigh/complex128.OfEveryMatrix*",
    ),
    Mistake(
        "rows of Z in the order of elimination",
        "src/dense/eigh/calls.cpp",
        "to_caller_order(rank_, layout_, z);",
        "",
    ),
    Mistake(
        "Z^H without the conjugate's other half: columns of another rank's rows",
        "src/dense/eigh/store_adjoint.cpp",
        "target.block(row, 0,",
        "target.block(row - first, 0,",
        "Eigh/float64.AsAdjoint*",
    ),
)


def copy_tree() -> None:
    """Makes build/mistakes what git would commit; files that are the same keep their times."""
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
        if target.is_file() and target.read_bytes() == source.read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def build() -> str:
    """Builds the tests; returns what the compiler said if that failed."""
    command = ["cmake", "--build", "--preset", "release", "--parallel", "--target", *TARGETS]
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
    names = sorted(set(re.findall(r"^\[  FAILED  \] (\S+?),? ", done.stdout, re.MULTILINE)))
    return names or ([] if done.returncode == 0 else [f"exit code {done.returncode}"])


def require_anchors() -> None:
    """Raises SystemExit if a row's text is not exactly once in its file."""
    faults = [
        f"{mistake.path}: {mistake.right!r} is there {count} times"
        for mistake in MISTAKES
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
        if complaint := build():
            sys.exit(f"plant_mistakes.py: {mistake.what}: does not compile\n{complaint}")
        return failed_tests(mistake.binary, mistake.tests)
    finally:
        path.write_text(right, encoding="utf-8")


def main() -> int:
    """Prints who noticed which mistake; 1 if one went unnoticed or the tests fail without any."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", metavar="TEXT", default="", help="rows whose first words have it")
    parser.add_argument("--check", action="store_true", help="only that each row finds its place")
    arguments = parser.parse_args()
    require_anchors()
    if arguments.check:
        return 0
    copy_tree()
    configure = ["cmake", "--preset", "release", "-DSHARDSOLVE_BUILD_TESTS=ON"]
    if shutil.which("ccache"):
        configure += ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"]
    subprocess.run(configure, cwd=PLACE, capture_output=True, check=True)
    if complaint := build():
        sys.exit(f"plant_mistakes.py: the tree does not compile\n{complaint}")
    rows = [mistake for mistake in MISTAKES if arguments.only in mistake.what]
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
