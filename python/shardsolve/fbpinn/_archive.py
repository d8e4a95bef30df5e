"""Files of arrays and what they are: written whole or not at all, read without running code."""

from __future__ import annotations

import contextlib
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import jax
import numpy as np

VERSION = 1  # of the files
_WHAT = "shardsolve.fbpinn"


def write(path: Path, kind: str, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Replaces what is there when all is on the disk.

    Raises:
        OSError: If it cannot be written; what was there is as it was.
    """
    text = json.dumps(
        {"what": _WHAT, "version": VERSION, "kind": kind, "jax": jax.__version__, **meta}
    )
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with beside.open("wb") as file:
            np.savez(file, meta=np.array(text), **arrays)  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
    with contextlib.suppress(OSError):  # some file systems cannot
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def read(path: Path, kinds: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What was written.

    Raises:
        ValueError: If it is no such file, of another version, or damaged.
        OSError: If it cannot be read.
    """
    is_ours, meta, arrays = False, {}, {}
    with path.open("rb") as file, contextlib.suppress(Exception):
        # All bytes are looked at before any is understood: of a damaged header NumPy throws
        # whatever its parser does, or asks for any amount of memory.
        if zipfile.ZipFile(file).testzip() is None:
            file.seek(0)
            with np.load(file, allow_pickle=False) as found:
                arrays = {name: found[name] for name in found.files}
            meta = json.loads(str(arrays.pop("meta")))
            is_ours = meta.get("what") == _WHAT
    if not is_ours:
        raise ValueError(
            f"{path} is no file of run.save or Checkpoint, or it is damaged: give another path"
        )
    if meta["version"] != VERSION:
        raise ValueError(
            f"{path} has version {meta['version']} of the format, and this is shardsolve with "
            f"version {VERSION}: read it with the shardsolve that wrote it"
        )
    if meta["kind"] not in kinds:
        raise ValueError(f"{path} is a {meta['kind']}: a {' or a '.join(kinds)} is accepted here")
    return meta, arrays


def path_of(given: Any) -> Path:
    """A path whose folder is there."""
    if not isinstance(given, (str, os.PathLike)) or not str(given):
        raise TypeError(f"path={given!r} given: a path of a file is accepted, a str or a Path")
    path = Path(given).absolute()
    if not path.parent.is_dir():
        raise ValueError(f"{path} cannot be written: there is no folder {path.parent}; make it")
    if path.is_dir():
        raise ValueError(f"{path} is a folder: the path of a file is accepted")
    return path
