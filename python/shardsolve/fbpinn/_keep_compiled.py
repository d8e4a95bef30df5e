"""Compiled programs in a folder, for the processes that come later."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import jax
from jax.experimental.compilation_cache import compilation_cache

from shardsolve.fbpinn._given import described, real


def keep_compiled(folder: str | os.PathLike[str], *, seconds: float = 0.1) -> Path:
    """From here on JAX keeps what it compiles in a folder, and looks there first.

    It sets `jax_compilation_cache_dir` and `jax_persistent_cache_min_compile_time_secs` of
    `jax.config`, and nothing in the environment. Set by hand they do nothing, without a word, once
    something was compiled in this process; here they do. What is compiled by then stays. All of
    the process's programs go there, not only those of networks.

        fb.keep_compiled("~/.cache/of-this-job")

    Args:
        folder: Made if it is not there. One does for any number of problems and versions of JAX:
            others find nothing of theirs in it. Nobody empties it.
        seconds: Programs that compile in less are not kept.

    Returns:
        The folder.

    Raises:
        OSError: If it cannot be made, or nothing can be written into it.
        TypeError, ValueError: If it is no path, or `seconds` no number from 0 on.
    """
    if not isinstance(folder, (str, os.PathLike)) or not str(folder):
        raise TypeError(f"folder={described(folder)} given: a path is accepted, a str or a Path")
    least = real("seconds", seconds, "a number from 0 on is accepted", lambda value: value >= 0)
    path = Path(folder).expanduser().absolute()
    path.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=path):  # JAX would go on without a word that is seen
        pass
    jax.config.update("jax_compilation_cache_dir", str(path))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", least)
    compilation_cache.reset_cache()
    return path
