"""The whole of the beam: every case in full, on several numbers of ranks, judged.

    python examples/beam/whole.py [--beam build/release/beam] [--output out/whole] [--ranks 1 2 4]

Runs `beam` for each case and number of ranks, with cg and exact blocks (bicgstab where the tangent
is not symmetric). The program judges tips, energy, frequencies and each linear solve; this one
whether all that a case has left, to the last byte, is the same on any number of ranks, and first
how many iterations the hard systems of the first time step take. A case takes one to four minutes
on a core. Exit status: 0 if all is as it has to be, else 1.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path

SOLVERS = {
    "linear": "cg",
    "linear-undamped": "cg",
    "stvk-newmark": "cg",
    "stvk-alpha": "cg",
    "faulty-alpha": "bicgstab",
}

# What the worst solve of the first step takes: options of `beam`, least and most iterations. Both
# boundary treatments; rounding allows a residual of about 1e-10 here.
FIRST_STEPS = {
    "cg and Jacobi": (["--solver", "cg"], 2600, 3150),
    "bicgstab and Jacobi, rows only": (
        ["--solver", "bicgstab", "--dirichlet", "rows"],
        1,
        20000,
    ),
    "cg and four blocks": (["--solver", "cg", "--preconditioner", "blocks"], 1, 80),
}


def first_step(options: argparse.Namespace, name: str) -> bool:
    """Runs the first step on all numbers of ranks; prints and returns whether it is good."""
    words, least, most = FIRST_STEPS[name]
    seen = set()
    for ranks in options.ranks:
        command = [options.beam, "stvk-alpha", "--until", "0.005", "--linear-rtol", "2e-10"]
        done = subprocess.run(
            [*command, *words, "--ranks", str(ranks)], capture_output=True, text=True, check=False
        )
        found = re.search(r"at most (\d+) a solve", done.stdout)
        seen.add(int(found[1]) if found and done.returncode == 0 else done.stdout + done.stderr)
    good = len(seen) == 1 and all(isinstance(n, int) and least <= n <= most for n in seen)
    print(f"first step, {name}: {seen} iterations on {options.ranks} ranks ({least} to {most})")
    return good


def run(options: argparse.Namespace, case: str, ranks: int) -> bool:
    """Runs one case, prints what `beam` says of it, and returns whether that is good."""
    command = [options.beam, case, "--solver", SOLVERS[case], "--preconditioner", "blocks"]
    command += ["--ranks", str(ranks), "--output", str(options.output / f"{ranks}")]
    command += ["--until", str(options.until)]
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    took = time.perf_counter() - begin
    print(f"-- {ranks} ranks, {SOLVERS[case]}, {took:.0f} s", flush=True)
    print((done.stdout + done.stderr).rstrip(), flush=True)
    return done.returncode == 0


def differing(options: argparse.Namespace, case: str) -> list[str]:
    """The files of a case that are not the same bytes on all numbers of ranks."""
    folders = [options.output / f"{ranks}" / case for ranks in options.ranks]
    names = sorted({path.name for folder in folders for path in folder.glob("*")})
    return [
        name
        for name in names
        if len({(f / name).read_bytes() if (f / name).exists() else b"" for f in folders}) > 1
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs and judges the whole of the beam.")
    parser.add_argument("--beam", default="build/release/beam", help="the program")
    parser.add_argument("--output", type=Path, default=Path("out/whole"), help="folder of results")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--cases", nargs="+", default=list(SOLVERS), choices=list(SOLVERS))
    parser.add_argument("--until", type=float, default=2.0, help="time at which to stop")
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, ranks {options.ranks}, until t = {options.until:g}")
    missed = [f"first step, {name}" for name in FIRST_STEPS if not first_step(options, name)]
    for case in options.cases:
        good = [run(options, case, ranks) for ranks in options.ranks]
        missed += [
            f"{case} on {ranks} ranks"
            for ranks, is_good in zip(options.ranks, good, strict=True)
            if not is_good
        ]
        others = differing(options, case)
        missed += [f"{case}: {name} depends on the ranks" for name in others]
        if not others and len(options.ranks) > 1:
            print(f"-- {case}: the same bytes on {options.ranks} ranks", flush=True)
    print("\n".join(f"MISSED {one}" for one in missed) or "all is as it has to be")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
