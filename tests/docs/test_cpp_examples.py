"""The whole programs of C++ that pages show: each compiles, and prints what the page says."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from pathlib import Path

import page as pages
import pytest

SOURCE = Path(__file__).parents[2]
BUILD = Path(os.environ.get("SHARDSOLVE_CLI", SOURCE / "build" / "release" / "shardsolve")).parent
LIBRARY = BUILD / "libshardsolve.so"
SITE = SOURCE / "docs" / "site"
SECONDS = float(os.environ.get("SHARDSOLVE_TEST_SECONDS", "300"))
# Its program is examples/sparse/main.cpp, shown in part, which the build compiles and runs.
SHOWN_IN_PART = ("krylov",)


def programs(path: Path) -> list[tuple[str, str]]:
    """Source and what is printed, of each program of a page."""
    fences = list(pages.fences(path.read_text(encoding="utf-8")))
    return [
        (program.text, printed.text)
        for program, printed in itertools.pairwise(fences)
        if program.language == "cpp" and "int main" in program.text and printed.language == "text"
    ]


PAGES = [
    path for path in sorted(SITE.glob("*.md")) if path.stem not in SHOWN_IN_PART and programs(path)
]


def test_pages_with_programs_are_found():
    assert {"cpp", "eigh"} <= {path.stem for path in PAGES}


@pytest.mark.skipif(not LIBRARY.exists(), reason="no libshardsolve.so beside the command")
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_program_prints_what_the_page_says(path: Path, tmp_path: Path):
    compiler = os.environ.get("CXX") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    folders = SOURCE / "include", BUILD / "generated" / "include"
    for number, (program, printed) in enumerate(programs(path)):
        source, binary = (tmp_path / f"program{number}{end}" for end in (".cpp", ""))
        source.write_text(program)
        command = [
            *(compiler, "-std=c++20", *(f"-I{folder}" for folder in folders), str(source)),
            *("-o", str(binary), str(LIBRARY), f"-Wl,-rpath,{BUILD}"),
        ]
        made = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        assert made.returncode == 0, made.stderr[-6000:]
        done = subprocess.run([str(binary)], capture_output=True, text=True, timeout=SECONDS)
        assert done.returncode == 0, done.stdout + done.stderr
        assert pages.same_output(done.stdout, printed), done.stdout
