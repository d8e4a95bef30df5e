"""Lists the places that a routine has, and those that it lacks.

A routine that a user can call has a place in each layer, from the public header to the page about
the command. ROUTINES has a row for each; to add one, add its row, run this, and follow the list
(docs/design/adding-a-routine.md says what each place is for). A public name without a row is
found, too.

Usage: routine_places.py [routine...]
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Routine:
    """The names of one routine. Without one of them it has no place there, for the reason given."""

    name: str
    family: str  # its folder in src/dense, its public header
    cpp: str  # function in the public header
    plan: str  # function in plan.hpp
    job: str  # in tests/support/jobs.hpp
    command: str  # "" where it is a part of another command
    call: str  # row of the table in jax/
    python: str
    kernels: str = "cholesky"  # the set of kernels in src/runtime that is its own
    gpus: str = "gpus"  # "" where it does not run on them


ROUTINES = (
    Routine(
        "factor", "cholesky", "cholesky_factor", "plan_cholesky_factor", "log_determinant", "",
        "cholesky_factor", "cho_factor",
    ),
    Routine(
        "solve with a factor", "cholesky", "cholesky_solve", "plan_cholesky_solve", "reuse", "",
        "cholesky_solve", "cho_solve",
    ),
    Routine(
        "half of a factor", "cholesky", "cholesky_half", "plan_cholesky_half", "half", "",
        "cholesky_half", "cho_factor",
    ),
    Routine(
        "solve", "cholesky", "solve", "plan_cholesky_solve", "solve", "solve",
        "cholesky_solve", "solve",
    ),
    Routine(
        "inverse", "cholesky", "cholesky_inverse", "plan_cholesky_inverse", "inverse", "inverse",
        "cholesky_inverse", "inv",
    ),
    Routine(
        "log-determinant", "cholesky", "log_determinant", "plan_cholesky_factor",
        "log_determinant", "logdet", "cholesky_factor", "logdet",
    ),
    Routine(
        "condition number", "cholesky", "condition_estimate", "plan_cholesky_solve", "reuse", "",
        "cholesky_condition", "cond",
    ),
    Routine(
        "eigenvalues", "eigh", "eigh", "plan_eigh", "eigh", "eigh", "eigh", "eigh", "hermitian",
    ),
    Routine(
        "factor of a general matrix", "lu", "lu_factor", "plan_lu_factor", "lu", "", "lu_factor",
        "lu_factor", "lu", gpus="",
    ),
    Routine(
        "solve with an LU factor", "lu", "lu_solve", "plan_lu_solve", "lu", "", "lu_solve",
        "lu_solve", "lu", gpus="",
    ),
    Routine(
        "determinant", "lu", "lu_factor", "plan_lu_factor", "lu", "", "lu_factor", "det", "lu",
        gpus="",
    ),
    Routine("QR", "qr", "qr", "plan_qr", "qr", "", "qr", "qr", "qr", gpus=""),
    Routine(
        "least squares", "qr", "least_squares", "plan_least_squares", "least_squares", "",
        "least_squares", "least_squares", "qr", gpus="",
    ),
    Routine(
        "least squares of any rank", "qr", "lstsq", "plan_least_squares", "least_squares",
        "lstsq", "least_squares", "lstsq", "qr", gpus="",
    ),
    Routine(
        "ridge", "qr", "ridge", "plan_least_squares", "least_squares", "", "least_squares",
        "ridge", "qr", gpus="",
    ),
    Routine(
        "pseudo-inverse", "qr", "qr", "plan_qr", "qr", "", "qr", "pinv", "qr", gpus="",
    ),
)  # fmt: skip

# Public names of Python that are no routines of their own, and commands that solve nothing.
NO_ROUTINES = {
    "cholesky", "eigvalsh", "krylov", "last_failures", "load_factor", "matrix_function", "natural",
    "progress", "register", "save_factor", "set_timeout", "slogdet", "trace", "trace_function",
}  # fmt: skip
NO_ROUTINE_COMMANDS = {"bench", "compare_logs", "diagnose", "doctor", "replay", "tune"}


@dataclass(frozen=True)
class Place:
    """What a routine needs somewhere: a pattern in one of some files, both with its names."""

    what: str
    files: str  # pattern of paths below the root
    pattern: str  # regular expression
    needs: str = ""  # a name without which the place is not wanted

    def is_wanted(self, routine: Routine) -> bool:
        """Whether a routine has to have it."""
        return not self.needs or bool(getattr(routine, self.needs))

    def where(self, routine: Routine) -> str:
        """Returns the files, with the routine's names."""
        return self.files.format(**vars(routine))

    def is_there(self, routine: Routine, root: Path) -> bool:
        """Whether one of the files has it."""
        names = {key: re.escape(value) for key, value in vars(routine).items()}
        pattern = re.compile(self.pattern.format(**names))
        files = sorted(root.glob(self.where(routine)))
        return any(pattern.search(path.read_text(encoding="utf-8")) for path in files)


PLACES = (
    # the library
    Place("public function", "include/shardsolve/{family}.hpp", r"\b{cpp}\("),
    Place("plan of its memory", "include/shardsolve/plan.hpp", r"\b{plan}\("),
    Place("plan beside its algorithm", "src/dense/{family}/plan.cpp", r"\b{plan}\("),
    Place("public call", "src/dense/{family}/calls.cpp", r"\b{cpp}\("),
    Place("waits of the family", "src/dense/{family}/wait_sites.hpp", r"WaitSite"),
    Place("waits joined", "src/all_wait_sites.cpp", r"{family}/wait_sites\.hpp"),
    Place("set of kernels", "src/runtime/{kernels}_kernels.hpp", r"KernelSet::{kernels}\b"),
    Place("kernels on CPUs", "src/runtime/host/{kernels}_kernels.cpp", r"do_\w+\("),
    Place("kernels on GPUs", "src/runtime/cuda/{kernels}_kernels.cpp", r"do_\w+\(", "gpus"),
    # its tests
    Place("plain version", "src/reference/{family}.hpp", r"template"),
    Place("job that faults end", "tests/support/jobs.hpp", r'"{job}"'),
    Place("test on ranks", "tests/distributed/*.cpp", r"\b{cpp}\("),
    Place("test over processes", "tests/mpi/*.cpp", r"\b{cpp}\("),
    Place("test of its plan", "tests/*/*.cpp", r"\b{plan}\("),
    # the command
    Place("command", "cli/job_{command}.cpp", r"\b{command}_verb\b", "command"),
    Place("command in the table", "cli/verbs.cpp", r"&{command}_verb\b", "command"),
    Place("test of the command", "tests/cli/test_*.py", r'"{command}"', "command"),
    Place("page about the command", "docs/site/command-line.md", r"`{command} ", "command"),
    # the JAX package
    Place("row in the table of calls", "jax/{family}_calls.cpp", r'\.name = "{call}"'),
    Place("function in Python", "python/shardsolve/*.py", r"(?m)^def {python}\("),
    Place("public name in Python", "python/shardsolve/__init__.py", r'"{python}",'),
    Place("test from JAX", "tests/jax/*.py", r"\bshardsolve\.{python}\b"),
    Place("section about the function", "docs/site/api.md", r"shardsolve\.{python}\n"),
    # what is said about it
    Place("chapter on the algorithm", "docs/design/algorithms.md", r"(?i)\b{family}\b"),
    Place("line in the change log", "CHANGELOG.md", r"(?i)\b{family}\b"),
    Place("speed", "bench/*.py", r"(?i){family}"),
)


def lacking(routine: Routine, root: Path = ROOT) -> list[Place]:
    """Returns the places that a routine ought to have and has not."""
    return [
        place for place in PLACES if place.is_wanted(routine) and not place.is_there(routine, root)
    ]


def without_a_row(root: Path = ROOT) -> Iterator[str]:
    """Yields public names that no row of ROUTINES has."""
    init = (root / "python/shardsolve/__init__.py").read_text(encoding="utf-8")
    listed = init[init.index("__all__") : init.index("]", init.index("__all__"))]
    known = {routine.python for routine in ROUTINES} | NO_ROUTINES
    for name in re.findall(r'"([a-z]\w*)"', listed):
        if name not in known:
            yield f"shardsolve.{name} of Python"
    verbs = (root / "cli/verbs.cpp").read_text(encoding="utf-8")
    known = {routine.command for routine in ROUTINES} | NO_ROUTINE_COMMANDS
    for name in re.findall(r"&(\w+)_verb\b", verbs):
        if name not in known:
            yield f"the command {name}"


def main() -> int:
    """Prints a list a routine; 1 if something is missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("routines", nargs="*", metavar="routine", help="all, if none is named")
    names = parser.parse_args().routines
    unknown = set(names) - {routine.name for routine in ROUTINES}
    if unknown:
        there = ", ".join(repr(routine.name) for routine in ROUTINES)
        sys.exit(f"no routine {', '.join(map(repr, sorted(unknown)))}: there are {there}")
    missing = 0
    for routine in ROUTINES:
        if names and routine.name not in names:
            continue
        lacks = lacking(routine)
        wanted = sum(place.is_wanted(routine) for place in PLACES)
        print(f"{routine.name}: {wanted - len(lacks)} of {wanted} places")
        for place in lacks:
            print(f"  lacks  {place.what}: {place.where(routine)}")
        missing += len(lacks)
    for name in without_a_row():
        print(f"{name} is in no row of ROUTINES, scripts/routine_places.py")
        missing += 1
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
