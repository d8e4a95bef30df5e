"""Each mistake that scripts/plant_mistakes.py plants still finds its place in the tree."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_mistake_finds_its_place() -> None:
    """A row whose line has changed would plant nothing."""
    done = subprocess.run(
        [sys.executable, "scripts/plant_mistakes.py", "--check"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
