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
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Routine:
    """The names of one routine. An empty one: it has no place there, for the reason given."""

    name: str
    family: str  # its public header
    cpp: str  # function in the public header
    plan: str  # function that says what memory it needs
    job: str  # in tests/support/jobs.hpp
    command: str  # "" where it is a part of another command
    call: str  # row of the table in jax/
    python: str  # below shardsolve
    room: str  # its folder in src
    chapter: str  # a heading in docs/design
    speed: str  # what a program in bench/ calls it; "" where none measures it
    kernels: str  # the sets of kernels in src/runtime that are its own
    cpus: str = "cpus"  # "" where it has no kernels for them
    gpus: str = "gpus"  # likewise
    plain: str = "plain"  # "" where tests compare with a definition that is no routine
    waits: str = "waits"  # "" where others wait for it
    exports: str = "__init__.py"  # below python/shardsolve, with its public name in __all__

    @property
    def short(self) -> str:
        """Its name in C++ without the namespace."""
        return self.cpp.rsplit("::", 1)[-1]

    @property
    def last(self) -> str:
        """Its name in Python without the module."""
        return self.python.rsplit(".", 1)[-1]

    @property
    def page(self) -> str:
        """The first part of its name in Python, which pages show with all its functions."""
        return self.python.split(".", 1)[0]


def _dense(
    family: str, chapter: str, *names: str, speed: str = "", kernels: str = "", gpus: str = "gpus"
) -> Routine:
    return Routine(
        names[0], family, *names[1:], room=f"dense/{family}", chapter=chapter, speed=speed,
        kernels=kernels or family, gpus=gpus,
    )  # fmt: skip


_CHOLESKY = ("cholesky", "Algorithms")
_LU = ("lu", "LU of general matrices")
_QR = ("qr", "QR and least squares")
_SVD = ("svd", "Singular values and polar factors")
_EIGH = ("eigh", "Algorithms")

ROUTINES = (
    _dense(
        *_CHOLESKY, "factor", "cholesky_factor", "plan_cholesky_factor", "log_determinant", "",
        "cholesky_factor", "cho_factor", speed="cholesky_factor",
    ),
    _dense(
        *_CHOLESKY, "solve with a factor", "cholesky_solve", "plan_cholesky_solve", "reuse", "",
        "cholesky_solve", "cho_solve", speed="cholesky_solve",
    ),
    _dense(
        *_CHOLESKY, "half of a factor", "cholesky_half", "plan_cholesky_half", "half", "",
        "cholesky_half", "cho_factor",
    ),
    _dense(
        *_CHOLESKY, "solve", "solve", "plan_cholesky_solve", "solve", "solve", "cholesky_solve",
        "solve", speed="solve",
    ),
    _dense(
        *_CHOLESKY, "inverse", "cholesky_inverse", "plan_cholesky_inverse", "inverse", "inverse",
        "cholesky_inverse", "inv", speed="cholesky_inverse",
    ),
    _dense(
        *_CHOLESKY, "log-determinant", "log_determinant", "plan_cholesky_factor",
        "log_determinant", "logdet", "cholesky_factor", "logdet",
    ),
    _dense(
        *_CHOLESKY, "condition number", "condition_estimate", "plan_cholesky_solve", "reuse", "",
        "cholesky_condition", "cond",
    ),
    _dense(
        *_EIGH, "eigenvalues", "eigh", "plan_eigh", "eigh", "eigh", "eigh", "eigh", speed="eigh",
        kernels="hermitian band tridiagonal",
    ),
    _dense(
        *_LU, "factor of a general matrix", "lu_factor", "plan_lu_factor", "lu", "", "lu_factor",
        "lu_factor",
    ),
    _dense(
        *_LU, "solve with an LU factor", "lu_solve", "plan_lu_solve", "lu", "", "lu_solve",
        "lu_solve",
    ),
    _dense(
        *_LU, "inverse of a general matrix", "lu_inverse", "plan_lu_inverse", "lu_inverse",
        "inverse", "lu_inverse", "inv",
    ),
    _dense(*_LU, "determinant", "lu_factor", "plan_lu_factor", "lu", "", "lu_factor", "det"),
    _dense(
        *_LU, "factors in natural order", "lu_factor", "plan_lu_factor", "lu", "", "lu_factor",
        "lu",
    ),
    _dense(*_QR, "QR", "qr", "plan_qr", "qr", "", "qr", "qr", speed="qr"),
    _dense(
        *_QR, "least squares", "least_squares", "plan_least_squares", "least_squares", "",
        "least_squares", "least_squares", speed="least_squares",
    ),
    _dense(
        *_QR, "least squares of any rank", "lstsq", "plan_least_squares", "least_squares",
        "lstsq", "least_squares", "lstsq", speed="lstsq",
    ),
    _dense(
        *_QR, "ridge", "ridge", "plan_least_squares", "least_squares", "", "least_squares",
        "ridge",
    ),
    _dense(*_QR, "pseudo-inverse", "qr", "plan_qr", "qr", "", "qr", "pinv"),
    _dense(
        *_SVD, "singular vectors", "svd", "plan_svd", "svd", "svd", "svd", "svd", kernels="qr",
    ),
    _dense(
        *_SVD, "singular values", "svdvals", "plan_svd", "svd", "svd", "svdvals", "svdvals",
        kernels="qr",
    ),
    _dense(
        *_SVD, "polar factors", "polar", "plan_polar", "polar", "", "polar", "polar", kernels="qr",
    ),
    Routine(
        "product with a sparse matrix", "sparse", "multiply", "", "sparse", "", "csr_product",
        "CSR", room="sparse", chapter="Sums", speed="SparseMatrix", kernels="sparse",
    ),
    Routine(
        "Krylov solve", "krylov", "krylov::solve", "plan_krylov_solve", "krylov", "solve",
        "krylov_end", "krylov.solve", room="krylov", chapter="The machine", speed="krylov::solve",
        kernels="krylov", plain="", exports="krylov.py",
    ),
    # Networks reach Python through functions of their own (jax/networks.hpp), and CPUs have no
    # kernels for them: their fronts run on sparse::Workers.
    Routine(
        "networks by least squares", "fbpinn", "fbpinn::least_squares", "plan_least_squares", "",
        "", "", "fbpinn.LeastSquares", room="fbpinn", chapter="Orthonormal blocks, then Cholesky",
        speed="fbpinn", kernels="box front", cpus="", plain="", waits="",
        exports="fbpinn/__init__.py",
    ),
    Routine(
        "networks by Levenberg-Marquardt", "fbpinn", "fbpinn::levenberg_marquardt", "", "", "", "",
        "fbpinn.LevenbergMarquardt", room="fbpinn", chapter="All weights", speed="", kernels="box",
        cpus="", plain="", waits="", exports="fbpinn/__init__.py",
    ),
)  # fmt: skip

# Public names of Python that are no routines of their own, and commands that solve nothing.
NO_ROUTINES = {
    "cholesky", "eigvalsh", "last_failures", "load_factor", "matrix_function", "matrix_rank",
    "natural", "progress", "register", "save_factor", "set_timeout", "slogdet", "trace", "watch",
    "trace_function",
}  # fmt: skip
NO_ROUTINE_COMMANDS = {"bench", "compare_logs", "diagnose", "doctor", "replay", "tune"}


@dataclass(frozen=True)
class Place:
    """What a routine needs somewhere: a pattern in one of some files, both with its names."""

    what: str
    files: str  # pattern of paths below the root
    pattern: str  # regular expression
    needs: str = ""  # names without one of which the place is not wanted

    def is_wanted(self, routine: Routine) -> bool:
        """Whether a routine has to have it."""
        return all(getattr(routine, name) for name in self.needs.split())

    def where(self, routine: Routine) -> str:
        """Returns the files, with the routine's names."""
        return self.files.format(**self._names(routine))

    def regex(self, routine: Routine) -> str:
        """Returns the pattern, with the routine's names."""
        names = {key: re.escape(value) for key, value in self._names(routine).items()}
        return self.pattern.format(**names)

    def is_there(self, routine: Routine, root: Path) -> bool:
        """Whether one of the files has it; of several sets of kernels, one of each."""
        if "{kernels}" in self.files:
            sets = [replace(routine, kernels=one) for one in routine.kernels.split()]
        else:
            sets = [routine]
        return all(
            any(
                re.search(self.regex(one), path.read_text(encoding="utf-8"))
                for path in sorted(root.glob(self.where(one)))
            )
            for one in sets
        )

    def _names(self, routine: Routine) -> dict[str, str]:
        parts = {"short": routine.short, "last": routine.last, "page": routine.page}
        return vars(routine) | parts


PLACES = (
    # the library
    Place("public function", "include/shardsolve/{family}.hpp", r"\b{short}\("),
    Place("plan of its memory", "include/shardsolve/*.hpp", r"\b{plan}\(", "plan"),
    Place("plan beside its algorithm", "src/{room}/plan*.cpp", r"\b{plan}\(", "plan"),
    Place("public call", "src/{room}/*.cpp", r"\b{short}\("),
    Place("waits of the family", "src/{room}/wait_sites.hpp", r"WaitSite", "waits"),
    Place("waits joined", "src/all_wait_sites.cpp", r"{room}/wait_sites\.hpp", "waits"),
    Place("set of kernels", "src/runtime/{kernels}_kernels.hpp", r"KernelSet::{kernels}"),
    Place("kernels on CPUs", "src/runtime/host/{kernels}_kernels.cpp", r"do_\w+\(", "cpus"),
    Place("kernels on GPUs", "src/runtime/cuda/{kernels}_kernels.cpp", r"do_\w+\(", "gpus"),
    # its tests
    Place("plain version", "src/reference/{family}.hpp", r"template", "plain"),
    Place("job that faults end", "tests/support/jobs.hpp", r'"{job}"', "job"),
    Place("test on ranks", "tests/distributed/*.cpp", r"\b{short}\("),
    Place("test of its plan", "tests/*/*.cpp", r"\b{plan}\(", "plan"),
    # the command
    Place("command", "cli/job_{command}.cpp", r"\b{command}_verb\b", "command"),
    Place("command in the table", "cli/verbs.cpp", r"&{command}_verb\b", "command"),
    Place("test of the command", "tests/cli/test_*.py", r'"{command}"', "command"),
    Place("page about the command", "docs/site/command-line.md", r"`{command} ", "command"),
    # the JAX package
    Place("row in the table of calls", "jax/{family}_calls.cpp", r'\.name = "{call}"', "call"),
    Place("in Python", "python/shardsolve/**/*.py", r"(?m)^(def|class) {last}\b"),
    Place("public name in Python", "python/shardsolve/{exports}", r'"{last}",'),
    Place(
        "test from JAX",
        "tests/jax/*.py",
        r"(?s)\b{python}\b|\b{page} (as|import)\b.*\b{last}\b",
    ),
    Place("section about it", "docs/site/*.md", r"::: shardsolve\.{page}\n"),
    # what is said about it
    Place("chapter on the algorithm", "docs/design/*.md", r"(?m)^#+ {chapter}$"),
    Place("line in the change log", "CHANGELOG.md", r"\b({python}|{cpp})\b|`{last}`"),
    Place("speed", "bench/**/*.[cp][pyu]*", r"\b{speed}\b", "speed"),
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
    known = {routine.page for routine in ROUTINES} | NO_ROUTINES
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
