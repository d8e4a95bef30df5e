"""lineax's own tests of its solvers, with ours in the place of its own.

They are in its repository and in no package: clone it at the version that is installed. Before they
are imported lineax.CG, BiCGStab and GMRES become those of shardsolve.lineax, and MINRES joins their
list. Tests of other solvers are left out, and those that do nothing for ours. What else is given
goes to pytest.

    python bench/lineax_tests.py <clone of lineax> [--every 10] [-k test_jvp] [-x]

Exit status: that of pytest.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import os
import sys
from pathlib import Path

import jax.numpy as jnp
import lineax as lx
import pytest

from shardsolve import lineax as sx

PLACES = {"CG": sx.CG, "BiCGStab": sx.BiCGStab, "GMRES": sx.FGMRES}
# Those that use a solver of the list; tests of operators and of direct solvers are not about us.
# test_transpose.py takes AutoLinearSolver whatever it is given.
FILES = (
    "adjoint",
    "invert",
    "jvp",
    "jvp_jvp1",
    "jvp_jvp2",
    "singular",
    "solve",
    "vmap",
    "vmap_jvp",
    "vmap_vmap",
    "well_posed",
)


class OnlyOurs:
    """Leaves out every test that has nothing to do with our solvers."""

    def __init__(self, every: int):
        self.every = every

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]):
        """Sorts them by what they are given, or by what they mention."""
        ours = [item for item in items if _is_ours(item)][:: self.every]
        config.hook.pytest_deselected(items=[item for item in items if item not in ours])
        items[:] = ours


def _is_ours(item: pytest.Item) -> bool:
    given = item.callspec.params if hasattr(item, "callspec") else {}
    solver = given.get("solver")
    make_matrix = getattr(given.get("make_matrix"), "__name__", "")
    if make_matrix == "construct_singular_matrix" and not given.get("pseudoinverse"):
        return False  # the test has an if around all of it
    if isinstance(solver, sx.MINRES) and given.get("tags") is lx.symmetric_tag:
        # A complex matrix that is symmetric is not Hermitian, and refused.
        return jnp.dtype(given.get("dtype", jnp.float64)).kind == "f"
    if isinstance(solver, sx.MINRES) and "tags" not in given:
        return False  # of matrices that are not symmetric
    if solver is None:
        return any(f"lx.{name}(" in inspect.getsource(item.function) for name in PLACES)
    return type(getattr(solver, "inner_solver", solver)).__module__ == sx.__name__


def main() -> int:
    """Runs them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="a clone of lineax")
    parser.add_argument("--every", type=int, default=1, help="only each of so many tests")
    given, rest = parser.parse_known_args()
    files = [given.folder / "tests" / f"test_{name}.py" for name in FILES]
    found = [str(file.relative_to(given.folder)) for file in files if file.exists()]
    if not found:
        parser.error(f"{given.folder} has no tests of lineax; pass a clone of its repository")
    for name, ours in PLACES.items():
        setattr(lx, name, ours)
    os.chdir(given.folder)
    sys.path.insert(0, str(Path.cwd()))
    importlib.import_module("tests.conftest")  # which turns 64-bit types on
    helpers = importlib.import_module("tests.helpers")
    minres = sx.MINRES(rtol=helpers.tol, atol=helpers.tol)
    for tag in (lx.symmetric_tag, lx.positive_semidefinite_tag):
        helpers.solvers_tags_pseudoinverse.append((minres, tag, False))
    return pytest.main(
        ["-q", "-p", "no:cacheprovider", *rest, *found], plugins=[OnlyOurs(given.every)]
    )


if __name__ == "__main__":
    sys.exit(main())
