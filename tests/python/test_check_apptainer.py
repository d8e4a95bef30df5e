"""What is wrong with Apptainer's definition is told, and ours has nothing wrong."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import check_apptainer
import pytest

DOCKERFILE = "FROM python:3.13\nARG EXTRA=cuda13\n"
DEFINITION = """Bootstrap: docker
From: python:3.13
%arguments
    extra=cuda13
%post
    pip install "shardsolve[{{ extra }}]"
"""

needs_shellcheck = pytest.mark.skipif(not shutil.which("shellcheck"), reason="no shellcheck")


def faults(definition: str) -> str:
    return "\n".join(check_apptainer.faults(definition, DOCKERFILE, {"cuda12", "cuda13"}))


@needs_shellcheck
def test_ours_and_a_right_one_pass():
    assert faults(DEFINITION) == ""
    script = Path(check_apptainer.__file__)
    run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


@needs_shellcheck
@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("%post", "%psot", "line 5: Apptainer knows no section %psot"),
        ("%arguments", "%post\n%arguments", "%post is there twice"),
        ("From: python:3.13", "From: python:3.12", "not that of the Dockerfile"),
        ("From: python:3.13", "From python:3.13", "line 2: a header has lines"),
        ("{{ extra }}", "{{ extras }}", "uses the arguments ['extras'], and sets ['extra']"),
        ("extra=cuda13", "extra=cuda14", "no extra 'cuda14'"),
        ('[{{ extra }}]"', "[{{ extra }}]", "%post:"),
    ],
)
def test_what_is_wrong_is_told(old, new, says):
    assert says in faults(DEFINITION.replace(old, new))
