"""What a row is."""

from __future__ import annotations

from dataclasses import dataclass

UNIT = "shardsolve_unit_tests"
DISTRIBUTED = "shardsolve_distributed_tests"


@dataclass(frozen=True)
class Mistake:
    """One change of one file, and the tests that are to notice it."""

    what: str
    path: str
    right: str
    wrong: str
    tests: str
    binary: str = DISTRIBUTED
