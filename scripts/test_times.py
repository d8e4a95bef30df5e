"""Adds up what the tests took, from the JUnit reports that scripts/test.sh leaves.

Prints the seconds of each report, the slowest tests, and what each family of routines takes of its
budget. Seconds are those of the tests themselves: two at a time take half of them.

Usage: test_times.py [--slowest N] <folder of reports>
"""

from __future__ import annotations

import argparse
import re
import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

# A family's tests have its name in theirs. What no family claims is shared by all and has no
# budget.
FAMILIES = {
    "eigenvalues": r"eigh|eigen|tridiagonal",
    "sparse and Krylov": r"sparse|krylov|beam|lineax|csr",
    "general matrices": r"(?<![a-z])lu(?![a-z])|LuFamily|LuKernels",
    "matrices of any shape": r"(?<![a-z])qr(?![a-z])|lstsq|QrFamily|QrKernels|QrAndLeast",
    "singular values": r"(?<![a-z])svd(?![a-z])|polar|SvdFamily|SvdOnCpus",
    "networks": r"fbpinn|networks",
    "natural gradients": r"natural_gradients|natural_optimiser|netket|tinygp",
}
BUDGETS = {"make test": 180.0, "CI": 600.0}  # seconds of tests; half as many on two cores
# Reports of `make test`; CI has them all.
OF_MAKE_TEST = re.compile(r"release-\w+|cli|jax|jax-operators")


@dataclass(frozen=True)
class Case:
    """One test that ran."""

    report: str
    name: str
    seconds: float


def read(report: Path) -> list[Case]:
    """Returns the tests in a report, of ctest or of pytest."""
    return [
        Case(
            report.stem,
            f"{case.get('classname', '')}::{case.get('name', '')}",
            float(case.get("time") or 0.0),
        )
        for case in ET.parse(report).getroot().iter("testcase")
    ]


def family_of(case: Case) -> str | None:
    """Returns the family whose test it is, or None."""
    for family, pattern in FAMILIES.items():
        if re.search(pattern, case.name, re.IGNORECASE):
            return family
    return None


def print_reports(cases: list[Case]) -> None:
    """Prints a line a report."""
    print("\n== seconds of tests, by report")
    reports = defaultdict(list)
    for case in cases:
        reports[case.report].append(case.seconds)
    for report, seconds in sorted(reports.items(), key=lambda item: -sum(item[1])):
        print(f"{report:24} {sum(seconds):7.1f} s  {len(seconds):5} tests")


def print_slowest(cases: list[Case], count: int) -> None:
    """Prints the tests that took longest."""
    print(f"\n== the slowest {count}")
    for case in sorted(cases, key=lambda case: -case.seconds)[:count]:
        print(f"{case.seconds:7.1f} s  {case.report}: {case.name}")


def print_budgets(cases: list[Case]) -> None:
    """Prints what each family took, and who is over."""
    print("\n== seconds of tests, by family")
    for job, budget in BUDGETS.items():
        sums = defaultdict(float)
        for case in cases:
            if job == "CI" or OF_MAKE_TEST.fullmatch(case.report):
                sums[family_of(case)] += case.seconds
        print(f"{job}: {sums.pop(None, 0.0):.0f} s shared by all")
        for family, seconds in sums.items():
            verdict = "within" if seconds <= budget else "OVER"
            print(f"{job}: {family} {seconds:.0f} s, {verdict} its {budget:.0f} s")


def main() -> None:
    """Reads the reports and prints the three lists."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("reports", type=Path)
    parser.add_argument("--slowest", type=int, default=30)
    options = parser.parse_args()
    cases = [case for path in sorted(options.reports.glob("*.xml")) for case in read(path)]
    if not cases:
        sys.exit(f"no reports of tests in {options.reports}: scripts/test.sh makes them")
    print_reports(cases)
    print_slowest(cases, options.slowest)
    print_budgets(cases)


if __name__ == "__main__":
    main()
