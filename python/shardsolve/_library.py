"""The compiled library: found and loaded once, registered with XLA at the first call."""

from __future__ import annotations

import ctypes
import functools
import sys
import threading
from pathlib import Path

import jax
import jaxlib
import numpy as np

PLATFORMS = {"cpu": "cpu", "gpu": "CUDA"}  # our name for each and XLA's
CALLS = ("cholesky_factor", "cholesky_solve", "cholesky_inverse", "cholesky_condition")
TARGETS = (*CALLS, "invitation")
OLDEST, BEFORE = (0, 8, 1), (0, 12, 0)

_lock = threading.Lock()
_registered = False


def target(name: str) -> str:
    """The name under which XLA knows one of TARGETS."""
    register()
    return f"shardsolve_{name}"


@functools.cache
def library() -> ctypes.CDLL:
    """The shared library in the package, with its functions declared."""
    # Of an editable installation the package has two folders: the sources and what is compiled.
    folders = [Path(folder) / "lib" for folder in sys.modules[__package__].__path__]
    paths = [folder / "libshardsolve_jax.so" for folder in folders]
    path = next((path for path in paths if path.exists()), None)
    if path is None:
        raise ImportError(
            f"shardsolve's compiled library is not at {paths[0]}: this is a source tree, or the "
            "installation is damaged; install the package with 'pip install shardsolve' or, in "
            "the source tree, 'pip install .'"
        )
    loaded = ctypes.CDLL(str(path))  # its symbols stay its own: never RTLD_GLOBAL
    loaded.shardsolve_version.restype = ctypes.c_char_p
    for kind in PLATFORMS:
        getattr(loaded, f"shardsolve_call_site_type_{kind}").restype = ctypes.c_void_p
        getattr(loaded, f"shardsolve_call_site_info_{kind}").restype = ctypes.c_void_p
    loaded.shardsolve_message.restype = ctypes.c_int64
    loaded.shardsolve_message.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64]
    loaded.shardsolve_set_time_limit.restype = None
    loaded.shardsolve_set_time_limit.argtypes = [ctypes.c_double]
    loaded.shardsolve_invitation_words.restype = ctypes.c_int64
    loaded.shardsolve_set_small_matrix.restype = None
    loaded.shardsolve_set_small_matrix.argtypes = [ctypes.c_int64]
    loaded.shardsolve_begin_trace.restype = None
    loaded.shardsolve_end_trace.restype = ctypes.c_int64
    loaded.shardsolve_end_trace.argtypes = [ctypes.POINTER(ctypes.c_void_p)]
    loaded.shardsolve_free.restype = None
    loaded.shardsolve_free.argtypes = [ctypes.c_void_p]
    loaded.shardsolve_set_progress.restype = None
    loaded.shardsolve_set_progress.argtypes = [ctypes.c_void_p]
    for name in ("save_factor", "factor_shape", "load_factor"):
        getattr(loaded, f"shardsolve_{name}").restype = None
    loaded.shardsolve_save_factor.argtypes = [
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_bool,
        ctypes.c_void_p,
    ]
    loaded.shardsolve_factor_shape.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p]
    loaded.shardsolve_load_factor.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p]
    return loaded


def invitation_words() -> int:
    """The length of an invitation; see jax/invitation.hpp."""
    return library().shardsolve_invitation_words()


def version() -> str:
    """The version of the library."""
    return library().shardsolve_version().decode()


def register() -> None:
    """Makes the calls known to XLA, as the first call does: once a process, not at import.

    Needed before a program that `jax.export` has saved runs in a process that has not solved yet.
    """
    global _registered
    with _lock:
        if _registered:
            return
        _check_version()
        jax.devices()  # what is registered before XLA's backends start is refused when they do
        for kind, platform in PLATFORMS.items():
            _register_on(kind, platform)
        _registered = True


def _register_on(kind: str, platform: str) -> None:
    found = library()

    def pointer(what: str) -> object:
        function = getattr(found, f"shardsolve_call_site_{what}_{kind}")
        return jax.ffi.pycapsule(ctypes.c_void_p(function()))

    # Types before handlers: a handler whose state has no type yet is refused, and a refused one
    # that was queued before the backend started takes the backend down.
    jax.ffi.register_ffi_type(
        "shardsolve_call_site",
        {"type_id": pointer("type"), "type_info": pointer("info")},
        platform=platform,
    )
    instantiate = jax.ffi.pycapsule(getattr(found, f"shardsolve_instantiate_{kind}"))
    for name in TARGETS:
        handlers = {"execute": jax.ffi.pycapsule(getattr(found, f"shardsolve_{name}_{kind}"))}
        if name in CALLS:
            handlers["instantiate"] = instantiate
        jax.ffi.register_ffi_target(f"shardsolve_{name}", handlers, platform=platform)


def message(verdict: np.ndarray) -> str:
    """The sentence that belongs to a verdict (int32, see _records); empty if all is well."""
    words = np.ascontiguousarray(verdict, dtype=np.int32)
    pointer = words.ctypes.data_as(ctypes.c_void_p)
    size = library().shardsolve_message(pointer, None, 0) + 1
    text = ctypes.create_string_buffer(size)
    library().shardsolve_message(pointer, text, size)
    return text.value.decode()


def end_trace() -> str:
    """Ends the recording that shardsolve_begin_trace began; Chrome's JSON."""
    text = ctypes.c_void_p()
    size = library().shardsolve_end_trace(ctypes.byref(text))
    try:
        return ctypes.string_at(text, size).decode()
    finally:
        library().shardsolve_free(text)


def _check_version() -> None:
    found = tuple(int(part) for part in jaxlib.__version__.split(".")[:3])
    if not OLDEST <= found < BEFORE:
        raise ImportError(
            f"jaxlib {jaxlib.__version__} is not supported by this version of shardsolve, which "
            f"works with jaxlib {'.'.join(map(str, OLDEST))} and later, before "
            f"{'.'.join(map(str, BEFORE[:2]))}: install a jax in that range, or a newer shardsolve"
        )
