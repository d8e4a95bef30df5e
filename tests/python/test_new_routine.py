"""A new family has the files and the lines of its model, and a bad name changes nothing."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from new_routine import EDITS, MODELS, ROOT, copied_files, make


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with all that the script reads."""
    for folder in ("include", "src", "jax", "python", "scripts", "tests/support", "tests/unit",
                   "tests/distributed"):  # fmt: skip
        shutil.copytree(
            ROOT / folder, tmp_path / folder,
            ignore=shutil.ignore_patterns("*.so*", "__pycache__"),
        )  # fmt: skip
    (tmp_path / "tests/jax").mkdir()
    for path in (ROOT / "tests/jax").glob("*.py"):
        shutil.copy2(path, tmp_path / "tests/jax" / path.name)
    return tmp_path


@pytest.mark.parametrize("like", sorted(MODELS))
def test_new_family_has_every_file_and_list_of_its_model(like: str, tree: Path) -> None:
    """And a list of what is left; the tree is otherwise as it was."""
    before = {path: path.read_bytes() for path in tree.glob("**/*") if path.is_file()}
    changed = make("fresh", like, tree)
    after = {path for path in tree.glob("**/*") if path.is_file()}
    files = [str(path) for path in copied_files(MODELS[like], tree) if "fresh" not in str(path)]
    assert len(after - set(before)) == len(files) + 1  # with todo_fresh.md
    edited = {path for path in before if path.read_bytes() != before[path]}
    assert edited == {tree / file for file, _ in EDITS}
    assert set(changed) == edited | (after - set(before))
    for path in edited:
        assert b"fresh" in path.read_bytes(), path
    todo = (tree / "todo_fresh.md").read_text(encoding="utf-8")
    assert "CHANGELOG.md" in todo
    assert "docs/site" in todo


def test_waits_of_a_new_family_have_numbers_of_their_own(tree: Path) -> None:
    """The compiler would refuse the same ones."""
    make("fresh", "lu", tree)
    numbers = [
        number
        for path in tree.glob("src/**/wait_sites.hpp")
        for number in re.findall(r"WaitSite \w+\{(\d+),", path.read_text(encoding="utf-8"))
    ]
    assert len(numbers) == len(set(numbers))


def test_new_family_has_rows_and_lacks_what_nobody_can_make(tree: Path) -> None:
    """The places that are looked at know the new names."""
    make("fresh", "lu", tree)
    done = subprocess.run(
        [sys.executable, "scripts/routine_places.py", "factor of a general matrix, fresh"],
        cwd=tree, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    lacks = {line.split(":")[0].split(maxsplit=1)[1] for line in done.stdout.splitlines()[1:]
             if line.startswith("  lacks")}  # fmt: skip
    assert lacks == {
        "test of its plan", "section about it", "chapter on the algorithm",
        "line in the change log",
    }  # fmt: skip


def test_bad_name_is_refused_before_any_work(tree: Path) -> None:
    """With what is accepted."""
    before = {path: path.read_bytes() for path in tree.glob("**/*") if path.is_file()}
    for name, says in (
        ("LDL", "small letters"),
        ("class", "small letters"),
        ("2d", "small letters"),
        ("qr", "there is a qr already"),
        ("row", "has a row of its own"),
    ):
        with pytest.raises(SystemExit, match=says):
            make(name, "lu", tree)
    assert before == {path: path.read_bytes() for path in tree.glob("**/*") if path.is_file()}
