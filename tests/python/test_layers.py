"""Includes point down, and one that does not is told so."""

from __future__ import annotations

from pathlib import Path

import pytest
from layers import MAY_INCLUDE, ROOT, faults, includes, room_of


def test_tree_has_no_include_that_points_up() -> None:
    assert list(faults(ROOT)) == []


def tree_with(root: Path, file: str, included: str) -> Path:
    """A tree of two files, the first of which includes the second."""
    for name in (file, included):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("", encoding="utf-8")
    name = included.removeprefix("src/")
    (root / file).write_text(f'#include "{name}"\n', encoding="utf-8")
    return root


@pytest.mark.parametrize(
    ("file", "included", "fault"),
    [
        ("src/mesh/rank.cpp", "src/krylov/solve.hpp", "mesh may not include krylov"),
        ("src/mesh/cuda/of_krylov.cpp", "src/krylov/solve.hpp", "mesh may not include krylov"),
        ("src/dense/eigh/pairs.cpp", "src/dense/cholesky/factor.hpp", "may not include"),
        ("src/mesh/mesh.cpp", "src/runtime/cuda/check.hpp", "which is cuda's own"),
        ("src/new/thing.cpp", "src/core/error.hpp", "there is no line for new"),
        ("jax/session.cpp", "cli/verb.hpp", "jax may not include cli"),
    ],
)
def test_include_that_points_up_is_named(tmp_path: Path, file, included, fault) -> None:
    found = [one for one in faults(tree_with(tmp_path, file, included)) if file in one]
    assert len(found) == 1
    assert fault in found[0]


def test_pair_that_nothing_needs_is_named(tmp_path: Path) -> None:
    tree = tree_with(tmp_path, "src/comm/ring.cpp", "src/core/error.hpp")
    found = list(faults(tree))
    assert "comm may include runtime, and does not" in found
    assert "comm may include core, and does not" not in found


def test_rooms_are_those_of_the_tree() -> None:
    """A list that meets no file would find nothing."""
    seen = {room_of(one.file) for one in includes(ROOT)}
    assert seen >= {room for room, below in MAY_INCLUDE.items() if below}
