"""Makes a family of routines in a copy of the tree, builds what is new of it, and removes the copy.

Compiled, in batches as the build does it and beside the model's own files, is every C++ file that
new_routine.py writes, with those that it edits; then each symbol of theirs that is used is looked
for, and none may be there twice. The Python package is imported. Needs a release build with
tests and the Python package.

Usage: prove_new_routine.py [--like MODEL]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from new_routine import MODELS, ROOT, copied_files, make

BUILD = ROOT / "build/release"
NAME = "brand_new"  # two words: the harder case
# Which target compiles a file, by the beginning of its path.
TARGETS = {
    "src/reference/": "shardsolve_reference",
    "src/": "shardsolve_objects",
    "jax/": "shardsolve_jax",
    "tests/support/": "shardsolve_test_support",
    "tests/unit/": "shardsolve_unit_tests",
    "tests/distributed/": "shardsolve_distributed_tests",
}
# What users of jobs.hpp compile; the header alone is not.
USES_OF_HEADERS = ("tests/distributed/leaving_test.cpp",)


def copy_tree(to: Path) -> None:
    """Copies what git knows of, with what has been changed."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    for name in listed.split("\0"):
        if name and (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)


def target_of(file: str) -> str:
    """Which target compiles it."""
    return next(target for begin, target in TARGETS.items() if file.startswith(begin))


def command_of(target: str, tree: Path) -> list[str]:
    """How the build compiles files of a target, without optimisation, in another tree."""
    commands = json.loads((BUILD / "compile_commands.json").read_text(encoding="utf-8"))
    command = next(entry["command"] for entry in commands if f"/{target}.dir/" in entry["command"])
    words = shlex.split(command[: command.index(" -o ")])
    moved = [
        re.sub(rf"^(-I)?{re.escape(str(ROOT))}(?=$|/(?!build/|\.venv/))", rf"\g<1>{tree}", word)
        for word in words
        if word != "-g1"
    ]
    return [*moved, "-O0", "-g0"]


def compile_batch(target: str, files: Iterable[str], tree: Path) -> Path:
    """Returns the object of these files, compiled as one."""
    batch = tree / f"batch_{target}.cpp"
    batch.write_text("".join(f'#include "{tree / file}"\n' for file in files), encoding="utf-8")
    made = batch.with_suffix(".o")
    done = subprocess.run(
        [*command_of(target, tree), "-c", str(batch), "-o", str(made)],
        capture_output=True, text=True,
    )  # fmt: skip
    print(done.stderr[:8000], end="")
    if done.returncode != 0:
        sys.exit(f"a new family does not compile: {target}")
    return made


def symbols(files: Iterable[Path], *options: str) -> set[str]:
    """Their symbols, as nm has them with these options."""
    printed = subprocess.run(
        ["nm", "--format=just-symbols", *options, *map(str, files)],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    return {line.strip() for line in printed.splitlines()}


def strong(files: Iterable[Path]) -> list[str]:
    """Names of functions that may be there once."""
    printed = subprocess.run(
        ["nm", "--defined-only", *map(str, files)], check=True, capture_output=True, text=True
    ).stdout
    return re.findall(r"(?m)^[0-9a-f]+ [TDB] (\S+)$", printed)


def unresolved(objects: list[Path], namespace: str) -> set[str]:
    """What of the namespace the objects use, and neither they nor the build's own have."""
    targets = sorted({*TARGETS.values()})
    built = [path for target in targets for path in BUILD.glob(f"**/{target}.dir/**/*.o")]
    there = symbols([*objects, *built, BUILD / "libshardsolve_matgen.a"], "--defined-only")
    return {name for name in symbols(objects, "--undefined-only") - there if namespace in name}


def check_python(tree: Path) -> None:
    """The package has the new names. Their calls are in no library that is loaded."""
    for built in (ROOT / "python/shardsolve").glob("**/*.so*"):
        copy = tree / built.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(built, copy)
    done = subprocess.run(
        [sys.executable, "-c", f"import shardsolve as s; s.{NAME}_factor; s.{NAME}_solve"],
        env=os.environ | {"PYTHONPATH": str(tree / "python")},
    )
    if done.returncode != 0:
        sys.exit("the Python files of a new family are not right")
    for path in tree.glob(f"**/*{NAME}.py"):
        compile(path.read_text(encoding="utf-8"), str(path), "exec")


def main() -> int:
    """0 if a new family builds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--like", default="lu", choices=sorted(MODELS))
    like = parser.parse_args().like
    if not (BUILD / "compile_commands.json").exists():
        sys.exit("there is no build/release: scripts/test.sh new-routine makes it")
    with tempfile.TemporaryDirectory(prefix="shardsolve_new_") as directory:
        tree = Path(directory)
        copy_tree(tree)
        changed = [str(path.relative_to(tree)) for path in make(NAME, like, tree)]
        theirs = [str(path) for path in copied_files(MODELS[like], tree)]
        batches: dict[str, list[str]] = {}
        # The model's own files beside them: names in unnamed namespaces meet in a batch.
        for file in dict.fromkeys([*theirs, *changed, *USES_OF_HEADERS]):
            if file.endswith(".cpp"):
                batches.setdefault(target_of(file), []).append(file)
        with ThreadPoolExecutor(2) as pool:
            objects = list(
                pool.map(lambda item: compile_batch(item[0], item[1], tree), batches.items())
            )
        lacking = unresolved(objects, "shardsolve")
        defined = strong(objects)
        twice = {name for name in defined if defined.count(name) > 1}
        for name in sorted(lacking | twice):
            print(f"{'twice' if name in twice else 'used, and nowhere'}: {name}")
        if lacking or twice:
            sys.exit("a new family does not link")
        check_python(tree)
        files = sum(len(batch) for batch in batches.values())
        print(f"a new family like {like}: {len(changed)} files new or edited, {files} compiled")
    return 0


if __name__ == "__main__":
    sys.exit(main())
