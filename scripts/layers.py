"""Checks which rooms of the source tree include which.

    python3 scripts/layers.py [root]

Prints each include that is not in `MAY_INCLUDE`, and each pair there that nothing needs any more.
A room is a folder of src/, or one of the folders beside it; its subfolders belong to it. Public
headers (include/) are everybody's, and what has a backend in its path, cuda/ or mpi/, is that
backend's own.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]

# From the bottom up: each room includes rooms above its line only, and no more than it needs.
MAY_INCLUDE: dict[str, str] = {
    "core": "",
    "layout": "",
    "reference": "core",
    "matgen": "core",
    "io": "core",
    "runtime": "core",
    "comm": "core runtime",
    "mesh": "core runtime comm",
    "programs": "runtime comm mesh",
    "dense/shared": "core layout runtime comm mesh programs",
    "dense/cholesky": "core layout runtime mesh programs dense/shared",
    "dense/eigh": "core layout runtime mesh programs dense/shared",
    "dense/qr": "core runtime mesh programs dense/shared",
    "dense/lu": "core runtime mesh programs dense/shared dense/qr",
    "dense/svd": ("core runtime mesh programs dense/shared dense/cholesky dense/eigh dense/qr"),
    "dense": "core dense/cholesky dense/lu",
    "sparse": "core runtime comm mesh programs dense/cholesky",
    "sparse_files": "core io",
    "krylov": "core runtime comm mesh programs sparse",
    "krylov_files": "core io runtime comm mesh krylov",
    "fbpinn": "core runtime mesh programs sparse",
    "jax": "core runtime comm mesh dense/cholesky dense/eigh dense/lu sparse krylov fbpinn",
    "cli": (
        "core matgen reference io runtime comm mesh programs dense/lu sparse_files krylov "
        "krylov_files"
    ),
}
# all_wait_sites.cpp: the numbers of all rooms, in one place.
OF_ALL = "src"
BACKENDS = ("cuda", "mpi")
SOURCES = (".hpp", ".cpp", ".cu", ".cuh")


class Include(NamedTuple):
    """A file that includes another of the tree."""

    file: Path
    included: Path

    def __str__(self) -> str:
        return f"{self.file} includes {self.included}"


def room_of(path: Path) -> str:
    """The room of a file, given from the root of the tree."""
    parts = path.parts
    if parts[0] != "src":
        return parts[0]
    rooms = ["/".join(parts[1:end]) for end in (3, 2) if len(parts) > end]
    return next((room for room in rooms if room in MAY_INCLUDE), rooms[-1] if rooms else OF_ALL)


def backend_of(path: Path) -> str | None:
    """The backend whose own a file is."""
    return next((name for name in BACKENDS if name in path.parts[1:-1]), None)


def includes(root: Path) -> Iterator[Include]:
    """All of those between files of src, jax and cli."""
    for top in ("src", "jax", "cli"):
        for file in sorted((root / top).rglob("*")):
            if file.suffix not in SOURCES:
                continue
            text = file.read_text(encoding="utf-8")
            for name in re.findall(r'^#include "([^"]+)"', text, re.MULTILINE):
                for folder in ("src", ".", "cli"):
                    if (root / folder / name).is_file():
                        yield Include(file.relative_to(root), Path(folder) / name)
                        break


def faults(root: Path) -> Iterator[str]:
    """What is wrong, a sentence each."""
    rooms = list(MAY_INCLUDE)
    needed = set()
    for one in includes(root):
        above, below = room_of(one.file), room_of(one.included)
        if above not in (below, OF_ALL):
            needed.add((above, below))
            if above not in MAY_INCLUDE:
                yield f"{one}, and there is no line for {above}"
            elif below not in MAY_INCLUDE[above].split():
                yield f"{one}, and {above} may not include {below}"
        if above != OF_ALL and backend_of(one.included) not in (None, backend_of(one.file)):
            yield f"{one}, which is {backend_of(one.included)}'s own"
    for above, allowed in MAY_INCLUDE.items():
        for below in allowed.split():
            if rooms.index(below) > rooms.index(above):
                yield f"the line of {below} is to be above that of {above}, which may include it"
            elif (above, below) not in needed:
                yield f"{above} may include {below}, and does not"


if __name__ == "__main__":
    found = list(faults(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT))
    print("\n".join(found) or "layers: all includes point down")
    sys.exit(1 if found else 0)
