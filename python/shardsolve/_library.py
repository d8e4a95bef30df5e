"""The compiled library: found and loaded once, registered with XLA at the first call."""

from __future__ import annotations

import atexit
import ctypes
import functools
import json
import os
import re
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.extend.backend
import jaxlib
import numpy as np

PLATFORMS = {"cpu": "cpu", "gpu": "CUDA"}  # our name for each and XLA's
OLDEST, BEFORE = (0, 8, 1), (0, 13, 0)

_ATTRIBUTE = {"int64": np.int64, "float64": np.float64, "bool": np.bool_}
_lock = threading.Lock()
_registered = False


def target(name: str) -> str:
    """The name under which XLA knows a call, or the invitation to one."""
    register()
    return f"shardsolve_{name}"


def check_installation(package: Path) -> None:
    """Throws ImportError where pip has put two versions into one folder, or left a part of one."""
    again = "run 'pip uninstall shardsolve' until it finds none, then install one"
    infos = sorted(package.parent.glob("shardsolve-*.dist-info"))
    if len(infos) > 1:
        raise ImportError(
            f"{package.parent} holds {len(infos)} installations of shardsolve, "
            f"{', '.join(info.name for info in infos)}, whose files are mixed: {again}"
        )
    for record in (info / "RECORD" for info in infos):
        lines = record.read_text().splitlines() if record.exists() else []
        names = [line.split(",")[0] for line in lines if line.startswith("shardsolve/lib/")]
        missing = [name for name in names if not (package.parent / name).exists()]
        if missing:
            raise ImportError(
                f"the installation of shardsolve in {package.parent} lacks {', '.join(missing)}, "
                f"which belong to it: {again}"
            )


@functools.cache
def library() -> ctypes.CDLL:
    """The shared library in the package, with its functions declared."""
    # Of an editable installation the package has two folders: the sources and what is compiled.
    packages = [Path(folder) for folder in sys.modules[__package__].__path__]
    for package in packages:
        check_installation(package)
    folders = [package / "lib" for package in packages]
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
    loaded.shardsolve_has_left_a_stream.restype = ctypes.c_bool
    loaded.shardsolve_set_time_limit.restype = None
    loaded.shardsolve_set_time_limit.argtypes = [ctypes.c_double]
    loaded.shardsolve_description.restype = ctypes.c_char_p
    loaded.shardsolve_available_host_memory.restype = ctypes.c_int64
    loaded.shardsolve_set_small_matrix.restype = None
    loaded.shardsolve_set_small_matrix.argtypes = [ctypes.c_int64]
    loaded.shardsolve_begin_trace.restype = None
    loaded.shardsolve_end_trace.restype = ctypes.c_int64
    loaded.shardsolve_end_trace.argtypes = [ctypes.POINTER(ctypes.c_void_p)]
    loaded.shardsolve_free.restype = None
    loaded.shardsolve_free.argtypes = [ctypes.c_void_p]
    loaded.shardsolve_krylov_lengths.restype = None
    loaded.shardsolve_krylov_lengths.argtypes = [
        *[ctypes.c_int64] * 4,
        ctypes.c_bool,
        *[ctypes.c_int64] * 2,
        ctypes.c_void_p,
    ]
    loaded.shardsolve_krylov_message.restype = ctypes.c_int64
    loaded.shardsolve_krylov_message.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64]
    loaded.shardsolve_krylov_diagnose.restype = ctypes.c_void_p
    loaded.shardsolve_krylov_diagnose.argtypes = [
        ctypes.c_int32,
        ctypes.c_int64,
        *[ctypes.c_void_p] * 4,
        ctypes.c_double,
        ctypes.c_void_p,
    ]
    for name in (
        "plan_krylov_blocks",
        "krylov_chebyshev_bounds",
        "krylov_largest_eigenvalue",
        "krylov_inverse",
    ):
        asked = getattr(loaded, f"shardsolve_{name}")
        asked.restype = None
        asked.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p]
    loaded.shardsolve_take_krylov_failures.restype = ctypes.c_void_p
    loaded.shardsolve_set_progress.restype = None
    loaded.shardsolve_set_progress.argtypes = [ctypes.c_void_p]
    for name in ("plan", "train", "evaluate", "free", "place", "free_placed", "make"):
        getattr(loaded, f"shardsolve_{name}_networks").restype = None
    loaded.shardsolve_weights_of_networks.restype = None
    loaded.shardsolve_make_stop.restype = ctypes.c_void_p
    for name in ("request_stop", "free_stop", "find_cuda"):
        getattr(loaded, f"shardsolve_{name}").restype = None
    loaded.shardsolve_set_cuda_of_jax.restype = None
    loaded.shardsolve_set_cuda_of_jax.argtypes = [ctypes.c_int32]
    for name in ("save_factor", "factor_shape", "load_factor"):
        getattr(loaded, f"shardsolve_{name}").restype = None
    loaded.shardsolve_save_factor.argtypes = [
        ctypes.c_char_p,
        ctypes.c_char_p,
        ctypes.c_bool,
        ctypes.c_void_p,
    ]
    loaded.shardsolve_factor_shape.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p]
    loaded.shardsolve_load_factor.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p]
    return loaded


@dataclass(frozen=True)
class Buffer:
    """A buffer of a call, as the library sees it on each device; see jax/call_table.hpp."""

    name: str
    element: str  # "matrix", "real" (both of the matrix's dtype) or the name of a dtype
    shape: tuple[str | int, ...]  # w: rows of a device; n: of all; k: right-hand sides; c: columns
    turned: bool  # JAX's array is the conjugate transpose

    def dtype(self, matrix: np.dtype) -> np.dtype:
        """Of its elements, in a call for a matrix of this dtype."""
        if self.element == "matrix":
            return matrix
        return np.finfo(matrix).dtype if self.element == "real" else np.dtype(self.element)

    @property
    def axis(self) -> int | None:
        """The axis of JAX's array that is cut along the devices; None: the same on all."""
        shape = self.shape[::-1] if self.turned else self.shape
        return shape.index("w") if "w" in shape else None


@dataclass(frozen=True)
class Row:
    """What the library's table says of a call; numbers are places among operands or results."""

    name: str
    operands: tuple[Buffer, ...]
    results: tuple[Buffer, ...]
    matrix: int
    record: int | None  # of the factor that is used
    copied_from: int | None  # the operand whose memory a result takes
    copied_to: int | None
    options: dict[str, str]  # name and type
    local: bool  # each device makes it by itself

    def attributes(self, options: dict[str, object]) -> dict[str, object]:
        """The call's name and its options, with the types that the table says."""
        typed = {name: _ATTRIBUTE[self.options[name]](value) for name, value in options.items()}
        return {"call": self.name, **typed}


@functools.cache
def end_without_waiting(at_once: bool = False) -> None:
    """From now on a process that has left a stream of XLA's which will never be done can end.

    JAX waits for its GPUs when the interpreter exits, and for a process that is gone it would wait
    without end. What is registered here runs before that, as JAX has registered its part earlier.
    `at_once`: it has left one, whatever the library knows.
    """

    def leave() -> None:
        if at_once or library().shardsolve_has_left_a_stream():
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1)

    atexit.register(leave)


@functools.cache
def description() -> dict:
    """What the library says of itself: calls, statuses, the lengths of records."""
    return json.loads(library().shardsolve_description())


@functools.cache
def rows() -> dict[str, Row]:
    """The library's calls by name."""

    def buffers(described: list[dict]) -> tuple[Buffer, ...]:
        return tuple(Buffer(**{**one, "shape": tuple(one["shape"])}) for one in described)

    def row(described: dict[str, Any]) -> Row:
        lists = {key: buffers(described[key]) for key in ("operands", "results")}
        return Row(**{**described, **lists})

    return {call["name"]: row(call) for call in description()["calls"]}


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
        library().shardsolve_set_cuda_of_jax(cuda_of_jax())
        for kind, platform in PLATFORMS.items():
            _register_on(kind, platform)
        _registered = True


def cuda_of_jax() -> int:
    """The major version of the CUDA that JAX uses in this process; 0 if it has no GPU."""
    try:
        says = jax.extend.backend.get_backend("cuda").platform_version
    except RuntimeError:
        return 0
    found = re.search(r"cuda (\d+)", says)  # "PJRT C API\ncuda 12090"
    return int(found[1]) // 1000 if found else 0


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

    def handler(what: str) -> object:
        return jax.ffi.pycapsule(getattr(found, f"shardsolve_{what}_{kind}"))

    # One handler for all calls: their attribute `call` says which one it is.
    of_all = {"execute": handler("call"), "instantiate": handler("instantiate")}
    of_each = {"execute": handler("local")}
    targets = {name: of_each if row.local else of_all for name, row in rows().items()}
    targets["invitation"] = {"execute": handler("invitation")}
    # Of local calls that wait for nothing, by the name that `recorded` gives.
    alike = {"execute": handler("recorded" if kind == "gpu" else "local")}
    targets.update({f"{name}_recorded": alike for name, row in rows().items() if row.local})
    for name, handlers in targets.items():
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
