"""Proves that the tests notice a forgotten event wait.

Every place where something waits for an event has a number (the wait_sites.hpp of its folder).
Builds for ThreadSanitizer leave out the wait whose number is in SHARDSOLVE_SKIP_WAIT. This script
leaves out each in turn, runs the tests made for it, and prints which removals were noticed and how.
A removal that goes unnoticed is a failure: either the tests are too weak, or the wait is redundant
and has to go. Waits whose header says why no test can notice are listed with its reason.

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
SOURCES = ROOT / "src"
ALL_SITES = SOURCES / "all_wait_sites.cpp"
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


@dataclass(frozen=True)
class Family:
    """The waits of one wait_sites.hpp."""

    header: str  # as it is included
    namespace: str
    sites: list[Site]
    listed: list[str]  # the names in its list `all`
    left_out: str  # why, if they are


SITE = re.compile(r'WaitSite\s+(\w+)\s*\{\s*(\d+),\s*"([^"]+)"\s*\}')


def read_family(path: Path) -> Family:
    """Returns what a wait_sites.hpp says."""
    text = path.read_text(encoding="utf-8")
    namespace = re.search(r"^namespace ([\w:]+)", text, re.MULTILINE)
    listed = re.search(r"constexpr std::array all\{([^}]*)\}", text)
    comment = " ".join(line[3:].strip() for line in text.splitlines() if line.startswith("///"))
    left_out = re.search(r"Left out of scripts/prove_waits\.py: (.*?)\.(?: |$)", comment)
    return Family(
        header=path.relative_to(SOURCES).as_posix(),
        namespace=namespace[1] if namespace else "",
        sites=[Site(int(number), name, what) for name, number, what in SITE.findall(text)],
        listed=re.findall(r"\w+", listed[1]) if listed else [],
        left_out=left_out[1] if left_out else "",
    )


def faults_of(families: list[Family]) -> list[str]:
    """Returns what keeps two waits from having numbers of their own, each fault in a sentence."""
    faults = []
    joined = ALL_SITES.read_text(encoding="utf-8")
    by_number: dict[int, str] = {}
    for family in families:
        if [site.name for site in family.sites] != family.listed or not family.sites:
            faults.append(f"{family.header}: its list `all` has to name its waits, in their order")
        lists = f"{family.namespace.removeprefix('shardsolve::')}::all"
        if f'#include "{family.header}"' not in joined or not re.search(rf"\b{lists}\b", joined):
            faults.append(f"{family.header}: {ALL_SITES.name} lacks it, or its {lists}")
        for site in family.sites:
            name = f"{family.namespace}::{site.name}"
            other = by_number.setdefault(site.number, name)
            if other != name:
                faults.append(f"{name} and {other} have the same number, {site.number}")
    for path in sorted(SOURCES.rglob("*.[ch]*")):
        if path.name == "wait_sites.hpp":
            continue
        for name, number, _ in SITE.findall(path.read_text(encoding="utf-8")):
            if int(number) != 0:  # the end of a queue, which is no wait for an event
                where = path.relative_to(ROOT)
                faults.append(f"{where}: {name} belongs in the wait_sites.hpp of its folder")
    return faults


def read_families() -> list[Family]:
    """Returns the waits of all folders of src/.

    Raises:
        SystemExit: two waits share a number, or one may do so unnoticed.
    """
    families = [read_family(path) for path in sorted(SOURCES.rglob("wait_sites.hpp"))]
    faults = faults_of(families)
    if not families:
        faults.append(f"{SOURCES}: no wait_sites.hpp")
    if faults:
        sys.exit("\n".join(f"prove_waits.py: {fault}" for fault in faults))
    return families


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

    families = read_families()
    left_out = [family for family in families if family.left_out]
    sites = [site for family in families if not family.left_out for site in family.sites]
    sites.sort(key=lambda site: site.number)
    if arguments.sample:
        sites = [site for site in sites if site.name in SAMPLE]
        if {site.name for site in sites} != set(SAMPLE):
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
    for family in left_out:
        for site in sorted(family.sites, key=lambda site: site.number):
            print(f"{site.number:>4}  {'left out':<14} {'':>7}  {site.what}")
        print(f"      {family.header} is left out: {family.left_out}")
    passed = len(sites) - missed
    print(f"{passed} passed, {missed} failed, {sum(len(one.sites) for one in left_out)} left out")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
