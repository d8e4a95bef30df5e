"""Proves that the tests notice a forgotten event wait.

Every place where an algorithm waits for an event has a number (src/dense/wait_sites.hpp). Builds
for ThreadSanitizer leave out the wait whose number is in SHARDSOLVE_SKIP_WAIT. This script leaves
out each in turn, runs the tests made for it, and prints which removals were noticed and how. A
removal that goes unnoticed is a failure: either the tests are too weak, or the wait is redundant
and has to go.

Usage: prove_waits.py [--sample] [--build build/tsan]
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SITES = ROOT / "src" / "dense" / "wait_sites.hpp"
SANITIZER_EXIT_CODE = 66  # set by scripts/tsan_exec.sh
TIME_LIMIT = 120  # seconds; a run with all waits takes a few
TRIES = 10  # a race is seen at the first try nearly always, but threads are free to be lucky
SAMPLE = (
    "step_flags",
    "panel_used",
    "next_column_ready",
    "forward_ahead",
    "inverse_m_used",
    "multiply_x_arrived",
)


@dataclass(frozen=True)
class Site:
    """One numbered wait."""

    number: int
    name: str
    what: str


def read_sites() -> list[Site]:
    """Returns all sites in the order of their numbers.

    Raises:
        SystemExit: two sites share a number, or the list in the header lacks one.
    """
    text = SITES.read_text(encoding="utf-8")
    found = re.findall(r'constexpr WaitSite (\w+)\{\s*(\d+),\s*"([^"]+)"\}', text)
    sites = sorted(
        (Site(int(number), name, what) for name, number, what in found), key=lambda s: s.number
    )
    if not sites or len({site.number for site in sites}) != len(sites):
        sys.exit(f"{SITES}: no wait sites, or two with one number")
    return sites


def verdict(code: int | None) -> str:
    """Says how a run ended; None is a run that outlasted its limit."""
    if code is None:
        return "hang"
    if code == SANITIZER_EXIT_CODE:
        return "race reported"
    if code == 0:
        return ""
    return "crash" if code < 0 or code > 128 else "wrong result"


def run(binary: Path, number: int) -> int | None:
    """Runs the tests without one wait (-1: with all); returns the exit code, None at the limit."""
    command = [
        str(ROOT / "scripts" / "tsan_exec.sh"),
        str(binary),
        "--gtest_filter=*Waits*",
        "--gtest_brief=1",
    ]
    environment = {**os.environ, "SHARDSOLVE_SKIP_WAIT": str(number)}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, timeout=TIME_LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        return None
    return done.returncode


def prove(binary: Path, site: Site) -> str:
    """Returns how the removal of one wait was noticed, "" if it was not."""
    for _ in range(TRIES):
        how = verdict(run(binary, site.number))
        if how:
            return how
    return ""


def main() -> int:
    """Leaves out each wait in turn and prints the table; 1 if a removal went unnoticed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sample", action="store_true", help="only a few sites, for a quick run")
    parser.add_argument(
        "--build", type=Path, default=ROOT / "build" / "tsan", help="build folder with the tests"
    )
    arguments = parser.parse_args()
    binary = arguments.build / "tests" / "shardsolve_distributed_tests"

    sites = read_sites()
    if arguments.sample:
        sites = [site for site in sites if site.name in SAMPLE]
        if len(sites) != len(SAMPLE):
            sys.exit("prove_waits.py: the sample names a site that does not exist")
    complete = verdict(run(binary, -1))
    if complete:
        sys.exit(
            f"prove_waits.py: the tests fail with all waits in place ({complete}): mend that first"
        )

    missed = 0
    print(f"{'site':>4}  {'noticed':<14} {'seconds':>7}  wait that was left out")
    for site in sites:
        start = time.monotonic()
        how = prove(binary, site)
        missed += not how
        seconds = time.monotonic() - start
        print(
            f"{site.number:>4}  {how or 'NOT NOTICED':<14} {seconds:7.1f}  {site.what}", flush=True
        )
    print(f"{len(sites) - missed} passed, {missed} failed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
