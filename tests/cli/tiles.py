"""Tables of tile sizes, made by hand."""

from __future__ import annotations

import json
from pathlib import Path

from command import Command

FORMAT = {"format": "shardsolve tile table", "version": 2}


def device_of(command: Command) -> str:
    """What tables know the CPU of this machine by."""
    return command("doctor", "--json").json()["tiles"]["device"]


def entry(device: str, **changes) -> dict:
    """For Cholesky of float64 on two devices and n near 50: tile 10."""
    measured = {
        "seconds": 0.5,
        "shipped_tile": 25,
        "shipped_seconds": 1.0,
        "noise": 0.01,
        "date": "2026-01-31",
        "version": "0.1.0",
    }
    measured.update(changes.pop("measured", {}))
    plain = {"routine": "cholesky", "device": device, "dtype": "float64", "ranks": 2, "n": 50}
    return {**plain, "tile": 10, "kept": True, **changes, "measured": measured}


def write_table(path: Path, *entries: dict) -> Path:
    path.write_text(json.dumps({**FORMAT, "entries": entries}))
    return path
