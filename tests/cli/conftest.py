"""Fixtures of the command line tests. SHARDSOLVE_CLI names the command."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from command import Command
from problems import save, save_system


@pytest.fixture(autouse=True)
def no_tile_table(monkeypatch):
    """What `shardsolve tune` has found for whoever runs the tests is not for them."""
    monkeypatch.setenv("SHARDSOLVE_TILE_TABLE", "none")


@pytest.fixture(scope="session")
def binary() -> Path:
    path = Path(os.environ.get("SHARDSOLVE_CLI", "build/release/shardsolve")).resolve()
    assert path.is_file(), f"{path} is missing: build it, or set SHARDSOLVE_CLI"
    return path


@pytest.fixture
def command(binary: Path, tmp_path: Path) -> Command:
    return Command(binary, tmp_path)


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """A directory with A.npy and b.npy."""
    save_system(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def slow(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Arguments of a solve that takes long, by a tile far too small, and is to be stopped.

    The output is missing.
    """
    directory = tmp_path_factory.mktemp("slow")
    n = 2500
    a = np.full((n, n), 0.5)
    np.fill_diagonal(a, n)
    matrix = save(directory / "slow_A.npy", a)
    b = save(directory / "slow_b.npy", np.ones(n))
    return ["solve", str(matrix), str(b), "--devices", "4", "--tile", "1"]
