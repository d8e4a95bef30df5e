"""README and the first page of the site say what there is; versions are the same everywhere."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2]
PACKAGE = SOURCE / "python" / "shardsolve"
SITE = SOURCE / "docs" / "site"
INDEX, README = SITE / "index.md", SOURCE / "README.md"
# What to call first of each family, and of each public module.
FAMILIES = ("solve", "eigh", "krylov", "fbpinn", "lineax")
SUMMARIES = {"pyproject.toml": "description", "mkdocs.yml": "site_description"}


def public_names() -> set[str]:
    """Of the package's __all__."""
    for node in ast.parse((PACKAGE / "__init__.py").read_text()).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__":
            return set(ast.literal_eval(node.value))
    raise AssertionError("no __all__")


def public_modules() -> set[str]:
    """That a user imports: without _ in front."""
    files = {path.stem for path in PACKAGE.glob("*.py")}
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    return {name for name in files | folders if not name.startswith("_")}


def code_names(text: str) -> set[str]:
    """The words in a text's code: `shardsolve.krylov.solve` has three."""
    return {word for span in re.findall(r"`([^`]+)`", text) for word in re.findall(r"\w+", span)}


def test_first_page_has_every_public_name():
    lacks = (public_names() | public_modules()) - code_names(INDEX.read_text())
    assert not lacks, f"docs/site/index.md does not name {sorted(lacks)}"


def test_readme_has_every_family():
    assert set(FAMILIES) <= public_names() | public_modules()
    lacks = set(FAMILIES) - code_names(README.read_text())
    assert not lacks, f"README.md does not name {sorted(lacks)}"


@pytest.mark.parametrize("file", SUMMARIES)
def test_summary_names_what_every_family_solves(file: str):
    words = re.search(rf"^{SUMMARIES[file]}\W+(.*)$", (SOURCE / file).read_text(), re.MULTILINE)[1]
    for kind in ("inear systems", "eigenproblems", "differential equations"):
        assert kind in words, words


def test_nothing_that_is_there_is_said_not_to_be():
    there = (public_names() | public_modules()) - {"solve"}  # a word of many packages
    for path in [README, *sorted(SITE.glob("*.md"))]:
        for line in path.read_text().splitlines():
            if re.search(r"Not there yet|\| not there \|", line):
                said = code_names(line) & there
                assert not said, f"{path.name} says that {said} is not there: {line}"


def test_every_page_is_in_the_navigation():
    pages = {path.name for path in SITE.glob("*.md")}
    assert pages == set(
        re.findall(r"^  - .*: (\S+\.md)$", (SOURCE / "mkdocs.yml").read_text(), re.M)
    )


def test_links_of_the_readme_lead_to_files():
    text = README.read_text()
    files = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text)]
    assert files and all((SOURCE / file).exists() for file in files if "://" not in file), files


def test_readme_is_short():
    assert len(README.read_text().splitlines()) <= 80


def test_range_of_jax_is_the_same_everywhere():
    library = (PACKAGE / "_library.py").read_text()
    oldest, before = re.search(r"OLDEST, BEFORE = \((.*?)\), \((.*?)\)\n", library).groups()
    oldest = oldest.replace(", ", ".")
    major, minor, _ = map(int, before.split(", "))
    wanted = f"jax>={oldest},<{major}.{minor}"
    doctor = (SOURCE / "cli" / "doctor" / "jax_support.hpp").read_text()
    assert f'"{oldest}"' in doctor and f'"{major}.{minor}"' in doctor
    for file in (
        "pyproject.toml",
        "cli/doctor/judge_jax.cpp",
        *(f"requirements/{name}.txt" for name in ("bench", "check", "demo", "test")),
    ):
        found = re.findall(r"jax>=[\d.]+(?:,<[\d.]+)?", (SOURCE / file).read_text())
        assert set(found) == {wanted}, (file, found)
    said = f"jax {oldest} to {major}.{minor - 1}"
    assert said in README.read_text() and said in INDEX.read_text()
