"""Looks at containers/shardsolve.def without Apptainer: header, sections, shell; builds nothing.

The Dockerfile beside it has to agree: both stand on one image, and take an extra that
pyproject.toml has. Needs shellcheck.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parent.parent
# All that Apptainer knows, and which of them are programs for /bin/sh.
SECTIONS = {"arguments", "files", "labels", "help"}
PROGRAMS = {"setup", "pre", "post", "environment", "test", "runscript", "startscript"}


def parts(text: str) -> tuple[dict[str, str], dict[str, str]]:
    """Keywords of the header, and sections by name; ValueError where it is neither."""
    header: dict[str, str] = {}
    sections: dict[str, str] = {}
    current = None
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("%"):
            current = line[1:].strip()
            if current not in SECTIONS | PROGRAMS:
                raise ValueError(f"line {number}: Apptainer knows no section %{current}")
            if current in sections:
                raise ValueError(f"line {number}: %{current} is there twice")
            sections[current] = ""
        elif current is not None:
            sections[current] += f"{line}\n"
        elif line.strip() and not line.startswith("#"):
            keyword = re.fullmatch(r"(\w+): *(\S+) *", line)
            if not keyword:
                raise ValueError(f"line {number}: a header has lines 'Keyword: value'")
            header[keyword[1].lower()] = keyword[2]
    return header, sections


def faults(definition: str, dockerfile: str, extras: set[str]) -> list[str]:
    """What is wrong with the definition, a sentence each; `extras` are those of pyproject.toml."""
    try:
        header, sections = parts(definition)
    except ValueError as fault:
        return [str(fault)]
    found = []
    image = re.search(r"^FROM (\S+)", dockerfile, re.MULTILINE)
    if header.get("bootstrap") != "docker" or not image or header.get("from") != image[1]:
        found.append(f"its image is not that of the Dockerfile: {header}")
    arguments = dict(
        line.strip().split("=", 1) for line in sections.get("arguments", "").split("\n") if line
    )
    named = set(re.findall(r"\{\{ *(\w+) *\}\}", definition))
    if named != set(arguments):
        found.append(f"it uses the arguments {sorted(named)}, and sets {sorted(arguments)}")
    docker_extra = re.search(r"^ARG EXTRA=(\S+)", dockerfile, re.MULTILINE)
    for extra in (arguments.get("extra"), docker_extra and docker_extra[1]):
        if extra not in extras:
            found.append(f"pyproject.toml has no extra {extra!r}")
    for name in sorted(sections.keys() & PROGRAMS):
        program = re.sub(
            r"\{\{ *(\w+) *\}\}", lambda use: arguments.get(use[1], ""), sections[name]
        )
        shell = subprocess.run(
            ["shellcheck", "--shell=sh", "--exclude=SC2154", "-"],
            input=program,
            capture_output=True,
            text=True,
        )
        if shell.returncode != 0:
            found.append(f"%{name}:\n{shell.stdout}{shell.stderr}")
    return found


if __name__ == "__main__":
    containers = ROOT / "containers"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    told = faults(
        (containers / "shardsolve.def").read_text(),
        (containers / "Dockerfile").read_text(),
        set(project["optional-dependencies"]),
    )
    sys.exit("\n".join(f"containers/shardsolve.def: {fault}" for fault in told) or None)
